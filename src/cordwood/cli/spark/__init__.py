"""`cordwood spark`: pipelines over topics, on this computer or on a cluster."""

import click

from cordwood.cli.spark.compact import compact
from cordwood.cli.spark.scrub import scrub


@click.group()
def spark() -> None:
    """Run Spark over topics: compact their history, and look at every checksum of it."""


for command in (compact, scrub):
    spark.add_command(command)
