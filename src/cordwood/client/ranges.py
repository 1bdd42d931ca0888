"""Sets of offsets as ranges: what a consumer holds is a few runs, whatever the number of messages."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

Range = tuple[int, int]


class Ranges:
    """A set of offsets, kept as disjoint ranges that do not touch, lowest first. Every `end` is exclusive."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[Range] = ()):
        self._starts: list[int] = []
        self._ends: list[int] = []
        for first, end in ranges:
            self.add(first, end)

    def __iter__(self) -> Iterator[Range]:
        return iter(list(zip(self._starts, self._ends, strict=True)))

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ranges({list(self)})"

    @property
    def total(self) -> int:
        """The number of offsets."""
        return sum(self._ends) - sum(self._starts)

    def add(self, first: int, end: int) -> None:
        """Add the offsets from `first` to `end`."""
        if first >= end:
            return
        low, high = bisect_left(self._ends, first), bisect_right(self._starts, end)
        if low < high:
            first, end = min(first, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [first], [end]

    def remove(self, first: int, end: int) -> None:
        """Take the offsets from `first` to `end` out."""
        if first >= end:
            return
        low, high = bisect_right(self._ends, first), bisect_left(self._starts, end)
        if low >= high:
            return
        left = [(self._starts[low], first)] if self._starts[low] < first else []
        right = [(end, self._ends[high - 1])] if self._ends[high - 1] > end else []
        kept = left + right
        self._starts[low:high], self._ends[low:high] = [a for a, _ in kept], [b for _, b in kept]

    def within(self, first: int, end: int) -> list[Range]:
        """Return what is there from `first` to `end`, lowest first."""
        low, high = bisect_right(self._ends, first), bisect_left(self._starts, end)
        return [(max(self._starts[n], first), min(self._ends[n], end)) for n in range(low, high)]


def runs(offsets: npt.NDArray[np.int64]) -> list[Range]:
    """Return offsets, in any order and perhaps repeated, as ranges, lowest first."""
    if not len(offsets):
        return []
    if len(offsets) > 1:
        steps = np.diff(offsets)
        if (steps == 1).all():
            return [(int(offsets[0]), int(offsets[-1]) + 1)]
        offsets = np.unique(offsets)
        steps = np.diff(offsets)
        breaks = np.flatnonzero(steps != 1)
        starts = offsets[np.concatenate(([0], breaks + 1))].tolist()
        ends = (offsets[np.concatenate((breaks, [len(offsets) - 1]))] + 1).tolist()
        return list(zip(starts, ends, strict=True))
    return [(int(offsets[0]), int(offsets[0]) + 1)]
