"""Another system's log on the screen: what it holds, and where it is damaged."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cordwood.cli.show import bytes_text, progress_bar, table
from cordwood.doors.damage import DamagedLog
from cordwood.doors.record import Aside, Kind, Place
from cordwood.doors.source import Found, find
from cordwood.doors.survey import Survey, TopicTally, survey
from cordwood.errors import Refused

KNOWN = "the logs of DriftQ, Danube, BlipMQ and airunner are known"
SHOWN = 20  # places that are listed for a person; JSON has more


def found_at(path: Path, name: str | None = None) -> Found:
    """Return the foreign logs at a path, at least one; refuse a path without."""
    found = find(path, name)
    if not found.sources:
        if path.is_file() and not path.stat().st_size:
            raise Refused(f"{path} is empty: nothing in it says what it is")
        raise Refused(f"{path} holds no log that is recognised; {KNOWN}")
    return found


def surveyed(found: Found) -> list[Survey]:
    """Read every byte, with a progress bar on a terminal."""
    with progress_bar("verifying", sum(source.bytes for source in found.sources)) as advance:
        return [survey(source, advance) for source in found.sources]


def damages(surveys: Iterable[Survey]) -> list[Place]:
    """Return every corrupt place."""
    return [place for one in surveys for place in one.places[Kind.CORRUPT]]


def inspect_foreign(found: Found, as_json: bool) -> None:
    """Show foreign logs; raise DamagedLog at the end if whole records were damaged."""
    surveys = surveyed(found)
    if as_json:
        click.echo(json.dumps(summary(surveys, found.others)))
    else:
        for one in surveys:
            _show(one)
        tell_others(found.others)
    corrupt = damages(surveys)
    if corrupt:
        raise DamagedLog(corrupt, "What is whole can be imported: cordwood wal import PATH --skip-damaged")


def summary(surveys: Sequence[Survey], others: Sequence[str]) -> dict[str, Any]:
    """Return all there is to say, for programs."""
    sources = [source_json(one) for one in surveys]
    return {
        "ok": not damages(surveys),
        "format": ", ".join(sorted({name for one in surveys for name in one.format.split(", ")})),
        "records": sum(one.records for one in surveys),
        "topics": [_topic_json(name, tally) for name, tally in sorted(_together(surveys).items())],
        "bytes": sum(one.source.bytes for one in surveys),
        "torn": [place for one in sources for place in one["torn"]],
        "damages": [place for one in sources for place in one["damages"]],
        "gaps": [place for one in sources for place in one["gaps"]],
        "sources": sources,
        "other_files": list(others),
    }


def _together(surveys: Sequence[Survey]) -> dict[str, TopicTally]:
    """Return what all sources have of each topic."""
    found: dict[str, TopicTally] = {}
    for one in surveys:
        for name, tally in one.topics.items():
            found.setdefault(name, TopicTally()).join(tally)
    return found


def source_json(one: Survey) -> dict[str, Any]:
    """Return what there is to say about one source."""
    tallies = list(one.topics.values())
    return {
        "source": one.source.name,
        "format": one.format,
        "files": [{"file": file.name, "bytes": file.size} for file in one.source.files],
        "records": one.records,
        "first": _lowest(tally.first for tally in tallies),
        "last": _highest(tally.last for tally in tallies),
        "first_timestamp": _lowest(tally.first_ms for tally in tallies),
        "last_timestamp": _highest(tally.last_ms for tally in tallies),
        "topics": [_topic_json(name, tally) for name, tally in sorted(one.topics.items())],
        "torn": [place_json(place) for place in one.places[Kind.TORN]],
        "damages": [place_json(place) for place in one.places[Kind.CORRUPT]],
        "damaged_places": one.place_counts[Kind.CORRUPT],
        "gaps": [place_json(place) for place in one.places[Kind.GAP]],
        "not_imported": dict(one.aside_counts),
        "asides": [_aside_json(aside) for aside in one.asides],
    }


def place_json(place: Place) -> dict[str, Any]:
    """Return a place for programs."""
    return {"file": place.file, "byte": place.position, "end": place.end, "reason": place.reason}


def tell_places(one: Survey) -> None:
    """Print the places where something is wrong."""
    for kind, what in ((Kind.CORRUPT, "damaged"), (Kind.TORN, "torn, never known to be whole"), (Kind.GAP, "gap")):
        places = one.places[kind]
        for place in places[:SHOWN]:
            click.echo(f"  {what}: {place}")
        if one.place_counts[kind] > SHOWN:
            click.echo(f"  … and {one.place_counts[kind] - SHOWN} more; --json has them")


def tell_asides(one: Survey) -> None:
    """Print what is not imported."""
    if one.aside_counts:
        counts = ", ".join(f"{count} {what}(s)" for what, count in sorted(one.aside_counts.items()))
        click.echo(f"  shown, not imported: {counts}")


def tell_others(others: Sequence[str]) -> None:
    """Print which files were not recognised."""
    if others:
        names = ", ".join(printable(name) for name in others[:SHOWN])
        click.echo(f"not recognised: {names}" + (f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""))


def _show(one: Survey) -> None:
    click.echo(f"{printable(one.source.name)}: {one.format}, {one.records} records, {bytes_text(one.source.bytes)}")
    from rich.markup import escape

    columns = ["topic", "partitions", "records", "size", "first", "last", "from", "to"]
    rows = [
        (
            escape(printable(name)),
            tally.partitions,
            tally.records,
            bytes_text(tally.bytes),
            "" if tally.first is None else tally.first,
            "" if tally.last is None else tally.last,
            _when(tally.first_ms),
            _when(tally.last_ms),
        )
        for name, tally in sorted(one.topics.items())
    ]
    if rows:
        table(columns, rows)
    for aside in one.asides[:SHOWN]:
        click.echo(f"  {aside.what}: " + ", ".join(printable(f"{name} {value}") for name, value in aside.facts))
    tell_asides(one)
    tell_places(one)


def printable(text: str) -> str:
    """Return what a terminal may get: names in a foreign log can be anything."""
    return text if text.isprintable() else repr(text)


def _topic_json(name: str, tally: TopicTally) -> dict[str, Any]:
    return {
        "topic": name,
        "partitions": tally.partitions,
        "records": tally.records,
        "bytes": tally.bytes,
        "first": tally.first,
        "last": tally.last,
        "first_timestamp": tally.first_ms,
        "last_timestamp": tally.last_ms,
    }


def _aside_json(aside: Aside) -> dict[str, Any]:
    return {"kind": aside.what, **dict(aside.facts)}


def _lowest(numbers: Iterable[int | None]) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


def _highest(numbers: Iterable[int | None]) -> int | None:
    return max((number for number in numbers if number is not None), default=None)


def _when(time_ms: int | None) -> str:
    if time_ms is None:
        return ""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
