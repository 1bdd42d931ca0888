"""One frame: a fixed header, then the payload. Nothing in it is outside a checksum.

     0        4     5     8     16       24         32      40       48         56         64
     ┌────────┬─────┬─────┬─────┬────────┬──────────┬───────┬────────┬──────────┬──────────┬─────────
     │ "CWF1" │kind │ 0 0 │ LSN │ synced │ identity │ chain │ length │ payload  │ header   │ payload
     │        │     │ 0   │     │        │          │       │        │ checksum │ checksum │ …
     └────────┴─────┴─────┴─────┴────────┴──────────┴───────┴────────┴──────────┴──────────┴─────────

Integers are little-endian. `synced`: every frame below this LSN was synced when this one was written.
`identity` is the segment's, `chain` is the header checksum of the frame before. Both checksums are
CRC-64/NVME; the header's covers bytes 0 to 56, so also the payload's checksum and the chain: it stands for the
frame and all before it.

A payload is a list of entries that become true together:

    u64 count, count × u64 length, then each entry, zeros up to a multiple of 8 behind each
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from awscrt.checksums import crc64nvme

from cordwood.machine.disk import Buffer

MAGIC = b"CWF1"
HEADER_BYTES = 64
IDENTITY_AT = 24  # where the identity stands in a header: what a search for frames looks for
CHAIN_AT = 32  # where the link to the frame before stands
MAX_PAYLOAD_BYTES = 1 << 30
MAX_ENTRIES = 1 << 20

_CHECKED = struct.Struct("<4sB3xQQQQQQ")
_CHECKSUM = struct.Struct("<Q")
ONE = struct.Struct("<QQ")  # how a payload with one entry begins: 1, and its length
_PADDING = [bytes(-size % 8) for size in range(8)]
HEADER = struct.Struct("<4sB3sQQQQQQQ")
_JOIN_BYTES = 4096  # smaller payloads are joined: one checksum call costs as much as copying this much


class Kind(IntEnum):
    DATA = 1  # entries of the owner
    SNAPSHOT = 2  # a part of the owner's state; its LSN is the number of the part
    MARK = 3  # empty: it only says how far the log is synced
    LOST = 4  # stands for frames that an operator gave up, see `lost_payload`


class Header(NamedTuple):
    """A header whose checksum holds."""

    kind: int
    lsn: int
    synced: int
    identity: int
    chain: int
    length: int
    payload_checksum: int
    checksum: int


class Payload(NamedTuple):
    """A payload ready to be written, its checksum already taken."""

    buffers: tuple[Buffer, ...]
    length: int
    checksum: int


EMPTY = Payload((), 0, 0)


def encode_header(
    kind: int, lsn: int, synced: int, identity: int, chain: int, length: int, payload_checksum: int
) -> tuple[bytes, int]:
    """Return the header's 64 bytes and its checksum, which the next frame chains to."""
    checked = _CHECKED.pack(MAGIC, kind, lsn, synced, identity, chain, length, payload_checksum)
    checksum = crc64nvme(checked)
    return checked + _CHECKSUM.pack(checksum), checksum


def decode_header(data: Buffer, position: int = 0) -> Header | None:
    """Return the header at `position`, or None where there is none that is whole."""
    if len(data) - position < HEADER_BYTES:
        return None
    magic, kind, zeros, lsn, synced, identity, chain, length, payload_checksum, checksum = HEADER.unpack_from(
        data, position
    )
    if magic != MAGIC or crc64nvme(memoryview(data)[position : position + 56]) != checksum:
        return None
    if zeros != b"\0\0\0" or length > MAX_PAYLOAD_BYTES:
        return None
    return Header(kind, lsn, synced, identity, chain, length, payload_checksum, checksum)


def pack(entries: Sequence[Buffer]) -> Payload:
    """Return the payload that holds these entries, without copying the large ones."""
    if len(entries) == 1 and isinstance(entries[0], bytes) and len(entries[0]) <= _JOIN_BYTES:
        # By far the most frequent; this way takes half the time.
        size = len(entries[0])
        data = b"".join((ONE.pack(1, size), entries[0], _PADDING[size % 8]))
        return Payload((data,), len(data), crc64nvme(data))
    if not 0 < len(entries) <= MAX_ENTRIES:
        raise ValueError(f"a frame holds 1 to {MAX_ENTRIES} entries, not {len(entries)}")
    entries = [_as_bytes(entry) for entry in entries]
    lengths = [len(entry) for entry in entries]
    buffers: list[Buffer] = [struct.pack(f"<Q{len(lengths)}Q", len(lengths), *lengths)]
    length = 8 + 8 * len(lengths)
    for entry, size in zip(entries, lengths, strict=True):
        buffers.append(entry)
        length += size
        if size % 8:
            buffers.append(bytes(8 - size % 8))
            length += 8 - size % 8
    return payload_of([b"".join(buffers)] if length <= _JOIN_BYTES else buffers)


def _as_bytes(entry: Buffer) -> Buffer:
    """Return a view whose length is in bytes, whatever its items are."""
    return entry.cast("B") if isinstance(entry, memoryview) and (entry.itemsize, entry.ndim) != (1, 1) else entry


def payload_of(buffers: Sequence[Buffer]) -> Payload:
    """Return the payload that is these bytes, one after the other."""
    buffers = [_as_bytes(buffer) for buffer in buffers]
    checksum = 0
    for buffer in buffers:
        checksum = crc64nvme(buffer, checksum)
    length = sum(map(len, buffers))
    if length > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a frame holds {MAX_PAYLOAD_BYTES} bytes at most, not {length}")
    return Payload(tuple(buffers), length, checksum)


def unpack(payload: memoryview) -> list[memoryview]:
    """Return the entries of a payload, without copying. Raises ValueError when it is not a list of entries."""
    if len(payload) < 8:
        raise ValueError("the payload is shorter than its table of entries")
    (count,) = struct.unpack_from("<Q", payload)
    if not 0 < count <= MAX_ENTRIES or 8 + 8 * count > len(payload):
        raise ValueError("the payload's table of entries does not fit")
    entries = []
    position = 8 + 8 * count
    for size in struct.unpack_from(f"<{count}Q", payload, 8):
        if size > len(payload) - position:
            raise ValueError("an entry reaches behind the payload's end")
        entries.append(payload[position : position + size])
        position += size + -size % 8
    if position != len(payload):
        raise ValueError("the entries do not fill the payload")
    return entries


class Lost(NamedTuple):
    """What a LOST frame says: the log goes on at `end` with a frame that chains to `chain`.

    Where `end` is the frame's own LSN nothing is lost: it only leads from one chain to another.
    """

    end: int
    chain: int
    reason: str


def lost_payload(lost: Lost) -> Payload:
    """Return the payload of a LOST frame: u64 end, u64 chain, the reason as UTF-8."""
    return payload_of([struct.pack("<QQ", lost.end, lost.chain) + lost.reason.encode()])


def read_lost(payload: memoryview) -> Lost:
    """Return what a LOST frame says. Raises ValueError when it says nothing of the kind."""
    if len(payload) < 16:
        raise ValueError("a LOST frame is too short")
    end, chain = struct.unpack_from("<QQ", payload)
    return Lost(end, chain, bytes(payload[16:]).decode(errors="replace"))
