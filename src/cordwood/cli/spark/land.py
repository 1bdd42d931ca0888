"""`cordwood spark land`."""

import json
import os
import signal
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from cordwood.cli.endpoint import as_json, endpoint, reach
from cordwood.cli.spark.options import master, shown, tell

if TYPE_CHECKING:
    from cordwood.spark.pipelines.land_landed import Landed

NONE = "none"


@click.command("land", short_help="Bring a topic into a Parquet table, exactly once.")
@click.argument("topic")
@click.argument("table", metavar="DIR")
@click.option("--schema", help="Columns of the JSON: DDL, a file with it, or `infer`. Without it the table is raw.")
@click.option(
    "--partition-by", default="date", show_default=True, help="A column, `date` (of the message, UTC) or `none`."
)
@click.option("--headers", is_flag=True, help="Have the headers in a raw table.")
@click.option("--once/--continuous", default=True, help="End with what is there now (default), or go on.")
@click.option("--every-s", type=click.FloatRange(0.001), default=60.0, show_default=True, help="Between two batches.")
@click.option("--checkpoint", metavar="DIR", help="Where the state is kept.  [default: DIR_checkpoint]")
@click.option("--target-mib", type=click.IntRange(1, 4096), default=128, show_default=True, help="Bytes of a file.")
@click.option("--trigger-mib", type=click.IntRange(1), help="Messages of a batch.  [default: by cores and target]")
@click.option("--skip-lost", is_flag=True, help="Go on without messages that retention took before they were landed.")
@master
@endpoint
@as_json
def land(
    topic: str,
    table: str,
    schema: str | None,
    partition_by: str,
    headers: bool,
    once: bool,
    every_s: float,
    checkpoint: str | None,
    target_mib: int,
    trigger_mib: int | None,
    skip_lost: bool,
    master: str,
    endpoint: str,
    as_json: bool,
) -> None:
    """Bring a topic into a Parquet table, exactly once; messages that do not fit go to DIR_rejected.

    A second run goes on where the first ended. Ctrl-C ends it behind the batch that is being landed.

    \b
    Examples: cordwood spark land clicks lake/clicks --schema "page INT NOT NULL, user STRING"
              cordwood spark land clicks lake/clicks --schema infer --continuous
    """
    from cordwood.spark.pipelines.land import land as run
    from cordwood.spark.session import start

    reach(endpoint)  # before Spark starts, which takes a while
    spark = start(master)
    found = run(
        spark,
        endpoint,
        topic,
        table,
        checkpoint=checkpoint,
        schema=_schema(schema),
        partition_by=None if partition_by == NONE else partition_by,
        headers=headers,
        once=once,
        every_s=every_s,
        target_bytes=target_mib << 20,
        trigger_bytes=None if trigger_mib is None else trigger_mib << 20,
        fail_on_data_loss=not skip_lost,
        stop=_signalled(),
        tell=tell,
        **shown(),
    )
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        _show(found)


def _schema(given: str | None) -> str | None:
    """Return what a file says, if one is named."""
    return Path(given).read_text() if given is not None and os.path.isfile(given) else given


def _signalled() -> Event:
    """Return what is set by the first Ctrl-C or SIGTERM; the second ends the program as usual."""
    stop = Event()

    def ask(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        tell("ending behind this batch; once more to end at once")
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return stop


def _show(found: "Landed") -> None:
    click.echo(f"{found.rows} rows in {found.files} files of {found.table}, {found.batches} batches")
    if found.recovered:
        click.echo(f"{found.recovered} batches had been landed by an earlier run that was cut short")
    if found.rejected:
        click.echo(f"{found.rejected} messages do not fit: {found.rejected_table}")
    if found.late_rows:
        names = ", ".join(f"{name} ({rows})" for name, rows in found.late_columns.items())
        click.echo(f"{found.late_rows} rows have fields that the schema lacks, kept in _json: {names}")
