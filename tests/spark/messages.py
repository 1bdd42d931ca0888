"""Messages of every kind that a log can hold, and rows as Spark has them, made comparable."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from cordwood.record import HEADERS, TIME

BEGIN = datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)
VALUES = [b"first", None, b"", bytes(range(256)), "größer".encode(), b"x" * 100_000]
KEYS = [b"k", None, b"", b"\xff\x00", b"k2", b"k3"]
HEADER_LISTS = [
    [("a", b"1"), ("a", b"2")],
    None,
    [],
    [("", b""), ("ß", bytes(range(256)))],
    [("null", None)],
    None,
]


def odd(partition: int | None = None) -> Any:
    """Return a table of odd messages."""
    times = [BEGIN + timedelta(microseconds=number) for number in range(len(VALUES))]
    columns = {
        "value": pa.array(VALUES, pa.binary()),
        "key": pa.array(KEYS, pa.binary()),
        "headers": pa.array(HEADER_LISTS, HEADERS),
        "timestamp": pa.array(times, TIME),
    }
    if partition is not None:
        columns["partition"] = pa.array([partition] * len(VALUES), pa.int32())
    return pa.table(columns)


def numbered(count: int, first: int = 0, **columns: Any) -> Any:
    """Return a table of messages that are numbers, with one key for each ten."""
    numbers = range(first, first + count)
    values = pa.array([b"%d" % number for number in numbers], pa.binary())
    keys = pa.array([b"key-%d" % (number // 10) for number in numbers], pa.binary())
    return pa.table({"value": values, "key": keys, **columns})


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a DataFrame, in the order of partitions and offsets, as plain values."""
    found = [tuple(map(_plain, row)) for row in frame.collect()]
    return sorted(found, key=lambda row: row[:3])


def expected(client: Any, topic: str) -> list[tuple[Any, ...]]:
    """Return what the client reads of a topic, in the same shape, headers included."""
    found = []
    for batch in client.read_batches(topic):
        for row in batch.to_pylist():
            headers = None if row["headers"] is None else [(name, value) for name, value in row["headers"]]
            key, value = row["key"], row["value"]
            found.append((topic, row["partition"], row["offset"], row["timestamp"], key, value, headers))
    return sorted(found, key=lambda row: row[:3])


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, list):
        return [(one["key"], _plain(one["value"])) for one in value]
    return value
