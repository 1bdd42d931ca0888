"""The guard: checksums that let a part of an object be read without trusting any byte of it.

Parquet's page checksums cover neither the headers of the pages nor the footer, where the statistics and the times
are; and the checksum in the object's name is of no use to who reads a part. So there is more between the last row
group and the footer, where readers of Parquet do not look:

    ┌────────┬─────────────┬───┬───────────────┬───────────────────────┬────────┬───────┬──────────┬────────┬────────┐
    │ "PAR1" │ row group 0 │ … │ row group n-1 │ n × u64 CRC-64/NVME   │ "CWG1" │ u32 n │ u64      │ footer │ length │
    │        │             │   │               │ of the row groups     │        │       │ checksum │        │ "PAR1" │
    └────────┴─────────────┴───┴───────────────┴───────────────────────┴────────┴───────┴──────────┴────────┴────────┘
                                               ╰──────────────────── guard ─────────────────────────╯

Integers are little-endian. The checksum is CRC-64/NVME of the guard before it, then of all that is behind it.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from awscrt.checksums import crc64nvme

from cordwood.machine.disk import Buffer

MAX_GROUPS = 4096  # of 8 MiB each; so the guard has a length that is fetched at a guess, too

_TAIL = struct.Struct("<I4s")
_HEAD = struct.Struct("<4sIQ")
_MAGIC = b"CWG1"
_MAX_BYTES = 8 * MAX_GROUPS + _HEAD.size


class Guard(NamedTuple):
    """Where the guard begins, and the checksum of each row group."""

    position: int
    checksums: tuple[int, ...]


def footer_position(size: int, tail: Buffer) -> int:
    """Return where the footer begins of an object of `size` bytes, given its tail; or raise ValueError."""
    if len(tail) < _TAIL.size:
        raise ValueError("it is too short for a Parquet object")
    length, magic = _TAIL.unpack_from(tail, len(tail) - _TAIL.size)
    position = size - _TAIL.size - int(length)
    if magic != b"PAR1" or position < len(magic):
        raise ValueError("it does not end as a Parquet object does")
    return position


def seal(data: Buffer, starts: Sequence[int]) -> bytes:
    """Return the object with its guard; `starts` are the positions of its row groups."""
    assert len(starts) <= MAX_GROUPS, "an object has a bounded number of row groups"
    view = memoryview(data)
    at = footer_position(len(view), view)
    ends = [*starts, at][1:]
    sums = [crc64nvme(view[start:end]) for start, end in zip(starts, ends, strict=True)]
    guard = struct.pack(f"<{len(sums)}Q4sI", *sums, _MAGIC, len(sums))
    checksum = crc64nvme(view[at:], crc64nvme(guard))
    return b"".join((view[:at], guard, struct.pack("<Q", checksum), view[at:]))


def needed_from(size: int, tail: Buffer) -> int:
    """Return from which position on the tail is needed to open the guard, given some of it; or raise ValueError."""
    footer = footer_position(size, tail)
    if footer < _HEAD.size:
        raise ValueError("it has no guard before its footer")
    head = footer - _HEAD.size - (size - len(tail))  # in the tail
    if head < 0:
        return max(0, footer - _MAX_BYTES)
    magic, count, _ = _HEAD.unpack_from(tail, head)
    if magic != _MAGIC or count > MAX_GROUPS:
        raise ValueError("it has no guard before its footer")
    return max(0, footer - _HEAD.size - 8 * int(count))


def open_(size: int, tail: Buffer) -> Guard:
    """Return the guard of an object of `size` bytes, whose `tail` is whole and holds it; or raise ValueError."""
    view = memoryview(tail)
    at = size - len(view)
    start, footer = needed_from(size, view) - at, footer_position(size, view) - at
    checksums = view[start : footer - _HEAD.size]
    _, count, checksum = _HEAD.unpack_from(view, footer - _HEAD.size)
    if len(checksums) != 8 * count or crc64nvme(view[footer:], crc64nvme(view[start : footer - 8])) != checksum:
        raise ValueError("the checksum of its footer does not hold")
    return Guard(at + start, struct.unpack(f"<{count}Q", checksums))
