"""`cordwood bench`: Cordwood beside its peers, on this machine."""

import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from cordwood.cli.endpoint import as_json


@click.command(short_help="Compare with Redis, NATS, RabbitMQ, PostgreSQL and SQLite, here.")
@click.option("--quick", is_flag=True, help="A small run of about a minute; its figures are rough.")
@click.option(
    "--only",
    "names",
    multiple=True,
    type=click.Choice(["redis", "nats", "rabbitmq", "postgresql", "sqlite"]),
    help="Compare with this one only; may be repeated. [default: all that are installed]",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="Measure the disk of this directory; a scratch directory is made in it and removed.",
)
@click.option(
    "--chart",
    "charts",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Draw the ratios too, as .svg or .png; may be repeated.",
)
@as_json
def bench(quick: bool, names: tuple[str, ...], directory: Path, charts: tuple[Path, ...], as_json: bool) -> None:
    """Compare Cordwood with other durable logs and queues, each in its safe and in its default mode.

    Starts every one that is installed on a loopback port, lets them take turns at the same work on the same disk, and
    prints how many times as fast Cordwood is. What is not installed is left out and named; their Python clients come
    with `pip install "cordwood[bench]"`. Takes some 15 minutes. The exit code says nothing about who is faster.

    \b
    Example: cordwood bench --quick
             cordwood bench --only redis --only postgresql --dir /mnt/disk
             cordwood bench --chart ratios.svg --chart ratios.png --json > ratios.json
    """
    from cordwood.bench import chart
    from cordwood.bench.comparison import QUICK, Effort, compare
    from cordwood.bench.peers.roster import PEERS

    for path in charts:
        chart.check(path)
    signal.signal(signal.SIGTERM, _leave)
    peers = [system for system in PEERS if not names or system.key in names]
    with tempfile.TemporaryDirectory(prefix="cordwood-bench-", dir=directory, ignore_cleanup_errors=True) as scratch:
        found = compare(Path(scratch), peers, QUICK if quick else Effort(), lambda line: click.echo(line, err=True))
    if as_json:
        from cordwood.bench import ratios

        click.echo(json.dumps(ratios.as_json(found), indent=2, ensure_ascii=False))
    else:
        from rich.console import Console

        from cordwood.bench import table

        table.show(found, Console(width=None if sys.stdout.isatty() else 118))
    for path in charts:
        chart.save(found, path)
        click.echo(f"the chart is in {click.format_filename(path)}", err=True)


def _leave(number: int, frame: Any) -> None:
    """End as Ctrl-C does: what was started is stopped."""
    raise KeyboardInterrupt
