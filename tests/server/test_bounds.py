"""More than there may be, and deeper than anybody means: refused, and nothing is damaged."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import ipc

from tests.server.serving import Serving
from tests.server.test_produce import ARROW, NDJSON

DEEP = 10_000


def test_no_more_topics_are_made_than_there_may_be(tmp_path: Path) -> None:
    with Serving(tmp_path, max_topics=2, auto_create_topics=True, max_attempts=1) as server:
        server.topic("a")
        assert server.post("/v1/produce", {"topic": "b", "value": "x"}).status == 200
        for reply in (
            server.post("/v1/topics", {"name": "c"}),
            server.post("/v1/produce", {"topic": "c", "value": "x"}),
            server.post("/v1/produce", b'{"value":"x"}\n{"value":"y"}\n', NDJSON, topic="c"),
            server.post("/v1/stage", {"value": "x"}, topic="c", writer="w", batch=0),
        ):
            assert reply.error == "FAILED_PRECONDITION"
            assert "max_topics" in reply.json["message"]
        assert server.post("/v1/topics", {"name": "a"}).status == 200, "one that is there"
        # Dead letters need their topic: it is made all the same, and does not count.
        server.lease("b", "g")
        assert server.post("/v1/nack", {"topic": "b", "group": "g", "partition": 0, "offset": 0}).status == 204
        assert [line["name"] for line in server.get("/v1/topics").json["topics"]] == ["a", "b", "dlq.b"]
        assert server.post("/v1/topics", {"name": "c"}).status == 409
        assert server.ask("DELETE", "/v1/topics/a").status == 204
        assert server.post("/v1/topics", {"name": "c"}).status == 201
    with Serving(tmp_path, max_topics=1) as server:
        names = [line["name"] for line in server.get("/v1/topics").json["topics"]]
        assert names == ["b", "c", "dlq.b"], "a lower limit takes nothing away"


def test_no_more_groups_are_made_than_there_may_be(tmp_path: Path) -> None:
    with Serving(tmp_path, max_groups=2) as server:
        server.topic()
        server.produce("a")
        assert len(server.lease(group="one")) == 1
        assert server.ask("PATCH", "/v1/groups/clicks/two", {}).status == 200
        asked = {"topic": "clicks", "group": "three"}
        for reply in (
            server.post("/v1/lease", asked),
            server.get("/v1/consume", **asked),
            server.ask("PATCH", "/v1/groups/clicks/three", {}),
        ):
            assert reply.error == "FAILED_PRECONDITION"
            assert "max_groups" in reply.json["message"]
        assert len(server.lease(group="two")) == 1
        assert server.ask("DELETE", "/v1/groups/clicks/one").status == 204
        assert len(server.lease(group="three")) == 1


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_json_that_is_nested_without_end_is_refused(server: Serving, opening: bytes) -> None:
    server.topic()
    deep = opening * DEEP + b"1" + (b"]" if opening == b"[" else b"}") * DEEP
    asks: list[tuple[str, str, bytes, dict[str, str]]] = [
        ("POST", "/v1/produce?topic=clicks", b'{"value":' + deep + b"}", {}),
        ("POST", "/v1/produce?topic=clicks", b'{"value":"a"}\n{"value":' + deep + b"}\n", NDJSON),
        ("POST", "/v1/produce?topic=clicks", b'{"value":"a","headers":' + deep + b"}", {}),
        ("POST", "/v1/produce?topic=clicks", deep, {}),
        ("POST", "/v1/stage?topic=clicks&writer=w&batch=0", b'{"value":' + deep + b"}", {}),
        ("POST", "/v1/ack", b'{"topic":"clicks","group":"g","partition":0,"ranges":' + deep + b"}", {}),
        ("POST", "/v1/ack?partition=0", b'{"topic":"clicks","group":"g","ranges":' + deep + b"}", {}),
        ("POST", "/v1/publish", b'{"writer":"w","batch":0,"tasks":' + deep + b"}", {}),
        ("PUT", "/v1/readers/clicks/r", b'{"offsets":' + deep + b"}", {}),
        ("PATCH", "/v1/topics/clicks", deep, {}),
    ]
    for method, path, body, headers in asks:
        assert server.ask(method, path, body, headers).error == "INVALID_ARGUMENT", path
    assert server.end() == 0
    assert server.produce("works") == [0]


def test_parameters_of_more_values_than_anybody_means_are_refused_before_they_are_read(server: Serving) -> None:
    server.topic()
    empty, ranges = b"[" + b"[]," * 400_000 + b"[]]", b"[" + b"[0,1]," * 300_000 + b"[0,1]]"
    asks = [
        ("POST", "/v1/ack", b'{"topic":"clicks","group":"g","partition":0,"ranges":' + ranges + b"}"),
        ("POST", "/v1/ack?topic=clicks", b'{"ranges":' + ranges + b"}"),
        ("POST", "/v1/lease?topic=clicks", b'{"x":' + empty + b"}"),
        ("GET", "/v1/config?x=1", b'{"x":' + empty + b"}"),
    ]
    for method, path, body in asks:
        reply = server.ask(method, path, body)
        assert reply.error == "PAYLOAD_TOO_LARGE", path
        assert "values" in reply.json["message"]
    tasks = ",".join(f"[{task},0]" for task in range(100_000))
    reply = server.post("/v1/publish", f'{{"writer":"w","batch":0,"tasks":[{tasks}]}}'.encode())
    assert reply.error == "FAILED_PRECONDITION", "as many tasks as a writer may have are read"


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_arrow_that_would_become_huge_is_refused_before_it_does(server: Serving, codec: str) -> None:
    server.topic()
    sink = pa.BufferOutputStream()
    table = pa.table({"value": [bytes(1 << 20)] * 40})
    with ipc.new_stream(sink, table.schema, options=ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    before = pa.total_allocated_bytes()
    assert server.post("/v1/produce", body, ARROW, topic="clicks").error == "PAYLOAD_TOO_LARGE"
    claimed = bytearray(body)
    at = bytes(claimed).index((40 << 20).to_bytes(8, "little"))  # what the first buffer says that it becomes
    claimed[at : at + 8] = (1 << 40).to_bytes(8, "little")
    assert server.post("/v1/produce", bytes(claimed), ARROW, topic="clicks").error == "PAYLOAD_TOO_LARGE"
    assert pa.total_allocated_bytes() - before < 40 << 20
    assert server.end() == 0


def test_headers_of_a_message_count_in_its_size(tmp_path: Path) -> None:
    with Serving(tmp_path, max_message_bytes=100_000) as server:
        server.topic()
        many = {f"h{n}": "x" * 10 for n in range(10_000)}
        reply = server.post("/v1/produce", {"topic": "clicks", "value": "v", "headers": many})
        assert reply.error == "PAYLOAD_TOO_LARGE"
        body = json.dumps({"value": "v", "headers": many}).encode() + b"\n"
        assert server.post("/v1/produce", body, NDJSON, topic="clicks").error == "PAYLOAD_TOO_LARGE"
        assert server.end() == 0
