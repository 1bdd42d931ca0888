"""Streams over HTTP: what comes, when it ends, and what goes back."""

from contextlib import ExitStack
from typing import Any

import pytest
from pyarrow import ipc

from cordwood.errors import Preparing
from tests.http.running import until
from tests.server.serving import Serving
from tests.server.streams import Open

ASKED = {"topic": "clicks", "group": "mailer"}


def consumers(server: Serving) -> int:
    return int(server.get("/v1/groups/clicks/mailer").json["consumers"])


def test_the_head_comes_before_the_first_message(server: Serving) -> None:
    server.topic()
    with Open(server, "/v1/consume", **ASKED) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "application/x-ndjson")
        assert stream.headers["cordwood-owner"]
        server.produce("a")
        line = stream.line()
        assert (line["partition"], line["offset"], line["attempts"], line["value"]) == (0, 0, 1, "a")


def test_a_stream_goes_on_as_messages_come_and_acks_are_its_owners(server: Serving) -> None:
    server.topic(partitions=2)
    with Open(server, "/consume", **ASKED, owner="me") as stream:
        assert stream.headers["cordwood-owner"] == "me"
        for n in range(5):
            server.produce(str(n))
            line = stream.line()
            place = {"partition": line["partition"], "offset": line["offset"]}
            assert server.post("/v1/ack", {**ASKED, **place, "owner": "other"}).status == 409
            assert server.post("/v1/ack", {**ASKED, **place, "owner": "me"}).status == 204
        assert server.get("/v1/groups/clicks/mailer").json["lag"] == 0


def test_arrow_streams_have_a_schema_at_once_and_an_end(server: Serving) -> None:
    server.topic()
    server.produce("a", "b")
    with Open(server, "/v1/consume", {"Accept": "application/vnd.apache.arrow.stream"}, **ASKED) as stream:
        assert stream.headers["content-type"] == "application/vnd.apache.arrow.stream"
        until(lambda: server.get("/v1/groups/clicks/mailer").json["in_flight"] == 2)
        server.ask("DELETE", "/v1/topics/clicks")
        table = ipc.open_stream(stream.rest()).read_all()
        assert table.column("value").to_pylist() == [b"a", b"b"]
        assert table.column("attempts").to_pylist() == [1, 1]


def test_a_closed_stream_gives_back_what_it_held(server: Serving) -> None:
    server.topic()
    server.produce("a")
    with Open(server, "/v1/consume", **ASKED) as stream:
        assert stream.line()["attempts"] == 1
    until(lambda: consumers(server) == 0)
    (again,) = server.lease(wait_ms=60_000)
    assert (again["offset"], again["attempts"]) == (0, 2)


def test_two_streams_share_and_no_message_goes_to_both(server: Serving) -> None:
    server.topic(partitions=4)
    with Open(server, "/v1/consume", **ASKED) as one, Open(server, "/v1/consume", **ASKED) as two:
        assert one.headers["cordwood-owner"] != two.headers["cordwood-owner"]
        until(lambda: consumers(server) == 2)
        body = b"".join(b'{"value":"%d","partition":%d}\n' % (n, n % 4) for n in range(8))
        server.post("/v1/produce", body, {"Content-Type": "application/x-ndjson"}, topic="clicks")
        until(lambda: server.get("/v1/groups/clicks/mailer").json["in_flight"] == 8)
        server.ask("DELETE", "/v1/groups/clicks/mailer")
        values = [line for stream in (one, two) for line in stream.rest().splitlines()]
        assert len(values) == len(set(values)) == 8


def test_max_in_flight_bounds_what_a_stream_holds(server: Serving) -> None:
    server.topic()
    server.produce("a", "b", "c")
    with Open(server, "/v1/consume", **ASKED, max_in_flight=1) as stream:
        for offset in range(3):
            assert stream.line()["offset"] == offset
            assert server.get("/v1/groups/clicks/mailer").json["in_flight"] == 1
            server.post("/v1/ack", {**ASKED, "partition": 0, "offset": offset})


@pytest.mark.parametrize("path", ["/v1/topics/clicks", "/v1/groups/clicks/mailer"])
def test_a_stream_ends_when_its_topic_or_group_goes(server: Serving, path: str) -> None:
    server.topic()
    with Open(server, "/v1/consume", **ASKED) as stream:
        assert server.ask("DELETE", path).status == 204
        assert stream.rest() == b""


def test_a_stream_ends_when_the_server_stops(server: Serving) -> None:
    server.topic()
    with Open(server, "/v1/consume", **ASKED) as stream:
        server.produce("a")
        assert stream.line()["value"] == "a"
        server.call(server.listener.stop(60))
        assert stream.rest() == b""


def test_a_stream_that_cannot_be_is_refused_with_a_status(server: Serving) -> None:
    server.topic()
    assert server.get("/v1/consume", topic="nope", group="g").error == "NOT_FOUND"
    assert server.get("/v1/consume", topic="clicks").error == "INVALID_ARGUMENT"
    assert server.get("/v1/consume", **ASKED, max_in_flight=0).error == "INVALID_ARGUMENT"
    assert server.get("/v1/consume", **ASKED, lease_ms=0).error == "INVALID_ARGUMENT"
    assert server.get("/v1/consume", {"Accept": "application/json"}, **ASKED).error == "INVALID_ARGUMENT"
    assert server.get("/v1/groups").json == {"groups": []}


def test_a_stream_waits_while_a_segment_is_prepared(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    server.topic()
    server.produce("a")
    broker = server.running.broker
    consume, refusals = broker.consume, [Preparing("not yet"), Preparing("not yet")]

    def later(*arguments: Any, **named: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return consume(*arguments, **named)

    monkeypatch.setattr(broker, "consume", later)
    with Open(server, "/v1/consume", **ASKED) as stream:
        assert stream.line()["value"] == "a"
    assert not refusals


def test_many_idle_streams_are_served_when_something_comes(server: Serving) -> None:
    server.topic()
    with ExitStack() as stack:
        streams = [
            stack.enter_context(Open(server, "/v1/consume", topic="clicks", group=f"g{n % 5}")) for n in range(100)
        ]
        server.produce("a")
        until(lambda: sum(g["in_flight"] for g in server.get("/v1/groups").json["groups"]) == 5)
        server.ask("DELETE", "/v1/topics/clicks")
        assert sorted(len(stream.rest().splitlines()) for stream in streams) == [0] * 95 + [1] * 5


def test_to_look_at_a_stream_is_not_to_join(server: Serving) -> None:
    server.topic()
    reply = server.ask("HEAD", "/v1/consume", **ASKED)
    assert (reply.status, reply.body, reply.headers["content-type"]) == (200, b"", "application/x-ndjson")
    assert server.get("/v1/groups").json == {"groups": []}
    assert server.ask("HEAD", "/v1/consume", topic="nope", group="g").status == 404


def test_a_slow_reader_does_not_take_more_than_it_can_hold(server: Serving) -> None:
    server.topic()
    server.ask("PATCH", "/v1/groups/clicks/mailer", {"max_in_flight": 100_000})
    body = b"".join(b'{"value":"%s"}\n' % (b"x" * 1000) for _ in range(5000))
    for _ in range(4):
        server.post("/v1/produce", body, {"Content-Type": "application/x-ndjson"}, topic="clicks")
    with Open(server, "/v1/consume", **ASKED) as stream:
        assert stream.line()["offset"] == 0
        held = server.get("/v1/groups/clicks/mailer").json["in_flight"]
        assert held < 20_000
        assert [stream.line()["offset"] for _ in range(19_999)] == list(range(1, 20_000))
