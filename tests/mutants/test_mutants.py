"""Every mutant beside this file is a promise broken on purpose; the test it names must notice.

A mutant is a TOML file: `why`, the `edits` (file, before, after; each `before` stands exactly once in the file), and
what must fail: `tests` (pytest names), `crashes` (of simulated disks), `histories` (of broker and model, at most so
many; the seed `first` is tried first, since it killed the mutant before) or `power_cuts` (of a real filesystem).
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cordwood.drills import journal_power
from tests.conftest import skip_for_want_of

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MUTANTS = sorted(HERE.glob("*.toml"))

CRASH = """
import logging, sys
logging.disable(logging.WARNING)
from cordwood.drills.journal_crash import Violation, run_disk
for seed in (int(sys.argv[2]), *range(int(sys.argv[1]))):
    try:
        run_disk(seed)
    except Violation as violation:
        print("killed:", violation)
        sys.exit(1)
"""

HISTORIES = """
import logging, sys
logging.disable(logging.WARNING)
from cordwood.drills.broker_model.history import Violation, run_history
for seed in (int(sys.argv[2]), *range(int(sys.argv[1]))):
    try:
        run_history(seed)
    except Violation as violation:
        print("killed:", violation)
        sys.exit(1)
"""

POWER = """
import logging, sys
logging.disable(logging.WARNING)
from cordwood.drills.journal_power import run
report = run(3, int(sys.argv[1]))
print("killed:" if report.wrong else "survived", report)
"""


def mutated(mutant: dict, target: Path) -> Path:
    """Return a copy of the sources with the mutant's edits made."""
    shutil.copytree(ROOT / "src", target / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for edit in mutant["edits"]:
        path = target / "src" / "cordwood" / edit["file"]
        text = path.read_text()
        assert text.count(edit["before"]) == 1, f"{edit['file']} has changed: mend the mutant"
        path.write_text(text.replace(edit["before"], edit["after"]))
    return target / "src"


def run(command: list[str], sources: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.parametrize("path", MUTANTS, ids=[path.stem for path in MUTANTS])
def test_the_mutant_is_killed(path: Path, tmp_path: Path) -> None:
    mutant = tomllib.loads(path.read_text())
    sources = mutated(mutant, tmp_path)
    if "power_cuts" in mutant:
        reason = journal_power.reason_to_skip()
        if reason is not None:
            skip_for_want_of(reason)
        done = run(["-c", POWER, str(mutant["power_cuts"])], sources)
        assert "killed:" in done.stdout, f"{path.stem} survived\n{done.stdout}\n{done.stderr}"
    elif "crashes" in mutant or "histories" in mutant:
        script, most = (CRASH, mutant["crashes"]) if "crashes" in mutant else (HISTORIES, mutant["histories"])
        done = run(["-c", script, str(most), str(mutant.get("first", 0))], sources)
        assert "killed:" in done.stdout, f"{path.stem} survived\n{done.stdout}\n{done.stderr}"
    else:
        hurried = ["-p", "no:cacheprovider", "--hypothesis-profile=hurried"]  # no smaller example is looked for
        done = run(["-m", "pytest", "-x", "-q", *hurried, *mutant["tests"]], sources)
        assert re.search(r"^\d+ failed", done.stdout, re.M), f"{path.stem} survived\n{done.stdout}\n{done.stderr}"
        assert "error" not in done.stdout.rsplit("\n", 2)[-2], f"{path.stem} broke the test itself\n{done.stdout}"


@pytest.mark.parametrize(("kind", "script"), [("crashes", CRASH), ("histories", HISTORIES)])
def test_without_a_mutant_the_same_seeds_survive(kind: str, script: str) -> None:
    most = max(tomllib.loads(path.read_text()).get(kind, 0) for path in MUTANTS)
    done = run(["-c", script, str(most), "0"], ROOT / "src")
    assert done.returncode == 0, done.stdout + done.stderr
