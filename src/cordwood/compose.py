"""A few plain messages as the bytes they rest in, made without Arrow.

Single messages are written as a batch of those that came together, often one. For Arrow that is the same work as for
a thousand: building a batch of one and serialising it costs ten times what is done here. The bytes are the same.

    head of the batch, from a sample, with its numbers filled in │ times │ offsets of keys │ keys │ offsets │ values
"""

import struct
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

from cordwood.record import TIME, Resting, assemble, encode

MOST_ROWS = 256  # from here on Arrow is as quick

_I32, _U32, _U16 = (struct.Struct(f"<{code}") for code in "iIH")
_I64 = struct.Struct("<q")
_ZEROS = bytes(8)


class _Template(NamedTuple):
    """The head of a batch, and where its numbers are in it."""

    head: bytes
    message: bytes
    body_bytes: int
    rows: int
    nodes: int
    buffers: int


def compose(values: Sequence[bytes], keys: Sequence[bytes] | None, time_us: int) -> Resting:
    """Return the batch of these values, none of them null, and as many keys, all of the same time."""
    rows = len(values)
    template = _template(keys is not None)
    at = 8 * rows
    parts = [b"", _I64.pack(time_us) * rows]
    buffers = [0, 0, 0, at]  # position and length of each; the first of a column without nulls is empty
    for column in (values,) if keys is None else (keys, values):
        buffers += (at, 0)
        for part in (_numbers("i", rows + 1).pack(*accumulate(map(len, column), initial=0)), b"".join(column)):
            buffers += (at, len(part))
            room = -len(part) % 8
            parts += (part, _ZEROS[:room])
            at += len(part) + room
    head = bytearray(template.message)
    _I64.pack_into(head, template.body_bytes, at)
    _I64.pack_into(head, template.rows, rows)
    _numbers("q", len(buffers)).pack_into(head, template.buffers, *buffers)
    columns = 2 if keys is None else 3
    _numbers("q", 2 * columns).pack_into(head, template.nodes, *(rows, 0) * columns)
    parts[0] = bytes(head)
    return Resting(template.head, b"".join(parts))


@cache
def _template(keyed: bool) -> _Template:
    """Return the head of a batch with or without keys, as Arrow writes it."""
    columns = {"timestamp": pa.array([1], TIME), "value": pa.array([b"v"], pa.binary())}
    if keyed:
        columns["key"] = pa.array([b"k"], pa.binary())
    head, body = encode(assemble(columns))
    data = bytes(body)
    length = 8 + _U32.unpack_from(data, 4)[0]  # behind ffffffff and itself
    message = 8 + _U32.unpack_from(data, 8)[0]
    batch = _behind(data, _field(data, message, 2))
    return _Template(
        head,
        data[:length],
        body_bytes=_field(data, message, 3),
        rows=_field(data, batch, 0),
        nodes=_behind(data, _field(data, batch, 1)) + 4,
        buffers=_behind(data, _field(data, batch, 2)) + 4,
    )


def _behind(data: bytes, place: int) -> int:
    """Return where a flatbuffer's reference leads."""
    return place + int(_U32.unpack_from(data, place)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Return where a flatbuffer's table has a field."""
    vtable = table - int(_I32.unpack_from(data, table)[0])
    return table + int(_U16.unpack_from(data, vtable + 4 + 2 * number)[0])


@cache
def _numbers(kind: str, count: int) -> struct.Struct:
    return struct.Struct(f"<{count}{kind}")
