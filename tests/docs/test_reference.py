"""The reference says what the code says, and leaves nothing out."""

import re
from pathlib import Path

import click
import pytest

from cordwood.http.refusal import CODES
from cordwood.settings import OTHER_VARIABLES
from tools.reference.advice import CLASSES, REASONS, STATUSES
from tools.reference.cli import commands
from tools.reference.pages import PAGES
from tools.reference.raised import classes, raised, reasons
from tools.reference.settings import OTHERS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says_now(name: str) -> None:
    there = (DOCS / name).read_text()
    assert there == PAGES[name](), f"docs/{name} is old; run `make reference`"


def test_nothing_else_lies_in_the_reference() -> None:
    there = {path.relative_to(DOCS).as_posix() for path in (DOCS / "reference").iterdir()}
    assert there == {name for name in PAGES if name.startswith("reference/")}


def test_every_error_comes_with_what_to_do() -> None:
    assert set(CLASSES) == set(classes())
    assert set(STATUSES) == set(CODES)
    assert set(REASONS) >= reasons()
    assert all(one.says for one in classes().values())


def test_every_variable_is_explained() -> None:
    assert set(OTHERS) >= OTHER_VARIABLES


def test_every_error_is_found_in_the_source() -> None:
    sentences = {one.words for one in raised()}
    assert "there is no topic …; create it first (…)" in sentences  # over two lines of an f-string
    assert "The body is larger than … bytes." in sentences  # a Refusal
    assert {one.kind for one in raised()} >= {"Refused", "Conflict", "NotFound", "Unavailable", "Full", "Limited"}


def test_every_command_has_an_example_that_begins_with_its_name() -> None:
    for path, command in commands():
        if isinstance(command, click.Group):
            continue
        said = command.help or ""
        assert re.search(rf"Examples?:\s+{path}\b", said), f"{path} --help has no example of it"
