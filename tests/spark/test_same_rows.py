"""The same query gives the same rows before, during and after tiering, and before, during and after compaction."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cordwood
from cordwood.client.client import Client
from cordwood.spark import table
from cordwood.spark.pipelines.compact import compact
from tests.real.served import until
from tests.spark.conftest import Kept
from tests.spark.messages import expected, numbered, odd, rows

TOPIC, MESSAGES, PARTITIONS = "rows", 300, 2
BIG = 1 << 18  # of one message; five fill an object, which is shipped at once


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Kept]:
    """A broker that ships when there is enough for an object, and not before."""
    with cordwood.embedded(tmp_path / "data", tier_interval_s=86_400, tier_object_bytes=1 << 20) as running:
        yield Kept(running.endpoint, tmp_path / "data")


class Queries:
    """One question to the first messages of each partition, asked in every way that there is."""

    def __init__(self, spark: Any, kept: Kept, directory: Path, ends: dict[int, int]):
        self._spark = spark
        self._kept = kept
        self._directory = directory
        self._ends = ends
        self._asked = 0
        self._steady: list[Any] = []
        # Planned once, and asked again and again: the cut is that of the beginning.
        self._first = self.table()

    def table(self) -> Any:
        return table(self._spark, self._kept.endpoint, TOPIC, end=self._ends)

    def batch(self) -> Any:
        end = json.dumps({TOPIC: {str(partition): end for partition, end in self._ends.items()}})
        return self._kept.reader(self._spark, TOPIC, endingOffsets=end)

    def stream(self, checkpoint: Path, into: list[Any], **options: str) -> None:
        """Run a streaming query up to what is there now, and keep its rows."""
        frame = self._kept.stream(self._spark, subscribe=TOPIC, startingOffsets="earliest", **options)
        counts = " or ".join(f"partition = {number} and offset < {end}" for number, end in self._ends.items())
        writer = frame.where(counts).writeStream.foreachBatch(lambda found, batch: into.extend(rows(found)))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(100)

    def all(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of every query."""
        self._asked += 1
        whole: list[Any] = []
        self.stream(self._directory / f"{self._asked}", whole, maxOffsetsPerTrigger="250")
        self.stream(self._directory / "steady", self._steady)
        return {
            "table": rows(self.table()),
            "a table of the beginning": rows(self._first),
            "batch": rows(self.batch()),
            "a stream from the beginning": sorted(whole, key=lambda row: row[:3]),
            "a stream that goes on": sorted(self._steady, key=lambda row: row[:3]),
        }


def fill(kept: Kept, partition: int) -> None:
    """Send as much as an object has, and wait until all that was there before is in the tier."""
    before = kept.client.topic(TOPIC)["partitions"][partition]["end_offset"]
    values = pa.array([bytes([number]) * BIG for number in range(5)], pa.binary())
    kept.send(TOPIC, pa.table({"value": values, "partition": pa.array([partition] * 5, pa.int32())}))
    until(lambda: kept.client.topic(TOPIC)["partitions"][partition]["tiered_offset"] >= before, "it is in the tier")


def objects(kept: Kept) -> list[int]:
    """Return of how many objects each partition is."""
    spans = [span for span in kept.client.spans(TOPIC) if span["source"] == "object"]
    return [sum(span["partition"] == partition for span in spans) for partition in range(PARTITIONS)]


@pytest.mark.timeout(600)  # five queries in five states
def test_the_same_query_gives_the_same_rows_wherever_they_are(
    spark: Any, broker: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.topic(TOPIC, PARTITIONS)
    for partition in range(PARTITIONS):
        broker.send(TOPIC, numbered(MESSAGES, partition=pa.array([partition] * MESSAGES, pa.int32())))
        broker.send(TOPIC, odd(partition))
    wanted = [row[:6] for row in expected(broker.client, TOPIC)]
    ends = {one["partition"]: one["end_offset"] for one in broker.client.topic(TOPIC)["partitions"]}
    queries = Queries(spark, broker, tmp_path, ends)

    def same(when: str) -> None:
        for name, found in queries.all().items():
            assert found == wanted, f"{name}, {when}"

    assert objects(broker) == [0, 0]
    same("before tiering")
    fill(broker, 0)
    assert objects(broker)[0] > objects(broker)[1] == 0
    same("while one partition is in the tier, and the other is not")
    for partition in (0, 0, 1, 1, 1):
        fill(broker, partition)
    before = objects(broker)
    assert min(before) >= 3
    same("after tiering")
    replace, between = Client.replace, []

    def watched(self: Client, *asked: Any) -> Any:
        answer = replace(self, *asked)
        between.append(objects(broker))
        if len(between) == 1:
            same("while one partition is compacted, and the other is not")
        return answer

    monkeypatch.setattr(Client, "replace", watched)
    assert compact(spark, broker.endpoint, TOPIC).passed_over == 0
    assert between[0][0] < before[0]
    assert between[0][1] >= before[1]
    assert objects(broker)[0] < before[0]
    assert objects(broker)[1] < before[1]
    same("after compaction")
