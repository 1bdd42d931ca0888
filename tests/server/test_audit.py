"""Who did what is in the log, in both formats; and nothing that nobody may know."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from cordwood.http.request import Request
from cordwood.server import audit
from cordwood.server.audit import Audit
from cordwood.server.logs import JsonLines, TextLines
from cordwood.server.routes import ROUTES
from tests.server.serving import Serving
from tests.server.test_door import HeldClock
from tests.server.test_produce import NDJSON
from tests.server.tokens import token_of

FACTS = ("action", "who", "topic", "group", "status", "reason", "right")


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return what the audit said since it was last asked, as JSON has it."""
    records = [record for record in caplog.records if record.name == "cordwood.audit"]
    caplog.clear()
    return [json.loads(JsonLines().format(record)) for record in records]


def facts(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    return [tuple(line.get(name) for name in FACTS if line.get(name) is not None) for line in told(caplog)]


def test_what_changes_more_than_messages_is_told_with_who_did_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "cordwood.audit")
    ops, shop = token_of(tmp_path, "ops", "admin:"), token_of(tmp_path, "shop", "produce:orders", "consume:orders")
    with Serving(tmp_path) as server:
        assert told(caplog)[0]["new"] == "ops,shop"
        asks: list[tuple[str, str, Any, dict[str, str]]] = [
            ("POST", "/v1/topics", {"name": "orders", "partitions": 2}, ops),
            ("PATCH", "/v1/topics/orders", {"retention_ms": 5_000}, ops),
            ("PATCH", "/v1/groups/orders/g", {"lease_ms": 1_000}, shop),
            ("POST", "/v1/groups/orders/g/seek", {"to": "latest"}, shop),
            ("POST", "/v1/groups/orders/g/redrive", {}, shop),
            ("POST", "/v1/topics/orders/replace", {"partition": 0, "objects": ["a"], "replacement": "b"}, ops),
            ("PUT", "/v1/readers/orders/r", {"offsets": {"0": 0}}, shop),
            ("PUT", "/v1/readers/orders/r", {"offsets": {"0": 0}}, shop),
            ("DELETE", "/v1/readers/orders/r", None, shop),
            ("POST", "/v1/produce", {"topic": "orders", "value": "x"}, shop),
            ("DELETE", "/v1/groups/orders/g", None, ops),
            ("DELETE", "/v1/topics/orders", None, ops),
            ("DELETE", "/v1/topics/orders", None, ops),
        ]
        for method, path, body, shown in asks:
            server.ask(method, path, body, shown)
        assert facts(caplog) == [
            ("topic create", "ops", "orders", 201),
            ("topic set", "ops", "orders", 200),
            ("group set", "shop", "orders", "g", 200),
            ("group seek", "shop", "orders", "g", 200),
            ("group redrive", "shop", "orders", "g", 200),
            ("topic replace", "ops", "orders", 409),
            ("reader create", "shop", "orders"),
            ("reader delete", "shop", "orders", 204),
            ("group delete", "ops", "orders", "g", 204),
            ("topic delete", "ops", "orders", 204),
            ("topic delete", "ops", "orders", 404),
        ]


def test_what_is_made_by_the_way_is_told_with_who_did_it_and_without_what_was_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "cordwood.audit")
    shop = token_of(tmp_path, "shop", "produce:", "consume:")
    line, large = b'{"value":"private"}\n', b'{"value":"' + b"private" * 50_000 + b'"}\n'
    with Serving(tmp_path, auto_create_topics=True) as server:
        told(caplog)
        for _ in range(2):
            server.post("/v1/produce", {"topic": "a", "value": "private"}, shop)
            server.post("/v1/produce", {"topic": "b", "value": "private", "qos": 0}, shop)
            server.post("/v1/produce", line, {**shop, **NDJSON}, topic="c")
            server.post("/v1/produce", large, {**shop, **NDJSON}, topic="d")
            server.post("/v1/stage", {"value": "private"}, shop, topic="e", writer="w", batch=0)
            server.post("/v1/lease", {"topic": "a", "group": "g"}, shop)
            server.open("GET", "/v1/consume", None, shop, topic="a", group="h").getresponse().close()
            server.open("HEAD", "/v1/consume", None, shop, topic="a", group="i").getresponse().close()
            server.post("/v1/lease", {"topic": "nowhere", "group": "g"}, shop)
            server.post("/v1/produce", {"topic": "//", "value": "private"}, shop)
            server.post("/v1/produce", {"topic": "f", "value": "private", "partition": 9}, shop)
        there = [line["name"] for line in server.get("/v1/topics", shop).json["topics"]]
        lines = told(caplog)
    assert there == ["a", "b", "c", "d", "e", "f"], "f is made before its message is refused"
    assert [(line["action"], line["who"], line["topic"], line.get("group"), line["by"]) for line in lines] == [
        ("topic create", "shop", "a", None, "POST /v1/produce"),
        ("topic create", "shop", "b", None, "POST /v1/produce"),
        ("topic create", "shop", "c", None, "POST /v1/produce"),
        ("topic create", "shop", "d", None, "POST /v1/produce"),
        ("topic create", "shop", "e", None, "POST /v1/stage"),
        ("group create", "shop", "a", "g", "POST /v1/lease"),
        ("group create", "shop", "a", "h", "GET /v1/consume"),
        ("topic create", "shop", "f", None, "POST /v1/produce"),
    ]
    assert all(line["peer"].startswith("127.0.0.1:") for line in lines)
    assert "private" not in json.dumps(lines)


def test_every_route_that_changes_settings_or_places_is_told_of() -> None:
    messages = {"/v1/produce", "/v1/lease", "/v1/ack", "/v1/nack", "/v1/extend", "/v1/stage", "/v1/publish"}
    for route in ROUTES:
        changes = route.method != "GET" and route.path not in messages
        moves = route.method == "PUT"  # where a reader stands is said again and again
        assert bool(route.audit) == (changes and not moves), route


def test_without_tokens_it_is_told_who_it_was_by_address(server: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cordwood.audit")
    server.topic("clicks", partitions=3)
    (line,) = told(caplog)
    assert (line["who"], line["topic"], line["status"]) == ("-", "clicks", 201)
    assert line["peer"].startswith("127.0.0.1:")
    assert json.loads(line["asked"]) == {"name": "clicks", "partitions": 3}


def test_whoever_is_not_let_in_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shop = token_of(tmp_path, "shop", "produce:orders")
    with Serving(tmp_path) as server:
        caplog.clear()
        server.get("/v1/topics", {"Authorization": "Bearer secret-of-mine"})
        server.ask("DELETE", "/v1/topics/orders", None, shop)
        server.get("/metrics", shop)
        lines = told(caplog)
        assert [(line["reason"], line["who"], line.get("right"), line.get("topic")) for line in lines] == [
            ("unauthenticated", "-", None, None),
            ("permission_denied", "shop", "admin", "orders"),
            ("permission_denied", "shop", "admin", None),
        ]
        assert "secret-of-mine" not in json.dumps(lines)
        assert server.running.broker.counts.rejections["permission_denied"] == 2


def test_many_refusals_are_counted_and_not_told_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    clock = HeldClock()
    telling = Audit(clock)
    for _ in range(1_000):
        telling.refused("unauthenticated", "-", "1.2.3.4:5")
    assert len(told(caplog)) == audit.MOST
    clock.ms += audit.WINDOW_MS
    telling.refused("unauthenticated", "-", "1.2.3.4:5")
    assert [line.get("count") for line in told(caplog)] == [1_000 - audit.MOST, None]


def test_what_a_client_sent_begins_no_line_of_its_own(server: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cordwood.audit")
    forged = "x\n2026-01-01T00:00:00.000Z info    cordwood.audit: topic delete  who=ops\x1b[2J"
    assert server.post("/v1/topics", {"name": forged}).status == 400
    (record,) = (record for record in caplog.records if record.name == "cordwood.audit")
    text = TextLines().format(record)
    assert len(text.splitlines()) == 1
    assert text.isprintable()
    assert "topic=x\\n2026" in text
    assert json.loads(JsonLines().format(record))["topic"] == forged


def test_a_request_shows_no_secret_of_its_headers() -> None:
    request = Request("GET", b"/x", {b"authorization": b"Bearer secret"}, peer="p")
    assert "secret" not in repr(request)
