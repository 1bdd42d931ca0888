"""Python values as Arrow columns, many at once, at native speed.

    values   bytes, str, None mixed   → binary
    keys     bytes, str, None         → binary, left out when there is none
    extras   few rows, by number      → headers, timestamp, deliver_at, expires_at, left out when there are none

A value that Arrow does not take (a key that is a number, text that is not Unicode) is found afterwards, row by row,
so that no row is looked at by Python while all is well.
"""

from typing import Any

import msgspec
import pyarrow as pa

from cordwood.client.page import Extra
from cordwood.errors import Refused
from cordwood.record import ARROW_ERRORS, FULL, HEADERS, Batch

# Columns are made in one thread and let go in another, and Arrow's own pool then takes fresh memory each time, which
# doubles what a message costs; the system's gives back what was just let go.
_POOL = pa.system_memory_pool()
_BINARY = pa.binary()
_MS = pa.timestamp("ms", "UTC")
_ERRORS = (*ARROW_ERRORS, TypeError, UnicodeError)
_ORDER = (*FULL.names, "partition")
_NAMES = frozenset(_ORDER)
_encoder = msgspec.json.Encoder()


def encoded(value: Any) -> bytes | str | None:
    """Return a value as it is stored: text and bytes as they are, a dict as compact JSON. Raises TypeError."""
    if value is None or type(value) is bytes or type(value) is str:
        return value
    if isinstance(value, dict):
        return _encoder.encode(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"a value is bytes, str, dict or None (a tombstone), not {type(value).__name__}")


def batch_of(values: list[Any], keys: list[Any], extras: dict[int, Extra]) -> tuple[Batch, dict[int, Refused]]:
    """Return the rows as a batch, and the error of each row that cannot be one; such a row is null in the batch."""
    bad: dict[int, Refused] = {}
    columns = {"value": _binary(values, "value", bad)}
    if any(keys) or keys.count(None) < len(keys):
        columns["key"] = _binary(keys, "key", bad)
    if extras:
        rows = range(len(values))
        for name, kind in (("headers", HEADERS), ("timestamp", _MS), ("deliver_at", _MS), ("expires_at", _MS)):
            column = [getattr(extras[row], name) if row in extras else None for row in rows]
            if column.count(None) < len(column):
                columns[name] = _column(column, kind, name, bad)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)), bad


def batches_of(table: Any, most_rows: int) -> list[Batch]:
    """Return a table, a record batch or anything that Arrow can read as one, as batches. Raises Refused."""
    if not isinstance(table, pa.Table | pa.RecordBatch):
        try:
            table = pa.table(table)
        except _ERRORS as error:
            raise Refused(f"not an Arrow table: {error}") from None
    strange = [name for name in table.schema.names if name not in _NAMES]
    if strange or "value" not in table.schema.names:
        names = ", ".join(sorted(_NAMES))
        raise Refused(f"unknown column {strange[0]!r}; there are {names}" if strange else "column 'value' is missing")
    order = [name for name in _ORDER if name in table.schema.names]
    if order != table.schema.names:
        table = table.select(order)  # in the order in which they rest, so that the broker can store them as they are
    if isinstance(table, pa.RecordBatch):
        if table.num_rows <= most_rows:
            return [table] if table.num_rows else []
        table = pa.Table.from_batches([table])
    return [batch for batch in table.to_batches(max_chunksize=most_rows) if batch.num_rows]


def _binary(values: list[Any], name: str, bad: dict[int, Refused]) -> Any:
    try:
        return pa.array(values, _BINARY, memory_pool=_POOL)
    except _ERRORS:
        return _column(values, _BINARY, name, bad)


def _column(values: list[Any], kind: Any, name: str, bad: dict[int, Refused]) -> Any:
    try:
        return pa.array(values, kind)
    except _ERRORS:
        kept = list(values)
        for row, value in enumerate(values):
            try:
                pa.array([value], kind)
            except _ERRORS as error:
                bad[row] = Refused(f"the {name} is not accepted: {' '.join(str(error).split())[:200]}")
                kept[row] = None
        return pa.array(kept, kind)
