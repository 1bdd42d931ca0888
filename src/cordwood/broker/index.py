"""Where a partition's messages are: in the journal, a piece of a payload; in the tier, an object.

    piece    first offset · count · LSN and payload of the frame · first row there · bytes before · latest timestamp
    object   the same, with LSN `TIERED`; `tiered` says which one it is

The arrays only grow at their end; what goes from the front, or from the journal into the tier, makes new arrays. So a
captured piece of them, up to a length, never changes, and a snapshot may be written from it in another thread.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from cordwood.tier.descriptor import Descriptor

TIERED = -1  # in place of an LSN
_COLUMNS = ("first", "count", "lsn", "payload", "row", "before", "latest_us")
COLUMN_BYTES = 8 * len(_COLUMNS)


class Tiered(NamedTuple):
    """An object that holds the messages from `descriptor.first` to `.end`, all of them.

    It is of so many bytes; each of its row groups but the last has `group_rows` messages.
    """

    descriptor: Descriptor
    bytes: int
    group_rows: int

    @property
    def first(self) -> int:
        return self.descriptor.first

    @property
    def end(self) -> int:
        return self.descriptor.end

    def group(self, offset: int) -> tuple[int, int]:
        """Return the offsets of the row group that a message is in, from first to end."""
        first = offset - (offset - self.first) % self.group_rows
        return first, min(first + self.group_rows, self.end)


class Place(NamedTuple):
    """Messages of one partition, from offset `first` on: rows of a payload, or of one row group of an object."""

    first: int
    length: int
    lsn: int
    payload: int
    row: int
    tiered: Tiered | None = None

    @property
    def end(self) -> int:
        return self.first + self.length


class Index:
    """The pieces of one partition, oldest first. Offsets rise; between two pieces some may be missing."""

    __slots__ = ("_columns", "tiered", "total_bytes")

    def __init__(self) -> None:
        self._columns: tuple[array[int], ...] = tuple(array("q") for _ in _COLUMNS)
        self.tiered: list[Tiered] = []  # the objects, by their offsets
        self.total_bytes = 0  # of all pieces there ever were; `before` counts in it

    def __len__(self) -> int:
        return len(self._columns[0])

    def append(self, first: int, count: int, lsn: int, payload: int, row: int, size: int, latest_us: int) -> None:
        """Add a piece behind all others."""
        firsts, counts, lsns, payloads, rows, before, latest = self._columns
        assert not firsts or first >= firsts[-1] + counts[-1], "offsets rise"
        firsts.append(first)
        counts.append(count)
        lsns.append(lsn)
        payloads.append(payload)
        rows.append(row)
        before.append(self.total_bytes)
        latest.append(latest_us)
        self.total_bytes += size

    def places(self, first: int, end: int) -> Iterator[Place]:
        """Yield where the messages from `first` to `end` are, cut to these offsets, oldest first."""
        firsts, counts, lsns, payloads, rows, _, _ = self._columns
        at = max(0, bisect_right(firsts, first) - 1)
        while at < len(firsts) and firsts[at] < end:
            start, stop = max(first, firsts[at]), min(end, firsts[at] + counts[at])
            if start < stop and lsns[at] == TIERED:
                yield from _groups(self.object_at(start), start, stop)
            elif start < stop:
                yield Place(start, stop - start, lsns[at], payloads[at], rows[at] + start - firsts[at])
            at += 1

    def bytes_before(self, offset: int) -> int:
        """Return the bytes of all messages there ever were below `offset`; within a piece by its average."""
        firsts, counts, _, _, _, before, _ = self._columns
        at = bisect_right(firsts, offset) - 1
        if at < 0:
            return before[0] if before else self.total_bytes
        behind = before[at + 1] if at + 1 < len(before) else self.total_bytes
        share = min(offset - firsts[at], counts[at]) / counts[at]
        return before[at] + int((behind - before[at]) * share)

    def since(self, time_us: int, start: int = 0) -> Place | None:
        """Return the first piece from `start` on with a message at or after a time; which one, only its rows tell."""
        if not len(self):
            return None
        firsts, counts = self._columns[0], self._columns[1]
        at = max(0, bisect_right(firsts, start) - 1)
        if firsts[at] + counts[at] <= start:  # there may be a hole behind it
            at += 1
        found = np.flatnonzero(np.frombuffer(self._columns[6], np.int64)[at:] >= time_us) + at
        return self._place(int(found[0])) if len(found) else None

    def first_newer(self, time_us: int) -> int | None:
        """Return the offset of the first piece from which on not all is older than a time, None if all is."""
        place = self.since(time_us)
        return None if place is None else place.first

    def first_within(self, size: int) -> int | None:
        """Return the offset of the first piece from which on there are at most `size` bytes, or of the last piece."""
        if not len(self):
            return None
        at = int(np.searchsorted(np.frombuffer(self._columns[5], np.int64), self.total_bytes - size))
        return self._columns[0][min(at, len(self) - 1)]

    def lowest_lsn(self) -> int | None:
        """Return the LSN of the oldest frame that holds one of these messages."""
        lsns = np.frombuffer(self._columns[2], np.int64) if len(self) else np.empty(0, np.int64)
        lsns = lsns[lsns != TIERED]
        return int(lsns.min()) if len(lsns) else None

    def first_from_lsn(self, lsn: int) -> int | None:
        """Return the first offset of the pieces in frames from `lsn` on, None when there are none."""
        at = bisect_left(self._columns[2], lsn, self._untiered())
        return self._columns[0][at] if at < len(self) else None

    def object_at(self, offset: int) -> Tiered:
        """Return the object that a message is in; it is in one."""
        return self.tiered[bisect_right(self.tiered, offset, key=_first) - 1]

    @property
    def journal_first(self) -> int | None:
        """The first offset that is in the journal and in no object."""
        at = self._untiered()
        return self._columns[0][at] if at < len(self) else None

    @property
    def untiered_bytes(self) -> int:
        """What is in the journal and in no object."""
        at = self._untiered()
        return self.total_bytes - self._columns[5][at] if at < len(self) else 0

    def untiered(self, most_bytes: int) -> tuple[int, int] | None:
        """Return what comes next into the tier, first and end; None for nothing.

        It is whole pieces, neighbours without a gap, and no more than `most_bytes` if that is more than one piece.
        """
        start = self._untiered()
        if start >= len(self):
            return None
        before = self._columns[5]
        enough = bisect_right(before, before[start] + most_bytes, start)
        high = len(self) if self.total_bytes - before[start] <= most_bytes else max(start + 1, enough - 1)
        firsts, counts = (np.frombuffer(column, np.int64)[start:high] for column in self._columns[:2])
        gaps = np.flatnonzero(firsts[1:] != firsts[:-1] + counts[:-1])
        at = start + 1 + int(gaps[0]) if len(gaps) else high
        return int(firsts[0]), int(firsts[at - start - 1] + counts[at - start - 1])

    def latest_us(self, first: int, end: int) -> int:
        """Return the latest timestamp of the pieces that begin in these offsets, 0 when there are none."""
        low, high = bisect_left(self._columns[0], first), bisect_left(self._columns[0], end)
        return max(self._columns[6][low:high], default=0)

    def times(self, first: int, end: int) -> tuple["array[int]", "array[int]"]:
        """Return how many of these messages are in each piece, and the latest timestamp of each piece."""
        firsts, counts, latest = self._columns[0], self._columns[1], self._columns[6]
        low = max(0, bisect_right(firsts, first) - 1)
        high = bisect_left(firsts, end, low)
        sizes = counts[low:high]
        if sizes:
            sizes[-1] = min(sizes[-1], end - firsts[high - 1])
            sizes[0] = max(0, sizes[0] - max(0, first - firsts[low]))  # 0 where a hole is behind it
        return sizes, latest[low:high]

    def put(self, tiered: Tiered) -> list[Tiered]:
        """Have the messages of an object be in it, and no longer where they were; return the objects it replaces.

        What it stands for begins and ends with pieces. Where they were lost, it comes in their place.
        """
        firsts, counts = self._columns[0], self._columns[1]
        low, high = bisect_left(firsts, tiered.first), bisect_left(firsts, tiered.end)
        assert not high or firsts[high - 1] + counts[high - 1] <= tiered.end, "an object ends with a piece"
        assert not low or firsts[low - 1] + counts[low - 1] <= tiered.first, "an object begins with a piece"
        before = self._columns[5][low] if low < len(self) else self.total_bytes
        latest = max(self._columns[6][low:high], default=0)
        piece = (tiered.first, tiered.end - tiered.first, TIERED, 0, 0, before, latest)
        self._columns = tuple(
            column[:low] + array("q", (number,)) + column[high:]
            for column, number in zip(self._columns, piece, strict=True)
        )
        low, high = (bisect_left(self.tiered, offset, key=_first) for offset in (tiered.first, tiered.end))
        gone = self.tiered[low:high]
        self.tiered = [*self.tiered[:low], tiered, *self.tiered[high:]]
        return gone

    def bring(self, tiered: Tiered, size: int, latest_us: int) -> None:
        """Add an object behind all others, whose messages have so many bytes."""
        self.append(tiered.first, tiered.end - tiered.first, TIERED, 0, 0, size, latest_us)
        self.tiered = [*self.tiered, tiered]

    def lose(self, gone: list[Tiered]) -> None:
        """Forget objects, with their messages and their bytes, as if they had never been."""
        firsts = {one.first for one in gone}
        ends = [*self._columns[5], self.total_bytes]
        sizes = [end - before for before, end in pairwise(ends)]
        left = [at for at, lsn in enumerate(self._columns[2]) if lsn != TIERED or self._columns[0][at] not in firsts]
        columns = [array("q", [column[at] for at in left]) for column in self._columns]
        columns[5] = array("q", accumulate([sizes[at] for at in left], initial=ends[0]))
        self.total_bytes = columns[5].pop()
        self._columns = tuple(columns)
        self.tiered = [one for one in self.tiered if one.first not in firsts]

    def only_tiered(self) -> None:
        """Forget all that is in the journal: it is another one now."""
        left = [at for at, lsn in enumerate(self._columns[2]) if lsn == TIERED]
        if len(left) < len(self):
            end = self._columns[5][left[-1] + 1] if left and left[-1] + 1 < len(self) else None
            self.total_bytes = self.total_bytes if end is None and left else end or 0
            self._columns = tuple(array("q", [column[at] for at in left]) for column in self._columns)

    def _untiered(self) -> int:
        """Return the number of the first piece behind all objects."""
        return bisect_left(self._columns[0], self.tiered[-1].end) if self.tiered else 0

    def trim(self, start: int) -> list[Tiered]:
        """Forget the pieces that lie wholly below `start`; return the objects among them."""
        firsts, counts = self._columns[0], self._columns[1]
        gone = bisect_right(firsts, start)
        if gone and firsts[gone - 1] + counts[gone - 1] > start:
            gone -= 1
        if gone:
            self._columns = tuple(column[gone:] for column in self._columns)
        over = [one for one in self.tiered if one.end <= start]
        self.tiered = self.tiered[len(over) :]
        return over

    def cut_lsns(self, first: int, end: int) -> list[tuple[int, int]]:
        """Forget the pieces in the frames from `first` to `end`; return the offsets that went, as ranges."""
        gone = [at for at, lsn in enumerate(self._columns[2]) if first <= lsn < end]
        ranges = [(self._columns[0][at], self._columns[0][at] + self._columns[1][at]) for at in gone]
        if gone:
            left = sorted(set(range(len(self))) - set(gone))
            self._columns = tuple(array("q", [column[at] for at in left]) for column in self._columns)
        return ranges

    def view(self) -> "Index":
        """Return an index that goes on telling what this one tells now, for another thread."""
        found = Index()
        found._columns, found.tiered, found.total_bytes = self._columns, self.tiered, self.total_bytes
        return found

    def captured(self) -> tuple[int, int, tuple["array[int]", ...]]:
        """Return length, total and columns, to be read later in another thread; `tiered` is apart."""
        return len(self), self.total_bytes, self._columns

    def extend(self, columns: list[bytes]) -> None:
        """Add pieces from the bytes of captured columns."""
        for column, data in zip(self._columns, columns, strict=True):
            column.frombytes(data)

    def _place(self, at: int) -> Place:
        firsts, counts, lsns, payloads, rows, _, _ = self._columns
        tiered = self.object_at(firsts[at]) if lsns[at] == TIERED else None
        return Place(firsts[at], counts[at], lsns[at], payloads[at], rows[at], tiered)


def _first(tiered: Tiered) -> int:
    return tiered.first


def _groups(tiered: Tiered, first: int, end: int) -> Iterator[Place]:
    """Yield the messages from `first` to `end` of an object, as far as each row group goes."""
    while first < end:
        start, stop = tiered.group(first)
        yield Place(first, min(stop, end) - first, TIERED, 0, first - start, tiered)
        first = stop
