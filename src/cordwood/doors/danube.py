"""Danube: frames without a header, rotated over `wal.log`, `wal.1.log`, …; `.dnb1` objects are the same frames.

     0        8       12       16
     ┌────────┬────────┬────────┬──────────────────────────┐
     │ offset │ length │ CRC-32 │ payload, `length` bytes  │   little-endian; the checksum is of the payload alone
     └────────┴────────┴────────┴──────────────────────────┘

Payload, bincode 2: request id, (producer id, topic, broker, topic offset), bytes, publish time in ms, producer name,
subscription?, attributes; that is the layout of 2025. The one of 2026 adds schema id?, schema version?, routing key?.
No byte says which: the payload is read to its end, and where it ends tells.
"""

import struct
import zlib
from collections.abc import Iterator

from cordwood.doors.bincode import NotBincode, Reader
from cordwood.doors.frames import SANE_NUMBER, Layout, Positions, numbers_at, scan
from cordwood.doors.record import Item, Record, text

_HEAD = struct.Struct("<QII")
_SMALLEST_PAYLOAD = 10  # ten fields of the older layout, each a byte at least


class Frames(Layout):
    """Danube's frames."""

    smallest = _HEAD.size + _SMALLEST_PAYLOAD

    def whole(self, data: memoryview, position: int) -> Record | None:
        """Return the record at a position, None unless every check of it holds."""
        if position + _HEAD.size > len(data):
            return None
        number, length, checksum = _HEAD.unpack_from(data, position)
        end = position + _HEAD.size + length
        if length < _SMALLEST_PAYLOAD or end > len(data):
            return None
        payload = data[position + _HEAD.size : end]
        if zlib.crc32(payload) != checksum:
            return None
        try:
            return _record(payload, position, end, number)
        except NotBincode:
            return None

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


def framed(data: memoryview, start: int, stop: int, smallest_payload: int) -> Positions:
    """Return where `u64 number, u32 length` may stand: a sane number, and a length that stays in the file."""
    number = numbers_at(data, start, stop - start, 0, "<u8")
    length = numbers_at(data, start, stop - start, 8, "<u4")
    left = len(data) - _HEAD.size - start
    possible = (number < SANE_NUMBER) & (length >= smallest_payload) & (length <= max(left, 0))
    found: Positions = possible.nonzero()[0] + start
    return found


def records(data: memoryview, file: str) -> Iterator[Item]:
    """Yield what is in one file."""
    return scan(data, file, 0, Frames())


def _record(payload: memoryview, position: int, end: int, number: int) -> Record:
    read = Reader(payload)
    request = read.integer()
    producer_id, topic, broker, topic_offset = read.integer(), read.text(), read.text(), read.integer()
    value, time_ms, producer = read.data(), read.integer(), read.text()
    headers = [
        ("danube-request-id", text(request)),
        ("danube-producer-id", text(producer_id)),
        ("danube-producer", text(producer)),
        ("danube-broker", text(broker)),
        ("danube-topic-offset", text(topic_offset)),
    ]
    if read.is_there():
        headers.append(("danube-subscription", text(read.text())))
    attributes = read.pairs()
    key, layout = None, "danube-2025"
    if read.left:
        layout = "danube-2026"
        if read.is_there():
            headers.append(("danube-schema-id", text(read.integer())))
        if read.is_there():
            headers.append(("danube-schema-version", text(read.integer(32))))
        if read.is_there():
            key = text(read.text())
    if read.left:
        raise NotBincode(f"{read.left} bytes are left over")
    headers += [(name, text(one)) for name, one in attributes]
    return Record(position, end, layout, number, value, topic, key, time_ms, None, tuple(headers))
