"""Streaming queries: every message once, through restarts, limits, new topics and lost ones."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.real.served import until
from tests.spark.conftest import Kept
from tests.spark.messages import numbered


class Table:
    """A Parquet table that a query appends to, with a checkpoint beside it."""

    def __init__(self, spark: Any, path: Path):
        self._spark = spark
        self._rows = str(path / "rows")
        self.checkpoint = path / "checkpoint"

    def begin(self, frame: Any, **trigger: Any) -> Any:
        writer = frame.writeStream.format("parquet").option("path", self._rows)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def fill(self, frame: Any) -> list[int]:
        """Take all there is now, and return how many rows each batch had."""
        query = self.begin(frame, availableNow=True)
        assert query.awaitTermination(100)
        return [progress["numInputRows"] for progress in query.recentProgress]

    def places(self) -> Counter[tuple[str, int, int]]:
        found = self._spark.read.parquet(self._rows).select("topic", "partition", "offset").collect()
        return Counter(map(tuple, found))


@pytest.fixture
def rows(spark: Any, tmp_path: Path) -> Table:
    return Table(spark, tmp_path)


def places(kept: Kept, *topics: str) -> Counter[tuple[str, int, int]]:
    """Return every message that there is, once."""
    return Counter(
        (topic, message.partition, message.offset) for topic in topics for message in kept.client.read(topic)
    )


def test_available_now_takes_what_is_there_within_the_limit_and_goes_on_later(
    spark: Any, kept: Kept, rows: Table
) -> None:
    topic = kept.topic("stream/limited", 3)
    kept.send(topic, numbered(1_000))
    options = {"subscribe": topic, "startingOffsets": "earliest", "readerId": "limited"}
    assert rows.fill(kept.stream(spark, maxOffsetsPerTrigger="400", **options)) == [400, 400, 200]
    assert rows.places() == places(kept, topic)
    reader = kept.client.reader(topic, "limited")
    assert reader["lag"] == 0
    kept.tiered(topic)
    kept.send(topic, numbered(300, 1_000))
    assert kept.client.reader(topic, "limited")["lag"] == 300
    half = sum(one["bytes"] for one in kept.client.topic(topic)["partitions"]) // 10
    sizes = rows.fill(kept.stream(spark, maxBytesPerTrigger=str(half), **options))
    assert sum(sizes) == 300
    assert len(sizes) >= 2
    assert rows.places() == places(kept, topic)


def test_the_last_batch_is_read_again_when_its_commit_is_lost(spark: Any, kept: Kept, tmp_path: Path) -> None:
    topic = kept.topic("stream/again", 2)
    kept.send(topic, numbered(500))
    batches: list[tuple[int, Counter[tuple[Any, ...]]]] = []

    def keep(frame: Any, batch: int) -> None:
        batches.append((batch, Counter(map(tuple, frame.select("topic", "partition", "offset").collect()))))

    def run() -> None:
        frame = kept.stream(spark, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="300")
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(100)

    run()
    forget_last_commit(tmp_path / "checkpoint")
    kept.tiered(topic)  # the same messages, in another place
    kept.send(topic, numbered(100, 500))
    run()
    assert [(batch, found.total()) for batch, found in batches] == [(0, 300), (1, 200), (1, 200), (2, 100)]
    assert batches[1] == batches[2]
    assert batches[0][1] + batches[1][1] + batches[3][1] == places(kept, topic)


def forget_last_commit(checkpoint: Path) -> None:
    commits = checkpoint / "commits"
    last = max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


def test_a_running_query_finds_new_topics_and_says_how_far_behind_it_is(spark: Any, kept: Kept, rows: Table) -> None:
    first = kept.topic("found/1", 2)
    kept.send(first, numbered(100))
    query = rows.begin(kept.stream(spark, subscribePattern="found/.*", startingOffsets="earliest"))
    try:
        until(lambda: query.lastProgress and query.lastProgress["sources"][0]["endOffset"], "it runs")
        second = kept.topic("found/2", 2)
        kept.send(second, numbered(50))
        wanted = places(kept, first, second)

        def there() -> bool:
            said = json.loads(query.lastProgress["sources"][0]["endOffset"])
            return "found/2" in said and sum(v for k, v in said["found/2"].items() if k != "id") == 50

        until(there, "the new topic is read")
        query.processAllAvailable()
        latest = json.loads(query.lastProgress["sources"][0]["latestOffset"])
        assert set(latest) == {first, second}
    finally:
        query.stop()
    assert rows.places() == wanted


def test_a_new_query_begins_at_the_latest(spark: Any, kept: Kept, rows: Table) -> None:
    topic = kept.topic("stream/latest")
    kept.send(topic, numbered(10))
    assert rows.fill(kept.stream(spark, subscribe=topic)) in ([], [0])
    kept.send(topic, numbered(5, 10))
    assert rows.fill(kept.stream(spark, subscribe=topic)) == [5]
    assert min(rows.places()) == (topic, 0, 10)


def test_a_topic_made_anew_fails_the_query_unless_data_may_be_lost(spark: Any, kept: Kept, rows: Table) -> None:
    from pyspark.errors import StreamingQueryException

    topic = kept.topic("stream/anew")
    kept.send(topic, numbered(10))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    assert rows.fill(kept.stream(spark, **options)) == [10]
    kept.client.delete_topic(topic)
    kept.topic("stream/anew")
    kept.send(topic, numbered(20))
    with pytest.raises(
        StreamingQueryException, match=r"data loss: .*stream/anew/0: the topic was deleted and made again"
    ):
        rows.fill(kept.stream(spark, **options))
    assert sum(rows.fill(kept.stream(spark, failOnDataLoss="false", **options))) == 20
    assert rows.places() == Counter({(topic, 0, n): 2 if n < 10 else 1 for n in range(20)})


def test_an_end_is_refused(spark: Any, kept: Kept, rows: Table) -> None:
    from pyspark.errors import StreamingQueryException

    topic = kept.topic("stream/end")
    with pytest.raises(StreamingQueryException, match="a stream has no end"):
        rows.fill(kept.stream(spark, subscribe=topic, endingOffsets="latest"))
