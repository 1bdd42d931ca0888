"""What is known of messages that were delivered and are not done: how often, not before when, and why it failed.

    offset   0 ─────── 40 ── 41 ──────── 1000 ───▶
             (1, 0, "")  (3, 1700…, "boom")  (1, 0, "")   never delivered

Messages are delivered in runs, so this is a list of runs with one value each, the shortest there is.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple


class Try(NamedTuple):
    """How a message fared: deliveries so far, not to be delivered before (ms), and the last failure's reason."""

    attempts: int = 0
    until_ms: int = 0
    error: str = ""


NEVER = Try()
Change = Callable[[Try], Try]


class Tries:
    """Runs of offsets with the same `Try`. What is not mentioned was never delivered."""

    __slots__ = ("_ends", "_starts", "_values")

    def __init__(self, runs: Iterable[tuple[int, int, Try]] = ()):
        self._starts: array[int] = array("q")
        self._ends: array[int] = array("q")
        self._values: list[Try] = []
        for start, end, value in runs:
            self._starts.append(start)
            self._ends.append(end)
            self._values.append(value)

    def __len__(self) -> int:
        """The number of runs."""
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int, Try]]:
        return zip(self._starts, self._ends, self._values, strict=True)

    def __repr__(self) -> str:
        return f"Tries({list(self)})"

    def within(self, first: int, end: int) -> Iterator[tuple[int, int, Try]]:
        """Yield the runs of [first, end), oldest first, with those that were never delivered."""
        starts, ends, values = self._starts, self._ends, self._values
        place = bisect_right(ends, first)
        while first < end:
            if place == len(starts) or starts[place] >= end:
                yield first, end, NEVER
                return
            if starts[place] > first:
                yield first, starts[place], NEVER
                first = starts[place]
            stop = min(ends[place], end)
            yield first, stop, values[place]
            first = stop
            place += 1

    def change(self, first: int, end: int, change: Change) -> None:
        """Give each offset of [first, end) the value that `change` makes of its own."""
        if first >= end:
            return
        starts, ends, values = self._starts, self._ends, self._values
        if not starts or first > ends[-1] or (first == ends[-1] and change(NEVER) != values[-1]):
            if (value := change(NEVER)) != NEVER:  # behind everything: the usual, hot case
                starts.append(first)
                ends.append(end)
                values.append(value)
            return
        if first == ends[-1]:
            ends[-1] = end
            return
        new = [(start, stop, change(value)) for start, stop, value in self.within(first, end)]
        low, high = bisect_left(ends, first), bisect_right(starts, end)  # all that overlaps or touches
        if low < high and starts[low] < first:
            new.insert(0, (starts[low], min(ends[low], first), values[low]))
        if low < high and ends[high - 1] > end:
            new.append((max(starts[high - 1], end), ends[high - 1], values[high - 1]))
        merged: list[tuple[int, int, Try]] = []
        for start, stop, value in new:
            if merged and merged[-1][1] == start and merged[-1][2] == value:
                merged[-1] = (merged[-1][0], stop, value)
            else:
                merged.append((start, stop, value))
        kept = [run for run in merged if run[2] != NEVER]
        starts[low:high] = array("q", [run[0] for run in kept])
        ends[low:high] = array("q", [run[1] for run in kept])
        values[low:high] = [run[2] for run in kept]

    def drop_below(self, floor: int) -> None:
        """Forget what is known of offsets below `floor`."""
        gone = bisect_right(self._ends, floor)
        if gone:
            del self._starts[:gone], self._ends[:gone], self._values[:gone]
        if self._starts and self._starts[0] < floor:
            self._starts[0] = floor
