"""Danube: frames without a header, rotated over `wal.log`, `wal.1.log`, …; `.dnb1` objects are the same frames.

The frames are those of `crc_frames`, and the number is the offset. Payload, bincode 2: request id, (producer id,
topic, broker, topic offset), bytes, publish time in ms, producer name, subscription?, attributes; that is the layout
of 2025. The one of 2026 adds schema id?, schema version?, routing key?. No byte says which: the payload is read to
its end, and where it ends tells.
"""

from collections.abc import Iterator

from cordwood.doors.bincode import NotBincode, Reader
from cordwood.doors.crc_frames import HEAD_BYTES, CrcFrames
from cordwood.doors.frames import scan
from cordwood.doors.record import Item, Record, text

_SMALLEST_PAYLOAD = 10  # ten fields of the older layout, each a byte at least


class Frames(CrcFrames):
    """Danube's frames."""

    smallest = HEAD_BYTES + _SMALLEST_PAYLOAD

    def record(self, payload: bytes, position: int, end: int, number: int) -> Record | None:
        """Return the message in a payload, None unless it is used up exactly."""
        try:
            return _record(payload, position, end, number)
        except NotBincode:
            return None


def records(data: memoryview, file: str) -> Iterator[Item]:
    """Yield what is in one file."""
    return scan(data, file, 0, Frames())


def _record(payload: bytes, position: int, end: int, number: int) -> Record:
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
