"""What docs/tutorial.md shows, done from its first command to its table."""

from pathlib import Path
from typing import Any

import pytest

from tests.docs.running import reading
from tests.docs.test_pages import WITH_SPARK, runnable


@pytest.mark.timeout(600)  # a Spark job and two brokers, on a machine that may be busy
@pytest.mark.parametrize("page", sorted(WITH_SPARK))
def test_a_page_with_spark_does_what_it_shows(
    page: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading(tmp_path, monkeypatch, with_broker=False) as reader:
        for block in runnable(page):
            reader.run(block)
