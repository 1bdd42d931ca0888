"""A topic becomes a table: every message once, typed if asked for, what does not fit aside, nothing lost."""

import json
import threading
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from cordwood.cli.main import cli
from cordwood.errors import CordwoodError, NotFound, Refused, Unavailable
from cordwood.spark.pipelines.land_plan import Plan
from cordwood.spark.pipelines.land_schema import shape
from cordwood.spark.pipelines.land_shape import Shape
from cordwood.spark.pipelines.land_staging import together
from tests.real.served import until
from tests.spark.conftest import Kept
from tests.spark.landing import DDL, Lake, events, everything, texts
from tests.spark.messages import expected, odd, rows

land = pytest.importorskip("cordwood.spark.pipelines.land", reason="needs pyspark").land
MIB = 1 << 20


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_a_raw_table_has_every_message_as_it_is_and_a_second_run_adds_what_is_new(
    spark: Any, kept: Kept, lake: Lake
) -> None:
    topic = kept.topic("land/raw", 2)
    for partition in (0, 1):
        kept.send(topic, odd(partition))
    found = land(spark, kept.endpoint, topic, str(lake.table), headers=True)
    assert (found.batches, found.rows, found.rejected) == (1, 12, 0)
    columns = ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert rows(spark.read.parquet(str(lake.table)).select(*columns)) == expected(kept.client, topic)
    assert land(spark, kept.endpoint, topic, str(lake.table), headers=True).rows == 0
    kept.send(topic, odd(1))
    found = land(spark, kept.endpoint, topic, str(lake.table), headers=True)
    assert (found.rows, found.ends) == (6, {0: 6, 1: 12})
    assert lake.places() == everything(kept, topic)
    assert kept.client.reader(topic, found.reader)["lag"] == 0
    assert not lake.landing.exists()
    assert not lake.rejected.exists()


def test_readers_that_know_nothing_of_us_see_the_same_rows_and_no_other_files(
    spark: Any, kept: Kept, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kept.topic("land/readers", 2)
    kept.send(topic, events(range(60), partitions=2, days=3))
    rows_of = Shape.rows
    monkeypatch.setattr(Shape, "rows", lambda self, messages: rows_of(self, messages.repartition(4)))
    found = land(spark, kept.endpoint, topic, str(lake.table), schema=DDL)
    assert (found.rows, found.files) == (60, 3)  # one for each day, however many tasks there are
    assert [file.suffix for file in lake.files()] == [".parquet"] * 3
    assert [row["id"] for row in lake.rows()] == [*range(0, 60, 2), *range(1, 60, 2)]
    query = f"select date, count(*), sum(id) from '{lake.table}/**/*.parquet' group by date order by date"
    days = [(date(2024, 2, 28), 20, 570), (date(2024, 2, 29), 20, 590), (date(2024, 3, 1), 20, 610)]
    assert duckdb.sql(query).fetchall() == days
    frame = spark.read.parquet(str(lake.table)).groupBy("date").agg({"id": "sum"}).orderBy("date")
    assert [tuple(row) for row in frame.collect()] == [(day, total) for day, _, total in days]


MISFITS = {
    None: "no value",
    b"": "not a JSON object",
    b"nope": "not a JSON object",
    b'{"id":1': "not a JSON object",
    b"5": "not a JSON object",
    b"null": "not a JSON object",
    b'[{"id":1}]': "not a JSON object",
    b'{"id":NaN}': "not a JSON object",
    b"{'id':1}": "not one JSON object",
    b'{"id":1}{"id":2}': "not one JSON object",
    b'{"id":1}\n{"id":2}': "not one JSON object",
    b'{"id":1},{"id":2}': "not one JSON object",
    b'{"id":1} x': "not one JSON object",
    b'{"id":1}}': "not one JSON object",
    b'{"id":"x","name":"n"}': "wrong type: id",
    b'{"id":1.5}': "wrong type: id",
    b'{"id":9223372036854775808}': "wrong type: id",
    b'{"id":1,"user":{"name":"u","age":"old"}}': "wrong type: somewhere inside a field",
    b'{"id":1,"user":5}': "wrong type: user",
    b'{"id":1,"marks":[1,"x"]}': "wrong type: marks",
    b'{"id":1,"seen":"yesterday"}': "wrong type: seen",
    b'{"name":"n"}': "missing or null: id",
    b'{"id":null}': "missing or null: id",
    b'{"id":1,"user":{"age":5}}': "missing or null: user.name",
    b'{"id":1,"name":"\xff"}': "not UTF-8",
}
FITTING = [
    b'{"id":1}',
    b' \n {"id":2,"name":null}\n',
    b'{"name":5,"id":3}',
    b'{"id":4,"user":{"name":"u"},"marks":[],"seen":"2024-02-29T12:00:00"}',
    '{"id":5,"name":"}{ größer"}'.encode(),
]
NESTED = f"{DDL}, user STRUCT<name: STRING NOT NULL, age: INT>, marks ARRAY<INT>, seen TIMESTAMP"


def test_messages_that_do_not_fit_are_kept_aside_with_the_reason(spark: Any, kept: Kept, lake: Lake) -> None:
    topic = kept.topic("land/misfits", 2)
    kept.send(topic, events(range(50), partitions=2))
    kept.send(topic, texts(*MISFITS))
    kept.send(topic, texts(*FITTING))
    kept.send(topic, events(range(50, 60), partitions=2))
    said: list[str] = []
    found = land(spark, kept.endpoint, topic, str(lake.table), schema=NESTED, partition_by=None, tell=said.append)
    assert {row["value"]: row["reason"] for row in lake.misfits()} == MISFITS
    assert (found.rows, found.rejected) == (65, len(MISFITS))
    assert lake.places() == everything(kept, topic)
    named = {row["id"]: row["name"] for row in lake.rows() if row["offset"] >= 25 + len(MISFITS)}
    assert (named[2], named[3], named[5]) == (None, "5", "}{ größer")
    assert any("25 rejected" in line for line in said)


def test_fields_that_the_schema_lacks_are_kept_and_named_wherever_they_are(
    spark: Any, kept: Kept, lake: Lake
) -> None:
    topic = kept.topic("land/late")
    kept.send(topic, events(range(10)))
    late = [
        b'{"id":1,"colour":"red","size":"5","name":"x"}',
        b' {"id":2, "colour" : 1e400} ',
        b'{"id":3,"user":{"name":"u","cars":[{"seats":5},{"doors":3}]}}',
        b'{"id":5,"huge":1234567890123456789012345678901234567890123}',
        b'{"id":6,"ID":7}',
    ]
    kept.send(topic, texts(*late, b'{"id":4,"user":{"name":"u","cars":[{"seats":5}]}}'))
    ddl = "id BIGINT, name STRING, user STRUCT<name: STRING, cars: ARRAY<STRUCT<seats: INT>>>"
    found = land(spark, kept.endpoint, topic, str(lake.table), schema=ddl)
    assert [row["_json"] for row in lake.rows()] == [None] * 10 + [one.decode() for one in late] + [None]
    assert found.late_rows == 5
    assert found.late_columns == {"colour": 2, "ID": 1, "huge": 1, "size": 1, "user.cars[].doors": 1}


def test_a_field_keeps_its_name_and_ours_of_that_name_gets_another(spark: Any, kept: Kept, lake: Lake) -> None:
    topic = kept.topic("land/clash")
    value = b'{"offset":"o","timestamp":5,"date":"d","_json":"r","more":1}'
    kept.send(topic, texts(value))
    ddl = "offset STRING, timestamp INT, date STRING, _json STRING"
    land(spark, kept.endpoint, topic, str(lake.table), schema=ddl)
    (row,) = lake.rows()
    assert (row["offset"], row["timestamp"], row["date"], row["_json"]) == ("o", 5, "d", "r")
    assert (row["partition"], row["message_offset"], row["message_json"]) == (0, 0, value.decode())
    assert row["message_timestamp"] is not None
    with pytest.raises(Refused, match="'message_offset', which is needed"):
        land(spark, kept.endpoint, topic, str(lake.table) + "2", schema="offset INT, message_offset INT")


def test_a_schema_is_inferred_once_and_then_fixed(spark: Any, kept: Kept, lake: Lake) -> None:
    topic = kept.topic("land/inferred", 2)
    kept.send(topic, events(range(20), partitions=2, price=1.5))
    kept.send(topic, texts(b"no JSON"))
    found = land(spark, kept.endpoint, topic, str(lake.table), schema="infer")
    assert (found.rows, found.rejected, found.late_rows) == (20, 1, 0)
    assert found.schema == "id BIGINT,name STRING,price DOUBLE"
    kept.send(topic, events(range(20, 30), partitions=2, colour="red"))
    kept.send(topic, texts(b'{"id":"x"}'))
    again = land(spark, kept.endpoint, topic, str(lake.table), schema="infer")
    assert again.schema == found.schema
    assert (again.rows, again.rejected, again.late_columns) == (10, 1, {"colour": 10})
    with pytest.raises(Refused, match="began with another schema"):
        land(spark, kept.endpoint, topic, str(lake.table), schema="id STRING")


def test_a_table_by_column_has_one_file_for_each_value_and_batch(spark: Any, kept: Kept, lake: Lake) -> None:
    topic = kept.topic("land/column", 4)
    kept.send(topic, events(range(400), partitions=4, country="de"))
    kept.send(topic, events(range(400, 800), partitions=4, country="a/b ü"))
    kept.send(topic, texts(b'{"id":1}'))
    ddl = f"{DDL}, country STRING"
    found = land(
        spark, kept.endpoint, topic, str(lake.table), schema=ddl, partition_by="country", trigger_bytes=15_000
    )
    assert found.batches >= 2
    assert found.rows == 801
    assert max(Counter((file.parent, file.name[:25]) for file in lake.files()).values()) == 1
    assert lake.places() == everything(kept, topic)
    counted = spark.read.parquet(str(lake.table)).groupBy("country").count().collect()
    assert {row["country"]: row["count"] for row in counted} == {"de": 400, "a/b ü": 400, None: 1}


def test_a_run_that_goes_on_lands_what_comes_and_ends_when_it_is_told(spark: Any, kept: Kept, lake: Lake) -> None:
    topic = kept.topic("land/continuous")
    kept.send(topic, events(range(10)))
    stop = threading.Event()
    found: list[Any] = []

    def run() -> None:
        found.append(land(spark, kept.endpoint, topic, str(lake.table), once=False, every_s=0.2, stop=stop))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: len(lake.rows()) == 10, "the first are landed")
        kept.send(topic, events(range(10, 15)))
        until(lambda: len(lake.rows()) == 15, "the next are landed")
    finally:
        stop.set()
        thread.join()
    assert (found[0].rows, found[0].stopped) == (15, True)
    assert lake.places() == everything(kept, topic)


def test_the_command_says_what_was_done(spark: Any, kept: Kept, lake: Lake, tmp_path: Path) -> None:
    topic = kept.topic("land/command")
    kept.send(topic, events(range(10), colour="red"))
    kept.send(topic, texts(b"nope"))
    (tmp_path / "schema.ddl").write_text(DDL)
    asked = [
        "spark",
        "land",
        topic,
        str(lake.table),
        "--schema",
        str(tmp_path / "schema.ddl"),
        "--partition-by",
        "none",
    ]
    done = CliRunner().invoke(cli, [*asked, "--endpoint", kept.endpoint, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["rows"], found["rejected"], found["late_columns"]) == (10, 1, {"colour": 10})
    assert "batch 0: 10 rows" in done.stderr
    again = CliRunner().invoke(cli, [*asked, "--endpoint", kept.endpoint], catch_exceptions=False)
    assert again.stdout == f"0 rows in 0 files of {lake.table}, 0 batches\n"


@pytest.mark.parametrize(
    ("by", "size", "wanted"),
    [
        ("date", 2048 * MIB, False),
        ("date", 100 * MIB, True),
        (None, 2048 * MIB, False),
        ("partition", 2048 * MIB, True),
    ],
)
def test_a_batch_is_brought_together_unless_each_task_fills_a_file(by: str | None, size: int, wanted: bool) -> None:
    plan = Plan("", [], [], 0, size, {})
    assert together(shape(None, by, headers=False), plan, cores=4, target_bytes=128 * MIB) is wanted


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        ({"topic": "nowhere"}, NotFound, "no topic 'nowhere'"),
        ({"schema": "id BIGNIT"}, Refused, "the schema cannot be read.*BIGNIT"),
        ({"schema": "id INT, ID INT"}, Refused, "column 'id' twice"),
        ({"schema": DDL, "partition_by": "country"}, Refused, "'country': there is none; choose of date, id, name"),
        ({"schema": "tags ARRAY<INT>", "partition_by": "tags"}, Refused, "'tags': it is array<int>; choose of date"),
        ({"schema": DDL, "headers": True}, Refused, "headers are for a raw table"),
        ({"schema": "infer", "topic": "land/empty"}, Refused, "no values to infer a schema from"),
        ({"schema": "infer", "topic": "land/text"}, Refused, "are no JSON objects"),
        ({"table": "s3://bucket/table"}, Refused, "cannot write s3a://bucket/table: start it with hadoop-aws"),
        ({"endpoint": "http://127.0.0.1:1"}, Unavailable, "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_and_leaves_nothing(
    spark: Any,
    kept: Kept,
    lake: Lake,
    asked: dict[str, Any],
    kind: type[CordwoodError],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cordwood.spark.pipelines.land.FIRST_TRIES", 1)
    kept.topic("land/empty")
    kept.send(kept.topic("land/text"), texts(b"a", b"5"))
    given = {"endpoint": kept.endpoint, "topic": "land/text", "table": str(lake.table), **asked}
    with pytest.raises(kind, match=said) as raised:
        land(spark, **given)
    assert "\n" not in str(raised.value)
    assert list(lake.table.parent.iterdir()) == []


def test_a_table_is_not_mixed_with_another(spark: Any, kept: Kept, lake: Lake, tmp_path: Path) -> None:
    one, other = kept.topic("land/one"), kept.topic("land/other")
    for topic in (one, other):
        kept.send(topic, texts(b"{}"))
    land(spark, kept.endpoint, one, str(lake.table))
    before = lake.files()
    elsewhere, checkpoint = str(tmp_path / "elsewhere"), str(lake.checkpoint)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"topic": other, "table": str(lake.table)}, "has the topic 'land/one'"),
        ({"topic": one, "table": str(lake.table), "checkpoint": elsewhere}, "not landed with .*/elsewhere: choose"),
        ({"topic": one, "table": elsewhere, "checkpoint": checkpoint}, "is the checkpoint of .*/table; give"),
        ({"topic": one, "table": str(lake.table), "partition_by": None}, "began with another partitioning"),
        ({"topic": one, "table": str(lake.table), "schema": "a INT"}, "began with another schema"),
    ]
    for asked, said in wrong:
        with pytest.raises(Refused, match=said):
            land(spark, kept.endpoint, **asked)
    kept.client.delete_topic(one)
    kept.topic(one)
    with pytest.raises(Refused, match="deleted and made again"):
        land(spark, kept.endpoint, one, str(lake.table))
    assert lake.files() == before
    assert not Path(elsewhere).exists()
