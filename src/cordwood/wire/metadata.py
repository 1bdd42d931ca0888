"""The head of an Arrow IPC message, read before Arrow acts on it.

Arrow takes memory for what a compressed buffer *says* it holds, so 100 bytes can ask for a terabyte. The sizes are in
two places: the message's flatbuffer lists the buffers, and each compressed buffer opens with its size.

    Message      0 version  1 header type  2 header  3 body length
    Schema       0 endianness
    RecordBatch  0 rows  1 nodes  2 buffers: [i64 position, i64 length] × n  3 compression

A flatbuffer table begins with an i32: how far before it its vtable is; the vtable is u16 own length, u16 table
length, then a u16 per field: where it is in the table, 0 when left out. Arrow verifies the flatbuffer again; we read
it in the same way, so that we see what Arrow will see.
"""

import struct
from functools import cache
from operator import add
from typing import Any

from cordwood.errors import Refused

_V5 = 4  # the metadata version of Arrow 1.0 and later; before it compression was said elsewhere
_SCHEMA, _RECORD_BATCH = 1, 3
_LITTLE = 0
_U16, _I16, _I32, _U32, _I64 = (struct.Struct(f"<{code}") for code in "HhiIq")
_MAX_BUFFERS = 64  # our seven columns have at most 22, and views as many more as they have data buffers
_UNCOMPRESSED = -1  # the size that says: this buffer was not worth compressing


@cache
def _numbers(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}q")


def check_schema_head(metadata: Any) -> None:
    """Raise Refused unless this message is a schema of little-endian data."""
    data = memoryview(metadata)
    try:
        header = _header(data, _SCHEMA, "a schema")
        place = _field(data, header, 0)
        if place and _I16.unpack_from(data, place)[0] != _LITTLE:
            raise Refused("the Arrow stream is big-endian; only little-endian is accepted")
    except (struct.error, IndexError):
        raise Refused("the Arrow stream's schema cannot be read") from None


def decoded_bytes(metadata: Any, body: Any) -> tuple[int, bool]:
    """Return how many bytes Arrow will need for a record batch's buffers, and whether they are compressed.

    Raises Refused where that cannot be told.
    """
    data, content = memoryview(metadata), memoryview(body) if body is not None else memoryview(b"")
    try:
        header = _header(data, _RECORD_BATCH, "a record batch")
        place = _field(data, header, 2)
        if not place:
            return 0, False
        vector = place + int(_U32.unpack_from(data, place)[0])
        count = int(_U32.unpack_from(data, vector)[0])
        if count > _MAX_BUFFERS:
            raise Refused(f"a batch of the Arrow stream has {count} buffers, at most {_MAX_BUFFERS} are accepted")
        compressed = bool(_field(data, header, 3))
        numbers = _numbers(2 * count).unpack_from(data, vector + 4)
        positions, lengths = numbers[::2], numbers[1::2]
        if count and (min(numbers) < 0 or max(map(add, positions, lengths)) > len(content)):
            raise Refused("a buffer of the Arrow stream reaches outside its record batch")
        if not compressed:
            return sum(lengths), False
        total = 0
        for position, length in zip(positions, lengths, strict=True):
            if not length:
                continue
            size = int(_I64.unpack_from(content, position)[0])
            if size < _UNCOMPRESSED:
                raise Refused("a compressed buffer of the Arrow stream has a negative size")
            total += length if size == _UNCOMPRESSED else size
        return total, True
    except (struct.error, IndexError):
        raise Refused("a record batch of the Arrow stream cannot be read") from None


def _header(data: memoryview, kind: int, name: str) -> int:
    message = int(_U32.unpack_from(data, 0)[0])
    version = _field(data, message, 0)
    if not version or _I16.unpack_from(data, version)[0] != _V5:
        raise Refused("the Arrow stream is older than Arrow 1.0; metadata version V5 is accepted")
    header_type = _field(data, message, 1)
    header = _field(data, message, 2)
    if not header_type or data[header_type] != kind or not header:
        raise Refused(f"the Arrow stream has another message where {name} was expected")
    return header + int(_U32.unpack_from(data, header)[0])


def _field(data: memoryview, table: int, number: int) -> int:
    """Return where a table's field stands, 0 when it is left out."""
    vtable = table - int(_I32.unpack_from(data, table)[0])
    if vtable < 0:
        raise IndexError(vtable)
    if 4 + 2 * number + 2 > int(_U16.unpack_from(data, vtable)[0]):
        return 0
    place = int(_U16.unpack_from(data, vtable + 4 + 2 * number)[0])
    return table + place if place else 0
