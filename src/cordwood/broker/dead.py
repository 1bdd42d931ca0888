"""Dead letters: a message as it was, with headers that say where it comes from and why it was given up; and back."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cordwood.broker.tries import Try
from cordwood.record import HEADERS, Batch, assemble, concat, summary

PREFIX = "cordwood-"


def dead_letters(
    topic: str, partition: int, group: str, rows: Sequence[tuple[int, Batch, Try]]
) -> tuple[Batch, int, int]:
    """Return the payload of dead letters, its bytes and its latest timestamp, for (first offset, messages, fate)."""
    parts = []
    for first, batch, found in rows:
        known = batch.column("headers").to_pylist() if "headers" in batch.schema.names else [None] * batch.num_rows
        headers = [
            [
                *(had or ()),
                (f"{PREFIX}topic", topic.encode()),
                (f"{PREFIX}partition", b"%d" % partition),
                (f"{PREFIX}offset", b"%d" % (first + row)),
                (f"{PREFIX}group", group.encode()),
                (f"{PREFIX}attempts", b"%d" % found.attempts),
                (f"{PREFIX}error", found.error.encode()),
            ]
            for row, had in enumerate(known)
        ]
        parts.append(_with_headers(batch, headers))
    payload = concat(parts)
    return payload, *summary(payload)


def origin(headers: Sequence[tuple[str, bytes]] | None) -> tuple[str, str, int] | None:
    """Return topic, group and partition that a dead letter came from, None if it is no dead letter."""
    found = {name: value for name, value in headers or () if name.startswith(PREFIX)}  # the last of a name: ours
    try:
        return (
            found[f"{PREFIX}topic"].decode(),
            found[f"{PREFIX}group"].decode(),
            int(found[f"{PREFIX}partition"]),
        )
    except (KeyError, ValueError, AttributeError):
        return None


def revived(batch: Batch) -> Batch:
    """Return dead letters as the messages that they were, without the headers that were added."""
    headers = [
        [(name, value) for name, value in had or () if not name.startswith(PREFIX)]
        for had in batch.column("headers").to_pylist()
    ]
    return _with_headers(batch, [had or None for had in headers])


def _with_headers(batch: Batch, headers: Sequence[Any]) -> Batch:
    columns = {name: batch.column(name) for name in ("timestamp", "key", "value") if name in batch.schema.names}
    columns["headers"] = pa.array(headers, HEADERS)
    return assemble(columns)
