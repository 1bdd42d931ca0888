"""What the pipelines' commands have in common."""

from typing import TypedDict

import click

master = click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")


class Shown(TypedDict):
    """What opens a broker's door."""

    token: str | None
    ca: str | None


def shown() -> Shown:
    """Return what opens the broker's door; executors are other processes, so that it has to travel."""
    from cordwood.client.endpoint import default_ca, default_token

    return {"token": default_token(), "ca": default_ca()}


def tell(line: str) -> None:
    """Say how far a pipeline is."""
    click.echo(line, err=True)
