"""What the tutorial and the how-to pages show, done as a reader would do it."""

from collections import Counter
from pathlib import Path

import pytest

from tests.docs.page import DOCS, Block, blocks, matches
from tests.docs.running import reading

# tests/spark/test_tutorial.py has these: they need Spark, of which there is one.
WITH_SPARK = {"tutorial.md"}
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in (
        DOCS / "tutorial.md",
        DOCS / "index.md",
        DOCS / "design.md",
        DOCS / "compare.md",
        *DOCS.glob("how-to/*.md"),
    )
)
# page → why blocks of it are not run, and how many
NOT_RUN: dict[str, dict[str, int]] = {
    "how-to/backfilling.md": {
        "needs Kafka": 1,
        "starts another Spark; tests/spark/test_replay.py runs it": 1,
    },
    "how-to/etcd.md": {"needs etcd and a bucket": 2},
    "how-to/object-stores.md": {"needs a bucket": 1, "needs an S3 server": 1},
    "how-to/tls-and-tokens.md": {"needs a broker with tokens": 1},
    "tutorial.md": {"installs packages": 1},
}


def runnable(page: str) -> list[Block]:
    return [block for block in blocks(DOCS / page) if block.reason is None]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITH_SPARK and runnable(page)])
def test_a_page_does_what_it_shows(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reading(tmp_path, monkeypatch, with_broker=True) as reader:
        for block in runnable(page):
            reader.run(block)


def test_what_is_not_run_is_listed_with_its_reason() -> None:
    found = {page: Counter(block.reason for block in blocks(DOCS / page) if block.reason) for page in PAGES}
    assert {page: dict(reasons) for page, reasons in found.items() if reasons} == NOT_RUN


def test_most_of_what_is_shown_is_run() -> None:
    everything = [block for page in PAGES for block in blocks(DOCS / page)]
    run = [block for block in everything if block.reason is None]
    assert len(run) > 30
    assert len(run) > 2 * (len(everything) - len(run))


def test_a_dot_stands_for_anything_and_nothing_else_does() -> None:
    assert matches("a 1\nb\nc\n", "a …\n…\nc\n")
    assert matches("a\n", "a\n…\n")
    assert not matches("a 1\nb\n", "a …\n")
    assert not matches("a\n", "b\n")
    assert not matches("a.c\n", "abc\n")
