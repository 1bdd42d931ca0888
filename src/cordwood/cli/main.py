"""`cordwood`: where every command begins, and where every error ends as one line and an exit code.

0  done      1  failed      2  wrong usage      65  damaged data      75  try later
"""

import logging
import sys
from importlib import import_module

import click

from cordwood import __version__
from cordwood.errors import CordwoodError

# command → the module that has it
_PLACES = {
    "serve": "serve",
    "topic": "topic",
    "produce": "messages",
    "consume": "messages",
    "read": "messages",
    "group": "group",
    "run": "run",
    "outbox": "outbox",
    "wal": "wal",
    "spark": "spark",
    "token": "token",
    "drill": "drill",
    "demo": "demo",
    "bench": "bench",
}


class _Commands(click.Group):
    """The commands, each loaded when it is asked for: whoever runs one does not wait for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _PLACES:
            return None
        found: click.Command = getattr(import_module(f"cordwood.cli.{_PLACES[cmd_name]}"), cmd_name)
        return found


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="cordwood")
def cli() -> None:
    """A durable message log and work queue that Spark reads and writes as a table.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 65 damaged data, 75 try later.

    \b
    Example: cordwood demo
             cordwood serve --data ./data
    """


def main() -> None:
    """Run the command line and end the process with the right exit code."""
    logging.basicConfig(level=logging.WARNING, format="cordwood: %(message)s", stream=sys.stderr)
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except CordwoodError as error:
        click.echo(f"cordwood: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"cordwood: {where}{error.strerror or error}", err=True)
        sys.exit(1)
    except Exception as error:
        if "pyspark" not in sys.modules:
            raise
        from cordwood.cli.spark.failure import of_spark

        said = of_spark(error)
        if said is None:
            raise
        click.echo(f"cordwood: {said}", err=True)
        sys.exit(1)
