"""`cordwood outbox inspect`: one outbox, or one archive, as a person looks at it."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cordwood.cli.endpoint import as_json, outbox_directory
from cordwood.cli.messages import put_readable, readable
from cordwood.cli.show import age_text, bytes_text, table
from cordwood.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from cordwood.edge.event import Event
    from cordwood.edge.facts import Parked

_SHOWN = 60  # characters of a value


@click.command("inspect", short_help="Show where an outbox stands.")
@click.argument("what", metavar="EXECUTION|PATH")
@click.option("--limit", type=click.IntRange(min=0), default=10, show_default=True, help="Show so many events.")
@outbox_directory("--dir")
@as_json
def inspect(what: str, limit: int, root: str, as_json: bool) -> None:
    """Show where an outbox stands: its numbers, events that were refused for good and why, and the next to be sent.

    An execution that is archived, or the path of an archive (.wal.zst), shows what was sent. Damage is exit 65.

    \b
    Example: cordwood outbox inspect job-42/1 --limit 3
             cordwood outbox inspect ~/.cordwood/outbox/archive/job-42%2F1.wal.zst --json
    """
    outboxes, archives = _places(Path(root).expanduser(), what)
    shown = [_outbox(path, limit) for path in outboxes] + [_archive(path, limit) for path in archives]
    if as_json:
        click.echo(json.dumps({"outboxes": shown[: len(outboxes)], "archives": shown[len(outboxes) :]}))
        return
    for one in shown:
        _print(one)


def _places(root: Path, what: str) -> tuple[list[Path], list[Path]]:
    """Return the outboxes and the archives that are meant: an execution's, or what is at a path."""
    from cordwood.edge.archive import SUFFIX, archives
    from cordwood.edge.look import of_execution

    path = Path(what).expanduser()
    if what.endswith(SUFFIX) and path.is_file():
        return [], [path]
    outboxes = of_execution(root, what)
    shelved = [path for _, path in archives(root, what)]
    if outboxes or shelved:
        return outboxes, shelved
    if path.is_dir():
        return [path], []
    if path.is_file():
        return [], [path]
    raise NotFound(f"{root} has no outbox and no archive of {what!r}, and there is no such path")


def _outbox(path: Path, limit: int) -> dict[str, Any]:
    from cordwood.edge.look import events, look

    try:
        found = look(path)
    except Unavailable as error:
        raise NotFound(str(error)) from None
    return {
        "execution": found.execution,
        "path": str(path),
        "topic": found.topic,
        "producer": found.producer,
        "created": found.created_ms,
        "state": "living" if found.living else "left-over",
        "events": found.events,
        "pending": found.pending,
        "pending_bytes": found.pending_bytes,
        "doubtful": found.doubtful,
        "sent": found.sent,
        "failed": found.failed,
        "epoch": found.epoch,
        "bytes": found.bytes_on_disk,
        "parked": _parked(found.parked),
        "next": [_event(event) for event in events(path, found.events - found.pending, limit)] if limit else [],
    }


def _archive(path: Path, limit: int) -> dict[str, Any]:
    from cordwood.edge.archive import open_archive

    found = open_archive(path)
    return {
        "execution": found.begun.execution,
        "path": str(path),
        "topic": found.begun.topic,
        "producer": found.begun.producer,
        "created": found.begun.created_ms,
        "state": "archived",
        "events": len(found.events),
        "failed": len(found.parked),
        "bytes": path.stat().st_size,
        "parked": _parked(found.parked),
        "first": [_event(event) for event in found.events[:limit]],
    }


def _parked(parked: "Sequence[Parked]") -> list[dict[str, Any]]:
    return [{"event": one.number, "reason": one.reason} for one in parked]


def _event(event: "Event") -> dict[str, Any]:
    shown: dict[str, Any] = {"event": event.number, "timestamp": event.timestamp_ms}
    put_readable(shown, "key", event.key)
    put_readable(shown, "value", event.value)
    if event.headers:
        shown["headers"] = {name: readable(value) for name, value in event.headers}
    return shown


def _print(one: dict[str, Any]) -> None:
    age = age_text(int(time.time() * 1000) - one["created"])
    click.echo(f"{one['execution']}: {one['state']}, begun {age} ago, {bytes_text(one['bytes'])} in {one['path']}")
    click.echo(f"topic: {one['topic'] or '(a function)'}, producer: {one['producer']}")
    names = ("events", "pending", "doubtful", "sent", "failed", "epoch")
    click.echo(", ".join(f"{name}: {one[name]}" for name in names if name in one))
    for parked in one["parked"]:
        click.echo(f"event {parked['event']} was refused for good: {parked['reason']}")
    events = one.get("next", one.get("first", []))
    if events:
        click.echo("next to be sent:" if "next" in one else "first events:")
        table(["event", "time", "headers", "value"], [_row(event) for event in events])


def _row(event: dict[str, Any]) -> tuple[object, ...]:
    try:
        when = datetime.fromtimestamp(event["timestamp"] / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        when = f"{event['timestamp']} ms"  # before the year 1
    headers = " ".join(f"{name}={value}" for name, value in event.get("headers", {}).items())
    value = event.get("value", event.get("value_base64"))
    text = "(a tombstone)" if value is None else _plain(str(value))
    return event["event"], when, _plain(headers), text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _plain(text: str) -> str:
    """Return text that moves no terminal's cursor."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
