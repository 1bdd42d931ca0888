"""What is there: read again from the broker's log, from the Parquet of its history, and from the table.

Nothing here is a counter that somebody kept on the way; and history and table are opened with pyarrow alone.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from cordwood.client.client import Client
from cordwood.demo.traffic import Order


def in_log(client: Client, topic: str) -> Counter[Order]:
    """Return how often each order stands in the log, read from its first offset."""
    found: Counter[Order] = Counter()
    for batch in client.read_batches(topic):
        _add(found, batch.column("value").to_pylist())
    return found


def in_history(tier: Path, topic: str) -> Counter[Order]:
    """Return how often each order stands in the objects of a topic's history."""
    import pyarrow.parquet as parquet

    found: Counter[Order] = Counter()
    for path in sorted((tier / "topics" / topic).glob("*/partition=*/*.parquet")):
        _add(found, parquet.ParquetFile(path).read(["value"]).column("value").to_pylist())
    return found


def in_table(table: Path) -> Counter[Order]:
    """Return how often each order stands in a table that was landed."""
    import pyarrow.parquet as parquet

    found: Counter[Order] = Counter()
    for path in sorted(table.glob("**/*.parquet")):
        rows = parquet.ParquetFile(path).read(["producer", "number"])
        found.update(zip(rows.column("producer").to_pylist(), rows.column("number").to_pylist(), strict=True))
    return found


def of_job(client: Client, topic: str) -> list[str]:
    """Return the lines that a job printed, in the order in which they stand in the log."""
    return [str(message.text) for message in client.read(topic) if message.header("stream") == b"stdout"]


def not_in_history(client: Client, topic: str) -> int:
    """Return how many messages of a topic are not yet in its history."""
    partitions: list[dict[str, Any]] = client.topic(topic)["partitions"]
    return sum(found["end_offset"] - max(found["tiered_offset"], found["start_offset"]) for found in partitions)


def _add(found: Counter[Order], values: list[bytes]) -> None:
    orders = json.loads(b"[" + b",".join(values) + b"]")
    found.update((order["producer"], order["number"]) for order in orders)
