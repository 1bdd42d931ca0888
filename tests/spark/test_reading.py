"""What an executor reads, from where, and what it does when something is gone. No Spark."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from cordwood.spark import filters, plan, store
from cordwood.spark.broker import Broker
from cordwood.spark.columns import COLUMNS, SPARK_TYPES, arrow_schema
from cordwood.spark.extent import DataLost, cut
from cordwood.spark.filters import Wanted
from cordwood.spark.plan import Span
from cordwood.spark.read import SMALL_ROWS, TaskReader, joined
from tests.spark.conftest import Kept
from tests.spark.messages import BEGIN, expected, numbered, odd

SCHEMA = arrow_schema([(name, SPARK_TYPES[name], True) for name in COLUMNS])


class Deaf:
    """A broker that sends no messages."""

    def __init__(self) -> None:
        self.client = self

    def topic(self, name: str) -> Any:
        raise AssertionError("nobody is asked")

    read_batches = topic


@pytest.fixture
def broker(kept: Kept) -> Iterator[Broker]:
    with Broker(kept.endpoint, None, 2) as found:
        yield found


def spans(broker: Broker, topic: str) -> list[Span]:
    extents = broker.topic(topic)
    ranges, _ = cut(extents, {one.key: one.start for one in extents}, {one.key: one.end for one in extents})
    return plan.locate(ranges, broker.held(ranges))


def reader(broker: Any, where: str | None, want: Wanted = filters.ALL, *, fail: bool = True) -> TaskReader:
    return TaskReader(broker, where, SCHEMA, want, fail_on_data_loss=fail)


def read(reader: TaskReader, task: list[Span]) -> list[tuple[Any, ...]]:
    found = []
    for batch in reader.read(tuple(task)):
        assert batch.schema.equals(SCHEMA)
        for row in batch.to_pylist():
            if row["headers"] is not None:
                row["headers"] = [(one["key"], one["value"]) for one in row["headers"]]
            found.append(tuple(row.values()))
    return found


@pytest.fixture(scope="module")
def topic(kept: Kept) -> str:
    """A topic that is in the tier; nobody changes it."""
    name = kept.topic("read/history", 2)
    for partition in (0, 1):
        kept.send(name, odd(partition))
    kept.tiered(name)
    return name


def test_history_is_read_without_the_broker(kept: Kept, broker: Broker, topic: str) -> None:
    task = spans(broker, topic)
    assert all(span.object for span in task)
    where = store.store_of(broker.config())
    assert where == str(kept.data / "tier")
    assert read(reader(Deaf(), where), task) == expected(kept.client, topic)


def test_without_the_store_the_same_comes_through_the_broker(
    kept: Kept, broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    task = spans(broker, topic)
    assert read(reader(broker, "/nowhere/tier"), task) == expected(kept.client, topic)
    assert caplog.text.count("/nowhere/tier cannot be read on this computer") == 1
    assert read(reader(broker, None), task) == expected(kept.client, topic)


def test_an_object_that_was_swapped_since_is_asked_of_the_broker(kept: Kept, broker: Broker, topic: str) -> None:
    gone = [span._replace(object=str(span.object).replace("-0-6-", "-9-6-")) for span in spans(broker, topic)]
    assert read(reader(broker, store.store_of(broker.config())), gone) == expected(kept.client, topic)


def test_a_part_of_a_span_is_that_part(kept: Kept, broker: Broker, topic: str) -> None:
    part = [span._replace(start=2, end=5) for span in spans(broker, topic)]
    wanted = [row for row in expected(kept.client, topic) if 2 <= row[2] < 5]
    assert read(reader(Deaf(), store.store_of(broker.config())), part) == wanted
    assert read(reader(broker, None), part) == wanted


def test_what_is_gone_raises_and_never_quietly_yields_less(
    kept: Kept, broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    hot = [span._replace(object=None, end=span.end + 3) for span in spans(broker, topic)]
    with pytest.raises(DataLost, match="offsets 6 to 9 of read/history/0"):
        read(reader(broker, None), hot)
    assert read(reader(broker, None, fail=False), hot) == expected(kept.client, topic)
    assert "offsets 6 to 9 of read/history/1" in caplog.text


def test_a_topic_made_anew_is_another_topic(kept: Kept, broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    topic = kept.topic("read/anew")
    kept.send(topic, numbered(10))
    task = [span._replace(object=None) for span in spans(broker, topic)]
    kept.client.delete_topic(topic)
    with pytest.raises(DataLost, match="deleted"):
        read(reader(broker, None), task)
    kept.topic("read/anew")
    kept.send(topic, numbered(10))
    with pytest.raises(DataLost, match="made again"):
        read(reader(broker, None), task)
    assert read(reader(broker, None, fail=False), task) == []
    assert "offsets 0 to 10" in caplog.text


def test_times_that_nobody_wants_are_passed_over_in_both_places(kept: Kept, broker: Broker, topic: str) -> None:
    task = spans(broker, topic)
    us = int(BEGIN.timestamp() * 1_000_000)
    for where in (store.store_of(broker.config()), None):
        assert read(reader(broker, where, Wanted(since_us=us + 1_000)), task) == []
        assert len(read(reader(broker, where, Wanted(until_us=us + 1)), task)) == 12  # Spark picks the rows


def test_the_first_offset_since_a_time_is_found(kept: Kept, broker: Broker) -> None:
    topic = kept.topic("read/since", 2)
    stamps = pa.array([1_000, 2_000, 3_000], pa.timestamp("ms", "UTC"))
    kept.send(
        topic, pa.table({"value": ["a", "b", "c"], "timestamp": stamps, "partition": pa.array([1] * 3, pa.int32())})
    )
    assert broker.since({(topic, 0): 1_500, (topic, 1): 1_500}) == {(topic, 0): 0, (topic, 1): 1}
    assert broker.since({(topic, 1): 9_000}) == {(topic, 1): 3}


def test_small_batches_are_joined_and_large_ones_are_left_as_they_are() -> None:
    def batch(rows: int) -> Any:
        return pa.record_batch({"offset": pa.array(range(rows), pa.int64())})

    sizes = [1] * 2_000 + [SMALL_ROWS, 3, 50_000, 7]
    found = list(joined(map(batch, sizes)))
    assert [one.num_rows for one in found] == [2_000, SMALL_ROWS, 3, 50_000, 7]
    assert [one.num_rows for one in joined(map(batch, [1_000] * 40))] == [17_000, 17_000, 6_000]
    assert list(joined([])) == []
