"""What the docs promise is guarded by something that exists, and what can lose data is said."""

import ast
import re
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from cordwood.cli.serve import serve
from cordwood.drills.__main__ import DRILLS
from cordwood.settings import Settings

ROOT = Path(__file__).parent.parent
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text()
LOSSES = (ROOT / "docs" / "how-to-lose-data.md").read_text()
_GUARD = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`|drill `([\w-]+)`|mutant `([\w-]+)`")

# Settings that cannot cost a message: where it listens, what it logs, how fast it is, how messages are shared out.
HARMLESS = {
    *("host", "port", "log_level", "log_format", "max_batch_bytes", "segment_bytes", "segment_max_age_s"),
    *("cache_bytes", "auto_create_topics", "partitions", "max_in_flight", "lease_ms", "backoff_ms"),
    *("max_backoff_ms", "mode", "auth", "tls_cert", "tls_key", "token_file", "metrics_public", "allowed_hosts"),
    *("max_topics", "max_groups"),
}
HARMLESS_OPTIONS = {"config", "others", "insecure", *HARMLESS}


@cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def rows() -> list[str]:
    """Return the rows of every table that has a column of guards."""
    found, inside = [], False
    for line in GUARANTEES.splitlines():
        if not line.startswith("|"):
            inside = False
        elif line.endswith("guarded by |"):
            inside = True
        elif inside and not line.startswith("|---"):
            found.append(line)
    return found


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[2:60])
def test_every_guarantee_is_guarded_by_what_exists(row: str) -> None:
    guards = list(_GUARD.finditer(row.split(" | ")[-1]))
    assert guards, "it names a test, a drill or a mutant"
    for guard in guards:
        path, test, drill, mutant = guard.groups()
        if path:
            assert (ROOT / path).exists(), path
            assert test in names_in(path), f"{path}::{test}"
        elif drill:
            assert drill in DRILLS
        else:
            assert (ROOT / "tests" / "mutants" / f"{mutant}.toml").exists(), mutant


def test_most_of_the_promises_are_there() -> None:
    assert len(rows()) > 40


def test_every_setting_that_can_lose_data_is_said() -> None:
    table = LOSSES.split("## Settings that can lose data")[1]
    named = set(re.findall(r"`([\w-]+)`", table))
    there = {one.name for one in fields(Settings)} - HARMLESS
    assert there <= named, "a new setting: harmless, or to be said in docs/how-to-lose-data.md"
    assert {name for name in named if not name.startswith("-")} - {"qos"} <= there


def test_every_option_of_serve_that_can_lose_data_is_said() -> None:
    for option in serve.params:
        assert option.name is not None
        name = option.name.replace("_", "-")
        assert option.name in HARMLESS_OPTIONS or f"`--{name}" in LOSSES or f"`{option.name}`" in LOSSES, name


def test_the_values_that_lose_are_named() -> None:
    for word in ("interval", "never", "acked", "drop", "block", "truncate", "quarantine", "none", "qos=0"):
        assert re.search(rf"`[^`]*\b{word}\b[^`]*`", LOSSES), word


@pytest.mark.parametrize("page", ["guarantees.md", "how-to-lose-data.md"])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([\w.-]+\.md)[#)]", (ROOT / "docs" / page).read_text()):
        assert (ROOT / "docs" / target).exists(), target


def test_each_entry_says_how_it_is_avoided_or_what_is_seen() -> None:
    chapters = LOSSES.split("## Settings that can lose data")[0].split("\n\n**")[1:]
    assert len(chapters) > 35
    for entry in chapters:
        assert "*Avoid:*" in entry or "*You see*" in entry, entry[:60]
