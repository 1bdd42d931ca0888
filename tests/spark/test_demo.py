"""The first minute, played on a short stage; here, because it needs Spark."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from cordwood.cli.demo import concluded
from cordwood.demo.story import Story
from cordwood.spark.java import java_home
from tests.conftest import skip_for_want_of


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    trouble = java_home(os.environ)[1]
    if trouble is not None:
        skip_for_want_of(trouble)
    story = Story(tmp_path_factory.mktemp("demo"), (1.0, 0.3, 1.0))
    try:
        story.play()
        yield story
    finally:
        story.end()


def test_nothing_is_lost_and_nothing_doubled(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    assert concluded(story)
    said = capsys.readouterr().out
    assert "lost 0, duplicated 0: all is there" in said
    assert "kill -9" in said
    assert "landed" in said


def test_one_row_less_in_the_table_is_seen(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    path = next(path for path in Path(story.table).glob("**/*.parquet"))
    rows = parquet.ParquetFile(path).read()
    parquet.write_table(rows.slice(1), path)
    assert not concluded(story)
    assert "lost 1, duplicated 0: FAILED" in capsys.readouterr().out
    parquet.write_table(rows, path)


def test_one_row_twice_in_the_table_is_seen(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    path = next(path for path in Path(story.table).glob("**/*.parquet"))
    whole = path.read_bytes()
    rows = parquet.ParquetFile(path).read()
    parquet.write_table(rows.slice(0, 1), path.with_name("again.parquet"))
    assert not concluded(story)
    assert "lost 0, duplicated 1: FAILED" in capsys.readouterr().out
    assert path.read_bytes() == whole
