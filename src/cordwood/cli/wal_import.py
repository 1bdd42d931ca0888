"""`cordwood wal import`: the messages of another system's log, into topics, each once."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from cordwood.cli.endpoint import as_json, endpoint
from cordwood.cli.show import progress_bar
from cordwood.cli.wal_foreign import (
    damages,
    found_at,
    printable,
    source_json,
    surveyed,
    tell_asides,
    tell_others,
    tell_places,
)
from cordwood.doors.damage import DamagedLog
from cordwood.doors.plan import Limits
from cordwood.doors.record import Record
from cordwood.doors.survey import Survey, topic_of
from cordwood.errors import Refused


@click.command("import", short_help="Import the log of DriftQ, Danube, BlipMQ or airunner.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--topic", help="Import everything into this topic. [default: the topics of the source]")
@click.option("--source", metavar="NAME", help="The source's name, to know it again. [default: its real path]")
@click.option("--skip-damaged", is_flag=True, help="Import what is whole although some of it is damaged.")
@click.option(
    "--batch-messages",
    type=click.IntRange(1, 50_000),
    default=Limits().batch_records,
    show_default=True,
    help="How many messages become visible together.",
)
@endpoint
@as_json
def import_command(
    path: Path,
    topic: str | None,
    source: str | None,
    skip_damaged: bool,
    batch_messages: int,
    endpoint: str,
    as_json: bool,
) -> None:
    """Import the messages of another system's log: DriftQ, Danube, BlipMQ or airunner, recognised by itself.

    PATH is a file, or a directory of them. Topics that are not there are made. Run it again and only what is new is
    imported; a source whose beginning has changed is an error. Damaged data is exit 65, and nothing is imported,
    unless --skip-damaged says so; a torn tail is told, and all before it imported.

    \b
    Example: cordwood wal import /var/lib/danube/wal
             cordwood wal import driftq.wal --topic tasks --source old-driftq
    """
    from cordwood.broker.names import check_topic
    from cordwood.client.client import Client
    from cordwood.doors.carry import MARKS, Carrier

    if source is not None and not 0 < len(source) <= 1_000:
        raise Refused("--source is a name of 1 to 1000 characters")
    found = found_at(path, source)
    surveys = surveyed(found)
    corrupt = damages(surveys)
    if corrupt and not skip_damaged:
        remedy = "Nothing was imported; import what is whole with --skip-damaged"
        if as_json:
            click.echo(json.dumps(_summary(surveys, [{} for _ in surveys], [{} for _ in surveys], found.others)))
        raise DamagedLog(corrupt, remedy)
    targets = _targets(surveys, topic, check_topic, MARKS)

    def target(record: Record) -> str:
        return topic if topic is not None else plain(topic_of(record))

    with Client(endpoint) as client:
        carrier = Carrier(client, targets, target, Limits(batch_records=batch_messages), topic)
        for one in surveys:
            carrier.compare(one.source)
        carrier.make_topics()
        with progress_bar("importing", sum(one.source.bytes for one in surveys)) as advance:
            done = [carrier.carry(one.source, advance) for one in surveys]
    before, imported = [one.before for one in done], [one.imported for one in done]
    if as_json:
        click.echo(json.dumps(_summary(surveys, before, imported, found.others)))
        return
    for number, one in enumerate(surveys):
        old, new = sum(before[number].values()), sum(imported[number].values())
        into = ", ".join(f"{count} into {name}" for name, count in sorted(imported[number].items()))
        click.echo(
            f"{printable(one.source.name)}: {one.format}, {one.records} records: {new} imported"
            + (f" ({into})" if into else "")
            + (f", {old} were there already" if old else "")
        )
        tell_asides(one)
        tell_places(one)
    tell_others(found.others)


def plain(topic: str) -> str:
    """Return the topic for one of a source: its name without a leading slash."""
    return topic.removeprefix("/")


def _targets(
    surveys: Sequence[Survey], topic: str | None, check: Callable[[str], str], reserved: str
) -> dict[str, int]:
    """Return every topic that gets messages, or is declared, with the partitions that it has in the source."""
    wanted: dict[str, int] = {}
    for one in surveys:
        for name, tally in sorted(one.topics.items()):
            target = plain(name) if topic is None else topic
            wanted[target] = max(wanted.get(target, 1), tally.partitions)
    for name in wanted:
        try:
            check(name)
        except Refused as error:
            hint = "" if topic is not None else "; give a topic for all of it with --topic"
            raise Refused(f"{error}{hint}") from None
        if name == reserved:
            raise Refused(f"{reserved} is where imports keep their progress; give another topic with --topic")
    return wanted


def _summary(
    surveys: Sequence[Survey],
    before: Sequence[dict[str, int]],
    imported: Sequence[dict[str, int]],
    others: Sequence[str],
) -> dict[str, Any]:
    sources = []
    for one, old, new in zip(surveys, before, imported, strict=True):
        topics = [
            {"topic": name, "imported": new.get(name, 0), "already": old.get(name, 0)}
            for name in sorted({*old, *new})
        ]
        shown = source_json(one)
        del shown["topics"], shown["asides"]
        counts = {"imported": sum(new.values()), "already": sum(old.values())}
        sources.append({**shown, **counts, "topics": topics})
    return {
        "imported": sum(one["imported"] for one in sources),
        "already": sum(one["already"] for one in sources),
        "torn": [place for one in sources for place in one["torn"]],
        "damages": [place for one in sources for place in one["damages"]],
        "sources": sources,
        "other_files": list(others),
    }
