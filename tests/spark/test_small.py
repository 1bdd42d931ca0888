"""Filters, columns, stores, Java: the small decisions, each without Spark."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cordwood.errors import Refused
from cordwood.record import HEADERS
from cordwood.spark import filters, session, store
from cordwood.spark.columns import COLUMNS, SPARK_TYPES, arrow_schema, mapped, pairs
from cordwood.spark.extent import Range
from cordwood.spark.filters import ALL, Wanted, narrow, wanted

# Filters


class Filter:
    def __init__(self, attribute: str, value: Any):
        self.attribute = (attribute,)
        self.value = value


class EqualTo(Filter): ...


class In(Filter): ...


class GreaterThan(Filter): ...


class LessThanOrEqual(Filter): ...


class StringContains(Filter): ...


def test_filters_on_partition_offset_and_timestamp_narrow_what_is_read() -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    us = int(moment.timestamp()) * 1_000_000
    found = wanted([EqualTo("partition", 2), GreaterThan("offset", 5), LessThanOrEqual("offset", 9)])
    assert found == Wanted(frozenset({2}), 6, 10)
    assert wanted([In("partition", (1, 2)), EqualTo("partition", 3)]).partitions == frozenset()
    assert wanted([GreaterThan("timestamp", moment)]).since_us == us + 1
    assert wanted([EqualTo("timestamp", moment)]) == Wanted(since_us=us, until_us=us + 1)
    assert wanted([In("offset", (3, 8))]) == Wanted(start=3, end=9)


def test_a_filter_that_says_nothing_to_us_changes_nothing() -> None:
    naive = datetime(2024, 1, 1)
    others = [
        StringContains("value", "x"),
        EqualTo("key", b"k"),
        GreaterThan("timestamp", naive),
        EqualTo("offset", None),
    ]
    assert wanted([*others, object()]) == ALL
    assert not ALL.timed


def test_ranges_are_cut_to_what_is_wanted() -> None:
    ranges = [Range("t", "i", 0, 0, 10), Range("t", "i", 1, 0, 10), Range("t", "i", 1, 20, 30)]
    assert narrow(ranges, Wanted(frozenset({1}), 5, 22)) == [Range("t", "i", 1, 5, 10), Range("t", "i", 1, 20, 22)]
    assert narrow(ranges, filters.ALL) == ranges


# Columns


def test_the_arrow_schema_is_the_one_that_spark_expects() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    from pyspark.sql.pandas.types import to_arrow_schema

    pair = types.StructType().add("key", types.StringType()).add("value", types.BinaryType())
    sparks = {
        "topic": types.StringType(),
        "partition": types.IntegerType(),
        "offset": types.LongType(),
        "timestamp": types.TimestampType(),
        "key": types.BinaryType(),
        "value": types.BinaryType(),
        "headers": types.ArrayType(pair),
    }
    assert {name: kind.simpleString() for name, kind in sparks.items()} == SPARK_TYPES
    schema = types.StructType([types.StructField(name, kind, name != "offset") for name, kind in sparks.items()])
    ours = arrow_schema([(name, SPARK_TYPES[name], name != "offset") for name in COLUMNS])
    assert ours.equals(to_arrow_schema(schema, timezone="UTC"))


def test_a_column_that_is_not_ours_is_refused() -> None:
    with pytest.raises(Refused, match=r"no column 'offset' of type int\. Known are: topic string"):
        arrow_schema([("offset", "int", True)])


@pytest.mark.parametrize("cut", [slice(None), slice(1, 3), slice(2, 2), slice(3, None)])
def test_headers_become_pairs_and_pairs_become_headers(cut: slice) -> None:
    given = [[("a", b"1"), ("a", b"2")], None, [], [("b", None)]]
    headers = pa.array(given, HEADERS)[cut]
    found = pairs(headers)
    found.validate(full=True)
    assert found.to_pylist() == [
        None if one is None else [{"key": name, "value": value} for name, value in one] for one in given[cut]
    ]
    back = mapped(found)
    back.validate(full=True)
    assert back.equals(headers)


def test_a_header_without_a_name_is_refused() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    for bad in ([[{"key": None, "value": b""}]], [[None]]):
        with pytest.raises(Refused, match="no name"):
            mapped(pa.array(bad, kind))


# Where history is


def test_the_broker_says_where_its_store_is() -> None:
    assert store.store_of({"tier_url": "file:///a/b%20c"}) == "/a/b%20c"
    assert store.store_of({"tier_url": "s3://bucket/prefix"}) == "s3://bucket/prefix"
    assert store.store_of({"tier_url": None, "tier": ""}) is None


def test_of_a_broker_that_does_not_say_it_only_a_whole_name_counts() -> None:
    assert store.store_of({"tier": "", "data": "/var/cordwood"}) == "/var/cordwood/tier"
    assert store.store_of({"tier": "", "data": "data"}) is None
    assert store.store_of({"tier": "gs://bucket", "data": "data"}) == "gs://bucket"
    assert store.store_of({"tier": "none", "data": "/data"}) is None
    assert store.store_of({"tier": "", "data": "/data", "memory": True}) is None


def test_a_directory_that_is_not_here_is_not_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    missing = str(tmp_path / "missing")
    assert store.opened(missing) is None
    assert store.opened(missing) is None
    assert not os.path.exists(missing)
    assert caplog.text.count("through the broker") == 1


# Java


def test_times_are_microseconds_to_the_last_one() -> None:
    moment = datetime(2100, 1, 1, tzinfo=UTC) + timedelta(microseconds=1)
    assert wanted([EqualTo("timestamp", moment)]).since_us == 4_102_444_800_000_001


def test_spark_is_imported_only_by_those_who_use_it() -> None:
    code = "import sys, cordwood; {}; print([name for name in sys.modules if name in ('pyspark', 'cordwood.spark')])"
    for then, loaded in (("cordwood.embedded", "[]"), ("import cordwood.spark", "['cordwood.spark']")):
        command = [sys.executable, "-c", code.format(then)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == loaded


def test_a_spark_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(Refused, match="pip install 'cordwood\\[spark\\]'"):
        session.start()
