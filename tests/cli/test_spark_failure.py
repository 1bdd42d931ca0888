"""What fails inside Spark ends as one line."""

import sys
from collections.abc import Callable

import click
import pytest

from cordwood.cli import main as entry
from cordwood.cli.spark.failure import of_spark

errors = pytest.importorskip("pyspark.errors")

TASK = """Job aborted due to stage failure: Task 0 failed 4 times: org.apache.spark.api.python.PythonException
Traceback (most recent call last):
  File "/x/worker.py", line 3, in main
    process()
{raised}

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:1)
"""


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("cordwood.errors.Unavailable: http://a:1, from b: it is away", "http://a:1, from b: it is away"),
        ("cordwood.machine.objects.errors.StoreUnavailable: s3://b: no keys", "s3://b: no keys"),
        ("ValueError: three\nis too many", "Spark: ValueError: three"),
    ],
)
def test_what_a_task_raised_is_one_line(raised: str, said: str) -> None:
    assert of_spark(errors.PySparkException(TASK.format(raised=raised))) == said


def test_what_spark_says_itself_is_made_one_line_and_not_too_long() -> None:
    said = of_spark(errors.AnalysisException("[NO_COLUMN] there is no\ncolumn `x`;\n" + "plan " * 1000))
    assert said is not None
    assert said.startswith("Spark: [NO_COLUMN] there is no column `x`; plan")
    assert "\n" not in said
    assert len(said) < 600


def raising(error: Exception) -> Callable[..., None]:
    @click.command()
    def command() -> None:
        raise error

    return lambda **given: command.main(args=[], **given)


def test_the_command_ends_with_1_and_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "cli", raising(errors.PySparkException(TASK.format(raised="ValueError: three"))))
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "cordwood: Spark: ValueError: three\n"


def test_an_error_of_nobody_is_shown_as_it_is_and_spark_is_not_loaded_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyspark.errors", "py4j.protocol"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(entry, "cli", raising(ZeroDivisionError("a mistake of ours")))
    with pytest.raises(ZeroDivisionError):
        entry.main()
    assert "pyspark.errors" not in sys.modules
