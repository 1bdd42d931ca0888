"""Sets of offsets as ranges: what a group has done, what it has out on lease.

    {0, 1, 2, 3, 7, 8}  is  [0, 4) [7, 9)

Messages are acknowledged in runs, so a million of them is usually one range. In the worst order, every second one,
it is half a million; then a range takes 16 bytes, and adding one moves at most one block of them.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

BLOCK = 512  # ranges in a block before it is halved: 8 KiB to move for one insertion


class Ranges:
    """A set of whole numbers, kept as disjoint ranges that do not touch. Every `end` is exclusive."""

    __slots__ = ("_ends", "_heads", "_starts", "_total")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        # Blocks of starts and of ends, side by side; `_heads` has the first start of each block.
        self._starts: list[array[int]] = []
        self._ends: list[array[int]] = []
        self._heads: list[int] = []
        self._total = 0
        for first, end in ranges:
            self.add(first, end)

    def __len__(self) -> int:
        """The number of ranges."""
        return sum(map(len, self._starts))

    @property
    def total(self) -> int:
        """The number of offsets."""
        return self._total

    @property
    def first(self) -> tuple[int, int] | None:
        """The lowest range."""
        return (self._starts[0][0], self._ends[0][0]) if self._heads else None

    def __bool__(self) -> bool:
        return bool(self._heads)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for starts, ends in zip(self._starts, self._ends, strict=True):
            yield from zip(starts, ends, strict=True)

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        block = bisect_right(self._heads, offset) - 1
        if block < 0:
            return False
        place = bisect_right(self._starts[block], offset) - 1
        return offset < self._ends[block][place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ranges({list(self)})"

    def add(self, first: int, end: int) -> int:
        """Add the offsets from `first` to `end`; return how many were not there before."""
        if first >= end:
            return 0
        new = end - first
        covered = list(self._touching(first, end))
        for start, stop in covered:
            new -= max(0, min(stop, end) - max(start, first))
        if covered:
            if covered[0][0] <= first and covered[0][1] >= end:
                return 0
            first, end = min(first, covered[0][0]), max(end, covered[-1][1])
            for start, _ in reversed(covered[1:]):
                self._delete(start)
            self._replace(covered[0][0], first, end)
        else:
            self._insert(first, end)
        self._total += new
        return new

    def remove(self, first: int, end: int) -> int:
        """Take the offsets from `first` to `end` out; return how many were there."""
        if first >= end:
            return 0
        gone = 0
        for start, stop in [piece for piece in self._touching(first, end) if piece[0] < end and piece[1] > first]:
            gone += min(stop, end) - max(start, first)
            self._delete(start)
            if start < first:
                self._insert(start, first)
            if stop > end:
                self._insert(end, stop)
        self._total -= gone
        return gone

    def blocks(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the starts and the ends, a block at a time, as the bytes of 64-bit numbers."""
        for starts, ends in zip(self._starts, self._ends, strict=True):
            yield starts.tobytes(), ends.tobytes()

    def extend(self, starts: bytes, ends: bytes) -> None:
        """Add a block that `blocks` yielded, behind all that is there."""
        block = array("q"), array("q")
        block[0].frombytes(starts)
        block[1].frombytes(ends)
        if block[0]:
            self._starts.append(block[0])
            self._ends.append(block[1])
            self._heads.append(block[0][0])
            self._total += sum(block[1]) - sum(block[0])

    def within(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield what is there from `first` to `end`, oldest first."""
        for start, stop in self._touching(first, end):
            start, stop = max(start, first), min(stop, end)
            if start < stop:
                yield start, stop

    def gaps(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield what is missing from `first` to `end`, oldest first."""
        for start, stop in self.within(first, end):
            if first < start:
                yield first, start
            first = stop
        if first < end:
            yield first, end

    def _touching(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges that overlap or touch [first, end)."""
        block = max(0, bisect_right(self._heads, first) - 1)
        while block < len(self._starts):
            starts, ends = self._starts[block], self._ends[block]
            for place in range(bisect_left(ends, first), len(starts)):
                if starts[place] > end:
                    return
                yield starts[place], ends[place]
            block += 1

    def _insert(self, first: int, end: int) -> None:
        if not self._heads:
            self._starts.append(array("q", [first]))
            self._ends.append(array("q", [end]))
            self._heads.append(first)
            return
        block = max(0, bisect_right(self._heads, first) - 1)
        starts, ends = self._starts[block], self._ends[block]
        place = bisect_right(starts, first)
        starts.insert(place, first)
        ends.insert(place, end)
        self._heads[block] = starts[0]
        if len(starts) > BLOCK:
            half = len(starts) // 2
            self._starts[block : block + 1] = [starts[:half], starts[half:]]
            self._ends[block : block + 1] = [ends[:half], ends[half:]]
            self._heads[block : block + 1] = [starts[0], starts[half]]

    def _delete(self, start: int) -> None:
        block = bisect_right(self._heads, start) - 1
        starts, ends = self._starts[block], self._ends[block]
        place = bisect_left(starts, start)
        assert starts[place] == start, "only a range that is there is deleted"
        del starts[place], ends[place]
        if starts:
            self._heads[block] = starts[0]
        else:
            del self._starts[block], self._ends[block], self._heads[block]

    def _replace(self, start: int, first: int, end: int) -> None:
        """Make the range that begins at `start` the range [first, end); no other lies between."""
        block = bisect_right(self._heads, start) - 1
        starts, ends = self._starts[block], self._ends[block]
        place = bisect_left(starts, start)
        starts[place], ends[place] = first, end
        self._heads[block] = starts[0]
