"""A table that `land` fills, looked at as its readers do."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from cordwood.record import TIME
from tests.spark.conftest import Kept

DDL = "id BIGINT NOT NULL, name STRING"
DAY = datetime(2024, 2, 28, 12, tzinfo=UTC)


def events(numbers: Iterable[int], partitions: int = 1, days: int = 1, **fields: Any) -> Any:
    """Return messages of JSON, in turn for each partition and each day."""
    numbers = list(numbers)
    values = [json.dumps({"id": number, "name": f"n{number}", **fields}).encode() for number in numbers]
    times = [DAY + timedelta(days=number % days) for number in numbers]
    return pa.table(
        {
            "value": pa.array(values, pa.binary()),
            "partition": pa.array([number % partitions for number in numbers], pa.int32()),
            "timestamp": pa.array(times, TIME),
        }
    )


def texts(*values: bytes | None) -> Any:
    """Return messages with these values, in partition 0."""
    return pa.table(
        {"value": pa.array(values, pa.binary()), "partition": pa.array([0] * len(values), pa.int32())},
    )


class Lake:
    """A table, and the directories beside it."""

    def __init__(self, path: Path, name: str = "table"):
        self.table = path / name
        self.rejected = path / f"{name}_rejected"
        self.landing = path / f"{name}_landing"
        self.checkpoint = path / f"{name}_checkpoint"

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, as a reader that knows nothing of us sees them."""
        return _rows(self.table)

    def misfits(self) -> list[dict[str, Any]]:
        return _rows(self.rejected)

    def files(self, table: Path | None = None) -> list[Path]:
        """Return every file, hidden ones too."""
        return sorted(one for one in (table or self.table).rglob("*") if one.is_file())

    def places(self) -> Counter[tuple[int, int]]:
        """Return how often each message is there, fitting or not."""
        return Counter((one["partition"], one["offset"]) for one in [*self.rows(), *self.misfits()])


def _rows(table: Path) -> list[dict[str, Any]]:
    if not table.exists():
        return []
    found = ds.dataset(table, format="parquet", partitioning="hive").to_table().to_pylist()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def everything(kept: Kept, topic: str) -> Counter[tuple[int, int]]:
    """Return every message that there is, once."""
    return Counter((message.partition, message.offset) for message in kept.client.read(topic))
