"""Reading frame after frame, and finding the next one behind bytes that hold none.

    p ──▶ whole?  ── yes ──▶ a record, go on behind it
             │ no
             ▼
          is there a whole frame further on, with a number that can come next?
             │ yes                         │ no
             ▼                             ▼
          corrupt from p to there       runs over the end, or only zeros: torn.  Otherwise: corrupt

A frame counts as found only if its checksum holds, its payload reads to the last byte, and its number is above the
last good one by no more than the frames that fit between: bytes in a message that look like a frame do not pass.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cordwood.doors.record import Item, Kind, Place, Record

SANE_NUMBER = 1 << 48  # no log has come so far; above it a number is damaged bytes
FIRST_WINDOW_BYTES = 4 << 10  # the next whole frame is near by, as a rule; a megabyte takes 30 ms to look through
WINDOW_BYTES = 1 << 20  # looked through at once
MOST_CHECKED_BYTES = 1 << 30  # checksummed while looking; crafted lengths could make it the square of the file

Positions = npt.NDArray[np.int64]


class _TooMuch(Exception):
    """More was checksummed than is sensible. It never leaves this module."""


class Layout(ABC):
    """One format's frames: what a header claims, and whether the whole frame keeps it."""

    smallest: int  # bytes of the smallest frame

    @abstractmethod
    def whole(self, data: memoryview, position: int) -> Record | None:
        """Return the record at a position, None unless every check of it holds."""

    @abstractmethod
    def claim(self, data: memoryview, position: int) -> tuple[int, int] | None:
        """Return (number, end) as the header claims them, None where the header itself is cut off."""

    @abstractmethod
    def candidates(self, data: memoryview, start: int, stop: int) -> Positions:
        """Return the positions from `start` to `stop` where a header may be, by its looks alone."""

    @abstractmethod
    def holds(self, data: memoryview, position: int, end: int) -> bool:
        """Whether the checksum holds if the frame is taken to end there, whatever its length says."""


def scan(data: memoryview, file: str, start: int, layout: Layout) -> Iterator[Item]:
    """Yield every record from `start` on, and a place for every run of bytes that holds none."""
    position, last = start, None
    while position < len(data):
        record = layout.whole(data, position)
        if record is not None:
            yield record
            position, last = record.end, record.number
            continue
        try:
            found = _next(data, position, last, layout)
        except _TooMuch:
            reason = "no whole record was found soon enough; what follows was not looked through"
            yield Place(Kind.CORRUPT, file, position, len(data), reason)
            return
        if found is None:
            yield _rest(data, file, position, layout)
            return
        yield Place(Kind.CORRUPT, file, position, found, _reason(data, position, found, layout))
        position = found


def _next(data: memoryview, bad: int, last: int | None, layout: Layout) -> int | None:
    """Return where the first whole frame behind a bad one is."""
    claimed = layout.claim(data, bad)
    if claimed is not None and bad < claimed[1] < len(data):
        behind = layout.whole(data, claimed[1])
        before = claimed[0] - 1 if last is None else last
        if behind is not None and behind.number == before + 2:  # the length held, and exactly one frame is lost
            return claimed[1]
    # A header that is right in its number and ends with the file is believed, unless a checksum says that its length
    # is damaged: then what is inside is its own payload, whatever it looks like.
    is_last = claimed is not None and claimed[1] == len(data) and (last is None or claimed[0] == last + 1)
    checked = 0
    start, window = bad + 1, FIRST_WINDOW_BYTES
    while start < len(data):
        stop = min(start + window, len(data))
        possible = layout.candidates(data, start, stop)
        start, window = stop, min(2 * window, WINDOW_BYTES)
        for position in map(int, possible):
            asked = layout.claim(data, position)
            if asked is None or asked[1] > len(data):
                continue
            fits = 1 + (position - bad) // layout.smallest
            lowest, highest = (0, SANE_NUMBER) if last is None else (last + 1, last + 1 + fits)
            if not lowest <= asked[0] <= highest:
                continue
            checked += asked[1] - position
            if checked > MOST_CHECKED_BYTES:
                raise _TooMuch
            if layout.whole(data, position) is not None and (not is_last or layout.holds(data, bad, position)):
                return position
    return None


def _rest(data: memoryview, file: str, position: int, layout: Layout) -> Place:
    claimed = layout.claim(data, position)
    size = len(data)
    if claimed is None:
        return Place(Kind.TORN, file, position, size, f"the last {size - position} byte(s) are a part of a header")
    if not np.frombuffer(data[position:], np.uint8).any():
        return Place(Kind.TORN, file, position, size, f"the last {size - position} byte(s) are zeros")
    if layout.holds(data, position, len(data)):
        return Place(
            Kind.CORRUPT, file, position, size, "the length is damaged; the checksum holds for all that is left"
        )
    if claimed[1] > size:
        reason = f"the record claims to end at byte {claimed[1]}, the file ends at {size}"
        return Place(Kind.TORN, file, position, size, reason)
    return Place(Kind.CORRUPT, file, position, size, _reason(data, position, size, layout))


def _reason(data: memoryview, position: int, found: int, layout: Layout) -> str:
    claimed = layout.claim(data, position)
    if claimed is not None and claimed[1] == found:
        return f"the checksum of record {claimed[0]} does not hold"
    return f"no whole record in {found - position} byte(s)"


def numbers_at(data: memoryview, start: int, count: int, at: int, kind: str) -> npt.NDArray[np.uint64]:
    """Return the little-endian numbers that begin `at` bytes behind each of `count` positions from `start` on.

    Every position, not every aligned one: bytes are joined column by column.
    """
    width = np.dtype(kind).itemsize
    have = np.frombuffer(data[start + at : start + at + count + width - 1], np.uint8)
    found = np.zeros(count, np.uint64)
    for place in range(width):
        column = have[place : place + count]
        found[: len(column)] |= column.astype(np.uint64) << np.uint64(8 * place)
    return found
