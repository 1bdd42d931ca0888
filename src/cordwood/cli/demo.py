"""`cordwood demo`: the first minute."""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from cordwood.demo.story import Story


@click.command(short_help="Watch messages survive kill -9, and become a table.")
@click.option("--keep", is_flag=True, help="Leave broker, data and table there, and say where they are.")
def demo(keep: bool) -> None:
    """Watch messages survive: load, kill -9 of the broker, history as Parquet, a table by Spark; then count.

    Takes about a minute, on a scratch directory that is removed afterwards. What is counted at the end is read again
    from the broker, from the Parquet of its history and from the table. Exit code 1 if a message is lost or doubled.

    \b
    Example: cordwood demo
             cordwood demo --keep
    """
    from cordwood.demo.story import Story

    signal.signal(signal.SIGTERM, _leave)
    scratch = Path(tempfile.mkdtemp(prefix="cordwood-demo-"))
    story = Story(scratch)
    kept = False
    try:
        story.play()
        holds = concluded(story)
        kept = keep
    except KeyboardInterrupt:
        _break_off(story, scratch)
    finally:
        if not kept:
            story.end()
            shutil.rmtree(scratch, ignore_errors=True)
    if kept:
        _show_kept(story, scratch)
    else:
        story.screen.commands("everything is removed again. To look around in it, and to begin yourself:", _NEXT)
    sys.exit(0 if holds else 1)


def concluded(story: "Story") -> bool:
    """Count what is there and show it; return whether all of it is right."""
    from cordwood.demo.proof import prove

    with story.screen.live("log, history and table are read again"):
        proof = prove(story.seen())
    story.screen.chart()
    story.screen.proof(proof)
    if story.not_landed:
        click.echo(f"  no table was made: {story.not_landed}")
    return proof.holds


_NEXT = ("cordwood demo --keep", "cordwood serve --data ./data", "cordwood topic create clicks")


def _show_kept(story: "Story", scratch: Path) -> None:
    at = f"--endpoint {story.broker.endpoint}"
    click.echo(f"\n  the dashboard   {story.broker.endpoint}/")
    if not story.not_landed:
        click.echo(f"  the table       {story.table}")
    story.screen.commands(
        "try:",
        (
            f"cordwood group show orders billing {at}",
            f"cordwood read orders --limit 3 --json {at}",
            f"cordwood outbox list --archives --dir {scratch / 'outbox'}",
        ),
    )
    story.screen.commands("and to end it:", (f"kill -9 {story.broker.pid}; rm -r {scratch}",))


def _break_off(story: "Story", scratch: Path) -> NoReturn:
    """Remove everything and end now: nobody waits for what is on its way to a broker that does not come back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    story.drop()
    shutil.rmtree(scratch, ignore_errors=True)
    click.echo("\n  broken off; everything is removed again")
    sys.stdout.flush()
    os._exit(130)


def _leave(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
