"""Which drill kills which mutant: run them all, and keep the table in docs/drills.md.

python -m tests.mutants.table             every drill on every mutant that names one; takes an hour
python -m tests.mutants.table --named     only the drills that a mutant names, and those that are in the table already
python -m tests.mutants.table --only crash,torn --mutants skip-the-fdatasync

What was not run keeps what the table says, or gets a "·".
"""

import argparse
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

from cordwood.drills.field.roster import ROSTER
from tests.mutants.breaking import MUTANTS, ROOT, drilled, mutated

PAGE = ROOT / "docs" / "drills.md"
BEGIN, END = "<!-- drills and mutants -->", "<!-- end of drills and mutants -->"
UNKNOWN = "·"
TIMEOUT_S = 400.0

Rows = dict[str, dict[str, str]]


def kept(page: str) -> tuple[list[str], Rows]:
    """Return the drills and, for each mutant, what each drill made of it, as a page has them."""
    lines = page.split(BEGIN)[1].split(END)[0].strip().splitlines()
    if not lines:
        return [], {}
    head, _, *rest = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    return head[1:], {name: dict(zip(head[1:], cells, strict=True)) for name, *cells in rest}


def written(page: str, rows: Rows) -> str:
    """Return the page with these rows."""
    head = ["mutant", *(f"`{drill}`" for drill in ROSTER)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, cells in sorted(rows.items()):
        lines.append("| " + " | ".join([f"`{name}`", *(cells.get(drill, UNKNOWN) for drill in ROSTER)]) + " |")
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.partition(END)[2]


def cell(mutant: dict, drill: str) -> str:
    """Run a drill on a mutant and return what came of it."""
    with tempfile.TemporaryDirectory(prefix="cordwood-table-") as scratch:
        try:
            found = drilled(mutated(mutant, Path(scratch)), drill, Path(scratch), TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "no end"
    print(f"  {drill}: {found.verdict}: {found.reason[:200]}", flush=True)
    return {"failed": "killed", "passed": "survived"}.get(found.verdict, found.verdict)


def main(words: Iterable[str]) -> int:
    """Run what is asked for, writing the table after each cell; return 1 if a mutant survives a drill it names."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.table")
    parser.add_argument("--named", action="store_true")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(ROSTER))
    parser.add_argument("--mutants", type=lambda text: text.split(","), default=None)
    parser.add_argument("--missing", action="store_true", help="only what the table does not say yet")
    asked = parser.parse_args(list(words))
    survived = []
    for path in MUTANTS:
        mutant = tomllib.loads(path.read_text())
        if "drills" not in mutant or (asked.mutants is not None and path.stem not in asked.mutants):
            continue
        print(path.stem, flush=True)
        for drill in asked.only:
            if asked.named and drill not in mutant["drills"]:
                continue
            rows = kept(PAGE.read_text())[1]
            if asked.missing and rows.get(path.stem, {}).get(drill, UNKNOWN) != UNKNOWN:
                continue
            result = cell(mutant, drill)
            page = PAGE.read_text()
            rows = kept(page)[1]
            rows.setdefault(path.stem, {})[drill] = result
            PAGE.write_text(written(page, rows))
            if drill in mutant["drills"] and result == "survived":
                survived.append(f"{path.stem} survived {drill}")
    print("\n".join(survived))
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
