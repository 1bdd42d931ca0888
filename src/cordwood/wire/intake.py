"""What we accept as messages: any Arrow batch of the contract's schemas, within limits, turned into ours.

    column                             accepted                                                stored
    value (required), key              binary, string, and their large_ and _view kinds        binary
    headers                            map<string, binary or string>, also large_; null        map<string, binary>
    timestamp, deliver_at, expires_at  timestamp of any unit and zone; no zone means UTC       timestamp[us, UTC]
    partition                          int32, int64; null: by key                              beside the batch
    sequence                           int32, int64; a numbered producer's, for each message   beside the batch

A plain integer is not taken for a time: nothing in it says milliseconds. A time finer than a microsecond is cut.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cordwood.errors import Refused
from cordwood.record import ARROW_ERRORS, HEADERS, TIME, Batch, Column, Records, as_it_came, assemble, one_line, sizes

_BINARY = pa.binary().id
_TEXT = frozenset(t.id for t in (pa.string(), pa.large_string()))
_BYTES = _TEXT | {pa.binary().id, pa.large_binary().id}
_VIEWS = frozenset((pa.binary_view().id, pa.string_view().id))
_INTEGERS = frozenset((pa.int32().id, pa.int64().id))
_TIMESTAMP = pa.timestamp("us").id
_LAST_US = 253_402_300_799_999_999  # the end of the year 9999, where Python's and Spark's calendars end
LAST_SEQUENCE = 2**62
_ACCEPTED = {
    "key": "binary or string",
    "value": "binary or string",
    "headers": "map<string, binary>",
    "timestamp": "timestamp",
    "deliver_at": "timestamp",
    "expires_at": "timestamp",
    "partition": "int32",
    "sequence": "int64",
}


class TooLarge(Refused):
    """The request is over a limit: send less at once, or raise the limit. (413 in HTTP.)

    `row` is the message that is too large by itself, None when it is all of them together.
    """

    def __init__(self, message: str, row: int | None = None):
        super().__init__(message)
        self.row = row


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one request may hold.

    `max_message_bytes`: key, value and headers of one message together. `max_messages` and `max_request_bytes`: what
    one atomic append holds; two fit into a segment of 64 MiB. `max_text_bytes`: a JSON or NDJSON body; Python's
    objects for it may take twenty times as much. `max_batches`: each batch of an Arrow stream costs some 20 µs,
    however small.
    """

    max_message_bytes: int = 1 << 20
    max_messages: int = 100_000
    max_request_bytes: int = 32 << 20
    max_text_bytes: int = 8 << 20
    max_batches: int = 1_024


def normalise(data: Batch, now_ms: int, limits: Limits, message: Any | None = None) -> Records:
    """Return the messages of any batch or table that the contract accepts; raise Refused for every other one.

    Nothing is read before Arrow has validated it fully, and nothing is copied before its size is known: the views of
    a `binary_view` may all show the same megabyte. `message` is what a batch in a schema at rest was read from.
    """
    check_schema(data.schema)
    if data.num_rows > limits.max_messages:
        raise TooLarge(f"{data.num_rows} messages in one request, at most {limits.max_messages} are accepted")
    try:
        data.validate(full=True)
    except ARROW_ERRORS as error:
        raise Refused(f"the Arrow data is not valid: {one_line(error)}") from None
    rows = data.num_rows
    viewed = any(field.type.id in _VIEWS for field in data.schema)
    if rows and (
        viewed or data.get_total_buffer_size() > limits.max_message_bytes
    ):  # else no message can be too large, nor all
        _check_sizes(data, limits)
    if isinstance(data, pa.Table):
        data = data.combine_chunks()
        data = data.to_batches()[0] if rows else pa.RecordBatch.from_pylist([], schema=data.schema)

    if message is not None and rows and not data.column("timestamp").null_count:
        for name in ("timestamp", "deliver_at", "expires_at"):
            if name in data.schema.names:
                _time(name, data.column(name))
        resting = as_it_came(data, message)
        if resting is not None:
            return Records(data, None, resting)
    columns: dict[str, Column] = {}
    partitions = sequences = None
    for name, column in zip(data.schema.names, data.columns, strict=True):
        if column.null_count == rows and name != "value":
            continue
        if name == "partition":
            partitions = _partitions(column)
        elif name == "sequence":
            sequences = _sequences(column)
        elif name == "headers":
            columns[name] = column if column.type.equals(HEADERS) else column.cast(HEADERS)
        elif name in ("key", "value"):
            columns[name] = column if column.type.id == _BINARY else column.cast(pa.binary())
        else:
            columns[name] = _time(name, column)
    now_us = now_ms * 1000
    if "timestamp" not in columns:
        now = pa.py_buffer(np.full(rows, now_us, np.int64))
        columns["timestamp"] = pa.Array.from_buffers(TIME, rows, [None, now], 0)
    elif columns["timestamp"].null_count:
        columns["timestamp"] = pc.fill_null(columns["timestamp"], pa.scalar(now_us, TIME))
    return Records(assemble(columns), partitions, sequences=sequences)


def check_schema(schema: Any) -> None:
    """Raise Refused, naming the column, unless the contract accepts this schema."""
    seen = set()
    for field in schema:
        if field.name not in _ACCEPTED:
            names = ", ".join(_ACCEPTED)
            raise Refused(f"unknown column {field.name[:100]!r}; accepted are {names}")
        if field.name in seen:
            raise Refused(f"column {field.name!r} comes twice")
        seen.add(field.name)
        if not _accepts(field.name, field.type):
            raise Refused(f"column {field.name!r} is {str(field.type)[:100]}, not {_ACCEPTED[field.name]}")
    if "value" not in seen:
        raise Refused("column 'value' is missing; it is binary or string, null for a tombstone")


def _accepts(name: str, kind: Any) -> bool:
    if name in ("key", "value"):
        return kind.id in _BYTES or kind.id in _VIEWS
    if name == "headers":
        if kind.id != HEADERS.id:
            return bool(kind.id == pa.null().id)
        return kind.key_type.id in _TEXT and kind.item_type.id in _BYTES
    if name in ("partition", "sequence"):
        return kind.id in _INTEGERS
    return bool(kind.id == _TIMESTAMP)


def _check_sizes(data: Batch, limits: Limits) -> None:
    batches = data.to_batches() if isinstance(data, pa.Table) else [data]
    each = np.concatenate([sizes(batch) for batch in batches])
    over = each > limits.max_message_bytes
    if over.any():
        row = int(np.argmax(over))
        size, most = each[row], limits.max_message_bytes
        raise TooLarge(f"message {row} has {size} bytes of key, value and headers, at most {most} are accepted", row)
    if each.sum() > limits.max_request_bytes:
        raise TooLarge(f"{each.sum()} bytes in one request, at most {limits.max_request_bytes} are accepted")


def _partitions(column: Column) -> Column:
    outside = pc.or_(pc.less(column, 0), pc.greater(column, 2**31 - 1))
    row = pc.index(outside, True).as_py()
    if row >= 0:
        raise Refused(f"message {row} asks for partition {column[row].as_py()}, which no topic has")
    return column.cast(pa.int32())


def _sequences(column: Column) -> npt.NDArray[np.int64]:
    if column.null_count:
        raise Refused(f"message {pc.index(column.is_null(), True).as_py()} has no sequence, and others have")
    numbers: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    if numbers.min(initial=0) < 0 or numbers.max(initial=0) > LAST_SEQUENCE:
        row = int(np.argmax((numbers < 0) | (numbers > LAST_SEQUENCE)))
        raise Refused(f"message {row} has the sequence {numbers[row]}; sequences are 0 to {LAST_SEQUENCE}")
    return numbers


def _time(name: str, column: Column) -> Column:
    try:
        # From nanoseconds the rest is cut off; from the coarser units an overflow is an error.
        if not column.type.equals(TIME):
            column = column.cast(TIME, safe=column.type.unit != "ns")
    except pa.ArrowInvalid:
        raise Refused(f"column {name!r} has a time after the year 9999 or before 1970") from None
    if not column.null_count:  # the usual case takes a tenth of the time in numpy
        raw = np.frombuffer(column.buffers()[1], np.int64, count=column.offset + len(column))[column.offset :]
        if np.minimum.reduce(raw) >= 0 and np.maximum.reduce(raw) <= _LAST_US:
            return column
    numbers = column.view(pa.int64())
    row = pc.index(pc.or_(pc.less(numbers, 0), pc.greater(numbers, _LAST_US)), True).as_py()
    if row >= 0:
        raise Refused(f"message {row} has a {name} before 1970 or after the year 9999")
    return column
