"""Bodies that are not what they say: refused, and nothing of them is in the log."""

import json

import pyarrow as pa
import pytest
from pyarrow import ipc

from tests.server.serving import Serving
from tests.server.test_produce import ARROW, NDJSON, lines, stream


def bad_arrow() -> dict[str, bytes]:
    good = stream(pa.table({"value": [b"x" * 100] * 10}))
    zeros = pa.table({"value": [bytes(1 << 20)] * 64})
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, zeros.schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(zeros)
    huge = bytearray(good)
    at = good.index(b"\xff\xff\xff\xff", 8)  # the second message: its declared length comes behind this
    huge[at + 4 : at + 8] = (0x7FFFFFF0).to_bytes(4, "little")
    return {
        "cut": good[:-200],
        "noise": b"\x00" * 64,
        "empty": b"",
        "no value column": stream(pa.table({"key": [b"x"]})),
        "unknown column": stream(pa.table({"value": [b"x"], "extra": [1]})),
        "wrong type": stream(pa.table({"value": [1]})),
        "times as numbers": stream(pa.table({"value": [b"x"], "timestamp": [1]})),
        "negative partition": stream(pa.table({"value": [b"x"], "partition": pa.array([-1], "int32")})),
        "huge declared length": bytes(huge),
        "compressed bomb": sink.getvalue().to_pybytes(),
        "json": b'{"value":"x"}',
    }


@pytest.mark.parametrize("name", list(bad_arrow()))
def test_an_arrow_body_that_is_not_accepted_leaves_nothing(server: Serving, name: str) -> None:
    server.topic()
    reply = server.post("/v1/produce", bad_arrow()[name], ARROW, topic="clicks")
    assert reply.status in (400, 413), reply
    assert reply.error in ("INVALID_ARGUMENT", "PAYLOAD_TOO_LARGE")
    assert server.end() == 0
    assert server.produce("works") == [0]


@pytest.mark.parametrize(
    "body",
    [
        b'{"value":"a"}\n{"value":',
        b'{"value":"a"}\n[]',
        b'{"value":"a"}\nnull\n',
        b'{"value":"a"}\n{"value":"b","valu":1}\n',
        b'{"value":"a"}{"value":"b"}',
        b'{"value":"a"}\n{"value":"\xff"}\n',
        b'{"value":"a","value":"b"}\n',
        b'{"value":"a"}\n{"value":"b","partition":-1}\n',
        b'{"value":"a"}\n{"value":"b","partition":99}\n',
        b'{"value":"a"}\n{"value":' + b"[" * 10_000 + b"]" * 10_000 + b"}\n",
    ],
)
def test_ndjson_that_is_not_accepted_leaves_nothing(server: Serving, body: bytes) -> None:
    server.topic()
    assert server.post("/v1/produce", body, NDJSON, topic="clicks").error == "INVALID_ARGUMENT"
    assert server.end() == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"value":"a","value_base64":"YQ=="}',
        b'{"value_base64":"?"}',
        b'{"value":"a","timestamp":-1}',
        b'{"value":"a","delay_ms":1,"deliver_at":1}',
        b'{"value":"a","headers":{"a":1}}',
        b'{"value":"a","qos":2}',
        b'{"value":NaN}',
        b'{"value":"a"} trailing',
        b"topic=clicks&value=a",
    ],
)
def test_json_that_is_not_accepted_leaves_nothing(server: Serving, body: bytes) -> None:
    server.topic()
    reply = server.post("/v1/produce", body, {"Content-Type": "application/json"}, topic="clicks")
    assert reply.error == "INVALID_ARGUMENT"
    assert server.end() == 0


@pytest.mark.parametrize("kind", ["text/html", "multipart/form-data; boundary=x", "application/octet-stream", ""])
def test_another_content_type_is_400_and_the_message_names_those_there_are(server: Serving, kind: str) -> None:
    server.topic()
    reply = server.post("/v1/produce", b'{"value":"a"}', {"Content-Type": kind}, topic="clicks")
    assert reply.error == "INVALID_ARGUMENT"
    assert "application/x-ndjson" in reply.json["message"]


def test_a_content_encoding_is_400(server: Serving) -> None:
    server.topic()
    reply = server.post("/v1/produce", b"\x1f\x8b", {"Content-Encoding": "gzip"}, topic="clicks")
    assert reply.error == "INVALID_ARGUMENT"


def test_more_messages_than_one_request_may_have_are_413(server: Serving) -> None:
    server.topic()
    body = b'{"value":""}\n' * 100_001
    assert server.post("/v1/produce", body, NDJSON, topic="clicks").error == "PAYLOAD_TOO_LARGE"
    assert server.end() == 0


@pytest.mark.parametrize("path", ["/v1/ack", "/v1/lease", "/v1/topics", "/v1/publish", "/v1/nack", "/v1/extend"])
@pytest.mark.parametrize("body", [b"{", b"[]", b"7", b'"x"', b"\xff", b"[" * 100_000, b'{"a":' * 5000, b"{}"])
def test_parameters_that_are_no_json_object_are_400(server: Serving, path: str, body: bytes) -> None:
    assert server.post(path, body, {"Content-Type": "application/json"}).error == "INVALID_ARGUMENT"
    assert server.post(path, body, {"Content-Type": "application/json"}, topic="a").error == "INVALID_ARGUMENT"


def test_parameters_without_end_are_413(server: Serving) -> None:
    server.topic()
    ranges = json.dumps([[n, n + 1] for n in range(500_000)])
    body = f'{{"topic":"clicks","group":"g","partition":0,"ranges":{ranges}}}'.encode()
    assert server.post("/v1/ack", body).error == "PAYLOAD_TOO_LARGE"


def test_staged_bodies_are_checked_the_same_way(server: Serving) -> None:
    server.topic()
    asked = {"topic": "clicks", "writer": "w", "batch": 0}
    for body, headers in (
        (b"{", {}),
        (lines({"value": "a"}) + b"{", NDJSON),
        (bad_arrow()["cut"], ARROW),
        (b'{"value":"a","producer_id":"p","sequence":0}', {}),
        (b'{"value":"a","idempotency_key":"p"}', {}),
        (b'{"value":"a","qos":0}', {}),
    ):
        assert server.post("/v1/stage", body, headers, **asked).status == 400
    assert server.post("/v1/publish", {"writer": "w", "batch": 0}).status == 409, "nothing is staged"
    assert server.end() == 0
