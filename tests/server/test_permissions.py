"""Every route, and everybody who may come: who is let in is written here once more, by hand."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cordwood.server.need import OPEN
from cordwood.server.parameters import Parameters
from cordwood.server.route import Route
from cordwood.server.routes import ROUTES
from cordwood.server.topics import NewTopic
from tests.server.serving import Serving
from tests.server.test_produce import ARROW, NDJSON, stream
from tests.server.tokens import token_of

# Who: P may produce to `orders`, C consume it, A is admin of it; O may do all with `other`; X is admin of everything.
EVERYBODY = "everybody"  # also without a token
LET_IN = {
    "POST /v1/produce": "P A X",
    "POST /v1/lease": "C A X",
    "GET /v1/consume": "C A X",
    "POST /v1/ack": "C A X",
    "POST /v1/nack": "C A X",
    "POST /v1/extend": "C A X",
    "GET /v1/read": "C A X",
    "GET /v1/spans": "C A X",
    "GET /v1/topics": "P C A O X",
    "POST /v1/topics": "A X",
    "GET /v1/topics/{topic}": "P C A X",
    "PATCH /v1/topics/{topic}": "A X",
    "DELETE /v1/topics/{topic}": "A X",
    "POST /v1/topics/{topic}/replace": "A X",
    "GET /v1/groups": "P C A O X",
    "GET /v1/groups/{topic}/{group}": "C A X",
    "PATCH /v1/groups/{topic}/{group}": "C A X",
    "DELETE /v1/groups/{topic}/{group}": "A X",
    "POST /v1/groups/{topic}/{group}/seek": "C A X",
    "POST /v1/groups/{topic}/{group}/redrive": "A X",
    "POST /v1/stage": "P A X",
    "POST /v1/publish": "P A X",
    "GET /v1/readers/{topic}/{reader}": "C A X",
    "PUT /v1/readers/{topic}/{reader}": "C A X",
    "DELETE /v1/readers/{topic}/{reader}": "C A X",
    "GET /v1/healthz": EVERYBODY,
    "GET /v1/version": EVERYBODY,
    "GET /v1/config": "P C A O X",
    "GET /metrics": "X",
    "GET /v1/live": "P C A O X",
    "GET /": EVERYBODY,
    "GET /dashboard/{file}": EVERYBODY,
    "GET /v1/openapi.json": EVERYBODY,
    "GET /docs": EVERYBODY,
}
# What is asked: the parameters of a request that is in order.
ASKED: dict[str, dict[str, Any]] = {
    "POST /v1/lease": {"topic": "orders", "group": "g"},
    "GET /v1/consume": {"topic": "orders", "group": "g"},
    "POST /v1/ack": {"topic": "orders", "group": "g", "partition": 0, "offset": 0},
    "POST /v1/nack": {"topic": "orders", "group": "g", "partition": 0, "offset": 0},
    "POST /v1/extend": {"topic": "orders", "group": "g", "partition": 0, "offset": 0},
    "GET /v1/read": {"topic": "orders"},
    "GET /v1/spans": {"topic": "orders"},
    "POST /v1/topics": {"name": "orders"},
    "POST /v1/topics/{topic}/replace": {"partition": 0, "objects": ["a"], "replacement": "b"},
    "POST /v1/groups/{topic}/{group}/seek": {"to": "earliest"},
    "POST /v1/publish": {"writer": "w", "batch": 0},
    "PUT /v1/readers/{topic}/{reader}": {"offsets": {"0": 0}},
}
MESSAGES = {"POST /v1/produce": {"topic": "orders"}, "POST /v1/stage": {"topic": "orders", "writer": "v", "batch": 0}}


class Locked:
    """A broker whose door is locked, and the headers of everybody who may come."""

    def __init__(self, server: Serving, headers: dict[str, dict[str, str]]):
        self.server = server
        self.headers = headers

    def status(
        self, who: str, method: str, path: str, body: Any = None, kind: dict[str, str] | None = None, **query: Any
    ) -> int:
        """Return what somebody gets, without waiting for the end of a stream."""
        connection = self.server.open(method, path, body, {**self.headers[who], **(kind or {})}, **query)
        try:
            return connection.getresponse().status
        finally:
            connection.close()

    def end(self) -> int:
        return sum(
            p["end_offset"] for p in self.server.get("/v1/topics/orders", self.headers["X"]).json["partitions"]
        )


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    path: Path = tmp_path_factory.mktemp("locked")
    headers = {
        "nobody": {},
        "a stranger": {"Authorization": "Bearer cordwood_000000000000_" + "A" * 43},
        "a user": {"Authorization": "Basic b3BzOm9wcw=="},
        "somebody whose time is over": token_of(path, "late", "admin:", expires_at=2),
        "P": token_of(path, "p", "produce:orders"),
        "C": token_of(path, "c", "consume:ord"),
        "A": token_of(path, "a", "admin:orders"),
        "O": token_of(path, "o", "produce:other", "consume:other", "admin:other"),
        "X": token_of(path, "x", "admin:"),
    }
    with Serving(path) as server:
        yield Locked(server, headers)


def route_name(route: Route) -> str:
    return f"{route.method} {route.path}"


def test_every_route_is_in_the_table() -> None:
    assert {route_name(route) for route in ROUTES} == set(LET_IN), "a new route: say here who is let in"


@pytest.mark.parametrize("route", ROUTES, ids=route_name)
def test_whoever_may_is_let_in_and_nobody_else(locked: Locked, route: Route) -> None:
    name = route_name(route)
    let_in = LET_IN[name]
    path = re.sub(r"{\w+}", "g", route.path.replace("{topic}", "orders"))
    plain = path.removeprefix("/v1")
    for who in locked.headers:
        known = len(who) == 1
        expected = 200 if let_in == EVERYBODY or (known and who in let_in.split()) else 403 if known else 401
        for where in {path, plain, path.replace("o", "%6F", 1)}:
            locked.server.ask("POST", "/v1/topics", {"name": "orders"}, locked.headers["X"])
            locked.server.post(
                "/v1/stage", {"value": "x"}, locked.headers["X"], topic="orders", writer="w", batch=0, sequence=0
            )
            for method in ("GET", "HEAD") if route.method == "GET" else (route.method,):
                if name in MESSAGES:
                    found = locked.status(who, method, where, {"value": "x"}, **MESSAGES[name])
                elif route.method == "GET":
                    found = locked.status(who, method, where, **ASKED.get(name, {}))
                else:
                    found = locked.status(who, method, where, ASKED.get(name, {}))
                told = 200 if found not in (401, 403) else found
                assert told == expected, f"{who}: {method} {where} gave {found}"
                assert found < 500


@pytest.mark.parametrize("name", [name for name, asked in ASKED.items() if "topic" in asked or "name" in asked])
def test_a_topic_is_checked_wherever_it_is_named(locked: Locked, name: str) -> None:
    method, path = name.split()
    asked = ASKED[name]
    key = "topic" if "topic" in asked else "name"
    rest = {other: value for other, value in asked.items() if other != key}
    assert locked.status("O", method, path, None, **asked) == 403
    assert locked.status("O", method, path, asked) == 403
    assert locked.status("O", method, path, rest or None, **{key: "orders"}) == 403
    assert locked.status("O", method, path, {key: "orders"}, **rest) == 403
    assert locked.status("O", method, path, {key: "other", **rest}, **{key: "orders"}) == 400
    assert locked.status("O", method, f"{path}?{key}=other&{key}=orders", rest or None) == 403, "the last one counts"
    again = b'{"%s":"other","%s":"orders"}' % (key.encode(), key.encode())
    assert locked.status("O", method, path, again) in (400, 403)


def test_messages_reach_no_topic_that_may_not_be_produced_to(locked: Locked) -> None:
    server, mine = locked.server, locked.headers["O"]
    server.ask("POST", "/v1/topics", {"name": "orders"}, locked.headers["X"])
    server.ask("POST", "/v1/topics", {"name": "other"}, locked.headers["X"])
    before = locked.end()
    table = stream(pa.table({"value": [b"x"]}))
    large = b'{"value":"' + b"x" * 300_000 + b'"}\n'
    line = b'{"topic":"orders","value":"x"}\n'
    for path in ("/v1/produce", "/produce", "/v1/%70roduce", "http://h/v1/produce"):
        numbers = {"producer_id": "p", "sequence": 0, "partition": 0}
        assert locked.status("O", "POST", path, {"topic": "orders", "value": "x"}) == 403
        assert locked.status("O", "POST", path, {"value": "x"}, topic="orders") == 403
        assert locked.status("O", "POST", f"{path}?topic=%6frders", {"value": "x"}) == 403
        assert locked.status("O", "POST", f"{path}?topic=other&topic=orders", {"value": "x"}) == 403
        assert locked.status("O", "POST", path, {"topic": "orders", "value": "x", **numbers}) == 403
        assert locked.status("O", "POST", path, {"topic": "orders", "value": "x"}, topic="other") == 400
        assert locked.status("O", "POST", path, {"topic": "orders", "value": "x", "idempotency_key": "k"}) == 403
        assert locked.status("O", "POST", path, line, NDJSON) == 403
        assert locked.status("O", "POST", path, line * 9_000, NDJSON) == 403
        assert locked.status("O", "POST", path, b'{"topic":"other","value":"x"}\n' + line, NDJSON) == 400
        assert locked.status("O", "POST", path, table, ARROW, topic="orders") == 403
        assert locked.status("O", "POST", path, large, NDJSON, topic="orders") == 403
        assert (
            locked.status("O", "POST", path, {"value": "x"}, {"X-HTTP-Method-Override": "GET"}, topic="orders") == 403
        )
    batch = {"writer": "mine", "batch": 0}
    for path in ("/v1/stage", "/stage"):
        assert locked.status("O", "POST", path, {"topic": "orders", "value": "x"}, **batch) == 403
        assert locked.status("O", "POST", path, {"value": "x"}, topic="orders", **batch) == 403
        assert locked.status("O", "POST", path, line, NDJSON, **batch) == 403
        assert locked.status("O", "POST", path, line * 9_000, NDJSON, **batch) == 403
        assert locked.status("O", "POST", path, table, ARROW, topic="orders", **batch) == 403
    assert locked.status("O", "POST", "/v1/publish", batch) == 409, "nothing is staged"
    assert locked.end() == before
    assert server.post("/v1/produce", {"value": "x"}, mine, topic="other").status == 200


def test_nobody_takes_part_in_what_others_stage(locked: Locked) -> None:
    server, all_, mine = locked.server, locked.headers["X"], locked.headers["O"]
    for topic in ("orders", "other"):
        server.ask("POST", "/v1/topics", {"name": topic}, all_)
    batch = {"writer": "theirs", "batch": 0}
    assert server.post("/v1/stage", {"value": "x"}, locked.headers["P"], topic="orders", **batch).status == 200
    # A higher attempt of the same task would take the place of theirs, an empty publish would end their batch.
    for reply in (
        server.post("/v1/stage", {"value": "y"}, mine, topic="other", attempt=9, **batch),
        server.post("/v1/publish", {**batch, "tasks": []}, mine),
        server.post("/v1/publish", batch, mine),
    ):
        assert reply.error == "PERMISSION_DENIED"
        assert "'orders'" in reply.json["message"]
    assert server.post("/v1/publish", batch, locked.headers["P"]).json["results"][0]["topic"] == "orders"
    assert server.post("/v1/publish", batch, mine).status == 403, "where it went is not for everybody either"


def test_who_may_produce_nothing_publishes_nothing(locked: Locked) -> None:
    server = locked.server
    server.ask("POST", "/v1/topics", {"name": "orders"}, locked.headers["X"])
    empty = {"writer": "nobody-yet", "batch": 7, "tasks": []}
    for reply in (
        server.post("/v1/publish", empty, locked.headers["C"]),
        server.post("/v1/publish", None, locked.headers["C"], writer="nobody-yet", batch=7, tasks="[]"),
    ):
        assert reply.error == "PERMISSION_DENIED"
        assert reply.json["message"] == "the token 'c' lacks the right to produce for any topic"
    staged = server.post(
        "/v1/stage", {"value": "x"}, locked.headers["P"], topic="orders", writer="nobody-yet", batch=0
    )
    assert staged.status == 200, "nobody has ended a batch of this writer"
    assert server.post("/v1/publish", {**empty, "writer": "without-topics"}, locked.headers["P"]).status == 200
    assert server.post("/v1/publish", {**empty, "writer": "without-topics"}, locked.headers["C"]).status == 403


def test_lists_have_what_may_be_seen(locked: Locked) -> None:
    server = locked.server
    for topic in ("orders", "orders-eu", "dlq.orders", "other", "zoo"):
        server.ask("POST", "/v1/topics", {"name": topic}, locked.headers["X"])
        server.ask("PATCH", f"/v1/groups/{topic}/g", {}, locked.headers["X"])

    def topics(who: str) -> list[str]:
        return [line["name"] for line in server.get("/v1/topics", locked.headers[who]).json["topics"]]

    def groups(who: str) -> list[str]:
        return [line["topic"] for line in server.get("/v1/groups", locked.headers[who]).json["groups"]]

    orders = ["dlq.orders", "orders", "orders-eu"]
    assert topics("P") == topics("C") == topics("A") == groups("C") == groups("A") == orders
    assert topics("O") == groups("O") == ["other"]
    assert groups("P") == []
    assert topics("X") == groups("X") == [*orders, "other", "zoo"]


def test_settings_of_the_computer_are_for_whom_the_broker_is(locked: Locked) -> None:
    mine = locked.server.get("/v1/config", locked.headers["C"]).json
    whole = locked.server.get("/v1/config", locked.headers["X"]).json
    assert mine.items() < whole.items()
    assert set(whole) - set(mine) >= {"data", "host", "port", "token_file", "tls_key", "tier"}
    assert {"tier_url", "max_message_bytes", "producer_retention_ms"} <= set(mine), "what clients ask for"


def test_a_refusal_says_what_is_lacking(locked: Locked) -> None:
    reply = locked.server.post("/v1/lease", ASKED["POST /v1/lease"], locked.headers["P"])
    assert reply.error == "PERMISSION_DENIED"
    assert reply.json["message"] == "the token 'p' lacks the right to consume for the topic 'orders'"
    reply = locked.server.post("/v1/lease", ASKED["POST /v1/lease"])
    assert reply.error == "UNAUTHENTICATED"
    assert reply.headers["www-authenticate"] == 'Bearer realm="cordwood"'


def test_a_topic_that_is_not_there_is_refused_like_one_that_is(locked: Locked) -> None:
    there = locked.server.get("/v1/topics/orders", locked.headers["O"])
    missing = locked.server.get("/v1/topics/ordure", locked.headers["O"])
    assert there.status == missing.status == 403
    assert there.body.replace(b"orders", b"ordure") == missing.body


def test_a_route_must_say_what_it_needs() -> None:
    def act(*_: object) -> None: ...

    with pytest.raises(TypeError, match="need"):
        Route("GET", "/v1/x", "x", act=act, answers={})  # type: ignore[call-arg, arg-type]
    with pytest.raises(AssertionError, match="in its path"):
        Route("GET", "/v1/x/{topic}", "x", OPEN, act, {})  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="asks for a topic"):
        Route("POST", "/v1/x", "x", OPEN, act, {}, Parameters(NewTopic, topic="name"))  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="who it was"):
        Route("GET", "/v1/x", "x", OPEN, act, {}, audit="x")  # type: ignore[arg-type]


def test_metrics_may_be_made_public(tmp_path: Path) -> None:
    token_of(tmp_path, "x", "admin:")
    with Serving(tmp_path, metrics_public=True) as server:
        assert server.get("/metrics").status == 200
        assert server.get("/v1/config").status == 401
