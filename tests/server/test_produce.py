"""Messages in over HTTP: three formats, numbers, keys, limits; and where the reply says they are."""

import base64
import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import ipc

from cordwood.server.produce import Stored, StoredMany
from tests.server.serving import Serving

NDJSON = {"Content-Type": "application/x-ndjson"}
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_one_message_gets_its_offset(server: Serving) -> None:
    server.topic("clicks", partitions=3)
    reply = server.post("/v1/produce", {"topic": "clicks", "key": "user:1", "value": "a"})
    assert reply.json == {"topic": "clicks", "partition": 1, "offset": 0, "durability": "fsync"}
    assert server.post("/produce", {"key": "user:1", "value": "b"}, topic="clicks").json["offset"] == 1


def test_every_reply_is_what_the_description_says(server: Serving) -> None:
    server.topic()
    one = server.post("/v1/produce", {"topic": "clicks", "value": "a"})
    many = server.post("/v1/produce", lines({"value": "b"}), NDJSON, topic="clicks")
    assert msgspec.json.decode(one.body, type=Stored) == Stored("clicks", 0, 0, "fsync")
    assert msgspec.json.decode(many.body, type=StoredMany).count == 1


def test_qos_0_is_answered_from_memory_without_an_offset(server: Serving) -> None:
    server.topic()
    for reply in (
        server.post("/v1/produce", {"value": "a"}, topic="clicks", qos=0),
        server.post("/v1/produce", {"value": "b", "qos": 0}, topic="clicks"),
    ):
        assert reply.json == {"topic": "clicks", "partition": 0, "offset": None, "durability": "memory"}
    many = server.post("/v1/produce", lines({"value": "c"}), NDJSON, topic="clicks", qos=0).json
    assert many == {
        "count": 1,
        "durability": "memory",
        "results": [{"partition": 0, "first_offset": None, "count": 1}],
    }
    assert server.values() == ["a", "b", "c"]


def test_ndjson_is_one_append_with_one_result_for_each_partition(server: Serving) -> None:
    server.topic(partitions=3)
    body = lines(*({"key": f"user:{n}", "value": str(n)} for n in (1, 2, 1, 2)))
    assert server.post("/v1/produce", body, NDJSON, topic="clicks").json == {
        "count": 4,
        "durability": "fsync",
        "results": [
            {"partition": 0, "first_offset": 0, "count": 2},
            {"partition": 1, "first_offset": 0, "count": 2},
        ],
    }


def test_arrow_in_is_arrow_out(server: Serving) -> None:
    server.topic(partitions=2)
    table = pa.table(
        {"value": [b"\xff", None, b"c"], "key": ["a", "b", None], "partition": pa.array([1, 0, 1], "int32")}
    )
    reply = server.post("/v1/produce", stream(table), ARROW, topic="clicks").json
    assert reply["count"] == 3
    assert reply["results"] == [
        {"partition": 0, "first_offset": 0, "count": 1},
        {"partition": 1, "first_offset": 0, "count": 2},
    ]
    found = server.get("/v1/read", {"Accept": ARROW["Content-Type"]}, topic="clicks")
    rows = ipc.open_stream(found.body).read_all().to_pylist()
    assert [(row["partition"], row["offset"], row["key"], row["value"]) for row in rows] == [
        (0, 0, b"b", None),
        (1, 0, b"a", b"\xff"),
        (1, 1, None, b"c"),
    ]


def test_the_partition_of_the_query_is_for_messages_that_name_none(server: Serving) -> None:
    server.topic(partitions=4)
    assert server.post("/v1/produce", {"value": "a"}, topic="clicks", partition=2).json["partition"] == 2
    assert (
        server.post("/v1/produce", {"value": "a", "partition": 3}, topic="clicks", partition=2).json["partition"] == 3
    )
    body = lines({"value": "b"}, {"value": "c", "partition": 0})
    results = server.post("/v1/produce", body, NDJSON, topic="clicks", partition=1).json["results"]
    assert [(r["partition"], r["count"]) for r in results] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "application/json; charset=utf-8"])
def test_what_curl_sends_is_json(server: Serving, kind: str | None) -> None:
    server.topic()
    headers = {} if kind is None else {"Content-Type": kind}
    assert server.post("/v1/produce", b'{"topic":"clicks","value":{"a":1}}', headers).status == 200
    assert server.values() == ['{"a":1}']


def test_a_repeated_numbered_message_is_stored_once(server: Serving) -> None:
    server.topic(partitions=2)
    message = {"topic": "clicks", "value": "a", "producer_id": "p", "epoch": 0, "sequence": 0, "partition": 1}
    first, again = server.post("/v1/produce", message), server.post("/v1/produce", message)
    assert first.json == {"topic": "clicks", "partition": 1, "offset": 0, "durability": "fsync"}
    assert again.json == {**first.json, "duplicate": True}
    gap = server.post("/v1/produce", {**message, "sequence": 5})
    assert (gap.status, gap.error, gap.json["expected_sequence"]) == (409, "FAILED_PRECONDITION", 1)
    assert server.values() == ["a"]


@pytest.mark.parametrize("place", ["last", "first"])
def test_a_sequence_is_read_wherever_it_is_in_the_query(server: Serving, place: str) -> None:
    server.topic()
    rest = "topic=clicks&partition=0&producer_id=p&epoch=0"
    for number in range(3):
        sequence = f"sequence={number}"
        query = f"{rest}&{sequence}" if place == "last" else f"{sequence}&{rest}"
        assert server.post(f"/v1/produce?{query}", lines({"value": f"{number}"}), NDJSON).status == 200
    for wrong in ("", "-1", "x", "1.5", f"{1 << 63}", "9" * 40):
        assert server.post(f"/v1/produce?{rest}&sequence={wrong}", lines({"value": "a"}), NDJSON).status == 400
    assert server.values() == ["0", "1", "2"]


def test_a_repeated_numbered_batch_says_so(server: Serving) -> None:
    server.topic()
    asked = {"topic": "clicks", "partition": 0, "producer_id": "p", "epoch": 3, "sequence": 0}
    body = lines({"value": "a"}, {"value": "b"})
    first = server.post("/v1/produce", body, NDJSON, **asked).json
    again = server.post("/v1/produce", body, NDJSON, **asked).json
    assert first == {
        "count": 2,
        "durability": "fsync",
        "results": [{"partition": 0, "first_offset": 0, "count": 2}],
    }
    assert again == {**first, "duplicates": 2, "duplicate": True}
    old = server.post("/v1/produce", body, NDJSON, **{**asked, "epoch": 2})
    assert (old.status, old.json["epoch"]) == (409, 3)


def over_partitions(*messages: tuple[int, int, str]) -> bytes:
    """Return messages of a numbered producer: (partition, sequence, value)."""
    places, sequences, values = zip(*messages, strict=True)
    columns = {"value": values, "partition": pa.array(places, "int32"), "sequence": pa.array(sequences, "int64")}
    return stream(pa.table(columns))


def test_a_numbered_request_goes_to_several_partitions_and_each_has_its_numbers(server: Serving) -> None:
    server.topic(partitions=3)
    asked = {"topic": "clicks", "producer_id": "p", "epoch": 1}
    first = server.post("/v1/produce", over_partitions((2, 0, "a"), (0, 0, "b"), (2, 1, "c")), ARROW, **asked).json
    assert first["results"] == [
        {"partition": 0, "first_offset": 0, "count": 1},
        {"partition": 2, "first_offset": 0, "count": 2},
    ]
    again = server.post("/v1/produce", over_partitions((2, 0, "a"), (0, 0, "b"), (2, 1, "c")), ARROW, **asked).json
    assert again == {**first, "duplicates": 3, "duplicate": True}
    one = server.post("/v1/produce", lines({"value": "d"}), NDJSON, partition=2, sequence=2, **asked).json
    assert one["results"] == [{"partition": 2, "first_offset": 2, "count": 1}]
    mixed = over_partitions((1, 0, "e"), (2, 2, "d"), (0, 1, "f"), (1, 1, "g"))
    some = server.post("/v1/produce", mixed, ARROW, **asked).json
    assert (some["count"], some["duplicates"], "duplicate" in some) == (4, 1, False)
    assert some["results"] == [
        {"partition": 0, "first_offset": 1, "count": 1},
        {"partition": 1, "first_offset": 0, "count": 2},
        {"partition": 2, "first_offset": 2, "count": 1, "duplicate": True},
    ]
    assert server.values() == ["b", "f", "e", "g", "a", "c", "d"]


@pytest.mark.parametrize(
    ("messages", "asked", "status", "said"),
    [
        ([(0, 0, "a"), (1, 5, "b")], {"producer_id": "p"}, 409, "0 comes next"),
        ([(0, 0, "a"), (0, 2, "b")], {"producer_id": "p"}, 400, "partition 0 do not rise by 1"),
        ([(0, 1, "a"), (0, 0, "b")], {"producer_id": "p"}, 400, "partition 0 do not rise by 1"),
        ([(0, 0, "a"), (1, -1, "b")], {"producer_id": "p"}, 400, "message 1 has the sequence -1"),
        ([(0, 0, "a")], {"producer_id": "p", "sequence": 0}, 400, "leave the parameter out"),
        ([(0, 0, "a")], {}, 400, "producer_id"),
    ],
)
def test_numbers_that_do_not_fit_are_refused_with_all_of_the_request(
    server: Serving, messages: list[tuple[int, int, str]], asked: dict[str, object], status: int, said: str
) -> None:
    server.topic(partitions=2)
    reply = server.post("/v1/produce", over_partitions(*messages), ARROW, topic="clicks", **asked)
    assert (reply.status, said in reply.json["message"]) == (status, True), reply.json
    assert server.values() == []


def test_a_column_of_sequences_has_one_for_each_message_and_a_partition(server: Serving) -> None:
    server.topic(partitions=2)
    columns = {"value": ["a", "b"], "sequence": pa.array([0, None], "int64"), "partition": pa.array([0, 1], "int32")}
    reply = server.post("/v1/produce", stream(pa.table(columns)), ARROW, topic="clicks", producer_id="p")
    assert (reply.status, "message 1 has no sequence" in reply.json["message"]) == (400, True)
    columns = {"value": ["a"], "sequence": pa.array([0], "int64")}
    reply = server.post("/v1/produce", stream(pa.table(columns)), ARROW, topic="clicks", producer_id="p")
    assert (reply.status, "needs its partition" in reply.json["message"]) == (400, True)


def test_numbers_over_partitions_survive_a_restart(tmp_path: Path) -> None:
    body = over_partitions((0, 0, "a"), (1, 0, "b"), (1, 1, "c"))
    for lap in range(2):
        with Serving(tmp_path) as server:
            if not lap:
                server.topic(partitions=2)
            reply = server.post("/v1/produce", body, ARROW, topic="clicks", producer_id="p").json
            assert reply.get("duplicate", False) == bool(lap)
            assert server.values() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "half",
    [
        {"producer_id": "p", "sequence": 0},
        {"producer_id": "p", "partition": 0},
        {"sequence": 0, "partition": 0},
        {"epoch": 1, "partition": 0},
        {"producer_id": "", "sequence": 0, "partition": 0},
        {"producer_id": "p", "sequence": 0, "partition": 0, "idempotency_key": "k"},
    ],
)
def test_half_a_number_is_400(server: Serving, half: dict[str, object]) -> None:
    server.topic()
    assert server.post("/v1/produce", {"value": "a", **half}, topic="clicks").error == "INVALID_ARGUMENT"
    assert server.end() == 0


def test_an_idempotency_key_counts_once_wherever_it_stands(server: Serving) -> None:
    server.topic(partitions=2)
    first = server.post("/v1/produce", {"value": "a", "idempotency_key": "k"}, topic="clicks").json
    again = server.post("/v1/produce", {"value": "a"}, topic="clicks", idempotency_key="k").json
    assert again == {**first, "duplicate": True}
    body = lines({"value": "a", "idempotency_key": "k"}, {"value": "b", "idempotency_key": "l"})
    many = server.post("/v1/produce", body, NDJSON, topic="clicks", partition=0).json
    assert (many["count"], many["duplicates"], sum(r["count"] for r in many["results"])) == (2, 1, 1)
    none = server.post("/v1/produce", body, NDJSON, topic="clicks").json
    assert none == {"count": 2, "durability": "fsync", "results": [], "duplicates": 2}
    assert server.end() == 2


def test_query_and_body_must_not_disagree(server: Serving) -> None:
    server.topic("a")
    server.topic("b")
    assert server.post("/v1/produce", {"topic": "a", "value": "x"}, topic="b").error == "INVALID_ARGUMENT"
    assert server.post("/v1/produce", lines({"topic": "a", "value": "x"}), NDJSON, topic="b").status == 400
    assert server.post("/v1/produce", {"topic": "a", "value": "x"}, topic="a").status == 200


def test_a_topic_that_is_not_there_is_404_unless_topics_are_made_by_producing(tmp_path: Path) -> None:
    with Serving(tmp_path / "off") as server:
        assert server.post("/v1/produce", {"topic": "new", "value": "x"}).error == "NOT_FOUND"
    with Serving(tmp_path / "on", auto_create_topics=True, partitions=2) as server:
        assert server.post("/v1/produce", {"topic": "new", "value": "x"}).status == 200
        assert server.get("/v1/topics").json["topics"][0]["partitions"] == 2
        assert server.post("/v1/produce", {"topic": "no good", "value": "x"}).error == "INVALID_ARGUMENT"


def test_no_topic_at_all_is_400(server: Serving) -> None:
    assert server.post("/v1/produce", {"value": "x"}).error == "INVALID_ARGUMENT"
    assert server.post("/v1/produce", lines({"value": "x"}), NDJSON).error == "INVALID_ARGUMENT"


def test_a_partition_that_no_topic_has_is_400(server: Serving) -> None:
    server.topic()
    assert server.post("/v1/produce", {"value": "x"}, topic="clicks", partition=1).error == "INVALID_ARGUMENT"
    assert server.post("/v1/produce", lines({"value": "x"}), NDJSON, topic="clicks", partition=1).status == 400


def test_a_value_of_15_megabytes_goes_in_and_comes_out(server: Serving) -> None:
    server.topic()
    value = base64.b64encode(b"x" * 15_000_000).decode()
    assert server.post("/v1/produce", {"topic": "clicks", "value_base64": value}).json["offset"] == 0
    assert server.values() == ["x" * 15_000_000]


def test_a_message_over_the_limit_is_413(tmp_path: Path) -> None:
    with Serving(tmp_path, max_message_bytes=1000) as server:
        server.topic()
        for value in ("x" * 1001, "x" * 100_000):
            assert server.post("/v1/produce", {"topic": "clicks", "value": value}).error == "PAYLOAD_TOO_LARGE"
        body = lines({"value": "x"}, {"value": "x" * 1001})
        reply = server.post("/v1/produce", body, NDJSON, topic="clicks")
        assert reply.status == 413
        assert "line 2" in reply.json["message"]
        assert server.post("/v1/produce", {"topic": "clicks", "value": "x" * 1000}).status == 200
        assert server.end() == 1


def test_a_full_partition_is_429_and_says_when_to_come_again(server: Serving) -> None:
    server.topic(max_buffered_messages=1)
    assert server.produce("a") == [0]
    for reply in (
        server.post("/v1/produce", {"topic": "clicks", "value": "b"}),
        server.post("/v1/produce", lines({"value": "b"}), NDJSON, topic="clicks"),
    ):
        assert (reply.status, reply.error) == (429, "RESOURCE_EXHAUSTED")
        assert reply.json["reason"] == "partition_buffer_full"
        assert reply.json["retry_after_ms"] > 0
        assert int(reply.headers["retry-after"]) == -(-reply.json["retry_after_ms"] // 1000)


def test_a_large_body_is_read_beside_the_loop(server: Serving) -> None:
    server.topic()
    body = lines(*({"value": "x" * 1000} for _ in range(1000)))
    assert server.post("/v1/produce", body, NDJSON, topic="clicks").json["count"] == 1000
    table = pa.table({"value": [b"x" * 1000] * 2000})
    assert server.post("/v1/produce", stream(table), ARROW, topic="clicks").json["count"] == 2000
    assert server.post("/v1/produce", body + b"{", NDJSON, topic="clicks").error == "INVALID_ARGUMENT"
    assert server.end() == 3000


def test_a_broker_in_memory_says_so(tmp_path: Path) -> None:
    with Serving() as server:
        server.topic()
        assert server.post("/v1/produce", {"topic": "clicks", "value": "a"}).json["durability"] == "memory"
        assert server.values() == ["a"]


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_without_a_sync_the_reply_says_written(tmp_path: Path, sync: str) -> None:
    with Serving(tmp_path, sync=sync) as server:
        server.topic()
        assert server.post("/v1/produce", {"topic": "clicks", "value": "a"}).json["durability"] == "written"


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    with Serving(tmp_path) as server:
        server.topic()
        server.produce("a", "b")
    with Serving(tmp_path) as server:
        assert server.values() == ["a", "b"]
        assert server.produce("c") == [2]
