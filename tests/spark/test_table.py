"""A whole topic as one DataFrame: native Parquet for history, our source for the rest."""

import json
import sys
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from cordwood.errors import Refused
from cordwood.spark import store, table
from cordwood.spark.plan import Span
from cordwood.spark.table import Piece, layers, part
from cordwood.tier.descriptor import Descriptor, parse
from tests.spark.conftest import Kept
from tests.spark.messages import expected, numbered, rows


def name(first: int, end: int, partition: int = 0, epoch: int = 1) -> str:
    return Descriptor("t", "a1", partition, first, end, epoch, 0, end - first, 7).name


def span(start: int, end: int, object_: str | None = None, partition: int = 0) -> Span:
    return Span("t", "a1", partition, start, end, 0, object_)


def piece(object_: str, start: int, end: int) -> Piece:
    descriptor = parse(object_)
    assert descriptor is not None
    return Piece(descriptor, start, end)


def test_history_ends_where_a_partition_is_hot() -> None:
    first, second, third, other = name(0, 10), name(10, 20), name(30, 40), name(0, 9, 1)
    spans = [
        span(0, 10, first),
        span(10, 15, second),
        span(15, 20, second),
        span(20, 30),
        span(30, 40, third),
        span(0, 9, other, 1),
    ]
    history, hot = part(spans)
    assert history == [piece(first, 0, 10), piece(second, 10, 20), piece(other, 0, 9)]
    assert hot == spans[3:5]


def test_whole_objects_need_no_filter_and_parts_share_one_where_they_do_not_mix() -> None:
    low, whole, high, other = name(0, 10), name(10, 20), name(20, 30), name(0, 30, 1)
    pieces = [piece(low, 4, 10), piece(whole, 10, 20), piece(high, 20, 22), piece(other, 5, 6)]
    assert layers(pieces) == [[pieces[1]], [pieces[0], pieces[2], pieces[3]]]
    # After a change of owner an object may reach into the next one; then their filters must not meet.
    old, new = piece(name(0, 20), 0, 10), piece(name(10, 30, epoch=2), 10, 25)
    assert layers([old, new]) == [[old], [new]]
    assert layers([]) == []


def plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.fixture(scope="module")
def history(kept: Kept) -> str:
    """Two partitions in the tier, a second between messages, from 1,000 s on; its name has a slash."""
    topic = kept.topic("shop/orders", 2)
    for partition in (0, 1):
        times = pa.array([1_000_000 + 1_000 * n for n in range(500)], pa.timestamp("ms", "UTC"))
        kept.send(topic, numbered(500, timestamp=times, partition=pa.array([partition] * 500, pa.int32())))
    kept.tiered(topic)
    return topic


def test_a_tiered_topic_is_read_natively_alone(spark: Any, kept: Kept, history: str) -> None:
    frame = table(spark, kept.endpoint, history)
    assert frame.columns == ["topic", "partition", "offset", "timestamp", "key", "value"]
    assert rows(frame) == [row[:6] for row in expected(kept.client, history)]
    shown = plan(frame)
    assert "FileScan parquet" in shown
    assert "Union" not in shown
    assert "cordwood" not in shown


def test_columns_and_filters_are_pushed_down(spark: Any, kept: Kept, history: str) -> None:
    frame = table(spark, kept.endpoint, history).where("partition = 1 and offset > 100").select("key")
    assert frame.count() == 399
    shown = plan(frame)
    assert "ReadSchema: struct<offset:bigint,key:binary>" in shown
    assert "GreaterThan(offset,100)" in shown
    assert "(partition#" in shown.split("PartitionFilters")[1].split("PushedFilters")[0]


@pytest.mark.parametrize(
    ("start", "end", "counts"),
    [
        (100, 150, {0: 50, 1: 50}),
        ({0: 490}, None, {0: 10, 1: 500}),
        (None, {0: 0, 1: 5}, {1: 5}),
        (datetime.fromtimestamp(1_400, UTC), datetime.fromtimestamp(1_403.5, UTC), {0: 4, 1: 4}),
        ("earliest", "latest", {0: 500, 1: 500}),
        ("latest", None, {}),
        (0, 10_000, {0: 500, 1: 500}),
    ],
)
def test_start_and_end_clip_the_objects(
    spark: Any, kept: Kept, history: str, start: Any, end: Any, counts: dict[int, int]
) -> None:
    frame = table(spark, kept.endpoint, history, columns=["partition", "offset"], start=start, end=end)
    assert {row["partition"]: row["count"] for row in frame.groupBy("partition").count().collect()} == counts


def test_it_is_one_cut_however_late_it_is_read(spark: Any, kept: Kept) -> None:
    topic = kept.topic("cut", 2)
    kept.send(topic, numbered(100))
    kept.tiered(topic)
    kept.send(topic, numbered(50, 100))
    frame = table(spark, kept.endpoint, topic)
    wanted = [row[:6] for row in expected(kept.client, topic)]
    assert rows(frame) == wanted
    kept.send(topic, numbered(50, 150))
    kept.tiered(topic)
    assert rows(frame) == wanted
    assert len(rows(table(spark, kept.endpoint, topic))) == 200


def test_what_spark_cannot_read_our_source_does(
    spark: Any, kept: Kept, history: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys.modules["cordwood.spark.table"], "store_of", lambda config: "s3://bucket/prefix")
    store._said.clear()
    for _ in range(2):
        frame = table(spark, kept.endpoint, history)
    assert caplog.text.count("Spark cannot read s3:// by itself") == 1
    assert "FileScan" not in plan(frame)
    assert frame.count() == 1_000


def test_a_place_or_a_column_that_is_none_is_refused(kept: Kept, history: str) -> None:
    with pytest.raises(Refused, match="no column"):
        table(None, kept.endpoint, history, columns=["values"])  # type: ignore[arg-type]
    with pytest.raises(Refused, match="'yesterday' is no place"):
        table(None, kept.endpoint, history, start="yesterday")  # type: ignore[arg-type]


def test_the_offsets_of_a_table_are_those_of_our_source(spark: Any, kept: Kept, history: str) -> None:
    offsets = {history: {"0": 5, "1": 499}}
    frame = kept.reader(spark, history, startingOffsets=json.dumps(offsets))
    assert rows(frame) == rows(table(spark, kept.endpoint, history, start={0: 5, 1: 499}))
