"""Sources broken on purpose, and what is run on them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MUTANTS = sorted(HERE.glob("*.toml"))
SEED = 1


class Found(NamedTuple):
    """What a drill found."""

    verdict: str
    reason: str


def mutated(mutant: dict, target: Path) -> Path:
    """Return a copy of the sources with the mutant's edits made.

    Times are copied, and what Python compiled with them: only what is edited is compiled again. A file that another
    process is about to compile has a number behind its name, and is gone in a moment.
    """
    shutil.copytree(ROOT / "src", target / "src", ignore=shutil.ignore_patterns("*.pyc.*"))
    for edit in mutant["edits"]:
        path = target / "src" / "cordwood" / edit["file"]
        text = path.read_text()
        assert text.count(edit["before"]) == 1, f"{edit['file']} has changed: mend the mutant"
        path.write_text(text.replace(edit["before"], edit["after"]))
    return target / "src"


def run(command: list[str], sources: Path, timeout_s: float = 280) -> subprocess.CompletedProcess[str]:
    """Run Python on these sources."""
    environment = {**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    environment.pop("PYTEST_XDIST_WORKER", None)
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def drilled(sources: Path, drill: str, scratch: Path, timeout_s: float = 280) -> Found:
    """Run one quick drill on these sources, and return what it found."""
    command = ["-m", "cordwood", "drill", "--quick", drill, "--seed", str(SEED), "--dir", str(scratch), "--json"]
    done = run(command, sources, timeout_s)
    assert done.returncode in (0, 1), done.stderr
    (found,) = json.loads(done.stdout)["drills"]
    assert (done.returncode == 1) == (found["verdict"] == "failed")
    return Found(found["verdict"], found["reason"])
