"""What Spark planned for a batch: offsets, as they stand in its checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from json import dumps, loads
from typing import TYPE_CHECKING

from cordwood.errors import Conflict
from cordwood.spark import plan
from cordwood.spark.broker import Broker
from cordwood.spark.columns import ddl
from cordwood.spark.extent import Loss, Range
from cordwood.spark.pipelines.land_files import Files
from cordwood.spark.position import Position, between
from cordwood.spark.table import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Plan:
    """The offsets of a batch. `id` is the same whenever the same batch is planned; `bytes` are about right."""

    id: str
    ranges: Sequence[Range]
    losses: Sequence[Loss]
    messages: int
    bytes: int
    ends: dict[int, int]

    def read(self, spark: "SparkSession", source: Mapping[str, str], columns: Sequence[str]) -> "DataFrame":
        """Return the messages of the batch; those that are history by Spark's own Parquet reader, which is faster."""
        starts, ends = self._bounds()
        endpoint, topic = source["endpoint"], source["subscribe"]
        shown = {"token": source.get("token"), "ca": source.get("ca")}
        return table(spark, endpoint, topic, columns=columns, start=starts, end=ends, **shown)

    def read_by_source(self, spark: "SparkSession", source: Mapping[str, str], columns: Sequence[str]) -> "DataFrame":
        """Return the same by our source, which executors can use that do not see the history's directory."""
        topic = source["subscribe"]
        reader = spark.read.format("cordwood").schema(ddl(columns)).option("columns", ",".join(columns))
        for name, value in source.items():
            reader = reader.option(name, value)
        for name, bound in zip(("startingOffsets", "endingOffsets"), self._bounds(), strict=True):
            reader = reader.option(name, dumps({topic: {str(number): offset for number, offset in bound.items()}}))
        return reader.load()

    def _bounds(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return where each partition's messages begin and end; at the same place where it has none."""
        starts = dict(self.ends)
        for one in reversed(self.ranges):
            starts[one.partition] = one.start
        return starts, {**starts, **{one.partition: one.end for one in self.ranges}}


def planned(files: Files, checkpoint: str, number: int, broker: Broker, topic: str) -> Plan:
    """Return what Spark planned. What it says is durable from here on: a note of the batch must not outlive it."""
    path = f"{checkpoint}/offsets/{number}"
    files.sync([path])
    files.sync_names([path], checkpoint)
    extents = broker.known([topic])
    end = _position(files, checkpoint, number)
    start = _position(files, checkpoint, number - 1) if number else None
    text = repr([sorted(one.to_json().items()) for one in (start, end) if one is not None])
    if start is None:  # it begins with the earliest, which does not stand in the checkpoint
        start = Position({one.key: one.start for one in extents}, end.ids)
    ranges, losses = between(start, end, extents)
    size = sum(span.bytes for span in plan.locate(ranges, broker.held(ranges)))
    messages = sum(one.end - one.start for one in ranges)
    return Plan(sha256(text.encode()).hexdigest(), ranges, losses, messages, size, end.of_topic(topic))


def _position(files: Files, checkpoint: str, number: int) -> Position:
    data = files.read(f"{checkpoint}/offsets/{number}")
    if data is None:
        raise Conflict(
            f"{checkpoint}/offsets/{number} is gone: the checkpoint was changed by hand; land somewhere else"
        )
    return Position.from_json(loads(data.decode().strip().splitlines()[-1]))
