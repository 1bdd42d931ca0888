"""A page of the documentation, as far as it can be tried: its blocks of code, its headings, its links.

    ```sh                       run, in one shell for the whole page
    ```python                   run, in one namespace for the whole page
    ```python title="send.py"   written to that file, for a shell to run
    ```text                     right behind one of them: what it prints; … stands for anything, alone for any lines

A block that cannot be run here has `<!-- not run: REASON -->` above it.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

_FENCE = re.compile(r"^```(?P<language>\w*)(?P<info>[^\n`]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- not run: (?P<reason>.*?) -->\s*$")
_TITLE = re.compile(r'title="(?P<title>[^"]+)"')


@dataclass(frozen=True, slots=True)
class Block:
    """A block that a reader can run. `shown` is what the page says that it prints, None where it does not say."""

    page: str
    line: int
    language: str
    code: str
    title: str | None
    reason: str | None  # why it is not run
    shown: str | None

    def __str__(self) -> str:
        return f"{self.page}, line {self.line}"


def blocks(path: Path) -> Iterator[Block]:
    """Yield the blocks of a page that are sh or python, in their order."""
    text = path.read_text()
    found = list(_FENCE.finditer(text))
    for number, fence in enumerate(found):
        if fence["language"] not in ("sh", "python"):
            continue
        mark = _MARK.search(text, 0, fence.start())
        title = _TITLE.search(fence["info"])
        shown = None
        if number + 1 < len(found) and found[number + 1]["language"] == "text":
            behind = found[number + 1]
            if not text[fence.end() : behind.start()].strip():
                shown = behind["code"]
        yield Block(
            page=path.relative_to(DOCS).as_posix(),
            line=text.count("\n", 0, fence.start()) + 1,
            language=fence["language"],
            code=fence["code"],
            title=title["title"] if title else None,
            reason=mark["reason"] if mark else None,
            shown=shown,
        )


def matches(said: str, shown: str) -> bool:
    """Whether what was printed is what the page shows."""
    pattern = ""
    for line in shown.rstrip().splitlines():
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ ]*\n"
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in said.strip("\n").splitlines())) is not None


def links(path: Path) -> Iterator[str]:
    """Yield where a page points to within this repository, code left out."""
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", path.read_text()))
    for link in re.findall(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text):
        if not re.match(r"[a-z]+:", link):
            yield link


@cache
def anchors(path: Path) -> set[str]:
    """Return the places within a page that a link finds, on the site as well as in a browser of the repository."""
    text = _FENCE.sub("", path.read_text())
    heads = re.findall(r"^#{1,6} (.+?)\s*$", text, re.MULTILINE)
    named = set(re.findall(r'<a id="([^"]+)"', text))
    return named | ({_of_the_site(head) for head in heads} & {_of_github(head) for head in heads})


def _words(head: str) -> str:
    """Return a heading as it is read: links are their words, and nothing is marked."""
    return re.sub(r"[`*]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head))


def _of_the_site(head: str) -> str:
    plain = unicodedata.normalize("NFKD", _words(head)).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def _of_github(head: str) -> str:
    return re.sub(r"[^\w\s-]", "", _words(head).lower()).replace(" ", "-")
