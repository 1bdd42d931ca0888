"""`cordwood group`: list, show, move groups; send their dead letters back."""

import json

import click

from cordwood.cli.endpoint import as_json, endpoint, settings_of
from cordwood.cli.show import table


@click.group(short_help="List, show, change and move groups; send dead letters back.")
def group() -> None:
    """List, show, change and move consumer groups; send dead letters back.

    \b
    Example: cordwood group show clicks mailer
    """


@group.command("list")
@endpoint
@as_json
def list_groups(endpoint: str, as_json: bool) -> None:
    """List all groups of all topics.

    \b
    Example: cordwood group list
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        found = client.groups()
    if as_json:
        click.echo(json.dumps({"groups": found}))
    elif not found:
        click.echo("no groups yet; the first consumer makes one: cordwood consume TOPIC --group NAME")
    else:
        rows = [(g["topic"], g["group"], g["lag"], g["in_flight"], g["consumers"]) for g in found]
        table(["topic", "group", "lag", "in flight", "consumers"], rows)


@group.command("show")
@click.argument("topic")
@click.argument("name")
@endpoint
@as_json
def show(topic: str, name: str, endpoint: str, as_json: bool) -> None:
    """Show a group: how far it is in each partition.

    \b
    Example: cordwood group show clicks mailer
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        found = client.group(topic, name)
    if as_json:
        click.echo(json.dumps(found))
        return
    columns = ["partition", "floor", "end_offset", "lag", "in_flight", "delayed", "blocked", "retried"]
    table([c.replace("_", " ") for c in columns], [[p[c] for c in columns] for p in found["partitions"]])
    click.echo("settings: " + ", ".join(f"{name}={value}" for name, value in found["settings"].items()))


@group.command("set", short_help="Change settings of a group, or make it.")
@click.argument("topic")
@click.argument("name")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE…")
@endpoint
@as_json
def change(topic: str, name: str, settings: tuple[str, ...], endpoint: str, as_json: bool) -> None:
    """Change settings of a group, or make it; `NAME=default` takes one back to the broker's.

    \b
    Example: cordwood group set clicks mailer max_attempts=5 lease_ms=60000
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        found = client.set_group(topic, name, **settings_of(settings))
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo("settings: " + ", ".join(f"{name}={value}" for name, value in found["settings"].items()))


@group.command("seek", short_help="Let a group go on from elsewhere.")
@click.argument("topic")
@click.argument("name")
@click.argument("to")
@click.option("--partition", type=int, help="Only this one.")
@endpoint
@as_json
def seek(topic: str, name: str, to: str, partition: int | None, endpoint: str, as_json: bool) -> None:
    """Let a group go on from TO: earliest, latest, an offset, time:<ms since 1970>, or a time in ISO 8601.

    \b
    Example: cordwood group seek clicks mailer earliest
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        found = client.seek(topic, name, to, partition=partition)
    if as_json:
        click.echo(json.dumps(found))
    else:
        places = ", ".join(f"{p['partition']}: {p['floor']}" for p in found["partitions"])
        click.echo(f"group {name} of {topic} goes on from {places}")


@group.command("redrive")
@click.argument("topic")
@click.argument("name")
@click.option("--partition", type=int, help="Only dead letters of this partition of dlq.TOPIC.")
@click.option("--range", "ranges", type=(int, int), multiple=True, metavar="FIRST END", help="Only these offsets.")
@endpoint
@as_json
def redrive(
    topic: str, name: str, partition: int | None, ranges: tuple[tuple[int, int], ...], endpoint: str, as_json: bool
) -> None:
    """Send the dead letters of a group back to their topic.

    \b
    Example: cordwood group redrive clicks mailer
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        count = client.redrive(topic, name, ranges=list(ranges) or None, partition=partition)
    if as_json:
        click.echo(json.dumps({"redriven": count}))
    else:
        click.echo(f"{count} dead letter(s) sent back to {topic}")


@group.command("delete")
@click.argument("topic")
@click.argument("name")
@endpoint
def delete(topic: str, name: str, endpoint: str) -> None:
    """Delete a group: where it was is forgotten.

    \b
    Example: cordwood group delete clicks mailer
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        client.delete_group(topic, name)
    click.echo(f"group {name} of {topic} is deleted")
