"""Every route, as the OpenAPI document of the broker has it."""

import json
from itertools import groupby
from typing import Any

from cordwood.server import openapi
from cordwood.server.routes import ROUTES
from tools.reference.markdown import code, page, table

_ANYBODY = {str(status) for status in openapi.ANY_REQUEST}


def written() -> str:
    """Return the page."""
    document = openapi.document(ROUTES)
    operations = [
        (operation["tags"][0], method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    parts = [
        f"{document['info']['description']}\n",
        "A running broker has the same at `/docs`, and as OpenAPI at `/v1/openapi.json`. What the routes do where"
        " this says"
        " too little is in [HTTP](../http.md); what each error means, in [Errors](errors.md).\n",
        "Any request may get "
        + ", ".join(sorted(_ANYBODY))
        + "; other statuses are named with their route. In a query, lists and objects are JSON text.\n",
        table(
            ("route", "what"), ((f"[`{m} {p}`](#{_anchor(m, p)})", found["summary"]) for _, m, p, found in operations)
        ),
    ]
    schemas = document["components"]["schemas"]
    for noun, found in groupby(operations, key=lambda entry: entry[0]):
        parts.append(f"## {noun.capitalize()}\n")
        parts += [_operation(method, path, operation, schemas) for _, method, path, operation in found]
    parts.append("## Values\n")
    parts += [_value(name, schema) for name, schema in sorted(schemas.items())]
    return page("HTTP routes", *parts)


def _anchor(method: str, path: str) -> str:
    return "-".join([method.lower(), *(part.strip("{}").replace(".", "") for part in path.strip("/").split("/"))])


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    parts = [
        f'<a id="{_anchor(method, path)}"></a>\n\n### `{method} {path}`\n',
        f"{operation['summary']}. {operation.get('description', '')}".strip() + "\n",
    ]
    rows = [
        (code(found["name"]), _place(found, operation, schemas), *_described(_schema(found)))
        for found in operation["parameters"]
    ]
    if rows:
        parts.append(table(("parameter", "in", "kind", "default", "what"), rows))
    body = operation.get("requestBody")
    if body is not None and not _is_parameters(operation):
        parts.append(f"Body: {body['description']} {_contents(body['content'])}\n")
    answers = [
        (
            code(status),
            answer["description"],
            _contents(answer.get("content", {})),
            ", ".join(answer.get("headers", {})),
        )
        for status, answer in operation["responses"].items()
        if status not in _ANYBODY
    ]
    parts.append(table(("answer", "", "body", "headers"), answers))
    return "\n".join(parts)


def _is_parameters(operation: dict[str, Any]) -> bool:
    """Whether the body is only another place for the parameters."""
    return operation["requestBody"]["required"] is False


def _place(found: dict[str, Any], operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Return where a parameter comes, and whether it must."""
    place, required = found["in"], found["required"]
    if place == "query" and "requestBody" in operation and _is_parameters(operation):
        place = "query or body"
        asked = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        required = found["name"] in schemas[asked].get("required", ())
    return place + (", required" if required else "")


def _schema(found: dict[str, Any]) -> dict[str, Any]:
    return dict(found.get("schema") or found["content"]["application/json"]["schema"])


def _value(name: str, schema: dict[str, Any]) -> str:
    parts = [f'<a id="value-{name.lower()}"></a>\n\n### {name}\n']
    if schema.get("description"):
        parts.append(f"{' '.join(schema['description'].split())}\n")
    required = schema.get("required", ())
    rows = [
        (code(field) + (" (always)" if field in required else ""), *_described(shape))
        for field, shape in schema.get("properties", {}).items()
    ]
    if rows:
        parts.append(table(("field", "kind", "default", "what"), rows))
    return "\n".join(parts)


def _described(shape: dict[str, Any]) -> tuple[str, str, str]:
    """Return the kind, the default and the meaning of a value."""
    default = json.dumps(shape["default"]) if shape.get("default") is not None else ""
    kinds = shape.get("anyOf", [shape])
    said = shape.get("description") or next((kind["description"] for kind in kinds if kind.get("description")), "")
    return kind_of(shape), code(default), said


def kind_of(shape: dict[str, Any]) -> str:
    """Return what a value may be, in words."""
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(kind_of(kind) for kind in shape["anyOf"]))
    if "$ref" in shape:
        name = shape["$ref"].rpartition("/")[2]
        return f"[{name}](#value-{name.lower()})"
    if "enum" in shape:
        return ", ".join(code(word) for word in shape["enum"])
    kind = shape.get("type", "anything")
    if kind == "array":
        if "prefixItems" in shape:
            return "[" + ", ".join(kind_of(item) for item in shape["prefixItems"]) + "]"
        return f"list of {kind_of(shape.get('items', {}))}"
    if kind == "object" and isinstance(shape.get("additionalProperties"), dict):
        return f"object of {kind_of(shape['additionalProperties'])}"
    return kind + _range(shape)


def _range(shape: dict[str, Any]) -> str:
    least, most = shape.get("minimum"), shape.get("maximum")
    if most is not None and most < 1 << 31:
        return f" {least if least is not None else '…'} to {most}"
    if shape.get("maxLength"):
        return f" of at most {shape['maxLength']} characters"
    return f" from {least}" if least is not None else ""


def _contents(content: dict[str, Any]) -> str:
    said = []
    for media, found in content.items():
        kind = kind_of(found["schema"]) if found["schema"].get("format") != "binary" else "an Arrow IPC stream"
        said.append(f"`{media}`: {kind}")
    return "; ".join(said)
