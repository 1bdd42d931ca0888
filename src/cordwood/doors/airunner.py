"""airunner: a header, then records, whose length counts itself in some versions and not in others.

     0          8         12       16
     ┌──────────┬─────────┬────────┐
     │ ARWAL001 │ version │ zeros  │   version 1; integers little-endian
     └──────────┴─────────┴────────┘
     0        4          12       13      16        24
     ┌────────┬──────────┬────────┬───────┬─────────┬─────────┬────────┐
     │ length │ sequence │ status │ zeros │ Unix ms │ payload │ CRC-64 │   CRC-64/NVME of all behind the length
     └────────┴──────────┴────────┴───────┴─────────┴─────────┴────────┘

Length is 32 + n with itself, 28 + n without: the one counts for which the checksum holds. The payload is protobuf,
and stays the bytes it is.
"""

import struct
from collections.abc import Iterator

from awscrt.checksums import crc64nvme

from cordwood.doors.frames import Layout, Positions, numbers_at, scan
from cordwood.doors.preamble import check
from cordwood.doors.record import Item, Record, text

MAGIC = b"ARWAL001"
HEADER = MAGIC + struct.pack("<II", 1, 0)
TOPIC = "airunner"
_STATUS = {1: "pending", 2: "sent", 3: "failed"}
_HEAD = struct.Struct("<IqB3sq")
_CHECKSUM = struct.Struct("<Q")
_LENGTH_BYTES = 4


class Frames(Layout):
    """airunner's records. Remembers which way lengths were counted last."""

    smallest = _HEAD.size + _CHECKSUM.size

    def __init__(self) -> None:
        self._uncounted: int | None = None  # bytes of a record that its length leaves out: 0 or 4

    def whole(self, data: memoryview, position: int) -> Record | None:
        """Return the record at a position, None unless every check of it holds."""
        if position + self.smallest > len(data):
            return None
        length, number, status, _, time_ms = _HEAD.unpack_from(data, position)
        for uncounted in (0, _LENGTH_BYTES) if self._uncounted != _LENGTH_BYTES else (_LENGTH_BYTES, 0):
            end = position + length + uncounted
            if end - position < self.smallest or end > len(data) or number < 0 or not _holds(data, position, end):
                continue
            self._uncounted = uncounted
            value = bytes(data[position + _HEAD.size : end - _CHECKSUM.size])
            headers = (("airunner-status", text(_STATUS.get(status, status))),)
            return Record(position, end, "airunner", number, value, None, None, time_ms, None, headers)
        return None

    def claim(self, data: memoryview, position: int) -> tuple[int, int] | None:
        """Return (number, end) as the header claims them; where both ways are possible, the longer."""
        if position + _HEAD.size > len(data):
            return None
        length, number = _HEAD.unpack_from(data, position)[:2]
        return number, position + length + (_LENGTH_BYTES if self._uncounted is None else self._uncounted)

    def candidates(self, data: memoryview, start: int, stop: int) -> Positions:
        """Return the positions where a header may be."""
        length = numbers_at(data, start, stop - start, 0, "<u4")
        status = numbers_at(data, start, stop - start, 12, "<u4")  # with the zeros behind it
        possible = (length >= self.smallest - _LENGTH_BYTES) & (length <= len(data) - start)
        found: Positions = (possible & (status >= 1) & (status <= 3)).nonzero()[0] + start
        return found

    def holds(self, data: memoryview, position: int, end: int) -> bool:
        """Whether the checksum before `end` holds for what is between it and the length."""
        return end - position >= self.smallest and _holds(data, position, end)


def records(data: memoryview, file: str) -> Iterator[Item]:
    """Yield what is in one file."""
    yield from check(data, file, HEADER)
    yield from scan(data, file, len(HEADER), Frames())


def _holds(data: memoryview, position: int, end: int) -> bool:
    (checksum,) = _CHECKSUM.unpack_from(data, end - _CHECKSUM.size)
    return bool(crc64nvme(data[position + _LENGTH_BYTES : end - _CHECKSUM.size]) == checksum)
