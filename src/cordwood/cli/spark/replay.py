"""`cordwood spark replay`."""

import json
from datetime import datetime

import click

from cordwood.cli.endpoint import as_json, endpoint, reach
from cordwood.cli.spark.options import master, shown, tell
from cordwood.cli.spark.place import begin, finish


@click.command("replay", short_help="Publish messages of a topic to another, exactly once.")
@click.argument("source")
@click.argument("target")
@begin
@finish
@click.option("--where", help="An SQL condition, such as \"get_json_object(text, '$.page') = 'home'\".")
@click.option(
    "--select", help='An SQL list that gives value, and perhaps key and headers: "upper(text) as value, key".'
)
@click.option("--name", help="What this replay is called; another name publishes the same again.")
@click.option("--dry-run", is_flag=True, help="Only count what would be published.")
@master
@endpoint
@as_json
def replay(
    source: str,
    target: str,
    start: int | datetime | str | None,
    end: int | datetime | str | None,
    where: str | None,
    select: str | None,
    name: str | None,
    dry_run: bool,
    master: str,
    endpoint: str,
    as_json: bool,
) -> None:
    """Publish messages of SOURCE to TARGET again, exactly once: the same command run again publishes nothing more.

    SQL can name topic, partition, offset, timestamp, key, value, headers, text (the value), key_text, and
    header['name'], such as header['cordwood-error'] of dead letters, which are in the topic dlq.NAME.

    \b
    Example: cordwood spark replay dlq.orders orders --where "header['cordwood-error'] like 'timeout%'"
    """
    from cordwood.spark.pipelines.replay import replay as run
    from cordwood.spark.session import start as session

    reach(endpoint)
    found = run(
        session(master),
        endpoint,
        source,
        target,
        start=start,
        end=end,
        where=where,
        select=select,
        name=name,
        dry_run=dry_run,
        tell=tell,
        **shown(),
    )
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    elif found.state == "dry run":
        click.echo(f"{found.messages} of {found.read} messages would be published to {target}")
    elif found.state == "published":
        click.echo(f"{found.messages} of {found.read} messages are published to {target}")
    else:
        click.echo(f"{found.messages} messages were published to {target} before; with another --name they are again")
