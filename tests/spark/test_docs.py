"""What docs/spark.md shows and says, tried."""

import re
from pathlib import Path
from typing import Any

import pytest

from cordwood.spark.options import READ_OPTIONS, WRITE_OPTIONS

PAGE = (Path(__file__).parent.parent.parent / "docs" / "spark.md").read_text()


def test_the_first_program_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "spark.md", "exec"), {"__name__": "__main__"})  # in the session that is active
    said = capsys.readouterr().out
    assert said.count("|  100|") == 10
    assert said.splitlines()[-1] == "10"


def test_every_option_is_described() -> None:
    for name in (*READ_OPTIONS, *WRITE_OPTIONS):
        assert f"`{name}`" in PAGE, name
