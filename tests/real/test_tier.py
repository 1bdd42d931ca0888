"""History in a real store, through a real broker, and as others read it: every byte, in order, from offset 0."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.real.served import until
from tests.real.stores import etcd_store, s3_store
from tests.real.tier_broker import (
    OBJECT,
    SCHEMA,
    TierBroker,
    as_rows,
    check_dense,
    numbered,
    numbers,
    sorted_by_first,
)
from tests.real.tier_soon import TERMS

Open = Callable[..., TierBroker]
ALL_BYTES = bytes(range(256))
NOW = datetime.now(UTC)
LATER = NOW + timedelta(hours=1)
ODD = [
    {"key": b"user:1", "value": b'{"n": 1}', "headers": [("a", b"1"), ("b", ALL_BYTES), ("", b"")]},
    {"key": None, "value": None},
    {"key": b"", "value": b"", "headers": []},
    {"key": ALL_BYTES, "value": ALL_BYTES, "headers": [("\N{SNOWMAN}", b"\0")]},
    {"key": b"k", "value": None, "headers": [("only", b"headers")]},
    {"value": b"\0" * 100_000},
    {"value": b"later", "deliver_at": LATER},
    {"value": b"passes", "expires_at": LATER},
    {"value": b"both", "deliver_at": LATER, "expires_at": LATER + timedelta(hours=1)},
]


def odd_messages() -> Any:
    """Return one message of each kind, at times that go up and down."""
    times = [NOW - timedelta(microseconds=(-1) ** number * number) for number in range(len(ODD))]
    rows = [{"timestamp": time_, **row} for time_, row in zip(times, ODD, strict=True)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.fixture(params=["directory", "s3", "directory and etcd", "s3 and etcd"])
def open_(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Makes brokers on one store."""
    where: dict[str, Any] = {}
    if "s3" in request.param:
        store = s3_store()
        where["tier"] = store.url
        for name, value in store.env.items():
            monkeypatch.setenv(name, value)
    if "etcd" in request.param:
        where["metadata"] = etcd_store()
    return lambda data=tmp_path, **settings: TierBroker(data, **where, **settings)


def test_what_was_sent_is_read_from_the_tier_byte_for_byte_from_offset_0(open_: Open) -> None:
    with open_() as broker:
        broker.create("shop/orders", 2)
        sent = odd_messages()
        broker.send_table("shop/orders", sent, partition=0)
        broker.send_numbered("shop/orders", 0, 3_000, 1_000, partition=1)  # more than an object
        broker.rest("shop/orders")
        for killed in (False, True):
            if killed:
                broker.again()
            found = broker.table("shop/orders", 0)
            assert found["offset"].to_pylist() == list(range(len(ODD)))
            assert found.select(SCHEMA.names).to_pylist() == sent.to_pylist()
            lines = as_rows(broker.ask("GET", "/v1/read", topic="shop/orders", partition=0).body)
            assert [(row["offset"], row["key"], row["value"]) for row in lines] == [
                (number, row.get("key"), row["value"]) for number, row in enumerate(ODD)
            ]
            values = broker.values("shop/orders", 1)
            assert values[:250] == numbered(0, 250, 1_000)["value"].to_pylist()
            assert numbers(values) == list(range(3_000))
            assert broker.offsets("shop/orders", 1, offset=1_700, limit=3) == [1_700, 1_701, 1_702]
        stored = broker.stored()
        check_dense(stored[("shop/orders", 0)], len(ODD))
        check_dense(stored[("shop/orders", 1)], 3_000)
        assert len(stored[("shop/orders", 1)]) > 1


def test_a_directory_goes_on_for_longer_than_a_lease_in_etcd_lasts(tmp_path: Path) -> None:
    with TierBroker(tmp_path, metadata=etcd_store()) as broker:
        broker.create("t")
        time.sleep(TERMS.lapse_ms / 1000)
        broker.send("t", "7")
        broker.rest("t")
        assert broker.values("t") == [b"7"]


def test_journal_memory_and_tier_are_read_as_one_log(tmp_path: Path) -> None:
    with TierBroker(tmp_path, tier_interval_s=3600) as broker:
        broker.create("t")
        broker.send_numbered("t", 0, 3_000, 1_000)  # whole objects go at once, the rest stays in the journal
        until(lambda: broker.partitions("t")[0]["tiered_offset"] > 0, "something is in the tier")
        broker.send_table("t", numbered(3_000, 3_010))
        assert broker.partitions("t")[0]["tiered_offset"] < 3_010
        table = broker.table("t")
        assert table["offset"].to_pylist() == numbers(table["value"].to_pylist()) == list(range(3_010))
        found = broker.ask("GET", "/v1/spans", topic="t").json["spans"]
        assert {span["source"] for span in found} == {"object", "broker"}
        assert [span["end"] for span in found[:-1]] == [span["start"] for span in found[1:]]
        assert (found[0]["start"], found[-1]["end"]) == (0, 3_010)


def test_objects_are_opened_by_others_with_the_same_rows(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        broker.send_table("t", odd_messages())
        broker.send_numbered("t", 0, 2_500, 1_000)
        broker.rest("t")
        expected = [tuple(row[name] for name in OBJECT) for row in broker.table("t").to_pylist()]
        files = [str(tmp_path / "tier" / one.name) for one in sorted_by_first(broker.stored()[("t", 0)])]
    assert len(files) > 1
    tables = [parquet.read_table(file, partitioning=None, page_checksum_verification=True) for file in files]
    assert [tuple(table.schema.names) for table in tables] == [OBJECT] * len(files)
    assert [tuple(row[name] for name in OBJECT) for table in tables for row in table.to_pylist()] == expected

    columns = '"offset", epoch_us(timestamp) AS us, key, value, headers'
    query = f"SELECT {columns} FROM read_parquet($files, hive_partitioning = false) ORDER BY 1"
    rows = duckdb.execute(query, {"files": files}).fetchall()
    assert [(row[0], row[2], row[3]) for row in rows] == [(row[0], row[2], row[3]) for row in expected]
    assert [row[1] for row in rows] == [round(row[1].timestamp() * 1_000_000) for row in expected]
    found = [None if row[4] is None else list(row[4].items()) for row in rows]
    assert found == [row[4] for row in expected]

    frame = polars.read_parquet(files, hive_partitioning=False)
    assert frame.columns == list(OBJECT)
    assert frame.select("offset", "timestamp", "key", "value").rows() == [row[:4] for row in expected]
    found = [cell and [(pair["key"], pair["value"]) for pair in cell] for cell in frame["headers"].to_list()]
    assert found == [row[4] for row in expected]


# Groups


def test_a_delay_and_an_expiry_hold_for_what_was_tiered_before_it_was_due(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        assert any(_holds_before_it_is_due(broker, wait_ms) for wait_ms in (4_500, 15_000, 45_000))


def _holds_before_it_is_due(broker: TierBroker, wait_ms: int) -> bool:
    """Check what is delivered before and after a moment; return False if the machine was too slow to see before."""
    topic = f"t{wait_ms}"
    broker.create(topic)
    due_ms = int(time.time() * 1000) + wait_ms
    expires_ms = due_ms - wait_ms // 3
    broker.send(topic, "later", deliver_at=due_ms)
    broker.send(topic, "passes", expires_at=expires_ms)
    broker.send(topic, "now")
    broker.rest(topic).again()
    time.sleep(max(0, expires_ms - time.time() * 1000) / 1000)
    first = [m["value"] for m in broker.lease(topic, "g", max_messages=2)]
    if time.time() * 1000 >= due_ms:
        return False
    assert first == ["now"]
    assert [m["value"] for m in broker.lease(topic, "g")] == ["later"]
    assert time.time() * 1000 >= due_ms
    broker.ack(topic, "g", 0, 0, 2)
    assert broker.group(topic, "g")["lag"] == 0
    return True


def test_a_group_begins_in_history_at_earliest_an_offset_or_a_time_and_acks_outlive_a_kill(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t", 2)
        for hour in range(3):
            stamps = [NOW - timedelta(hours=3 - hour, seconds=-second) for second in range(10)]
            values = [f"{10 * hour + second}".encode() for second in range(10)]
            table = pa.table({"value": values, "timestamp": pa.array(stamps, SCHEMA[0].type)})
            broker.send_table("t", table, partition=1)
        broker.rest("t")
        assert [m["offset"] for m in broker.lease("t", "all")] == list(range(30))
        assert [m["offset"] for m in broker.lease("t", "offset", start="17")] == list(range(17, 30))
        asked_ms = int((NOW - timedelta(hours=2, seconds=-4)).timestamp() * 1000)
        created = broker.ask("PATCH", "/v1/groups/t/time", {"timestamp": asked_ms})
        assert created.status in (200, 201), created
        assert [m["offset"] for m in broker.lease("t", "time")] == list(range(14, 30))
        read = broker.ask("GET", "/v1/read", topic="t", partition=1, timestamp=asked_ms)
        assert [json.loads(line)["offset"] for line in read.body.splitlines()] == list(range(14, 30))
        broker.ack("t", "all", 1, 29, 3, 0, 17, 4, 1)
        broker.ack("t", "offset", 1, 18, 17)
        broker.ack("t", "time", 1, 20)
        broker.again()
        done = {0, 1, 3, 4, 17, 29}
        again = broker.lease("t", "all")
        assert [m["offset"] for m in again] == sorted(set(range(30)) - done)
        assert [m["value"] for m in again] == [str(number) for number in sorted(set(range(30)) - done)]
        assert {m["attempts"] for m in again} == {2}
        assert [m["offset"] for m in broker.lease("t", "offset")] == list(range(19, 30))
        assert [m["offset"] for m in broker.lease("t", "time")] == [n for n in range(14, 30) if n != 20]


def test_poison_in_history_reaches_the_dead_letters_and_from_there_is_driven_back(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        for number in range(3):
            broker.send("t", f"m{number}", key=f"k{number}", headers={"h": "1"})
        broker.rest("t")
        settings = {"max_attempts": 2, "backoff_ms": 0, "max_backoff_ms": 0}
        assert broker.ask("PATCH", "/v1/groups/t/g", settings).status in (200, 201)
        for attempt in (1, 2):
            found = broker.lease("t", "g")
            assert [(m["offset"], m["attempts"]) for m in found if m["offset"] == 1] == [(1, attempt)]
            if attempt == 1:
                broker.ack("t", "g", 0, 0, 2)
            asked = {"topic": "t", "group": "g", "partition": 0, "offset": 1, "reason": "it burns"}
            assert broker.ask("POST", "/v1/nack", asked).status == 204
            if attempt == 1:
                broker.again()
        dead = until(lambda: broker.read("dlq.t"), "a dead letter")
        assert [(m["key"], m["value"], m["headers"]["h"]) for m in dead] == [("k1", "m1", "1")]
        assert dead[0]["headers"]["cordwood-offset"] == "1"
        assert dead[0]["headers"]["cordwood-error"] == "it burns"
        broker.rest("dlq.t")
        assert broker.ask("POST", "/v1/groups/t/g/redrive").json == {"redriven": 1}
        assert [(m["key"], m["value"], m["headers"]["h"]) for m in broker.lease("t", "g")] == [("k1", "m1", "1")]
