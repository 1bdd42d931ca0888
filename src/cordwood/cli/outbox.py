"""`cordwood outbox`: what is on this computer and not with the broker yet; send it, put it away."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cordwood.cli.duration import Duration
from cordwood.cli.endpoint import as_json, credentials, outbox_directory
from cordwood.cli.outbox_inspect import inspect
from cordwood.cli.show import age_text, bytes_text, progress_bar, table
from cordwood.errors import CordwoodError, Damaged, NotFound, Unavailable

if TYPE_CHECKING:
    from cordwood.edge.look import Look
    from cordwood.edge.running import Progress

directory = outbox_directory("--dir")


@click.group(short_help="Look after events that no broker has yet.")
def outbox() -> None:
    """Look after events that are on this computer and not with the broker yet.

    \b
    Example: cordwood outbox list
    """


@dataclass(frozen=True, slots=True)
class Found:
    """An outbox in a root: where it stands, or why that cannot be said."""

    path: Path
    look: "Look | None"
    error: str | None

    @property
    def state(self) -> str:
        """Living, left-over or damaged; changing, when it could not be looked at this moment."""
        if self.look is None:
            return "damaged" if self.error is not None else "changing"
        return "living" if self.look.living else "left-over"


def find(root: Path) -> list[Found]:
    """Return the outboxes of a root."""
    from cordwood.edge.look import look, outboxes

    found = []
    for path in outboxes(root):
        try:
            seen = look(path)
            error = seen.parked[-1].reason if seen.parked else None
            found.append(Found(path, seen, error))
        except Unavailable:
            found.append(Found(path, None, None))
        except FileNotFoundError:
            continue  # it was sent and removed this moment
        except (CordwoodError, OSError, ValueError) as wrong:
            found.append(Found(path, None, str(wrong)))
    return found


@outbox.command("list", short_help="List the outboxes and what is pending in each.")
@click.option("--archives", is_flag=True, help="List the archives, too.")
@directory
@as_json
def list_outboxes(archives: bool, root: str, as_json: bool) -> None:
    """List the outboxes: how many events are pending, sent and refused for good, and who has them.

    living: a process appends to it, or sends it. left-over: its process is gone; `cordwood outbox send` sends it.
    damaged: a person must look; `cordwood wal inspect` says where.

    \b
    Example: cordwood outbox list --archives
    """
    from cordwood.edge.names import execution_of

    place = Path(root).expanduser()
    now_ms = int(time.time() * 1000)
    found = find(place)
    shelf = _archives(place, now_ms) if archives else []
    if as_json:
        shown: dict[str, Any] = {"outboxes": [_as_json(one, now_ms) for one in found]}
        if archives:
            shown["archives"] = shelf
        click.echo(json.dumps(shown))
        return
    if not found:
        click.echo(f"no outboxes in {place}")
    else:
        rows = []
        for one in found:
            seen = one.look
            numbers: tuple[object, ...] = ("?",) * 5
            topic, broker, error = "?", "?", one.error or ""
            if seen is not None:
                age = age_text(now_ms - seen.created_ms)
                numbers = (seen.pending, seen.sent, seen.failed, bytes_text(seen.bytes_on_disk), age)
                topic, broker = seen.topic or "(a function)", seen.endpoint or ""
            rows.append((execution_of(one.path.name), topic, broker, one.state, *numbers, error))
        table(
            ["execution", "topic", "broker", "state", "pending", "sent", "failed", "size", "age", "last error"], rows
        )
    if archives:
        lines = [(one["execution"], one["file"], bytes_text(one["bytes"]), age_text(one["age_ms"])) for one in shelf]
        click.echo("")
        table(["archive of", "file", "size", "age"], lines)


def _as_json(one: Found, now_ms: int) -> dict[str, Any]:
    from cordwood.edge.names import execution_of

    shown: dict[str, Any] = {
        "execution": execution_of(one.path.name),
        "path": str(one.path),
        "state": one.state,
        "last_error": one.error,
    }
    if one.look is not None:
        shown |= {
            "topic": one.look.topic,
            "endpoint": one.look.endpoint,
            "pending": one.look.pending,
            "pending_bytes": one.look.pending_bytes,
            "sent": one.look.sent,
            "failed": one.look.failed,
            "bytes": one.look.bytes_on_disk,
            "created": one.look.created_ms,
            "age_ms": now_ms - one.look.created_ms,
        }
    return shown


def _archives(root: Path, now_ms: int) -> list[dict[str, Any]]:
    from cordwood.edge.archive import archives

    return [
        {
            "execution": execution,
            "file": str(path),
            "bytes": path.stat().st_size,
            "age_ms": now_ms - int(path.stat().st_mtime * 1000),
        }
        for execution, path in archives(root)
    ]


outbox.add_command(inspect)


@outbox.command("send", short_help="Send what left-overs have pending.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), metavar="SECONDS", help="End after so long.")
@click.option(
    "--resend",
    multiple=True,
    metavar="EXECUTION",
    help="First, number anew what may be stored: for one that stays at 409, when you saw that it is not stored.",
)
@click.option(
    "--stored",
    multiple=True,
    nargs=2,
    type=(str, click.IntRange(0)),
    metavar="EXECUTION NUMBER",
    help="The same, when you saw that its events below NUMBER are stored: only those from it on are sent.",
)
@directory
@click.option(
    "--endpoint",
    envvar="CORDWOOD_ENDPOINT",
    help="Send everything to this broker.  [default: each to the one that it was meant for]",
)
@credentials
@as_json
def send(
    timeout_s: float | None,
    resend: tuple[str, ...],
    stored: tuple[tuple[str, int], ...],
    root: str,
    endpoint: str | None,
    as_json: bool,
) -> None:
    """Send what left-overs have pending, archive them, and exit: 75 if some events remain, 65 if only damaged ones.

    Living outboxes are left to their own processes. It ends when the broker cannot be reached; run it again later.

    \b
    Example: cordwood outbox send --endpoint http://broker:7878 --timeout 60
    """
    from cordwood.edge.running import send_left_overs

    place = Path(root).expanduser()
    for execution in resend:
        _resend(place, execution)
    for execution, number in stored:
        _resend(place, execution, number)
    before = [one.look.pending for one in find(place) if one.look is not None and not one.look.living]
    last: list[Progress] = []
    with progress_bar("sending", sum(before), sizes=False) as advance:

        def tell(progress: "Progress") -> None:
            advance(progress.settled - (last[-1].settled if last else 0))
            last[:] = [progress]

        remain = send_left_overs(place, endpoint, timeout_s=timeout_s, tell=tell)
    sent, error = (last[-1].settled, last[-1].error) if last else (0, None)
    after = find(place)
    damaged = [one for one in after if one.state == "damaged"]
    parked = sum(one.look.failed for one in after if one.look is not None and not one.look.living)
    if as_json:
        shown = {"sent": sent, "remain": remain, "parked": parked, "error": error if remain else None}
        click.echo(json.dumps({**shown, "damaged": [str(one.path) for one in damaged]}))
    else:
        click.echo(f"{sent} events sent, {remain} remain" + (f": {error}" if remain and error else ""))
        if parked:
            click.echo(f"{parked} were refused for good, and are parked: cordwood outbox inspect says why")
        for one in damaged:
            click.echo(f"{one.path} is left alone: {one.error}", err=True)
    if remain:
        sys.exit(Unavailable.exit_code)
    if damaged:
        sys.exit(Damaged.exit_code)


def _resend(root: Path, execution: str, stored_below: int | None = None) -> None:
    """Number anew what may be stored. A number is one of the first left-over of the execution that is in doubt."""
    from cordwood.edge.look import look, of_execution
    from cordwood.edge.tend import number_anew

    paths = of_execution(root, execution)
    if not paths:
        raise NotFound(f"{root} has no outbox of {execution!r}")
    if stored_below is None:
        count = sum(number_anew(path) for path in paths)
        click.echo(f"{count} events of {execution} are sent again, as if none of them were stored", err=True)
        return
    path = next((path for path in paths if look(path).doubtful), paths[0])
    number_anew(path, stored_below)
    click.echo(f"events of {execution} below {stored_below} are taken for stored; those behind are sent", err=True)


@outbox.command("archive", short_help="Put left-overs away of which nothing is pending.")
@click.argument("executions", nargs=-1, metavar="[EXECUTION]…")
@click.option("--parked", is_flag=True, help="Put away those with events that were refused for good, too.")
@directory
@as_json
def archive(executions: tuple[str, ...], parked: bool, root: str, as_json: bool) -> None:
    """Put left-overs away of which nothing is pending: all, or those of some executions.

    An outbox with events that the broker refused for good stays to be looked at, until --parked says that it was.
    Its archive has these events, and why.

    \b
    Example: cordwood outbox archive job-42/1 --parked
    """
    from cordwood.edge.look import of_execution, outboxes
    from cordwood.edge.names import execution_of
    from cordwood.edge.tend import Outcome, archive_left_over

    place = Path(root).expanduser()
    for execution in executions:
        if not of_execution(place, execution):
            raise NotFound(f"{place} has no outbox of {execution!r}")
    results: list[tuple[str, str]] = []
    for path in outboxes(place):
        name = execution_of(path.name)
        if executions and name not in executions:
            continue
        try:
            results.append((name, archive_left_over(path, parked_too=parked).value))
        except Damaged as error:
            results.append((name, "damaged"))
            click.echo(f"cordwood: {path}: {error}", err=True)
    if as_json:
        click.echo(json.dumps({"outboxes": [{"execution": name, "outcome": outcome} for name, outcome in results]}))
    elif not results:
        click.echo(f"no outboxes in {place}")
    else:
        table(["execution", "outcome"], results)
    outcomes = {outcome for _, outcome in results}
    if "damaged" in outcomes:
        sys.exit(Damaged.exit_code)
    if Outcome.FAILED.value in outcomes:
        sys.exit(1)


@outbox.command("clean")
@click.option(
    "--older-than", type=Duration(), default="30d", show_default=True, help="Remove archives older than this."
)
@click.option("--dry-run", is_flag=True, help="Only say which.")
@directory
@as_json
def clean(older_than: int, dry_run: bool, root: str, as_json: bool) -> None:
    """Remove old archives. What is not sent yet is never touched.

    \b
    Example: cordwood outbox clean --older-than 7d --dry-run
    """
    from cordwood.edge.archive import clean as remove_old

    place = Path(root).expanduser()
    paths = remove_old(place, older_than, dry_run=dry_run)
    if as_json:
        old = [str(path) for path in paths]
        click.echo(json.dumps({"removed": [] if dry_run else old, "old": len(old), "archives": old}))
        return
    for path in paths:
        click.echo(str(path))
    click.echo(f"{len(paths)} archives {'would be' if dry_run else 'were'} removed")
