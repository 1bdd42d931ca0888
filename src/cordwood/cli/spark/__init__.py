"""`cordwood spark`: pipelines over topics, on this computer or on a cluster."""

import click

from cordwood.cli.spark.compact import compact
from cordwood.cli.spark.land import land
from cordwood.cli.spark.replay import replay
from cordwood.cli.spark.scrub import scrub
from cordwood.cli.spark.stats import stats


@click.group(short_help="Land topics in tables; compact, check, replay and count history.")
def spark() -> None:
    """Run Spark over topics: land them in tables, compact, check and replay their history, count what is in it.

    \b
    Example: cordwood spark land clicks lake/clicks --schema "page STRING, user STRING"
    """


for command in (land, compact, scrub, replay, stats):
    spark.add_command(command)
