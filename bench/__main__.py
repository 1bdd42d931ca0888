"""`python -m bench`: run the benches, show a table, draw a plot. A bar that is missed is told, not an error."""

import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from bench import journal
from bench.report import save_json, save_plot, show_table

BENCHES = {"journal": (journal.measure, journal.Effort(), journal.QUICK)}
RESULTS = Path(__file__).resolve().parent / "results"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(sorted(BENCHES)))
@click.option("--quick", is_flag=True, help="A small run of under 20 s; its figures are rough.")
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
    results = []
    for name in names or sorted(BENCHES):
        measure, whole, small = BENCHES[name]
        with tempfile.TemporaryDirectory(prefix="bench-scratch-", dir=directory) as scratch:
            found = list(measure(Path(scratch), small if quick else whole, _tell))
        title = f"{name}{', a quick run' if quick else ''}"
        show_table(found, Console(width=None if sys.stdout.isatty() else 110))
        save_plot(found, RESULTS / f"{name}.svg", title)
        _tell(f"the plot is in {click.format_filename(RESULTS / f'{name}.svg')}")
        results += found
    if json_file is not None:
        save_json(results, json_file)


def _tell(line: str) -> None:
    click.echo(line, err=True)


main()
