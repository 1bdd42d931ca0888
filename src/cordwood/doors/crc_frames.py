"""Frames as Danube and BlipMQ have them: a number, a length, a checksum, a payload.

     0        8        12       16
     ┌────────┬────────┬────────┬──────────────────────────┐
     │ number │ length │ CRC-32 │ payload, `length` bytes  │   little-endian; the checksum is of the payload alone
     └────────┴────────┴────────┴──────────────────────────┘

What a payload is, each format says itself.
"""

import struct
import zlib
from abc import abstractmethod

from cordwood.doors.frames import SANE_NUMBER, Layout, Positions, numbers_at
from cordwood.doors.record import Record

_HEAD = struct.Struct("<QII")
HEAD_BYTES = _HEAD.size


class CrcFrames(Layout):
    """Frames with this head. A format has `smallest`, a payload of at least a few bytes included, and `record`."""

    @abstractmethod
    def record(self, payload: bytes, position: int, end: int, number: int) -> Record | None:
        """Return the record that a payload holds, None unless it is used up exactly."""

    def whole(self, data: memoryview, position: int) -> Record | None:
        """Return the record at a position, None unless every check of it holds."""
        start = position + HEAD_BYTES
        if start > len(data):
            return None
        number, length, checksum = _HEAD.unpack_from(data, position)
        end = start + length
        if length < self.smallest - HEAD_BYTES or end > len(data):
            return None
        if zlib.crc32(data[start:end]) != checksum:
            return None
        return self.record(bytes(data[start:end]), position, end, number)

    def claim(self, data: memoryview, position: int) -> tuple[int, int] | None:
        """Return (number, end) as the header claims them."""
        if position + HEAD_BYTES > len(data):
            return None
        number, length, _ = _HEAD.unpack_from(data, position)
        return number, position + HEAD_BYTES + length

    def candidates(self, data: memoryview, start: int, stop: int) -> Positions:
        """Return where a header may stand: a sane number, and a length that stays in the file."""
        number = numbers_at(data, start, stop - start, 0, "<u8")
        length = numbers_at(data, start, stop - start, 8, "<u4")
        left = len(data) - HEAD_BYTES - start
        possible = (number < SANE_NUMBER) & (length >= self.smallest - HEAD_BYTES) & (length <= max(left, 0))
        found: Positions = possible.nonzero()[0] + start
        return found

    def holds(self, data: memoryview, position: int, end: int) -> bool:
        """Whether the checksum holds for what is between the header and `end`."""
        if end - position < self.smallest:
            return False
        checksum = _HEAD.unpack_from(data, position)[2]
        return bool(zlib.crc32(data[position + HEAD_BYTES : end]) == checksum)
