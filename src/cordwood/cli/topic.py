"""`cordwood topic`: make, list, show, change and delete topics."""

import json
import sys
from typing import Any

import click

from cordwood.cli.endpoint import as_json, endpoint, settings_of
from cordwood.cli.show import bytes_text, table
from cordwood.errors import CordwoodError


@click.group()
def topic() -> None:
    """Make, list, show, change and delete topics.

    \b
    Example: cordwood topic create clicks --partitions 8
    """


@topic.command("create")
@click.argument("name")
@click.option("--partitions", type=int, help="How many; fixed from then on. [default: the broker's setting]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the topic.")
@endpoint
@as_json
def create(name: str, partitions: int | None, settings: tuple[str, ...], endpoint: str, as_json: bool) -> None:
    """Make a topic. One that is there already must be the same.

    \b
    Example: cordwood topic create clicks --partitions 8 --set retention_ms=604800000
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        found = client.create_topic(name, partitions=partitions, **settings_of(settings))
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo(f"topic {name} has {len(found['partitions'])} partition(s)")


@topic.command("list")
@endpoint
@as_json
def list_topics(endpoint: str, as_json: bool) -> None:
    """List all topics.

    \b
    Example: cordwood topic list
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        found = client.topics()
    if as_json:
        click.echo(json.dumps({"topics": found}))
    elif not found:
        click.echo("no topics yet; make one with: cordwood topic create NAME")
    else:
        rows = [(t["name"], t["partitions"], t["messages"], bytes_text(t["bytes"])) for t in found]
        table(["topic", "partitions", "messages", "size"], rows)


@topic.command("show", short_help="Show a topic, its partitions and its groups.")
@click.argument("name")
@endpoint
@as_json
def show(name: str, endpoint: str, as_json: bool) -> None:
    """Show a topic: its partitions and where their messages are, its groups, its settings.

    \b
    Example: cordwood topic show clicks
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        found = client.topic(name)
    if as_json:
        click.echo(json.dumps(found))
        return
    rows = [
        (
            p["partition"],
            p["start_offset"],
            p["end_offset"],
            _messages(p),
            bytes_text(p["bytes"]),
            bytes_text(p.get("memory_bytes", 0)),
            bytes_text(p.get("journal_bytes", 0)),
            bytes_text(p.get("tiered_bytes", 0)),
            p.get("objects", 0),
        )
        for p in found["partitions"]
    ]
    table(["partition", "start", "end", "messages", "size", "in memory", "in journal", "in tier", "objects"], rows)
    for p in found["partitions"]:
        for first, end in p.get("holes", []):
            click.echo(f"partition {p['partition']}: {first} to {end - 1} were lost with a journal")
    click.echo(f"groups: {', '.join(found['groups']) or 'none yet'}")
    click.echo("settings: " + ", ".join(f"{name}={value}" for name, value in found["settings"].items()))


@topic.command("set", short_help="Change settings of a topic.")
@click.argument("name")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE…")
@endpoint
@as_json
def change(name: str, settings: tuple[str, ...], endpoint: str, as_json: bool) -> None:
    """Change settings of a topic; `NAME=default` takes one back to the broker's.

    \b
    Example: cordwood topic set clicks retention_ms=86400000 max_buffered_messages=100000
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        found = client.set_topic(name, **settings_of(settings))
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo("settings: " + ", ".join(f"{name}={value}" for name, value in found["settings"].items()))


@topic.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@endpoint
def delete(name: str, yes: bool, endpoint: str) -> None:
    """Delete a topic with all its messages, groups and readers.

    \b
    Example: cordwood topic delete clicks --yes
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        if not yes:
            found = client.topic(name)
            count = sum(map(_messages, found["partitions"]))
            if not _agreed(f"delete {name} with {count} messages for ever?"):
                raise CordwoodError(f"topic {name} is kept; --yes says it where nobody answers")
        client.delete_topic(name)
    click.echo(f"topic {name} is deleted")


def _messages(partition: dict[str, Any]) -> int:
    """Return how many messages a partition has; what lies in a hole is none."""
    holes = sum(end - first for first, end in partition.get("holes", []))
    return int(partition["end_offset"] - partition["start_offset"] - holes)


def _agreed(question: str) -> bool:
    """Ask; nobody there is a no, and Ctrl-C what it always is."""
    try:
        return click.confirm(question)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        return False
