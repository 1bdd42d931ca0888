"""Every mutant beside this file is a promise broken on purpose; the test it names must notice.

A mutant is a TOML file: `why`, the `edits` (file, before, after; each `before` stands exactly once in the file), and
what must fail: `tests` (pytest names), `crashes` (of simulated disks), `histories` (of broker and model, at most so
many; the seed `first` is tried first, since it killed the mutant before), `power_cuts` (of a real filesystem) or
`drills` (of `cordwood drill`). Drills take long: only those of a mutant with `drill_in_ci` are run here, all of them
by `python -m tests.mutants.table`, which keeps what it saw in docs/drills.md.
"""

import re
import tomllib
from pathlib import Path

import pytest

from cordwood.drills import journal_power
from cordwood.drills.field.roster import ROSTER
from tests.conftest import skip_for_want_of
from tests.mutants.breaking import MUTANTS, ROOT, drilled, mutated, run
from tests.mutants.table import kept

CHECKED = ("tests", "crashes", "histories", "power_cuts")
BROKEN = {path: tomllib.loads(path.read_text()) for path in MUTANTS}
TESTED = [path for path, mutant in BROKEN.items() if any(kind in mutant for kind in CHECKED)]
DRILLED = [path for path, mutant in BROKEN.items() if mutant.get("drill_in_ci")]

# Only these are loaded: all that are installed take two seconds for each mutant.
PLUGINS = [f"-p{name}" for name in ("_hypothesis_pytestplugin", "pytest_timeout", "xdist.plugin", "cordwood.fixture")]

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


@pytest.mark.parametrize("path", TESTED, ids=[path.stem for path in TESTED])
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
        done = run(["-m", "pytest", "-x", "-q", *PLUGINS, *hurried, *mutant["tests"]], sources)
        assert re.search(r"^\d+ failed", done.stdout, re.M), f"{path.stem} survived\n{done.stdout}\n{done.stderr}"
        assert "error" not in done.stdout.rsplit("\n", 2)[-2], f"{path.stem} broke the test itself\n{done.stdout}"


@pytest.mark.parametrize(("kind", "script"), [("crashes", CRASH), ("histories", HISTORIES)])
def test_without_a_mutant_the_same_seeds_survive(kind: str, script: str) -> None:
    most = max(tomllib.loads(path.read_text()).get(kind, 0) for path in MUTANTS)
    done = run(["-c", script, str(most), "0"], ROOT / "src")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", DRILLED, ids=[path.stem for path in DRILLED])
def test_a_drill_kills_the_mutant(path: Path, tmp_path: Path) -> None:
    mutant = BROKEN[path]
    for drill in mutant["drills"]:
        found = drilled(mutated(mutant, tmp_path), drill, tmp_path)
        if found.verdict == "skipped":
            skip_for_want_of(found.reason)
        assert found.verdict == "failed", f"{path.stem} survived {drill}: {found.reason}"


def test_every_mutant_changes_what_is_there_and_is_checked_by_something() -> None:
    for path, mutant in BROKEN.items():
        assert "drills" in mutant or any(kind in mutant for kind in CHECKED), path.stem
        for edit in mutant["edits"]:
            text = (ROOT / "src" / "cordwood" / edit["file"]).read_text()
            assert text.count(edit["before"]) == 1, f"{path.stem}: {edit['file']} has changed: mend the mutant"


def test_every_drill_has_a_mutant_and_the_kept_table_has_them_all() -> None:
    wanted = {path.stem: mutant["drills"] for path, mutant in BROKEN.items() if "drills" in mutant}
    assert {drill for drills in wanted.values() for drill in drills} == set(ROSTER)
    drills, rows = kept((ROOT / "docs" / "drills.md").read_text())
    assert set(drills) == set(ROSTER)
    assert set(rows) == set(wanted)
    for name, must in wanted.items():
        for drill in must:
            assert rows[name][drill] == "killed", f"{name} is to be killed by {drill}: make the table anew"
