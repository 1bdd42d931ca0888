"""Columns as Spark has them, and messages put into them.

    topic      string                                        partition  int
    offset     bigint                                        timestamp  timestamp
    key        binary                                        value      binary
    headers    array<struct<key string, value binary>>       only when asked for

Spark looks at the Arrow schema of a task's first batch only, and reads what does not fit as something else; so each
batch is made in exactly this schema.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from cordwood.errors import Refused
from cordwood.record import HEADERS, TIME, Batch, Column

_PAIR = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
TYPES: Mapping[str, Any] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIME,
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(pa.field("element", _PAIR)),
}
SPARK_TYPES: Mapping[str, str] = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}
COLUMNS = tuple(TYPES)
DEFAULT_COLUMNS = COLUMNS[:-1]


def ddl(names: Sequence[str]) -> str:
    """Return the columns as Spark writes a schema."""
    return ", ".join(f"{name} {SPARK_TYPES[name]}" for name in names)


def arrow_schema(fields: Sequence[tuple[str, str, bool]]) -> Any:
    """Return what Spark asks for, given as (name, type, nullable), as an Arrow schema; refuse what is not ours."""
    for name, kind, _ in fields:
        if SPARK_TYPES.get(name) != kind:
            known = ddl(COLUMNS)
            raise Refused(f"there is no column {name!r} of type {kind}. Known are: {known}")
    return pa.schema([pa.field(name, TYPES[name], nullable) for name, _, nullable in fields])


def shape(schema: Any, topic: str, partition: int, offsets: Column, batch: Batch) -> Batch:
    """Return messages in this schema, without copying them; columns that the batch lacks are null."""
    rows = len(offsets)
    columns = []
    for field in schema:
        name = field.name
        if name == "topic":
            columns.append(pa.repeat(pa.scalar(topic), rows))
        elif name == "partition":
            columns.append(pa.repeat(pa.scalar(partition, pa.int32()), rows))
        elif name == "offset":
            columns.append(offsets)
        elif name not in batch.schema.names:
            columns.append(pa.nulls(rows, field.type))
        elif name == "headers":
            columns.append(pairs(batch.column("headers")))
        else:
            columns.append(batch.column(name))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def pairs(headers: Column) -> Column:
    """Return headers as Spark has them: the same buffers under another type."""
    entries = pa.StructArray.from_arrays([headers.keys, headers.items], fields=list(_PAIR))
    valid, starts = headers.buffers()[:2]
    return pa.Array.from_buffers(
        TYPES["headers"], len(headers), [valid, starts], headers.null_count, headers.offset, children=[entries]
    )


def mapped(headers: Column) -> Column:
    """Return headers as messages have them. Raises Refused where a header is null, or has no name."""
    entries = headers.values
    names, values = entries.field(0), entries.field(1)
    if entries.null_count or names.null_count:
        raise Refused("headers: each is a pair of a name and a value; one is null, or has no name")
    valid, starts = headers.buffers()[:2]
    children = [names.cast(pa.string()), values.cast(pa.binary())]
    inner = pa.StructArray.from_arrays(children, fields=[HEADERS.key_field, HEADERS.item_field])
    return pa.Array.from_buffers(
        HEADERS, len(headers), [valid, starts], headers.null_count, headers.offset, children=[inner]
    )
