"""The description is of the routes there are, all of them, and of what they answer."""

import json
import re
from typing import Any

import pytest

from cordwood.http.refusal import CODES
from cordwood.server.openapi import document
from cordwood.server.routes import ROUTES
from tests.server.serving import Serving


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return json.loads(json.dumps(document(ROUTES)))


def test_every_route_is_described_and_nothing_else(described: dict[str, Any]) -> None:
    table = {(route.method.lower(), route.path) for route in ROUTES}
    found = {(method, path) for path, methods in described["paths"].items() for method in methods}
    assert found == table


def test_the_contract_is_described(described: dict[str, Any]) -> None:
    contract = """
        GET /v1/healthz, GET /v1/version, GET /v1/config, GET /metrics, GET /v1/topics, POST /v1/topics,
        GET /v1/topics/{topic}, PATCH /v1/topics/{topic}, DELETE /v1/topics/{topic}, POST /v1/produce,
        GET /v1/consume, POST /v1/lease, POST /v1/ack, POST /v1/nack, POST /v1/extend, GET /v1/read, GET /v1/groups,
        GET /v1/groups/{topic}/{group}, PATCH /v1/groups/{topic}/{group}, DELETE /v1/groups/{topic}/{group},
        POST /v1/groups/{topic}/{group}/seek, POST /v1/groups/{topic}/{group}/redrive, POST /v1/stage,
        POST /v1/publish, GET /v1/spans, GET /v1/readers/{topic}/{reader}, PUT /v1/readers/{topic}/{reader},
        DELETE /v1/readers/{topic}/{reader}, POST /v1/topics/{topic}/replace, GET /v1/openapi.json, GET /docs,
        GET /v1/live, GET /, GET /dashboard/{file}
    """
    wanted = {tuple(route.split()) for route in contract.split(",")}
    assert wanted == {(m.upper(), path) for path, methods in described["paths"].items() for m in methods}


def test_every_parameter_of_a_route_is_described(described: dict[str, Any]) -> None:
    for route in ROUTES:
        operation = described["paths"][route.path][route.method.lower()]
        places: dict[str, set[str]] = {"query": set(), "path": set()}
        for parameter in operation["parameters"]:
            places[parameter["in"]].add(parameter["name"])
        assert places["query"] == set(route.parameters.names)
        assert places["path"] == set(re.findall(r"{(\w+)}", route.path))
        if route.messages:
            assert len(operation["requestBody"]["content"]) == 3


def test_every_reference_leads_somewhere_and_every_value_is_referred_to(described: dict[str, Any]) -> None:
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described)))
    assert referred == set(described["components"]["schemas"])


def test_names_of_operations_are_unique(described: dict[str, Any]) -> None:
    names = [o["operationId"] for methods in described["paths"].values() for o in methods.values()]
    assert len(names) == len(set(names))


def test_every_refusal_is_described_as_an_error_with_its_code(described: dict[str, Any]) -> None:
    for methods in described["paths"].values():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert int(status) in CODES
                    schema = answer["content"]["application/json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/Error"}
    assert set(described["components"]["schemas"]["Error"]["properties"]["error"]["enum"]) == set(CODES.values())


def test_it_is_served_as_it_is(server: Serving, described: dict[str, Any]) -> None:
    assert server.get("/v1/openapi.json").json == described
    assert server.get("/openapi.json").json["openapi"] == "3.1.0"


def fits(value: Any, schema: dict[str, Any], components: dict[str, Any]) -> bool:
    """Say whether a value is what a schema says; as much of JSON Schema as the description uses."""
    if "$ref" in schema:
        return fits(value, components[schema["$ref"].rpartition("/")[2]], components)
    if "anyOf" in schema:
        return any(fits(value, part, components) for part in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema.get("type")
    if kind == "object":
        known = schema.get("properties")
        if not isinstance(value, dict):
            return False
        if known is None:
            more = schema.get("additionalProperties", {})
            return not isinstance(more, dict) or all(fits(v, more, components) for v in value.values())
        return (
            set(schema.get("required", ())) <= set(value)
            and set(value) <= set(known)
            and all(fits(v, known[name], components) for name, v in value.items())
        )
    if kind == "array":
        items = schema.get("prefixItems") or [schema["items"]] * len(value)
        return isinstance(value, list) and all(fits(v, s, components) for v, s in zip(value, items, strict=True))
    kinds = {"string": str, "integer": int, "boolean": bool, "null": type(None), "number": float}
    return kind is None or isinstance(value, kinds[kind])


def test_answers_are_as_described(server: Serving, described: dict[str, Any]) -> None:
    group = {"topic": "clicks", "group": "mailer"}
    body = b'{"value":"a"}\n{"value_base64":"/w==","key_base64":"/w==","headers":{"a":{"base64":"/w=="}}}\n'
    asked: list[tuple[str, str, str, Any, dict[str, Any]]] = [
        ("POST", "/v1/topics", "/v1/topics", {"name": "clicks"}, {}),
        ("POST", "/v1/produce", "/v1/produce", {"topic": "clicks", "value": "a"}, {}),
        ("POST", "/v1/produce", "/v1/produce", body, {"topic": "clicks"}),
        ("POST", "/v1/produce", "/v1/produce", {"value": "a"}, {"topic": "nope"}),
        ("POST", "/v1/lease", "/v1/lease", group, {}),
        ("GET", "/v1/read", "/v1/read", None, {"topic": "clicks"}),
        ("GET", "/v1/topics", "/v1/topics", None, {}),
        ("GET", "/v1/topics/{topic}", "/v1/topics/clicks", None, {}),
        ("GET", "/v1/groups", "/v1/groups", None, {}),
        ("GET", "/v1/groups/{topic}/{group}", "/v1/groups/clicks/mailer", None, {}),
        ("POST", "/v1/groups/{topic}/{group}/redrive", "/v1/groups/clicks/mailer/redrive", None, {}),
        ("POST", "/v1/stage", "/v1/stage", {"value": "a"}, {"topic": "clicks", "writer": "w", "batch": 0}),
        ("POST", "/v1/publish", "/v1/publish", {"writer": "w", "batch": 0}, {}),
        ("GET", "/v1/spans", "/v1/spans", None, {"topic": "clicks"}),
        ("PUT", "/v1/readers/{topic}/{reader}", "/v1/readers/clicks/r", {"offsets": {"0": 0}}, {}),
        ("GET", "/v1/healthz", "/v1/healthz", None, {}),
        ("GET", "/v1/version", "/v1/version", None, {}),
        ("GET", "/v1/config", "/v1/config", None, {}),
    ]
    for method, path, target, sent, query in asked:
        headers = (
            {"Content-Type": "application/x-ndjson"} if isinstance(sent, bytes) else {"Accept": "application/json"}
        )
        reply = server.ask(method, target, sent, headers, **query)
        answer = described["paths"][path][method.lower()]["responses"][str(reply.status)]
        schema = answer["content"]["application/json"]["schema"]
        assert fits(reply.json, schema, described["components"]["schemas"]), (path, reply)
