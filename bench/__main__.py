"""`python -m bench`: run the benches, show a table, draw a plot. A bar that is missed is told, not an error."""

import signal
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console

from bench import broker, journal, outbox, spark, tier
from bench.report import save_json, save_plot, save_race_plot, show_races, show_table
from cordwood.bench.ours import Ours
from cordwood.bench.peers.roster import Entrant
from cordwood.bench.race import Race
from cordwood.bench.result import Result

BENCHES = {
    "broker": (broker.measure, broker.Effort(), broker.QUICK),
    "journal": (journal.measure, journal.Effort(), journal.QUICK),
    "outbox": (outbox.measure, outbox.Effort(), outbox.QUICK),
    "spark": (spark.measure, spark.Effort(), spark.QUICK),
    "tier": (tier.measure, tier.Effort(), tier.QUICK),
}
Kind = TypeVar("Kind")
RESULTS = Path(__file__).resolve().parent / "results"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(sorted(BENCHES)))
@click.option("--quick", is_flag=True, help="A small run of a minute or two; its figures are rough.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the results to this file too.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="Measure the disk of this directory; a scratch directory is made in it and removed.",
)
def main(names: tuple[str, ...], quick: bool, json_file: Path | None, directory: Path) -> None:
    """Measure Cordwood beside what this machine can do. Without NAMES, run every bench."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was started is stopped
    found: list[Result | Race | Entrant] = []
    for name in names or sorted(BENCHES):
        measure, whole, small = BENCHES[name]
        with tempfile.TemporaryDirectory(prefix="bench-scratch-", dir=directory) as scratch:
            here = list(measure(Path(scratch), small if quick else whole, _tell))
        _show(name, f"{name}{', a quick run' if quick else ''}", here)
        found += here
    if json_file is not None:
        save_json(_only(Result, found), _only(Race, found), _only(Entrant, found), json_file)


def _show(name: str, title: str, found: Sequence[Result | Race | Entrant]) -> None:
    """Print the tables of one bench and draw its plots."""
    console = Console(width=None if sys.stdout.isatty() else 118)
    results, races, systems = _only(Result, found), _only(Race, found), _only(Entrant, found)
    if races:
        show_races(races, systems, console)
    if any(Ours.name in race.laps for race in races):
        path = RESULTS / f"{name}-peers.svg"
        save_race_plot(races, Ours.name, broker.BARS, path, f"{title}: times as fast as its peers")
        _tell(f"the plot of the peers is in {click.format_filename(path)}")
    if results:
        show_table(results, console)
        path = RESULTS / f"{name}.svg"
        save_plot(results, path, title)
        _tell(f"the plot is in {click.format_filename(path)}")


def _only(kind: type[Kind], found: Iterable[object]) -> list[Kind]:
    return [one for one in found if isinstance(one, kind)]


def _tell(line: str) -> None:
    click.echo(line, err=True)


main()
