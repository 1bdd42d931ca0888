"""Every error that the code raises on purpose: its class, its words, and the part of Cordwood that says it.

Read from the source, so nothing has to be imported and nothing has to go wrong.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import cordwood

ROOT = Path(cordwood.__file__).parent
# Parts whose errors no user meets: a pretended computer, and what tries to break things.
INSIDE = {"sim", "drills"}


class Class(NamedTuple):
    """An error's class; `parent` is the name of the one above it."""

    name: str
    parent: str
    module: str
    says: str  # its docstring


class Raised(NamedTuple):
    """One place where an error is made. `words` has … for what is filled in; `status` is for a Refusal."""

    kind: str
    words: str
    part: str
    status: int | None
    reason: str | None


@cache
def classes() -> dict[str, Class]:
    """Return CordwoodError and every class below it, each behind the one above it."""
    everything = {}
    for part, nodes in _modules():
        for node in nodes:
            if isinstance(node, ast.ClassDef) and node.bases and isinstance(node.bases[0], ast.Name):
                says = ast.get_docstring(node) or ""
                everything[node.name] = Class(node.name, node.bases[0].id, part, says)
    found: dict[str, Class] = {}

    def add(name: str) -> None:
        found[name] = everything[name]
        for other in everything.values():
            if other.parent == name:
                add(other.name)

    add("CordwoodError")
    return found


@cache
def raised() -> list[Raised]:
    """Return every error that is made with words of its own, once for each part and wording."""
    kinds = {*classes(), "Refusal"}
    found = [
        one
        for part, nodes in _modules()
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds
        for one in _made(node, node.func.id, part)
    ]
    return sorted(set(found), key=lambda one: (one.part, one.kind, one.words.lower()))


def reasons() -> set[str]:
    """Return the `reason` of every limit."""
    found = {one.reason for one in raised() if one.reason}
    for _, nodes in _modules():  # and those in facts: {"reason": "…"}
        for node in nodes:
            if isinstance(node, ast.Dict):
                found |= {
                    value.value
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant) and key.value == "reason"
                    if isinstance(value, ast.Constant) and isinstance(value.value, str)
                }
    return {reason for reason in found if reason}


@cache
def _modules() -> tuple[tuple[str, tuple[ast.AST, ...]], ...]:
    """Return every module: the part it is in, and the nodes that matter here."""
    return tuple(
        (part, tuple(node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, _MATTER)))
        for path in sorted(ROOT.rglob("*.py"))
        if (part := path.relative_to(ROOT).with_suffix("").parts[0]) not in INSIDE
    )


_MATTER = (ast.ClassDef, ast.Call, ast.Dict)


def _made(call: ast.Call, kind: str, part: str) -> Iterator[Raised]:
    arguments = list(call.args)
    status = None
    if kind == "Refusal":
        status = arguments[0].value if arguments and isinstance(arguments[0], ast.Constant) else None
        arguments = arguments[1:]
    texts = list(_texts(arguments[0])) if arguments else []
    reason = None
    if kind == "Limited" and len(arguments) > 1 and isinstance(arguments[1], ast.Constant):
        reason = arguments[1].value
    assert status is None or isinstance(status, int)
    for words in texts or ([""] if reason else []):
        yield Raised(kind, words, part, status, reason)


def _texts(node: ast.expr) -> Iterator[str]:
    """Yield what a text may be, with … for what is filled in; nothing where it is another's text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "…"
            for part in node.values
        )
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = list(_texts(node.left)) or ["…"], list(_texts(node.right)) or ["…"]
        yield from (one + other for one in left for other in right if (one, other) != ("…", "…"))
