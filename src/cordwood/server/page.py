"""The description of all routes as a page for people: one file of HTML, nothing fetched, nothing that runs."""

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --name: #0b62c4; --dim: #667; }
@media (prefers-color-scheme: dark) { :root { --name: #7db7ff; --dim: #99a; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1.5rem; }
h1 { margin-bottom: 0; }
h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; text-transform: capitalize; }
code, .method, .path { font-family: ui-monospace, monospace; font-size: .92em; }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .5rem 0; padding: 0 .8rem; }
details[open] { background: var(--soft); padding-bottom: .8rem; }
summary { cursor: pointer; padding: .5rem 0; }
.method { display: inline-block; font-weight: 700; width: 4.5rem; }
.what, .dim { color: var(--dim); }
.what { margin-left: .8rem; }
table { border-collapse: collapse; margin: .4rem 0 1rem; width: 100%; }
th, td { border-top: 1px solid var(--line); padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top; }
th { color: var(--dim); font-weight: 600; }
td:first-child { white-space: nowrap; }
td, .path, .what { overflow-wrap: anywhere; }
@media (max-width: 40rem) { td:first-child { white-space: normal; } .what { display: block; } }
a { color: var(--name); text-decoration: none; }
h4 { margin: .8rem 0 .2rem; }
"""


def written(document: dict[str, Any]) -> str:
    """Return the page of an OpenAPI document."""
    info = document["info"]
    operations = [
        (operation["tags"][0], method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    parts = [
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])}</h1><p class=dim>{escape(info['version'])} · ",
        "<a href=/v1/openapi.json>openapi.json</a></p>",
        f"<p>{_marked(info['description'])}</p>",
    ]
    for noun, found in groupby(operations, key=lambda entry: entry[0]):
        parts.append(f"<h2>{escape(noun)}</h2>")
        parts += [_operation(method, path, operation) for _, method, path, operation in found]
    parts.append("<h2>Values</h2>")
    parts += [_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return "\n".join((*parts, "</body></html>\n"))


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [
        f"<details id={escape(operation['operationId'])}><summary><span class=method>{method}</span>",
        f"<span class=path>{escape(path)}</span><span class=what>{escape(operation['summary'])}</span></summary>",
        f"<p>{_marked(operation.get('description', ''))}</p>",
    ]
    rows = [
        (
            f"<code>{escape(found['name'])}</code>",
            escape(found["in"]) + (", required" if found["required"] else ""),
            _kind(_shape(found)),
            _marked(_description(_shape(found))),
        )
        for found in operation["parameters"]
    ]
    if rows:
        parts.append("<h4>Parameters</h4>" + _table(("name", "in", "kind", ""), rows))
    if "requestBody" in operation:
        body = operation["requestBody"]
        parts.append(f"<h4>Body</h4><p>{_marked(body['description'])}</p>" + _contents(body["content"]))
    answers = [
        (f"<code>{status}</code>", _marked(answer["description"]), _contents(answer.get("content", {}), lines=True))
        for status, answer in operation["responses"].items()
    ]
    parts.append("<h4>Answers</h4>" + _table(("status", "", ""), answers) + "</details>")
    return "".join(parts)


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = [
        (
            f"<code>{escape(field)}</code>",
            ("required " if field in schema.get("required", ()) else "") + _kind(shape),
            _marked(_description(shape)),
        )
        for field, shape in schema.get("properties", {}).items()
    ]
    return (
        f"<details id={escape(name)}><summary><code>{escape(name)}</code></summary>"
        f"<p>{_marked(schema.get('description', ''))}</p>{_table(('name', 'kind', ''), rows)}</details>"
    )


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _contents(content: dict[str, Any], *, lines: bool = False) -> str:
    found = [f"<code>{escape(media)}</code> {_kind(body['schema'])}" for media, body in content.items()]
    return "<br>".join(found) if lines else _table(("format and value",), [(text,) for text in found])


def _shape(parameter: dict[str, Any]) -> dict[str, Any]:
    if "schema" in parameter:
        return dict(parameter["schema"])
    return dict(next(iter(parameter["content"].values()))["schema"])


def _kind(schema: dict[str, Any]) -> str:
    """Return a schema in a few words."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href=#{name}>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(part) for part in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    kind = str(schema.get("type", "anything"))
    if kind == "array" and schema.get("items"):
        kind = f"array of {_kind(schema['items'])}"
    elif kind == "array" and "prefixItems" in schema:
        kind = "[" + ", ".join(_kind(part) for part in schema["prefixItems"]) + "]"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        kind = f"object of {_kind(schema['additionalProperties'])}"
    bounds = [f"{word} {schema[key]}" for key, word in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    return " ".join((kind, *bounds))


def _description(schema: dict[str, Any]) -> str:
    found = [schema.get("description"), *(part.get("description") for part in schema.get("anyOf", ()))]
    text = "; ".join(dict.fromkeys(part for part in found if part))
    default = schema.get("default")
    return f"{text} (default {default})".strip() if default not in (None, "") else text


def _marked(text: str) -> str:
    """Return text as HTML; what stands between backticks is code."""
    parts = escape(" ".join(text.split())).split("`")
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))
