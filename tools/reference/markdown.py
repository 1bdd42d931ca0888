"""Markdown, as the pages of the reference need it."""

from collections.abc import Iterable, Sequence

MADE = "<!-- Written by `make reference`; change the code it is made from, not this page. -->\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a bar inside a cell does not end it."""
    lines = [" | ".join(heads), "|".join("---" for _ in heads)]
    lines += [" | ".join(cell(text) for text in row) for row in rows]
    return "".join(f"| {line} |\n" if "---" not in line else f"|{line}|\n" for line in lines)


def cell(text: str) -> str:
    """Return text that fits into one cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """Return text as code; empty stays empty."""
    words = str(text)
    return f"`{words}`" if words else ""


def block(text: str, language: str = "text") -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def page(title: str, *parts: str) -> str:
    """Return a page: its title, and parts with an empty line between them."""
    return "\n".join([MADE, f"# {title}\n", *parts])
