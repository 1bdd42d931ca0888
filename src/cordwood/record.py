"""The message: a row of an Arrow record batch, the same in memory, in the journal and to readers.

    timestamp   timestamp[us, UTC] not null    when it happened; the broker's clock where the sender gave none
    key         binary                         chooses the partition; null: none
    value       binary                         null: a tombstone
    headers     map<string, binary>            a name may come twice; null: none
    deliver_at  timestamp[us, UTC]             not before; null: at once
    expires_at  timestamp[us, UTC]             not after; null: never

A column that is null in every row is left out, except timestamp and value. At rest a batch is

     0        4         5     8
     ┌────────┬─────────┬─────┬──────────────────────────────────────────────────────────────┐
     │ "CWR1" │ columns │ 0 0 │ one Arrow IPC message (encapsulated record batch, no schema) │
     │        │         │ 0   │                                                              │
     └────────┴─────────┴─────┴──────────────────────────────────────────────────────────────┘

where the bits of `columns` are 1 key, 2 headers, 4 deliver_at, 8 expires_at. Bytes at rest and µs to encode and to
decode, messages of 100 B without keys, measured on a 2-core machine:

    rows                         1              100             1,000              10,000
    all columns, IPC stream      1336, 13, 14   15640, 14, 14   145688, 28, 14     1446200, 72, 14
    columns present, IPC stream   544, 10, 9    11632, 11,  9   112432, 16, 14     1120432, 50,  9
    this                          336,  7, 4    11424,  7,  4   112224, 12,  4     1120224, 41,  4

A stream repeats the schema in every batch; the schema is one of sixteen, so four bits say as much.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import ipc

from cordwood.errors import OtherVersion

# pyarrow carries no types: its values are Any, under the names that a reader expects.
Batch: TypeAlias = Any
Column: TypeAlias = Any

# What pyarrow raises for bytes it cannot read.
ARROW_ERRORS = (pa.ArrowException, ValueError, OSError, EOFError, MemoryError)

TIME = pa.timestamp("us", "UTC")
HEADERS = pa.map_(pa.string(), pa.binary())
FULL = pa.schema(
    [
        pa.field("timestamp", TIME, nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("deliver_at", TIME),
        pa.field("expires_at", TIME),
    ]
)
_BITS = {"key": 1, "headers": 2, "deliver_at": 4, "expires_at": 8}
_SCHEMAS = tuple(pa.schema([f for f in FULL if _BITS.get(f.name, 16) & (bits | 16)]) for bits in range(16))
_HEAD = struct.Struct("<4sB3s")
_MAGIC = b"CWR1"
_HEADS = tuple(_HEAD.pack(_MAGIC, bits, b"\0\0\0") for bits in range(16))
_MANY = 1 << 16  # rows
_ZEROS = pa.py_buffer(bytes(8 * _MANY + 8))
_NO_BYTES = [None, _ZEROS.slice(0, 4), _ZEROS.slice(0, 0)]
_NO_PAIRS = pa.Array.from_buffers(  # not `pa.array([])`, which imports pandas where there is one
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]),
    0,
    [None],
    children=[pa.Array.from_buffers(kind, 0, _NO_BYTES) for kind in (pa.string(), pa.binary())],
)
_WIDE = frozenset((pa.large_binary().id, pa.large_string().id))
_VIEWS = frozenset((pa.binary_view().id, pa.string_view().id))


@dataclass(frozen=True, slots=True)
class Records:
    """Messages in the schema at rest, and the partition that each of them asks for (null: none asked).

    A number is the partition of all of them. `resting` is the batch as the bytes it came in, where it can rest so.
    `sequences` are a producer's numbers, one for each message, where it gave them.
    """

    batch: Batch
    partitions: Column | int | None = None
    resting: "Resting | None" = None
    sequences: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return int(self.batch.num_rows)


def sizes(batch: Batch) -> npt.NDArray[np.int64]:
    """Return the bytes of each message: key, value, names and values of headers."""
    total = np.zeros(batch.num_rows, np.int64)
    if not batch.num_rows:
        return total
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in ("key", "value"):
            total += _lengths(column)
        elif name == "headers":
            starts = _offsets(column)
            for child in (column.keys, column.items):
                total += np.diff(_offsets(child)[starts]) if len(child) else 0
    return total


def summary(batch: Batch) -> tuple[int, int]:
    """Return the bytes of all messages together, and the latest timestamp in microseconds (0 for no messages)."""
    rows = batch.num_rows
    if not rows:
        return 0, 0
    total = 0
    names = batch.schema.names
    for name in ("key", "value"):
        if name in names:
            total += batch.column(name).total_values_length
    if "headers" in names:
        column = batch.column("headers")
        starts = _offsets(column)
        for child in (column.keys, column.items):
            if len(child):
                offsets = _offsets(child)
                total += int(offsets[starts[rows]]) - int(offsets[starts[0]])
    return total, int(np.maximum.reduce(times_us(batch, "timestamp")))


def times_us(batch: Batch, name: str) -> npt.NDArray[np.int64]:
    """Return a column of times as microseconds, without copying it; what stands for a null is anything."""
    column = batch.column(name)
    return np.frombuffer(column.buffers()[1], np.int64, count=column.offset + len(column))[column.offset :]


def encode(batch: Batch) -> tuple[bytes, Any]:
    """Return the bytes at rest of these rows alone, as a head and a body to be written behind it."""
    columns = {
        name: column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if name not in _BITS or column.null_count < len(column)
    }
    if len(columns) < batch.num_columns:  # a slice may have lost the only rows that had a key
        batch = assemble(columns)
    bits = sum(_BITS.get(name, 0) for name in columns)
    return _HEADS[bits], batch.serialize()


def at_rest_schema(schema: Any) -> Any | None:
    """Return the schema at rest whose columns these are, in order and type, None when there is none."""
    bits = sum(_BITS.get(name, 0) for name in schema.names)
    found = _SCHEMAS[bits]
    return found if schema.names == found.names and schema.types == found.types else None


def as_it_came(batch: Batch, message: Any) -> "Resting | None":
    """Return a valid batch in a schema at rest with the IPC message it was read from, None if it rests otherwise.

    To write what came, instead of writing it anew, saves a copy into fresh memory, which costs more than all else
    that happens to it.
    """
    bits = 0
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in _BITS:
            if column.null_count == len(column):
                return None  # such a column is left out
            bits |= _BITS[name]
    return Resting(_HEADS[bits], message, batch)


class Resting:
    """A batch as its bytes at rest; read only when somebody asks for it."""

    __slots__ = ("_batch", "body", "head")

    def __init__(self, head: bytes, body: Any, batch: Batch | None = None):
        self.head = head
        self.body = body
        self._batch = batch

    @property
    def batch(self) -> Batch:
        """The batch itself."""
        if self._batch is None:
            self._batch = decode_parts(self.head, self.body)
        return self._batch


def decode(data: bytes | memoryview) -> Batch:
    """Return the batch that `encode` wrote, without copying it; raise ValueError where it is not one."""
    return decode_parts(data[: _HEAD.size], data[_HEAD.size :])


def decode_parts(head: bytes | memoryview, body: bytes | memoryview) -> Batch:
    """Return the batch of this head and this body, without copying it; raise ValueError where it is not one.

    The bytes come from under a checksum, so only their structure is checked, not every row.
    """
    if len(head) != _HEAD.size:
        raise ValueError(f"{len(head)} bytes are no head of a batch")
    magic, bits, zeros = _HEAD.unpack(head)
    if magic[:3] == _MAGIC[:3] and magic != _MAGIC:
        raise OtherVersion(f"a batch of version {magic[3:]!r}; this Cordwood reads {_MAGIC[3:]!r}")
    if magic != _MAGIC or bits >= len(_SCHEMAS) or zeros != b"\0\0\0":
        raise ValueError("not the head of a batch")
    try:
        batch = ipc.read_record_batch(pa.py_buffer(body), _SCHEMAS[bits])
        batch.validate()
    except ARROW_ERRORS as error:
        raise ValueError(f"not a batch: {one_line(error)}") from None
    return batch


def concat(batches: Sequence[Batch]) -> Batch:
    """Return one batch with all rows, in order, and every column that one of them has."""
    if len(batches) == 1:
        return batches[0]
    bits = 0
    for batch in batches:
        bits |= sum(_BITS.get(name, 0) for name in batch.schema.names)
    return pa.concat_batches([_with_columns(batch, _SCHEMAS[bits]) for batch in batches])


def widen(batch: Batch) -> Batch:
    """Return the batch with all columns of the schema, null where it had none."""
    return _with_columns(batch, FULL)


def assemble(columns: dict[str, Column]) -> Batch:
    """Return the batch of these columns, which are in the types of the schema, in its order."""
    schema = _SCHEMAS[sum(_BITS.get(name, 0) for name in columns)]
    if "value" not in columns or "timestamp" not in columns:  # somebody wants a part of the messages
        schema = pa.schema([field for field in schema if field.name in columns])
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def numbers_column(kind: Any, numbers: npt.NDArray[Any]) -> Column:
    """Return numbers as a column without nulls. `pa.array` imports pandas where it is installed."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)], 0)


def one_line(error: object) -> str:
    """Return what a library said as part of one sentence."""
    return " ".join(str(error).split())[:200].rstrip(".")


def _with_columns(batch: Batch, schema: Any) -> Batch:
    if batch.schema.equals(schema):
        return batch
    have = dict(zip(batch.schema.names, batch.columns, strict=True))
    rows = batch.num_rows
    columns = [have[f.name] if f.name in have else _nulls(f.type, rows) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _nulls(kind: Any, rows: int) -> Column:
    """Return nulls whose buffers are parts of one that is always there: to make and clear them anew costs more."""
    if rows > _MANY:
        return pa.nulls(rows, kind)
    valid = _ZEROS.slice(0, (rows + 7) // 8)
    if kind.id == TIME.id:
        return pa.Array.from_buffers(kind, rows, [valid, _ZEROS.slice(0, 8 * rows)], rows)
    starts = _ZEROS.slice(0, 4 * rows + 4)
    if kind.id == HEADERS.id:
        return pa.Array.from_buffers(kind, rows, [valid, starts], rows, children=[_NO_PAIRS])
    return pa.Array.from_buffers(kind, rows, [valid, starts, _ZEROS.slice(0, 0)], rows)


def _offsets(column: Column) -> npt.NDArray[Any]:
    wide = column.type.id in _WIDE
    buffer = column.buffers()[1]
    if buffer is None or not buffer.size:  # Arrow allows no offsets at all where there are no rows
        return np.zeros(len(column) + 1, np.int64)
    end = column.offset + len(column) + 1
    return np.frombuffer(buffer, np.int64 if wide else np.int32, count=end)[column.offset :]


def _lengths(column: Column) -> npt.NDArray[Any]:
    if column.type.id not in _VIEWS:
        return np.diff(_offsets(column))
    end = column.offset + len(column)
    views = np.frombuffer(column.buffers()[1], np.int32, count=4 * end).reshape(-1, 4)
    valid = column.is_valid().to_numpy(zero_copy_only=False)  # what stands in a null's view is anything
    return np.where(valid, views[column.offset :, 0], 0)
