"""What is built is whole, and works where the repository is not."""

import json
import re
import shutil
import signal
import subprocess
import tarfile
import tomllib
import urllib.request
import zipfile
from email.parser import HeaderParser

import pytest

import cordwood
from tests.packaging.conftest import ROOT, Installed

pytestmark = pytest.mark.xdist_group("packaging")  # one build for all


def test_the_wheel_has_every_module_and_its_types_and_nothing_else(installed: Installed) -> None:
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    there = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*") if path.is_file()}
    assert {name for name in names if ".dist-info/" not in name} == {n for n in there if "__pycache__" not in n}
    assert {"cordwood/py.typed", "cordwood/__init__.pyi"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_has_what_is_needed_to_build_and_check_it(installed: Installed) -> None:
    with tarfile.open(installed.sdist) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert {"pyproject.toml", "requirements.lock", "Makefile", "README.md", "LICENSE", "PKG-INFO"} <= names
    assert {"src/cordwood/__init__.py", "packaging/cordwood.service", "docs/guarantees.md"} <= names


def test_the_version_is_in_one_place(installed: Installed) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]
    assert "version" not in project
    wheel = zipfile.ZipFile(installed.wheel)
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = HeaderParser().parsestr(wheel.read(name).decode())
    assert metadata["Version"] == cordwood.__version__
    assert installed.run("cordwood", "--version").stdout == f"cordwood, version {cordwood.__version__}\n"
    assert f"-{cordwood.__version__}-" in installed.wheel.name


def test_it_comes_from_where_it_was_installed(installed: Installed) -> None:
    said = installed.run("python", "-c", "import cordwood; print(cordwood.__file__); cordwood.Producer").stdout
    assert said.startswith(str(installed.bin.parent))


def test_every_command_has_its_help(installed: Installed) -> None:
    said = installed.run("cordwood", "--help")
    assert said.returncode == 0
    for command in ("serve", "produce", "consume", "wal", "outbox", "run"):
        assert re.search(rf"^  {command} ", said.stdout, re.MULTILINE)


def test_a_message_goes_through(installed: Installed) -> None:
    command = [str(installed.bin / "cordwood"), "serve", "--memory", "--port", "0", "--auto-create-topics"]
    broker = subprocess.Popen(
        command, env=installed.environment(), cwd=installed.home, stderr=subprocess.PIPE, text=True
    )
    try:
        assert broker.stderr is not None
        said = ""
        while not (found := re.search(r"listening on (http://\S+)", said)):
            line = broker.stderr.readline()
            assert line, said
            said += line
        endpoint = found[1]
        sent = installed.run("cordwood", "produce", "greetings", "hello", "--endpoint", endpoint)
        assert sent.returncode == 0, sent.stderr
        read = installed.run("cordwood", "read", "greetings", "--endpoint", endpoint)
        assert "hello" in read.stdout, read.stderr
        with urllib.request.urlopen(f"{endpoint}/v1/version", timeout=30) as answer:
            assert json.load(answer)["version"] == cordwood.__version__
    finally:
        broker.send_signal(signal.SIGTERM)
        broker.communicate(timeout=60)
    assert broker.returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(installed: Installed, shell: str) -> None:
    script = installed.run("cordwood", _CORDWOOD_COMPLETE=f"{shell}_source")
    assert script.returncode == 0, script.stderr
    assert "cordwood" in script.stdout
    if found := shutil.which(shell):
        subprocess.run([found, "-n"], input=script.stdout, text=True, check=True, timeout=60)
    words = {"COMP_WORDS": "cordwood to", "COMP_CWORD": "to" if shell == "fish" else "1"}
    completed = installed.run("cordwood", _CORDWOOD_COMPLETE=f"{shell}_complete", **words)
    assert "topic" in re.split(r"[\s,]", completed.stdout)
    assert f"_CORDWOOD_COMPLETE={shell}_source" in (ROOT / "docs" / "running-as-a-service.md").read_text()
