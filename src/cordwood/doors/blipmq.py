r"""BlipMQ: a header, then records.

0           8         12          32
┌───────────┬─────────┬───────────┐
│ BLIPWAL\0 │ version │ 20 zeros  │   version 1; integers little-endian unless said
└───────────┴─────────┴───────────┘
                          0     1              3
┌───────────────────────┬─────┬──────────────┬───────┬──────┐
│ head, see crc_frames  │ qos │ topic length │ topic │ body │   the number is the id, from 1;
└───────────────────────┴─────┴──────────────┴───────┴──────┘   the topic's length is big-endian
"""

import struct
from collections.abc import Iterator

from cordwood.doors.crc_frames import HEAD_BYTES, CrcFrames
from cordwood.doors.frames import scan
from cordwood.doors.preamble import check
from cordwood.doors.record import Item, Record, text

MAGIC = b"BLIPWAL\0"
HEADER = MAGIC + struct.pack("<I", 1) + bytes(20)
_SMALLEST_PAYLOAD = 3


class Frames(CrcFrames):
    """BlipMQ's records."""

    smallest = HEAD_BYTES + _SMALLEST_PAYLOAD

    def record(self, payload: bytes, position: int, end: int, number: int) -> Record | None:
        """Return the message in a payload, None if its topic does not fit."""
        body = 3 + int.from_bytes(payload[1:3], "big")
        if body > len(payload):
            return None
        topic = payload[3:body].decode("utf-8", "backslashreplace")
        headers = (("blipmq-qos", text(payload[0])),)
        return Record(position, end, "blipmq", number, payload[body:], topic, headers=headers)


def records(data: memoryview, file: str) -> Iterator[Item]:
    """Yield what is in one file."""
    yield from check(data, file, HEADER)
    yield from scan(data, file, len(HEADER), Frames())
