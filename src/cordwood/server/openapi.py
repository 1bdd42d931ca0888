"""The description of all routes as OpenAPI 3.1, made from the table and the types that routes read and answer with.

table ──▶ paths: parameters, bodies, answers ──▶ $ref ──▶ components.schemas ◀── msgspec, from the same types
"""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from cordwood import __version__
from cordwood.server.formats import ARROW, JSON, NDJSON
from cordwood.server.need import OPEN
from cordwood.server.parameters import Nothing
from cordwood.server.refusals import Error
from cordwood.server.route import Route
from cordwood.wire.message import Message

_REF = "#/components/schemas/{name}"
_STREAM = {"type": "string", "format": "binary", "description": "an Arrow IPC stream"}

# What any request may get, besides what its route says.
ANY_REQUEST = {
    403: "The token has no right for this; or a web page from elsewhere asked, or the Host is not our name.",
    400: "The request is not one of these, or a parameter is wrong; the message says which.",
    405: "The path is for other methods; `Allow` names them.",
    408: "The request took too long to arrive.",
    413: "The body, or a message in it, is larger than is accepted.",
    429: "A limit is reached that others can lift; `Retry-After` says when to come again.",
    500: "A fault of the broker; its log says which.",
    503: "The broker cannot do this now, and nothing was acknowledged.",
}
LOCKED = "The broker asks for a token, and this one is missing, unknown, revoked or expired."
SOME = {
    404: "What it names is not there.",
    409: "It does not go with what is there.",
    507: "The disk has no room; nothing was written.",
}
_ABOUT = (
    "A durable message log and work queue. Every path also answers without `/v1`. Parameters come in the query or in"
    " a JSON body; one that is in both must be the same in both. Times are milliseconds since 1970, and every end is"
    " exclusive. In a path, a slash inside a name is `%2F`. Where there are tokens, one is shown as"
    " `Authorization: Bearer …`; what it must be good for is said with each route."
)


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the whole description."""
    routes = tuple(routes)
    types = _types(routes)
    found, components = msgspec.json.schema_components(types, ref_template=_REF)
    schemas = dict(zip(types, found, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Cordwood", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": _referenced(paths, components),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _referenced(paths: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """Return the components that are pointed at; what is only taken from a query is described there."""
    wanted = set(_names(paths))
    while more := {name for known in wanted for name in _names(components[known])} - wanted:
        wanted |= more
    return {name: component for name, component in components.items() if name in wanted}


def _names(part: Any) -> list[str]:
    return re.findall(r'"#/components/schemas/(\w+)"', msgspec.json.encode(part).decode())


def _types(routes: Iterable[Route]) -> list[Any]:
    types: list[Any] = [Message, Error]
    for route in routes:
        types.append(route.parameters.kind)
        if route.messages is not None:
            types.append(route.messages)
        for contents in route.answers.values():
            for kinds in contents.values():
                types += kinds if isinstance(kinds, tuple) else (kinds,)
    return [kind for kind in dict.fromkeys(types) if kind is not bytes]


def _operation(route: Route, schemas: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    noun = route.act.__module__.rpartition(".")[2]
    kind = route.parameters.kind
    shape = components[kind.__name__] if kind is not Nothing else {"properties": {}}
    in_body = route.method != "GET" and kind is not Nothing and route.messages is None
    found: dict[str, Any] = {
        "operationId": f"{noun}_{route.act.__name__}",
        "summary": route.summary,
        "tags": [noun],
        "security": [] if route.need is OPEN else [{"token": []}, {}],  # {}: where there are none, nobody is asked
        "x-right": route.need.words,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", route.path)
        ],
        "responses": {
            str(status): _answer(status, contents, route.headers, schemas)
            for status, contents in sorted(route.answers.items())
        },
    }
    if kind.__doc__ and kind is not Nothing:
        found["description"] = kind.__doc__
    in_message = () if route.messages is None else components[route.messages.__name__]["properties"]
    for name, schema in shape["properties"].items():
        required = name in shape.get("required", ()) and not in_body and name not in in_message
        parameter = {"name": name, "in": "query", "required": required, "schema": schema}
        if _is_nested(schema):
            parameter = {"name": name, "in": "query", "required": required, "content": {JSON: {"schema": schema}}}
        found["parameters"].append(parameter)
    if in_body:
        found["requestBody"] = {
            "description": "The same parameters as in the query; each in one of the two.",
            "required": False,
            "content": {JSON: {"schema": schemas[kind]}},
        }
    elif route.messages is not None:
        message = schemas[Message]
        found["requestBody"] = {
            "description": "One message; or one a line; or rows of an Arrow stream.",
            "required": True,
            "content": {
                JSON: {"schema": schemas[route.messages]},
                NDJSON: {"schema": message},
                ARROW: {"schema": _STREAM},
            },
        }
    refusals = {**ANY_REQUEST, **{status: SOME[status] for status in route.refusals}}
    if route.need is not OPEN:
        refusals[401] = LOCKED
    for status, description in sorted(refusals.items()):
        headers = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 405: ("Allow",)}.get(status, ())
        found["responses"][str(status)] = {
            "description": description,
            **_headers(headers),
            "content": {JSON: {"schema": schemas[Error]}},
        }
    return found


def _answer(status: int, contents: Any, headers: tuple[str, ...], schemas: dict[Any, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase, **_headers(headers)}
    content: dict[str, Any] = {}
    for media, kinds in contents.items():
        if kinds is bytes:
            content[media] = {"schema": _STREAM}
        elif isinstance(kinds, tuple):
            content[media] = {"schema": {"anyOf": [schemas[kind] for kind in kinds]}}
        else:
            content[media] = {"schema": schemas[kinds]}
    return {**answer, "content": content} if content else answer


def _headers(names: tuple[str, ...]) -> dict[str, Any]:
    return {"headers": {name: {"schema": {"type": "string"}} for name in names}} if names else {}


def _is_nested(schema: Any) -> bool:
    kinds = schema.get("anyOf", [schema])
    return any(kind.get("type") in ("array", "object") for kind in kinds)
