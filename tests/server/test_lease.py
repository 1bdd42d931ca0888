"""Leases over HTTP: a batch, who holds it, and what may be said about it."""

import asyncio
import threading
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc

from tests.http.running import until
from tests.server.serving import Serving


def told(server: Serving, verb: str, partition: int, offset: int, **fields: Any) -> int:
    body = {"topic": "clicks", "group": "mailer", "partition": partition, "offset": offset, **fields}
    return server.post(f"/v1/{verb}", body).status


def test_a_lease_has_everything_about_a_message(server: Serving) -> None:
    server.topic()
    server.post("/v1/produce", {"topic": "clicks", "key": "k", "value": "v", "timestamp": 5, "headers": {"h": "x"}})
    reply = server.post("/v1/lease", {"topic": "clicks", "group": "mailer", "owner": "me"})
    assert reply.headers["cordwood-owner"] == "me"
    assert reply.json == {
        "messages": [
            {
                "partition": 0,
                "offset": 0,
                "attempts": 1,
                "timestamp": 5,
                "key": "k",
                "value": "v",
                "headers": {"h": "x"},
                "last_error": None,
            }
        ]
    }


def test_nothing_to_lease_is_204_and_every_lease_has_an_owner(server: Serving) -> None:
    server.topic()
    first, second = (server.post("/v1/lease", {"topic": "clicks", "group": "mailer"}) for _ in range(2))
    assert (first.status, first.body, second.status) == (204, b"", 204)
    assert first.headers["cordwood-owner"] != second.headers["cordwood-owner"]


def test_a_lease_comes_in_the_format_that_is_wanted(server: Serving) -> None:
    server.topic()
    server.produce("a", "b", "c")
    asked = {"topic": "clicks", "group": "mailer", "max_messages": 1}
    line = server.post("/v1/lease", asked, {"Accept": "application/x-ndjson"})
    assert line.headers["content-type"] == "application/x-ndjson"
    assert [row["value"] for row in line.lines] == ["a"]
    batch = server.post("/v1/lease", asked, {"Accept": "application/vnd.apache.arrow.stream, */*;q=0.1"})
    assert batch.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert ipc.open_stream(batch.body).read_all().column("value").to_pylist() == [b"b"]
    text = server.post("/v1/lease", asked, {"Accept": "text/html, application/json;q=0.5"})
    assert text.json["messages"][0]["value"] == "c"
    assert server.post("/v1/lease", asked, {"Accept": "text/html"}).error == "INVALID_ARGUMENT"


def test_a_lease_of_many_messages_has_them_all_in_every_format(server: Serving) -> None:
    server.topic(partitions=2)
    server.ask("PATCH", "/v1/groups/clicks/mailer", {"max_in_flight": 100_000, "backoff_ms": 0})
    body = b"".join(b'{"value":"%d"}\n' % n for n in range(5000))
    server.post("/v1/produce", body, {"Content-Type": "application/x-ndjson"}, topic="clicks", partition=1)
    asked = {"topic": "clicks", "group": "mailer", "max_messages": 100_000, "owner": "me"}
    for kind in ("application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"):
        reply = server.post("/v1/lease", asked, {"Accept": kind})
        if kind == "application/json":
            offsets = [row["offset"] for row in reply.json["messages"]]
        elif kind == "application/x-ndjson":
            offsets = [row["offset"] for row in reply.lines]
        else:
            offsets = ipc.open_stream(pa.py_buffer(reply.body)).read_all().column("offset").to_pylist()
        assert offsets == list(range(5000))
        back = {"topic": "clicks", "group": "mailer", "partition": 1, "ranges": [[0, 5000]], "lease_ms": 0}
        assert server.post("/v1/extend", back).status == 204


def test_a_lease_waits_for_the_first_message(server: Serving) -> None:
    server.topic()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(server.lease(wait_ms=60_000)))
    waiting.start()
    until(lambda: bool(server.get("/v1/groups").json["groups"]))
    server.produce("a")
    waiting.join(60)
    assert [row["value"] for row in found] == ["a"]


def test_what_is_leased_is_not_leased_again_until_it_is_given_back(server: Serving) -> None:
    server.topic()
    server.produce("a", "b")
    assert [row["offset"] for row in server.lease(max_messages=1, owner="me")] == [0]
    assert [row["offset"] for row in server.lease()] == [1]
    assert told(server, "extend", 0, 0, owner="me", lease_ms=0) == 204
    again = server.lease()
    assert [(row["offset"], row["attempts"]) for row in again] == [(0, 1)]


def test_an_ack_ends_it_by_body_or_by_query(server: Serving) -> None:
    server.topic()
    server.produce("a", "b", "c", "d")
    server.lease()
    assert told(server, "ack", 0, 2) == 204
    assert server.post("/ack", topic="clicks", group="mailer", partition=0, ranges=[[0, 1], [3, 4]]).status == 204
    shown = server.get("/v1/groups/clicks/mailer").json["partitions"][0]
    assert (shown["floor"], shown["done"], shown["lag"]) == (1, [[2, 4]], 1)
    assert told(server, "ack", 0, 2) == 204, "a repeated ack changes nothing"


def test_an_ack_of_what_another_holds_is_409(server: Serving) -> None:
    server.topic()
    server.produce("a")
    server.lease(owner="one")
    assert told(server, "ack", 0, 0, owner="two") == 409
    assert told(server, "nack", 0, 0, owner="two") == 409
    assert told(server, "extend", 0, 0, owner="two") == 409
    assert told(server, "ack", 0, 0) == 204, "an ack without owner is not checked"


def test_a_nack_brings_a_message_back_with_its_reason(server: Serving) -> None:
    server.topic()
    server.produce("a")
    server.lease()
    assert told(server, "nack", 0, 0, reason="no such user", delay_ms=0) == 204
    (again,) = server.lease(wait_ms=60_000)
    assert (again["attempts"], again["last_error"]) == (2, "no such user")


def test_a_lease_can_be_kept_for_longer(server: Serving) -> None:
    server.topic()
    server.produce("a")
    server.lease(owner="me", lease_ms=60_000)
    assert told(server, "extend", 0, 0, owner="me", lease_ms=120_000) == 204
    assert told(server, "extend", 0, 0, owner="me") == 204
    assert told(server, "ack", 0, 0) == 204
    assert told(server, "extend", 0, 0, owner="me", lease_ms=1000) == 409


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"partition": 0},
        {"offset": 0},
        {"partition": 0, "offset": 0, "ranges": [[0, 1]]},
        {"partition": 0, "offset": 9},
        {"partition": 0, "offset": -1},
        {"partition": 9, "offset": 0},
        {"partition": 0, "ranges": []},
        {"partition": 0, "ranges": [[1, 0]]},
        {"partition": 0, "ranges": [[0]]},
        {"partition": 0, "ranges": "0-1"},
        {"partition": "x", "offset": 0},
        {"partition": 0, "offset": 0, "color": 1},
    ],
)
def test_what_names_no_message_is_400(server: Serving, verb: str, wrong: dict[str, Any]) -> None:
    server.topic()
    server.produce("a")
    server.lease()
    for reply in (
        server.post(f"/v1/{verb}", {"topic": "clicks", "group": "mailer", **wrong}),
        server.post(f"/v1/{verb}", topic="clicks", group="mailer", **wrong),
    ):
        assert reply.error == "INVALID_ARGUMENT"
    assert server.get("/v1/groups/clicks/mailer").json["lag"] == 1


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_an_unknown_topic_or_group_is_404(server: Serving, verb: str) -> None:
    server.topic()
    for topic, group in (("nope", "mailer"), ("clicks", "nope")):
        body = {"topic": topic, "group": group, "partition": 0, "offset": 0}
        assert server.post(f"/v1/{verb}", body).error == "NOT_FOUND"


@pytest.mark.parametrize(
    "wrong",
    [
        {"group": "g"},
        {"topic": "clicks"},
        {"topic": "clicks", "group": "g", "max_messages": 0},
        {"topic": "clicks", "group": "g", "max_messages": 100_001},
        {"topic": "clicks", "group": "g", "wait_ms": 60_001},
        {"topic": "clicks", "group": "g", "wait_ms": -1},
        {"topic": "clicks", "group": "g", "max_bytes": (64 << 20) + 1},
        {"topic": "clicks", "group": "g", "lease_ms": 0},
        {"topic": "clicks", "group": "g", "start": "yesterday"},
        {"topic": "clicks", "group": "g", "start": "latest", "timestamp": 1},
        {"topic": "clicks", "group": "g", "owner": ""},
        {"topic": "clicks", "group": "g", "owner": "a\r\nSet-Cookie: b"},
        {"topic": "clicks", "group": "g", "owner": "ü"},
        {"topic": "clicks", "group": "a b"},
    ],
)
def test_a_lease_that_cannot_be_is_400(server: Serving, wrong: dict[str, Any]) -> None:
    server.topic()
    assert server.post("/v1/lease", wrong).error == "INVALID_ARGUMENT"


def test_a_lease_from_an_unknown_topic_is_404(server: Serving) -> None:
    assert server.post("/v1/lease", {"topic": "nope", "group": "g"}).error == "NOT_FOUND"


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ({"start": "earliest"}, 0),
        ({"start": 2}, 2),
        ({"start": "2"}, 2),
        ({"timestamp": 1_000}, 1),
        ({"start": "time:1000"}, 1),
    ],
)
def test_a_new_group_begins_where_it_is_told(server: Serving, start: dict[str, Any], first: int) -> None:
    server.topic()
    for timestamp in (500, 1000, 1500):
        server.produce("x", timestamp=timestamp)
    assert server.lease(**start)[0]["offset"] == first


def test_a_new_group_at_the_end_gets_what_comes(server: Serving) -> None:
    server.topic()
    server.produce("a")
    assert server.lease(start="latest") == []
    server.produce("b")
    assert [row["value"] for row in server.lease()] == ["b"]


def test_a_client_that_leaves_while_it_waits_takes_nothing(server: Serving) -> None:
    server.topic()
    connection = server.open("POST", "/v1/lease", {"topic": "clicks", "group": "mailer", "wait_ms": 60_000})
    until(lambda: server.get("/v1/groups").json["groups"] != [])
    connection.close()
    until(lambda: server.get("/v1/groups/clicks/mailer").json["consumers"] == 0)
    server.produce("a")
    (message,) = server.lease()
    assert message["attempts"] == 1


def test_messages_that_arrive_for_a_client_that_just_left_come_back(server: Serving) -> None:
    """The task that waits is cancelled in the same turn of the loop in which its messages came."""
    from cordwood.http.request import Request
    from cordwood.server.routes import handler

    server.topic()

    async def scene() -> None:
        handle = handler(server.running)
        body = b'{"topic":"clicks","group":"mailer","wait_ms":60000}'
        waiting = asyncio.ensure_future(handle(Request("POST", b"/v1/lease", {}, body)))  # type: ignore[arg-type]
        broker = server.running.broker
        while not broker.state.topics["clicks"].groups:
            await asyncio.sleep(0)
        handle(Request("POST", b"/v1/produce?topic=clicks", {}, b'{"value":"a"}'))
        while not broker.in_flight("clicks", "mailer", 0):
            await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()

    server.call(scene())
    until(lambda: server.get("/v1/groups/clicks/mailer").json["in_flight"] == 0)
    (message,) = server.lease(wait_ms=60_000)
    assert message["attempts"] == 1
