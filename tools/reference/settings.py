"""Every setting of a broker: its name, kind, default, bounds and what it is for."""

from dataclasses import Field, fields
from typing import Any

from cordwood.broker.terms import GroupTerms, TopicTerms
from cordwood.cli.serve import serve
from cordwood.settings import OTHER_VARIABLES, PREFIX, Settings
from tools.reference.markdown import code, page, table

_KINDS = {int: "whole number", bool: "true or false", str: "text"}
OTHERS = {
    "CORDWOOD_CA": "a file with the authority that clients trust for https",
    "CORDWOOD_CONFIG": "the TOML file, where `--config` names none",
    "CORDWOOD_ENDPOINT": "the broker that commands, Spark and `cordwood run` talk to",
    "CORDWOOD_OUTBOX": "where outboxes are on this computer",
    "CORDWOOD_TOKEN": "the token that clients show",
}


def written() -> str:
    """Return the page."""
    return page(
        "Settings",
        "Flags over `CORDWOOD_*` variables over a TOML file (`--config`) over defaults. A name that is unknown or a"
        " value"
        " that is impossible is refused at the start, with the place it came from. `GET /v1/config` shows what is in"
        " force. A setting without a flag of its own is given as `--set NAME=VALUE`.\n",
        table(
            ("setting", "what it is for", "default", "may be", "variable", "flag", "also of one"),
            (_row(found) for found in fields(Settings)),
        ),
        "A setting of a topic is changed with `cordwood topic set TOPIC NAME=VALUE`, one of a group with `cordwood"
        " group set"
        " TOPIC GROUP NAME=VALUE`; `NAME=default` follows the broker again.\n",
        "## Other variables\n",
        table(("variable", "what"), ((code(name), OTHERS.get(name, "")) for name in sorted(OTHER_VARIABLES))),
    )


def _row(found: "Field[Any]") -> tuple[str, ...]:
    name = found.name
    flags = {flag for option in serve.params for flag in (*option.opts, *option.secondary_opts)}
    flag = "--" + name.replace("_", "-")
    mine = ["topic, when it is made"] if name == "partitions" else []
    mine += [
        noun for noun, terms in (("topic", TopicTerms), ("group", GroupTerms)) if name in terms.__struct_fields__
    ]
    return (
        code(name),
        str(found.metadata["why"]),
        code(_default(found)),
        bounds(found),
        code(PREFIX + name.upper()),
        code(flag) if flag in flags else "",
        ", ".join(mine),
    )


def _default(found: "Field[Any]") -> str:
    if isinstance(found.default, bool):
        return str(found.default).lower()
    return str(found.default) if found.default != "" else '""'


def bounds(found: "Field[Any]") -> str:
    """Return what a setting may be, in words."""
    least, most, among = (found.metadata[name] for name in ("least", "most", "among"))
    if among:
        return ", ".join(code(word) for word in among)
    kind = _KINDS[found.type]  # type: ignore[index]  # a type, and no text: settings.py has no delayed annotations
    if least is not None and most is not None:
        return f"{kind}, {least} to {most}"
    return f"{kind}, {least} at least" if least is not None else kind
