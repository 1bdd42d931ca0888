"""What the pipelines' commands have in common."""

import click

master = click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")


def tell(line: str) -> None:
    """Say how far a pipeline is."""
    click.echo(line, err=True)
