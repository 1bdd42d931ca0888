"""Where a partition's messages are: for each piece of a payload, its offsets and its place in the journal.

    piece    first offset · count · LSN and payload of the frame · first row there · bytes before · latest timestamp

The arrays only grow at their end; what goes from the front makes new arrays. So a captured piece of them, up to a
length, never changes, and a snapshot may be written from it in another thread.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

_COLUMNS = ("first", "count", "lsn", "payload", "row", "before", "latest_us")
COLUMN_BYTES = 8 * len(_COLUMNS)


class Place(NamedTuple):
    """Rows of a payload that are messages of one partition, from offset `first` on."""

    first: int
    length: int
    lsn: int
    payload: int
    row: int

    @property
    def end(self) -> int:
        return self.first + self.length


class Index:
    """The pieces of one partition, oldest first. Offsets rise; between two pieces some may be missing."""

    __slots__ = ("_columns", "total_bytes")

    def __init__(self) -> None:
        self._columns: tuple[array[int], ...] = tuple(array("q") for _ in _COLUMNS)
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
            if start < stop:
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
        return int(np.frombuffer(self._columns[2], np.int64).min()) if len(self) else None

    def trim(self, start: int) -> None:
        """Forget the pieces that lie wholly below `start`."""
        firsts, counts = self._columns[0], self._columns[1]
        gone = bisect_right(firsts, start)
        if gone and firsts[gone - 1] + counts[gone - 1] > start:
            gone -= 1
        if gone:
            self._columns = tuple(column[gone:] for column in self._columns)

    def cut_lsns(self, first: int, end: int) -> list[tuple[int, int]]:
        """Forget the pieces in the frames from `first` to `end`; return the offsets that went, as ranges."""
        gone = [at for at, lsn in enumerate(self._columns[2]) if first <= lsn < end]
        ranges = [(self._columns[0][at], self._columns[0][at] + self._columns[1][at]) for at in gone]
        if gone:
            left = sorted(set(range(len(self))) - set(gone))
            self._columns = tuple(array("q", [column[at] for at in left]) for column in self._columns)
        return ranges

    def captured(self) -> tuple[int, int, tuple["array[int]", ...]]:
        """Return length, total and columns, to be read later in another thread."""
        return len(self), self.total_bytes, self._columns

    def extend(self, columns: list[bytes]) -> None:
        """Add pieces from the bytes of captured columns."""
        for column, data in zip(self._columns, columns, strict=True):
            column.frombytes(data)

    def _place(self, at: int) -> Place:
        firsts, counts, lsns, payloads, rows, _, _ = self._columns
        return Place(firsts[at], counts[at], lsns[at], payloads[at], rows[at])
