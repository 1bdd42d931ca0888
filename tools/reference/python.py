"""The Python API: every public name with its signature and what it promises."""

import inspect
import re
from dataclasses import fields
from importlib import import_module
from types import FunctionType
from typing import Any

from cordwood.client.terms import ConsumerTerms, ProducerTerms
from tools.reference.markdown import block, page, table

# title → (how it is imported, what is said first, names)
API: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "cordwood": (
        "cordwood",
        "For threads, scripts and notebooks.",
        ("Producer", "Consumer", "Client", "Outbox", "embedded"),
    ),
    "cordwood.aio": (
        "cordwood.aio",
        "The same for asyncio; what is awaited here returns there. `Client` has every call of the one above,"
        " awaited.",
        ("Producer", "Consumer", "Client", "Outbox"),
    ),
    "What they give": ("cordwood.client.message", "A message, and an Arrow batch of them.", ("Message", "Batch")),
    "Futures": (
        "cordwood.client.future",
        "What `send` and `send_table` return, and what is in it.",
        ("Future", "Sent", "TableFuture", "Stored"),
    ),
    "The broker in this process": ("cordwood.embedding", "What `cordwood.embedded` returns.", ("Embedded",)),
    "pytest": (
        "cordwood.fixture",
        "A fixture that pytest finds by itself once Cordwood is installed.",
        ("cordwood_broker",),
    ),
    "Archives and left-overs": (
        "cordwood.edge.archive",
        "What outboxes have sent, read again.",
        ("read", "read_execution", "clean"),
    ),
    "Spark": ("cordwood.spark.table", "Also as `cordwood.spark.table`.", ("table",)),
    "A Spark session": ("cordwood.spark.session", "", ("start",)),
    "Pipelines: land": ("cordwood.spark.pipelines.land", "", ("land",)),
    "Pipelines: compact": ("cordwood.spark.pipelines.compact", "", ("compact",)),
    "Pipelines: scrub": ("cordwood.spark.pipelines.scrub", "", ("scrub",)),
    "Pipelines: replay": ("cordwood.spark.pipelines.replay", "", ("replay",)),
    "Pipelines: stats": ("cordwood.spark.pipelines.stats", "", ("stats",)),
}


# What the classes above have for each other, and nobody else calls.
INNER = {"idle_s", "at_hand", "rest", "when_ready", "advance", "append_drafts", "has_room", "reached"}
TERMS = {"Producer": ProducerTerms, "Consumer": ConsumerTerms}


def written() -> str:
    """Return the page."""
    parts = [
        "Errors are classes of `cordwood.errors` ([Errors](errors.md)). What the client does where this says too"
        " little is in"
        " [the Python client](../client.md), [the outbox](../outbox.md) and [Spark](../spark.md).\n"
    ]
    for title, (module, about, names) in API.items():
        parts.append(f"## {title}\n")
        parts.append(f"`from {module} import {', '.join(names)}`. {about}".rstrip() + "\n")
        for name in names:
            found = getattr(import_module(module), name)
            parts += _class(name, found) if inspect.isclass(found) else _function(name, found)
    return page("Python", *parts)


def _function(name: str, found: Any) -> list[str]:
    plain = found if isinstance(found, FunctionType) else inspect.unwrap(getattr(found, "__wrapped__", found))
    said = [f"### {name}\n", first_paragraph(plain) + "\n"]
    if name != "cordwood_broker":
        said.append(block(signature(name, plain), "text"))
    return said


def _class(name: str, found: type) -> list[str]:
    parts = [f"### {name}\n", first_paragraph(found) + "\n"]
    if "__init__" in vars(found) and name in ("Producer", "Consumer", "Client", "Outbox"):
        parts.append(block(signature(name, found.__init__, skip=1), "text"))  # type: ignore[misc]
        if name in TERMS and not inspect.iscoroutinefunction(getattr(found, "close", None)):
            parts += _terms(TERMS[name])
    rows = []
    for member, value in vars(found).items():
        if member in INNER or (member.startswith("_") and member not in ("__iter__", "__aiter__")):
            continue
        if isinstance(value, property):
            rows.append((f"`{member}`", first_paragraph(value)))
        elif isinstance(value, FunctionType):
            shown = {"__iter__": "for message in …", "__aiter__": "async for message in …"}.get(member)
            wanted = "await " if inspect.iscoroutinefunction(value) and not shown else ""
            rows.append((f"`{wanted}{shown or one_line(member, value)}`", first_paragraph(value)))
    fields = [n for n in getattr(found, "__struct_fields__", getattr(found, "_fields", ())) if not n.startswith("_")]
    if fields:
        parts.append("Fields: " + ", ".join(f"`{field}`" for field in fields) + ".\n")
    if rows:
        parts.append(table(("", "what it does"), rows))
    return parts


def _terms(terms: type) -> list[str]:
    """Return what `**settings` may be, with the reasons that stand in its docstring."""
    why = " ".join((inspect.getdoc(terms) or "").split("\n\n")[1].split())
    shown = ", ".join(f"`{found.name}={found.default}`" for found in fields(terms))
    return [f"`settings`, with their defaults: {shown}. {why}\n"]


def first_paragraph(found: Any) -> str:
    """Return what a docstring promises first."""
    said = inspect.getdoc(found) or ""
    return " ".join(said.split("\n\n")[0].split())


def signature(name: str, function: Any, skip: int = 0) -> str:
    """Return a signature, a parameter a line."""
    found = inspect.signature(function)
    shown = [str(one) for one in list(found.parameters.values())[skip:]]
    kinds = [one.kind for one in list(found.parameters.values())[skip:]]
    for at, kind in enumerate(kinds):
        if kind is inspect.Parameter.KEYWORD_ONLY:
            if not any(before is inspect.Parameter.VAR_POSITIONAL for before in kinds[:at]):
                shown.insert(at, "*")
            break
    answer = found.return_annotation
    behind = (
        f" -> {_plain(inspect.formatannotation(answer))}" if answer not in (inspect.Signature.empty, None) else ""
    )
    return f"{name}(\n" + "".join(f"    {_plain(one)},\n" for one in shown) + f"){behind}"


def one_line(name: str, function: Any) -> str:
    """Return a signature without types, on one line."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return f"{name}({', '.join(_plain(str(one.replace(annotation=one.empty))) for one in parameters)})"


def _plain(text: str) -> str:
    """Return a parameter or a type without the modules that it lives in, and without addresses in memory."""
    text = re.sub(r"<(?:function|class|object) [^=]*? at 0x[0-9a-f]+>", "…", text)
    modules = r"\b(?:cordwood|collections|typing|os|asyncio|ssl|datetime|pathlib)(?:\.\w+)*\.(?=[A-Z]\w)"
    return re.sub(modules, "", text).replace("'", '"')
