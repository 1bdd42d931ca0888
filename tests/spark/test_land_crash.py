"""Whatever dies while a topic is landed: every message is in the table once."""

import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cordwood import Client, Producer
from cordwood.errors import Conflict, Locked, Refused, Unavailable
from tests.real.served import Served
from tests.spark.conftest import Kept
from tests.spark.landing import DDL, Lake, events, everything, texts
from tests.spark.test_stream import forget_last_commit

landing = pytest.importorskip("cordwood.spark.pipelines.land", reason="needs pyspark")
land = landing.land
staging = pytest.importorskip("cordwood.spark.pipelines.land_staging")
land_kill = pytest.importorskip("cordwood.drills.land_kill")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.mark.timeout(900)  # twice Spark's start
def test_a_driver_that_is_killed_leaves_every_message_once(spark: Any) -> None:
    steps = ("half moved",)  # while readers see a part of a batch; `make drill` has all steps, ten times
    report = land_kill.run(kills=1, steps=steps)
    assert report.wrong == []
    assert report.kills == Counter(steps)
    assert report.messages == 100 * len(steps)


def test_a_batch_whose_commit_is_lost_is_known_and_not_landed_again(spark: Any, kept: Kept, lake: Lake) -> None:
    topic = kept.topic("land/forgotten", 2)
    kept.send(topic, events(range(100), partitions=2))
    kept.send(topic, texts(b"nope"))
    how = {"schema": DDL, "trigger_bytes": 2_000}
    assert land(spark, kept.endpoint, topic, str(lake.table), **how).batches >= 2
    before = lake.files(), lake.files(lake.rejected)
    forget_last_commit(lake.checkpoint)
    found = land(spark, kept.endpoint, topic, str(lake.table), **how)
    assert (found.batches, found.recovered) == (0, 1)
    assert (lake.files(), lake.files(lake.rejected)) == before
    assert lake.places() == everything(kept, topic)


def test_a_checkpoint_that_plans_other_offsets_for_a_batch_that_is_landed_is_refused(
    spark: Any, kept: Kept, lake: Lake
) -> None:
    topic = kept.topic("land/rewound")
    kept.send(topic, events(range(10)))
    land(spark, kept.endpoint, topic, str(lake.table))
    before = lake.files()
    kept.send(topic, events(range(10, 20)))
    for folder in ("offsets", "commits"):
        for file in (lake.checkpoint / folder).iterdir():
            file.unlink()
    with pytest.raises(Conflict, match="batch 0 was landed with other offsets"):
        land(spark, kept.endpoint, topic, str(lake.table))
    assert lake.files() == before


def test_files_that_were_taken_from_the_table_later_are_not_missed_but_staged_ones_are(
    spark: Any, kept: Kept, lake: Lake
) -> None:
    topic = kept.topic("land/taken")
    kept.send(topic, events(range(10), days=2))
    land(spark, kept.endpoint, topic, str(lake.table))
    away = lake.table.rename(lake.table.with_name("away"))
    with pytest.raises(Conflict, match=r"is gone, but .* says that it was landed"):
        land(spark, kept.endpoint, topic, str(lake.table))
    away.rename(lake.table)
    lake.files()[0].unlink()
    assert land(spark, kept.endpoint, topic, str(lake.table)).rows == 0
    kept.send(topic, events(range(10, 20)))

    def cut_short(step: str, batch: int) -> None:
        if step == "noted":
            raise Refused("not now")

    with pytest.raises(Refused, match="not now"):
        land(spark, kept.endpoint, topic, str(lake.table), at=cut_short)
    away = lake.landing.rename(lake.landing.with_name("away"))
    with pytest.raises(Conflict, match="removed by hand"):
        land(spark, kept.endpoint, topic, str(lake.table))
    away.rename(lake.landing)
    assert land(spark, kept.endpoint, topic, str(lake.table)).recovered == 1
    assert len(lake.rows()) == 15


def test_a_run_that_fails_is_gone_on_with_and_two_at_once_are_refused(spark: Any, kept: Kept, lake: Lake) -> None:
    topic = kept.topic("land/failed")
    kept.send(topic, events(range(10)))

    def second(step: str, batch: int) -> None:
        with pytest.raises(Locked, match="another process uses"):
            land(spark, kept.endpoint, topic, str(lake.table))
        raise Refused("not now")

    with pytest.raises(Refused, match=r"^not now$"):
        land(spark, kept.endpoint, topic, str(lake.table), at=second)
    assert lake.rows() == []
    assert land(spark, kept.endpoint, topic, str(lake.table)).rows == 10
    assert lake.places() == everything(kept, topic)


def fails_at_first(batches: Iterator[Any]) -> Iterator[Any]:
    """Fail half way in the first attempt of each task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    for batch in batches:
        yield batch
        if context is not None and context.attemptNumber() == 0:
            raise OSError("an executor is lost")


def test_tasks_that_fail_half_way_leave_nothing_twice(
    spark: Any, kept: Kept, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kept.topic("land/tasks", 3)
    kept.send(topic, events(range(300), partitions=3, days=2))
    kept.send(topic, texts(b"nope", b'{"id":1,"late":2}'))
    shape = landing.Shape
    rows, rejected = shape.rows, shape.rejected

    def failing(frame: Any) -> Any:
        return frame.mapInArrow(fails_at_first, frame.schema)

    monkeypatch.setattr(shape, "rows", lambda self, messages: rows(self, failing(messages)))
    monkeypatch.setattr(shape, "rejected", lambda self, messages: rejected(self, failing(messages)))
    found = land(spark, kept.endpoint, topic, str(lake.table), schema=DDL)
    assert (found.rows, found.rejected, found.late_rows) == (301, 1, 1)
    assert lake.places() == everything(kept, topic)


def test_rows_that_do_not_arrive_where_the_driver_looks_are_noticed(
    spark: Any, kept: Kept, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kept.topic("land/elsewhere")
    kept.send(topic, events(range(10), days=2))
    write = staging._write

    def lose_some(rows: Any, path: str, directories: list[str]) -> None:
        write(rows, path, directories)
        next(Path(path.removeprefix("file://")).rglob("*.parquet")).unlink()

    said = r"has 10 messages, and 5 are in the files below .*: it must be one directory"
    with monkeypatch.context() as patch, pytest.raises(Unavailable, match=said):
        patch.setattr(staging, "_write", lose_some)
        land(spark, kept.endpoint, topic, str(lake.table))
    assert lake.rows() == []
    assert land(spark, kept.endpoint, topic, str(lake.table)).rows == 10


def test_a_run_outlives_its_broker(spark: Any, lake: Lake, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    flags = ("--port", str(port), "--set", "tier_interval_s=1", "--set", "tier_object_bytes=1048576")
    with Served(tmp_path / "data", *flags) as served:
        kept = Kept(f"http://127.0.0.1:{served.port}", tmp_path / "data")
        Client(kept.endpoint, tries=20).create_topic("source", 3)
        with Producer(kept.endpoint, "source") as producer:
            producer.send_table(events(range(600), partitions=3))
        killed: list[int] = []

        def kill(step: str, batch: int) -> None:
            if step == "planned" and batch in (1, 2):
                killed.append(batch)
                served.again()

        found = land(spark, kept.endpoint, "source", str(lake.table), schema=DDL, trigger_bytes=6_000, at=kill)
        assert killed == [1, 2]
        assert found.rows == 600
        assert lake.places() == everything(kept, "source")
