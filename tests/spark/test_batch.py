"""Batch queries: the rows are the messages, wherever they are, and options mean what Kafka's do."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.spark import table
from tests.real.served import until
from tests.spark.conftest import Kept
from tests.spark.messages import expected, numbered, odd, rows

HEADERS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def test_the_same_rows_come_before_during_and_after_tiering(spark: Any, kept: Kept, hot: Kept) -> None:
    def check(broker: Kept, sources: set[str]) -> None:
        assert {span["source"] for span in broker.client.spans("a/rows")} == sources
        wanted = expected(broker.client, "a/rows")
        assert next(row[2] for row in wanted if row[1] == 1) == 0
        assert rows(broker.reader(spark, "a/rows", includeHeaders="true")) == wanted
        assert rows(table(spark, broker.endpoint, "a/rows", columns=HEADERS)) == wanted

    for broker in (hot, kept):
        broker.topic("a/rows", 3)
        for partition in (0, 1):
            broker.send("a/rows", odd(partition))
    check(hot, {"broker"})
    hot.send("a/rows", pa.table({"value": [b"%d" % n + bytes(5_000) for n in range(300)], "partition": [1] * 300}))
    until(lambda: hot.client.topic("a/rows")["partitions"][1]["tiered_offset"] > 0, "some are tiered")
    hot.send("a/rows", odd(1))
    check(hot, {"broker", "object"})
    kept.tiered("a/rows")
    check(kept, {"object"})


@pytest.fixture(scope="module")
def numbers(hot: Kept) -> str:
    """A topic with three partitions of 100, 200 and 0 messages, a second apart, from 1,000 s on."""
    name = hot.topic("numbers", 3)
    for partition, count in ((0, 100), (1, 200)):
        times = pa.array([1_000_000 + 1_000 * n for n in range(count)], pa.timestamp("ms", "UTC"))
        hot.send(name, numbered(count, timestamp=times, partition=pa.array([partition] * count, pa.int32())))
    return name


def spread(frame: Any) -> dict[int, tuple[int, int, int]]:
    """Return how many rows each partition has, the first offset and the last."""
    found = frame.groupBy("partition").agg(*_aggregates()).collect()
    return {row["partition"]: (row["count"], row["first"], row["last"]) for row in found}


def _aggregates() -> list[Any]:
    from pyspark.sql import functions as F

    return [F.count("*").alias("count"), F.min("offset").alias("first"), F.max("offset").alias("last")]


def test_offsets_and_times_bound_what_is_read(spark: Any, hot: Kept, numbers: str) -> None:
    start = json.dumps({numbers: {"0": 23, "1": -2, "2": -2}})
    end = json.dumps({numbers: {"0": -1, "1": 7, "2": -1}})
    assert spread(hot.reader(spark, numbers, startingOffsets=start, endingOffsets=end)) == {
        0: (77, 23, 99),
        1: (7, 0, 6),
    }
    options = {"startingTimestamp": "1050000", "startingOffsetsByTimestampStrategy": "latest"}
    timed = hot.reader(spark, numbers, endingTimestamp="1060500", **options)
    assert spread(timed) == {0: (11, 50, 60), 1: (11, 50, 60)}


def test_partitions_are_assigned_and_topics_found_by_a_pattern(spark: Any, hot: Kept, numbers: str) -> None:
    reader = spark.read.format("cordwood").option("endpoint", hot.endpoint)
    assert reader.option("assign", json.dumps({numbers: [1]})).load().count() == 200
    reader = spark.read.format("cordwood").option("endpoint", hot.endpoint)
    found = reader.option("subscribePattern", "num.*rs|nothing").load()
    assert {(row["topic"], row["count"]) for row in found.groupBy("topic").count().collect()} == {(numbers, 300)}


def test_tasks_are_as_many_as_asked_for(spark: Any, hot: Kept, numbers: str) -> None:
    assert hot.reader(spark, numbers).rdd.getNumPartitions() == 1
    assert hot.reader(spark, numbers, minPartitions="5").rdd.getNumPartitions() == 5
    some = hot.reader(spark, numbers, maxRecordsPerPartition="40").rdd.mapPartitions(lambda part: [len(list(part))])
    assert sum(some.collect()) == 300
    assert max(some.collect()) <= 40


def test_columns_are_pruned_by_option_and_by_schema(spark: Any, hot: Kept, numbers: str) -> None:
    assert hot.reader(spark, numbers, columns="value,offset").columns == ["value", "offset"]
    frame = (
        spark.read.format("cordwood")
        .schema("offset bigint not null, key binary")
        .option("endpoint", hot.endpoint)
        .option("subscribe", numbers)
        .load()
    )
    assert rows(frame.where("offset = 5"))[0] == (5, b"key-0")


def test_filters_are_taken_where_spark_tells_them(spark: Any, hot: Kept, numbers: str) -> None:
    where = "partition in (0, 1) and offset >= 10 and offset < 60 and timestamp >= timestamp'1970-01-01 00:17:30'"
    wanted = rows(hot.reader(spark, numbers).where(where))
    assert len(wanted) == 2 * 10
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = hot.reader(spark, numbers, maxRecordsPerPartition="5").where(where)
        assert rows(frame) == wanted
        assert frame.rdd.getNumPartitions() == 4  # only tasks for what is left
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"startingOffset": "earliest"},
            "unknown option 'startingoffset' (did you mean 'startingOffsets'?). Known are:",
        ),
        ({"subscribe": "nothing"}, "there is no topic 'nothing'"),
        ({"endpoint": "http://127.0.0.1:1"}, "http://127.0.0.1:1, from "),
        ({"startingTimestamp": "1150000"}, "no message of numbers/0 is as late as the starting time"),
        ({"endingOffsets": '{"numbers":{"0":1}}'}, "lacks partition 1"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    spark: Any, hot: Kept, numbers: str, options: dict[str, str], said: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as failed:
        hot.reader(spark, numbers, **options).count()
    assert any(said in line for line in str(failed.value).splitlines())


def test_offsets_that_are_not_there_fail_the_query_unless_they_may_be_missing(spark: Any, kept: Kept) -> None:
    from pyspark.errors import PySparkException

    topic = kept.topic("expiring")
    old = pa.array([1_000] * 50, pa.timestamp("ms", "UTC"))
    kept.send(topic, numbered(50, timestamp=old))
    kept.send(topic, numbered(10, 50))
    kept.client.set_topic(topic, retention_ms=3_600_000)
    until(lambda: kept.client.topic(topic)["partitions"][0]["start_offset"] == 50, "the old ones expire")
    options = {"startingOffsets": '{"expiring":{"0":20}}', "endingOffsets": '{"expiring":{"0":70}}'}
    with pytest.raises(PySparkException, match="data loss: offsets 20 to 50 of expiring/0: retention took them"):
        kept.reader(spark, topic, **options).count()
    assert spread(kept.reader(spark, topic, failOnDataLoss="false", **options)) == {0: (10, 50, 59)}
    assert kept.reader(spark, topic).count() == 10  # from the earliest that is there


@given(st.lists(st.tuples(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=8)), max_size=20))
@settings(max_examples=3)
def test_any_bytes_come_through(spark: Any, hot: Kept, messages: list[tuple[bytes | None, bytes | None]]) -> None:
    topic = hot.topic(f"any-{len(hot.client.topics())}", 2)
    if messages:
        keys, values = zip(*messages, strict=True)
        hot.send(topic, pa.table({"value": pa.array(values, pa.binary()), "key": pa.array(keys, pa.binary())}))
    assert [row[:6] for row in expected(hot.client, topic)] == rows(hot.reader(spark, topic))
