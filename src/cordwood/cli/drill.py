"""`cordwood drill`: break a real broker on purpose, on this computer, and see that it keeps its promises."""

import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import randbelow
from typing import TYPE_CHECKING

import click

from cordwood import __version__
from cordwood.cli.endpoint import as_json
from cordwood.cli.show import table

if TYPE_CHECKING:
    from cordwood.drills.field.run import Outcome

SEEDS = 1_000_000
SHOWN = 160  # characters of a reason in the table; all of it is in the JSON and in the HTML


@click.command(short_help="Break a broker on purpose and see what it keeps.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--quick", is_flag=True, help="A short look: fewer kills, cuts and messages.")
@click.option("--seed", type=click.IntRange(min=0), help="The draws of an earlier run. [default: a new one]")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Where to work. [default: a temporary one]")
@click.option("--keep", is_flag=True, help="Leave what the drills made where it is.")
@click.option(
    "--html", "page_path", type=click.Path(path_type=Path, dir_okay=False), help="Write a report to a file."
)
@as_json
def drill(
    names: tuple[str, ...],
    quick: bool,
    seed: int | None,
    directory: Path | None,
    keep: bool,
    page_path: Path | None,
    as_json: bool,
) -> None:
    """Break a broker on purpose and see that it keeps its promises: all drills, or those named.

    Each runs brokers of its own on loopback, on a scratch directory (choose the disk that matters with --dir), and
    touches nothing else. What clients sent, were told and read is judged by a witness. Exit code 1 if a drill fails;
    one that cannot be run here is skipped, and says what it needs. All take some minutes, --quick a minute or two.

    \b
    Drills: crash, many-restarts, torn, corrupt, disk-full, slow-disk, sync-error, power-loss, disconnect,
            store-outage, etcd-lease, clock-jump

    \b
    Example: cordwood drill crash torn --quick
             cordwood drill --dir /var/lib/cordwood-drill --html report.html
             cordwood drill crash --seed 4711 --keep
    """
    from cordwood.drills.field.roster import ROSTER
    from cordwood.drills.field.run import run_drill

    for name in names:
        if name not in ROSTER:
            raise click.UsageError(f"there is no drill {name!r}; there are {', '.join(ROSTER)}")
    if page_path is not None and not page_path.absolute().parent.is_dir():
        raise click.UsageError(f"--html {page_path}: there is no directory {page_path.parent}")
    seed = randbelow(SEEDS) if seed is None else seed
    chosen = [name for name in ROSTER if name in names or not names]
    signal.signal(signal.SIGTERM, _ended)
    outcomes: list[Outcome] = []
    with _scratch(directory, keep) as scratch:
        for number, name in enumerate(chosen, 1):
            with _progress(f"{number}/{len(chosen)} {name}") as tell:
                tell(ROSTER[name].about)
                outcomes.append(run_drill(name, scratch, seed, quick=quick, keep=keep, tell=tell))
            _say(outcomes[-1])
        if keep:
            click.echo(f"cordwood: what the drills made is in {scratch}", err=True)
    if page_path is not None:
        from cordwood.drills.field.page import page

        page_path.write_text(page(outcomes, __version__, time.strftime("%Y-%m-%d %H:%M %Z")), encoding="utf-8")
    if as_json:
        shown = [{"name": o.name, "verdict": o.verdict, "reason": o.reason, "seed": o.seed} for o in outcomes]
        click.echo(json.dumps({"drills": shown}))
    else:
        rows = [(o.name, o.verdict, f"{o.seconds:.1f} s", o.seed, _cut(o.reason)) for o in outcomes]
        table(["drill", "verdict", "took", "seed", "reason, or what was seen"], rows)
    if any(one.verdict == "failed" for one in outcomes):
        sys.exit(1)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[:SHOWN] + " …"


def _say(one: "Outcome") -> None:
    """Say on standard error what came of a drill: at length if it failed."""
    click.echo(f"{one.name}: {one.verdict} in {one.seconds:.1f} s", err=True)
    if one.verdict == "skipped":
        click.echo(f"  {one.reason}", err=True)
    if one.verdict == "failed":
        for step in one.steps:
            mark = "  " if step.holds is None else "✓ " if step.holds else "✗ "
            seen = f": {step.seen}" if step.seen else ""
            click.echo(f"  {step.at_s:7.2f} s  {mark}{step.what}{seen}", err=True)
        click.echo(f"  {one.reason}\n  again: {one.again}", err=True)


def _ended(number: int, frame: object) -> None:
    """Leave by an exception, so that brokers are ended, mounts taken away and directories removed."""
    raise SystemExit(128 + number)


@contextmanager
def _scratch(directory: Path | None, keep: bool) -> Iterator[Path]:
    """Give a new directory, in the one that was chosen; it goes at the end, and nothing else does."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="cordwood-drill-", dir=directory))
    try:
        yield scratch
    finally:
        if not keep:
            shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _progress(name: str) -> Iterator[Callable[[str], None]]:
    """Show what a drill does: as one line that changes on a terminal, line by line otherwise."""
    if not sys.stderr.isatty():
        yield lambda line: click.echo(f"{name}: {_cut(line)}", err=True)
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(name) as status:
        yield lambda line: status.update(Text(f"{name}: {_cut(line)}"))
