r"""BlipMQ: a header, then records.

0           8         12          32
┌───────────┬─────────┬───────────┐
│ BLIPWAL\0 │ version │ 20 zeros  │   version 1; integers little-endian unless said
└───────────┴─────────┴───────────┘
0    8        12       16    17             19
┌────┬────────┬────────┬─────┬──────────────┬───────┬──────┐
│ id │ length │ CRC-32 │ qos │ topic length │ topic │ body │   the checksum is of what follows it;
└────┴────────┴────────┴─────┴──────────────┴───────┴──────┘   the topic's length is big-endian
"""

import struct
import zlib
from collections.abc import Iterator

from cordwood.doors.danube import framed
from cordwood.doors.frames import Layout, Positions, scan
from cordwood.doors.preamble import check
from cordwood.doors.record import Item, Record, text

MAGIC = b"BLIPWAL\0"
HEADER = MAGIC + struct.pack("<I", 1) + bytes(20)
_HEAD = struct.Struct("<QII")
_SMALLEST_PAYLOAD = 3


class Frames(Layout):
    """BlipMQ's records."""

    smallest = _HEAD.size + _SMALLEST_PAYLOAD

    def whole(self, data: memoryview, position: int) -> Record | None:
        """Return the record at a position, None unless every check of it holds."""
        if position + _HEAD.size > len(data):
            return None
        number, length, checksum = _HEAD.unpack_from(data, position)
        start, end = position + _HEAD.size, position + _HEAD.size + length
        if length < _SMALLEST_PAYLOAD or end > len(data) or zlib.crc32(data[start:end]) != checksum:
            return None
        body = start + 3 + int.from_bytes(data[start + 1 : start + 3], "big")
        if body > end:
            return None
        topic = bytes(data[start + 3 : body]).decode("utf-8", "backslashreplace")
        headers = (("blipmq-qos", text(data[start])),)
        return Record(position, end, "blipmq", number, bytes(data[body:end]), topic, headers=headers)

    def claim(self, data: memoryview, position: int) -> tuple[int, int] | None:
        """Return (number, end) as the header claims them."""
        if position + _HEAD.size > len(data):
            return None
        number, length, _ = _HEAD.unpack_from(data, position)
        return number, position + _HEAD.size + length

    def candidates(self, data: memoryview, start: int, stop: int) -> Positions:
        """Return the positions where a header may be."""
        return framed(data, start, stop, _SMALLEST_PAYLOAD)

    def holds(self, data: memoryview, position: int, end: int) -> bool:
        """Whether the checksum holds for what is between the header and `end`."""
        if end - position < self.smallest:
            return False
        checksum = _HEAD.unpack_from(data, position)[2]
        return bool(zlib.crc32(data[position + _HEAD.size : end]) == checksum)


def records(data: memoryview, file: str) -> Iterator[Item]:
    """Yield what is in one file."""
    yield from check(data, file, HEADER)
    yield from scan(data, file, len(HEADER), Frames())
