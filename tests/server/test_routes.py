"""What holds for every route: both prefixes, methods, parameters in two places, errors in one shape."""

import re
from typing import Any

import pytest

from cordwood.server.route import Route
from cordwood.server.routes import ROUTES
from tests.server.serving import Serving

EVERY_ROUTE = pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")


def path_of(route: Route) -> str:
    return re.sub(r"{\w+}", "x", route.path)


@EVERY_ROUTE
def test_every_route_answers_with_and_without_the_version(server: Serving, route: Route) -> None:
    path = "/" + "/".join("x" if part.startswith("{") else part for part in route.parts)
    plain, versioned = (server.ask(route.method, prefix + path, color="red") for prefix in ("", "/v1"))
    assert plain.status == versioned.status == 400, "the route is there, and knows no such parameter"
    assert plain.error == "INVALID_ARGUMENT"
    assert "'color'" in plain.json["message"]


@EVERY_ROUTE
def test_an_unknown_parameter_is_refused_by_naming_those_there_are(server: Serving, route: Route) -> None:
    message = server.ask(route.method, path_of(route), color="red").json["message"]
    for name in route.parameters.names:
        assert name in message
    if not route.messages:
        assert server.ask(route.method, path_of(route), {"color": "red"}).json["message"] == message


@EVERY_ROUTE
def test_another_method_is_405_and_told_what_is_allowed(server: Serving, route: Route) -> None:
    allowed = {other.method for other in ROUTES if other.path == route.path}
    allowed |= {"HEAD"} if "GET" in allowed else set()
    for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - allowed:
        reply = server.ask(method, path_of(route))
        assert reply.status == 405
        assert set(reply.headers["allow"].split(", ")) == allowed
        if method != "HEAD":
            assert reply.error == "METHOD_NOT_ALLOWED"


@EVERY_ROUTE
def test_head_is_get_without_its_body(server: Serving, route: Route) -> None:
    if route.method != "GET" or route.path == "/v1/live":  # which has no end
        return
    head, get = server.ask("HEAD", path_of(route)), server.ask("GET", path_of(route))
    assert (head.status, head.body) == (get.status, b"")
    if not route.path.endswith("metrics"):  # which move
        assert head.headers == get.headers


@pytest.mark.parametrize(
    "path", ["/nope", "/v1/nope", "/v1/v1/topics", "/v1/topics/a/b/c", "/v1/topics/", "/v1", "/v2/topics"]
)
def test_an_unknown_path_is_404(server: Serving, path: str) -> None:
    assert server.get(path).error == "NOT_FOUND"


def test_parameters_come_in_the_query_in_the_body_or_in_both(server: Serving) -> None:
    server.topic()
    server.produce(*"abcde")
    everything: dict[str, Any] = {"topic": "clicks", "group": "g", "max_messages": 1, "owner": "me"}
    for n in range(5):
        names = sorted(everything)
        query = {name: everything[name] for name in names[:n]}
        body = {name: everything[name] for name in names[n:]}
        reply = server.post("/v1/lease", body or None, **query)
        assert [row["offset"] for row in reply.json["messages"]] == [n]


def test_a_parameter_in_both_places_must_be_the_same(server: Serving) -> None:
    server.topic()
    asked = {"topic": "clicks", "group": "g", "max_messages": 5}
    assert server.post("/v1/lease", asked, max_messages=5, topic="clicks").status == 204
    reply = server.post("/v1/lease", asked, max_messages=6)
    assert reply.error == "INVALID_ARGUMENT"
    assert "max_messages" in reply.json["message"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"group": "g"}, "topic is missing"),
        ({"topic": "clicks", "group": "g", "max_messages": "x"}, "max_messages: expected int"),
        ({"topic": "clicks", "group": "g", "wait_ms": 99_999_999}, "wait_ms: expected int <= 60000"),
        ({"topic": 7, "group": "g"}, "topic: expected str"),
    ],
)
def test_a_wrong_parameter_is_named(server: Serving, asked: dict[str, Any], words: str) -> None:
    assert words in server.post("/v1/lease", asked).json["message"]


def test_a_fault_of_ours_is_500_and_the_connection_goes_on(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    server.topic()

    def broken(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(server.running.broker, "topics", broken)
    assert server.get("/v1/topics").error == "INTERNAL"
    monkeypatch.undo()
    assert server.get("/v1/topics").status == 200
