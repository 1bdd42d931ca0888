"""`cordwood run`: any command, its output passed on unchanged, and all it does kept as events."""

import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from cordwood.cli.endpoint import endpoint, outbox_directory
from cordwood.errors import CordwoodError, Refused

if TYPE_CHECKING:
    from cordwood.edge.outbox import Outbox


@click.command(
    context_settings={"allow_interspersed_args": False}, short_help="Run a command; its output becomes messages."
)
@click.option("--topic", required=True, help="The topic that gets the events.")
@click.option(
    "--execution", "--key", help="This run's name, and the key of its events. [default: host, process and time]"
)
@outbox_directory("--outbox")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@endpoint
def run(topic: str, execution: str | None, root: str, command: tuple[str, ...], endpoint: str) -> None:
    """Run a command, with its output passed on unchanged; what it writes, its start and its exit become events.

    One message for each line, in order, with the headers stream (stdout, stderr, start or exit) and seq. They are on
    disk within 2 s, whether there is a broker or not; what is not sent at the end, the next run or `cordwood outbox
    send` sends. The exit code is the command's, 128 + n when signal n ended it, 127 when it is not found, 126 when it
    cannot be executed.

    \b
    Example: cordwood run --topic job-events -- make -j4 all
             cordwood run --topic job-events --execution nightly/2026-01-31 -- ./backup.sh --full
    """
    from cordwood.edge.run import run as run_command

    # The command's stderr is not the place for what a sender logs; the last line says what is left, and why.
    logging.getLogger("cordwood.edge").setLevel(logging.CRITICAL)
    sys.exit(run_command(command, lambda: _opened(root, execution, topic, endpoint), _tell))


def _opened(root: str, execution: str | None, topic: str, endpoint: str) -> "Outbox":
    from cordwood.edge.outbox import Outbox

    try:
        return Outbox(root, execution, topic, endpoint)
    except OSError as error:
        raise Refused(f"--outbox {root} cannot be used, and nothing was run: {error.strerror or error}") from error
    except CordwoodError as error:
        error.args = (f"{error} (nothing was run)",)
        raise


def _tell(line: str) -> None:
    with suppress(OSError):  # where nobody listens any more, the command is not to suffer for it
        click.echo(f"cordwood: {line}", err=True)
