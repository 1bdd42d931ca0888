"""Messages as Arrow rows, and back."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cordwood.drills.broker_model.facts import Message
from cordwood.record import HEADERS, TIME, Batch, Records, assemble, times_us
from cordwood.wire.run import Run


def records_of(wanted: Sequence[tuple[int | None, Message]], sequences: Sequence[int] | None = None) -> Records:
    """Return messages, each with the partition that is asked for, and its number if it has one, as a request does."""
    messages = [message for _, message in wanted]
    columns: dict[str, Any] = {
        "timestamp": pa.array([message.timestamp * 1000 for message in messages], TIME),
        "value": pa.array([message.value for message in messages], pa.binary()),
    }
    if any(message.key is not None for message in messages):
        columns["key"] = pa.array([message.key for message in messages], pa.binary())
    if any(message.headers for message in messages):
        columns["headers"] = pa.array([list(message.headers) or None for message in messages], HEADERS)
    for name in ("deliver_at", "expires_at"):
        times = [getattr(message, name) for message in messages]
        if any(time is not None for time in times):
            columns[name] = pa.array([None if time is None else time * 1000 for time in times], TIME)
    asked = [partition for partition, _ in wanted]
    partitions: Any = pa.array(asked, pa.int32()) if any(partition is not None for partition in asked) else None
    if partitions is not None and len(set(asked)) == 1:
        partitions = asked[0]  # one for all
    return Records(assemble(columns), partitions, sequences=None if sequences is None else np.array(sequences))


def messages_of(batch: Batch) -> list[Message]:
    """Return the rows of a batch."""
    names = batch.schema.names
    rows = batch.num_rows
    none: list[Any] = [None] * rows
    keys = batch.column("key").to_pylist() if "key" in names else none
    headers = batch.column("headers").to_pylist() if "headers" in names else none
    return [
        Message(value, key, tuple(had or ()), time // 1000, deliver_at, expires_at)
        for value, key, had, time, deliver_at, expires_at in zip(
            batch.column("value").to_pylist(),
            keys,
            headers,
            times_us(batch, "timestamp").tolist(),
            _times(batch, "deliver_at") if "deliver_at" in names else none,
            _times(batch, "expires_at") if "expires_at" in names else none,
            strict=True,
        )
    ]


def delivered(runs: Sequence[Run]) -> list[tuple[int, int, int, str, Message]]:
    """Return what a consumer sees: (partition, offset, attempts, last error, message)."""
    found = []
    for run in runs:
        rows = run.batch.num_rows
        attempts = [run.attempts] * rows if isinstance(run.attempts, int) else run.attempts
        errors = run.last_errors or [None] * rows
        for row, message in enumerate(messages_of(run.batch)):
            found.append((run.partition, run.first_offset + row, attempts[row], errors[row] or "", message))
    return found


def _times(batch: Batch, name: str) -> list[int | None]:
    column = batch.column(name)
    valid = column.is_valid().to_pylist()
    return [
        time // 1000 if there else None for time, there in zip(times_us(batch, name).tolist(), valid, strict=True)
    ]
