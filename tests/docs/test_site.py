"""Every page is in the site's order, every link leads somewhere, and the site is built without a network."""

import re
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import skip_for_want_of
from tests.docs.page import DOCS, anchors, links

ROOT = DOCS.parent
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md")))


def order() -> list[str]:
    """Return the pages of the site in the order of mkdocs.yml."""
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    return re.findall(r"^\s*- .*?:\s+(\S+\.md)\s*$", nav, re.MULTILINE)


def lead_nowhere(page: Path) -> list[str]:
    """Return the links of a page to files or headings that are not there."""
    wrong = []
    for link in links(page):
        target, _, anchor = link.partition("#")
        place = (page.parent / target).resolve() if target else page
        if not place.exists() or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
            wrong.append(link)
    return wrong


@cache
def there() -> frozenset[str]:
    return frozenset(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    assert lead_nowhere(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n\n[1](other.md) [2](#gone) [3](#a-b-c) [4](https://example.org) `[5](no.md)`\n")
    (tmp_path / "picture.md").write_text('<img src="no.png">')
    assert lead_nowhere(page) == ["other.md", "#gone"]
    assert lead_nowhere(tmp_path / "picture.md") == ["no.png"]


def test_the_order_has_every_page_once() -> None:
    found = order()
    assert len(found) == len(set(found))
    single_decisions = {page for page in there() if re.match(r"decisions/\d", page)}
    assert set(found) == there() - single_decisions


def test_the_site_is_built_whole_and_fetches_nothing(tmp_path: Path) -> None:
    if find_spec("zensical") is None:
        skip_for_want_of("zensical (pip install 'cordwood[docs]')")
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}  # nobody listens there
    done: Any = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), **nowhere},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    built = tmp_path / "site"
    pages = {path.relative_to(built).as_posix() for path in built.rglob("*.html")}
    assert {re.sub(r"\.md$", ".html", page) for page in order()} <= pages
    for page in sorted(pages):
        text = (built / page).read_text()
        fetched = re.findall(r'<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)="?((?:https?:)?//[^"\s>]+)', text)
        assert fetched == [], page
