"""`cordwood`: where every command begins, and where every error ends as one line and an exit code.

0  done      1  failed      2  wrong usage      65  damaged data      75  try later
"""

import logging
import sys

import click

from cordwood import __version__
from cordwood.cli.demo import demo
from cordwood.cli.group import group
from cordwood.cli.messages import consume, produce, read
from cordwood.cli.outbox import outbox
from cordwood.cli.run import run
from cordwood.cli.serve import serve
from cordwood.cli.spark import spark
from cordwood.cli.spark.failure import of_spark
from cordwood.cli.topic import topic
from cordwood.cli.wal import wal
from cordwood.errors import CordwoodError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="cordwood")
def cli() -> None:
    """A durable message log and work queue that Spark reads and writes as a table.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 65 damaged data, 75 try later.
    """


for command in (serve, topic, produce, consume, read, group, run, outbox, wal, spark, demo):
    cli.add_command(command)


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
        said = of_spark(error)
        if said is None:
            raise
        click.echo(f"cordwood: {said}", err=True)
        sys.exit(1)
