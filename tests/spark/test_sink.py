"""The sinks: all or nothing for a batch, exactly once for a stream."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cordwood.errors import Conflict, Refused, Unavailable
from tests.spark.conftest import Kept
from tests.spark.messages import expected, numbered, odd
from tests.spark.test_stream import forget_last_commit

sink = pytest.importorskip("cordwood.spark.sink", reason="needs pyspark")
options_of = pytest.importorskip("cordwood.spark.options")

# With Spark


def write(kept: Kept, frame: Any, **options: str) -> None:
    writer = frame.write.format("cordwood").option("endpoint", kept.endpoint).mode("append")
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save()


def test_a_topic_is_copied_as_it_is(spark: Any, hot: Kept) -> None:
    source, copy = hot.topic("sink/source", 2), hot.topic("sink/copy", 2)
    for partition in (0, 1):
        hot.send(source, odd(partition))
    write(hot, hot.reader(spark, source, includeHeaders="true", minPartitions="3"), topic=copy)
    assert [row[1:] for row in expected(hot.client, copy)] == [row[1:] for row in expected(hot.client, source)]


def test_rows_say_their_topic_and_keys_their_partition(spark: Any, hot: Kept) -> None:
    one, other = hot.topic("sink/one", 3), hot.topic("sink/other")
    frame = spark.createDataFrame(
        [(one, "user:1", "a"), (other, None, "b"), (one, "user:2", None), (one, "order-123", "c")],
        "topic string, key string, value string",
    )
    write(hot, frame)
    found = {(row[0], row[1], row[4], row[5]) for row in expected(hot.client, one) + expected(hot.client, other)}
    assert found == {
        (one, 1, b"user:1", b"a"),
        (one, 0, b"user:2", None),
        (one, 1, b"order-123", b"c"),
        (other, 0, None, b"b"),
    }


def fails_at_first(batches: Iterator[Any]) -> Iterator[Any]:
    """Pass the rows on; the first attempt of each task fails after the last of them."""
    from pyspark import TaskContext

    yield from batches
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise RuntimeError("the first attempt fails")


def fails(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches
    raise RuntimeError("it fails")


def test_a_task_that_runs_again_writes_its_rows_once(spark: Any, hot: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = hot.topic("sink/again")
    frame = spark.range(1_000).selectExpr("cast(id as string) value").repartition(2)
    write(hot, frame.mapInArrow(fails_at_first, "value string"), topic=topic)
    assert sorted(map(int, hot.values(topic))) == list(range(1_000))


def test_a_write_that_fails_leaves_nothing(spark: Any, hot: Kept) -> None:
    from pyspark.errors import PySparkException

    topic = hot.topic("sink/nothing")
    frame = spark.range(100).selectExpr("cast(id as string) value")
    with pytest.raises(PySparkException, match="it fails"):
        write(hot, frame.union(frame.mapInArrow(fails, "value string")), topic=topic)
    assert hot.values(topic) == []


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("'a' as key", {"topic": "sink/errors"}, "needs a column 'value'"),
        ("1 as value", {"topic": "sink/errors"}, r"column 'value' is int, not binary or string; to_json\(struct"),
        ("'a' as value, 1 as user", {"topic": "sink/errors"}, "takes no column 'user'. Known are: value, key"),
        ("'a' as value", {}, "Give the option 'topic', or a column"),
        ("'a' as value", {"topic": "nowhere"}, "no topic 'nowhere'"),
        ("'a' as value", {"topic": "sink/errors", "topik": "x"}, "unknown option 'topik' .did you mean 'topic'"),
        ("'a' as value, null as topic", {}, "column 'topic' is void, not string"),
        ("'a' as value, cast(null as string) as topic", {}, "a row has no topic"),
    ],
)
def test_rows_that_are_no_messages_are_refused(
    spark: Any, hot: Kept, columns: str, options: dict[str, str], said: str
) -> None:
    from pyspark.errors import PySparkException

    hot.topic("sink/errors")
    with pytest.raises(PySparkException, match=said):
        write(hot, spark.sql(f"select {columns}"), **options)
    assert hot.values("sink/errors") == []


def test_a_log_is_not_overwritten(spark: Any, hot: Kept) -> None:
    from pyspark.errors import PySparkException

    hot.topic("sink/errors")
    frame = spark.sql("select 'a' as value").write.format("cordwood").option("endpoint", hot.endpoint)
    with pytest.raises(PySparkException, match="appended to, never overwritten"):
        frame.option("topic", "sink/errors").mode("overwrite").save()


def test_a_stream_is_written_exactly_once_though_its_last_commit_is_lost(
    spark: Any, kept: Kept, tmp_path: Path
) -> None:
    source, target = kept.topic("once/source", 3), kept.topic("once/target", 2)
    checkpoint = tmp_path / "checkpoint"

    def run() -> list[int]:
        frame = kept.stream(spark, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="400")
        frame = frame.selectExpr("concat(partition, ':', offset) as value", "key").mapInArrow(
            fails_at_first, "value string, key binary"
        )
        query = kept.sink(frame, target, checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(100)
        return [progress["numInputRows"] for progress in query.recentProgress]

    kept.send(source, numbered(1_000))
    assert run() == [400, 400, 200]
    forget_last_commit(checkpoint)
    kept.send(source, numbered(100, 1_000))
    assert run() == [200, 100]
    wanted = Counter(f"{message.partition}:{message.offset}".encode() for message in kept.client.read(source))
    assert Counter(kept.values(target)) == wanted
    assert set(wanted.values()) == {1}


# Without Spark: what only happens when something dies in the wrong moment


class Query:
    """A streaming query as the sink sees it: tasks that write, a driver that commits."""

    def __init__(self, kept: Kept, topic: str, monkeypatch: pytest.MonkeyPatch, **options: str):
        given = {"endpoint": kept.endpoint, "topic": topic, **options}
        self._patch = monkeypatch
        self.writer = sink.StreamWriter(options_of.write_options(given))

    def write(self, batch: int, task: int, *values: bytes, query: str = "q-1") -> Any:
        properties = {sink.QUERY_ID: query, sink.BATCH_ID: str(batch)}
        self._patch.setattr(sink, "_property", properties.get)
        self._patch.setattr(sink, "_task", lambda: task)
        return self.writer.write(iter([pa.record_batch({"value": pa.array(values, pa.binary())})]))


def test_only_the_attempts_that_spark_chose_are_seen(hot: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(hot, hot.topic("sink/chosen"), monkeypatch)
    query.write(0, 0, b"speculative")
    chosen = [query.write(0, 0, b"a"), query.write(0, 1, b"b"), query.write(0, 2)]
    query.write(0, 1, b"late")
    query.writer.commit([*chosen, None], 0)
    assert hot.values("sink/chosen") == [b"a", b"b"]


def test_a_run_that_died_half_way_adds_nothing_to_the_next(hot: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(hot, hot.topic("sink/half"), monkeypatch, writerId="half")
    query.write(0, 0, b"of the dead run", b"in another order")
    again = Query(hot, "sink/half", monkeypatch, writerId="half")
    again.writer.commit([again.write(0, 0, b"in another order", b"of the dead run")], 0)
    assert hot.values("sink/half") == [b"in another order", b"of the dead run"]


def test_a_publish_whose_answer_was_lost_is_not_undone_and_not_repeated(
    hot: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(hot, hot.topic("sink/lost-answer"), monkeypatch, writerId="lost")
    messages = [query.write(0, 0, b"once")]
    publish = sink.Client.publish

    def deaf(self: Any, *args: Any) -> Any:
        publish(self, *args)
        raise Unavailable("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(sink.Client, "publish", deaf)
        with pytest.raises(Unavailable):
            query.writer.commit(messages, 0)
    query.writer.abort(messages, 0)  # as Spark does
    assert hot.values("sink/lost-answer") == [b"once"]
    again = query.write(0, 0, b"once")  # the query is started again
    assert again.over
    query.writer.commit([again], 0)
    query.writer.commit([query.write(1, 0, b"then")], 1)
    assert hot.values("sink/lost-answer") == [b"once", b"then"]


def test_an_aborted_batch_comes_again_and_is_not_lost(hot: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(hot, hot.topic("sink/aborted"), monkeypatch, writerId="aborted")
    query.writer.abort([query.write(0, 0, b"a"), None], 0)
    assert hot.values("sink/aborted") == []
    query.writer.commit([query.write(0, 0, b"a")], 0)
    assert hot.values("sink/aborted") == [b"a"]


def test_a_zombie_and_a_new_checkpoint_under_an_old_name_are_refused(
    hot: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(hot, hot.topic("sink/zombie"), monkeypatch, writerId="zombie")
    late = query.write(0, 0, b"zombie")
    for batch in (0, 1):
        query.writer.commit([query.write(batch, 0, b"%d" % batch)], batch)
    with pytest.raises(Conflict, match="new checkpoint counts from 0 again"):
        query.write(0, 0, b"zombie")
    with pytest.raises(Conflict):
        query.writer.commit([late], 0)
    assert hot.values("sink/zombie") == [b"0", b"1"]


def test_without_sparks_id_of_the_query_a_writer_id_is_needed(hot: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(hot, hot.topic("sink/id"), monkeypatch)
    with pytest.raises(Refused, match="writerId"):
        query.write(0, 0, b"a", query=None)  # type: ignore[arg-type]
    monkeypatch.setattr(sink, "_property", lambda name: None)
    with pytest.raises(Refused, match="number of the batch"):
        query.writer.write(iter([]))


def test_a_batch_write_is_dropped_by_abort_unless_it_was_published(hot: Kept) -> None:
    topic = hot.topic("sink/batch-abort")
    given = options_of.write_options({"endpoint": hot.endpoint, "topic": topic})
    rows = pa.record_batch({"value": pa.array([b"a"], pa.binary())})
    dropped = sink.BatchWriter(given)
    message = dropped.write(iter([rows]))
    dropped.abort([message])
    dropped.commit([message])  # a publish that was on its way is too late: all or nothing
    assert hot.values(topic) == []
    kept = sink.BatchWriter(given)
    message = kept.write(iter([rows]))
    kept.commit([message])
    kept.abort([message])
    assert hot.values(topic) == [b"a"]


def test_large_rows_are_staged_in_pieces(hot: Kept) -> None:
    topic = hot.topic("sink/large")
    given = options_of.write_options({"endpoint": hot.endpoint, "topic": topic})
    writer = sink.BatchWriter(given)
    big = pa.record_batch({"value": pa.array([bytes(3 << 20)] * 7, pa.binary())})
    many = pa.record_batch({"value": pa.array([b"x"] * 120_000, pa.binary())})
    message = writer.write(iter([big, many]))
    assert message.parts >= 5
    writer.commit([message])
    assert Counter(map(len, hot.values(topic))) == {3 << 20: 7, 1: 120_000}
