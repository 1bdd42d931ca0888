"""`cordwood wal`: look at a journal, verify every byte of it, and repair it by explicit choice.

`inspect` also shows the logs of other systems, and `import` reads them: `wal_foreign` and `wal_import`.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from typing import Any

import click

from cordwood.cli.show import bytes_text, progress_bar, table
from cordwood.cli.wal_foreign import found_at, inspect_foreign
from cordwood.cli.wal_import import import_command
from cordwood.doors.source import Found, find
from cordwood.errors import Damaged, Refused
from cordwood.journal import clean, repair
from cordwood.journal.frame import Kind, unpack
from cordwood.journal.scan import Scan
from cordwood.journal.segment import SUFFIX, first_of
from cordwood.journal.survey import SegmentReport, Survey, find_segments, survey
from cordwood.journal.verdict import Verdict, judge
from cordwood.machine.disk import Directory, RealDirectory

PATH = click.argument("path", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


@click.group(short_help="Look at, verify and repair a journal; import other logs.")
def wal() -> None:
    """Look at, verify and repair the journal of a stopped broker, and import the logs of other systems.

    PATH is a data directory, or the `journal` directory in it; for `inspect` and `import` also a log of DriftQ,
    Danube, BlipMQ or airunner, or a directory of them.

    \b
    Example: cordwood wal verify ./data
    """


wal.add_command(import_command)


@contextmanager
def journal_at(path: Path) -> Iterator[RealDirectory]:
    """Give the journal's directory, locked, or refuse a path that holds none. Nothing is made or changed."""
    if not path.exists():
        raise Refused(f"{path} does not exist; give a data directory or the journal directory in it")
    if not path.is_dir():
        raise Refused(f"{path} is a file; give the directory that holds it")
    inner = path / "journal"
    directory = RealDirectory(inner if inner.is_dir() else path)
    try:
        names = directory.names()
        if not any(name.endswith(SUFFIX) or name == clean.NAME for name in names):
            raise Refused(f"{path} holds no journal: there is no {SUFFIX} file in it or in {inner.name}/")
        directory.lock()
        yield directory
    finally:
        directory.close()


def _survey(directory: RealDirectory) -> tuple[Survey, Verdict]:
    """Read every byte, with a progress bar on a terminal."""
    total = 0
    for _, name in find_segments(directory):
        file = directory.open(name, write=False)
        total += file.size()
        file.close()
    with progress_bar("verifying", total) as advance:
        seen = 0

        def moved(position: int) -> None:
            nonlocal seen
            advance(position - seen if position >= seen else position)
            seen = position

        found = survey(directory, progress=moved if sys.stderr.isatty() else None)
    return found, judge(found)


def _summary(found: Survey, verdict: Verdict) -> dict[str, Any]:
    return {
        "ok": not verdict.damages,
        "segments": len(found.segments),
        "frames": sum(report.frames for report in found.segments),
        "bytes": sum(report.size for report in found.segments),
        "first": found.segments[0].first if found.segments else 0,
        "end": verdict.end,
        "proven": verdict.proven,
        "clean": verdict.is_clean,
        "torn": asdict(verdict.torn) if verdict.torn else None,
        "damages": [asdict(damage) for damage in verdict.damages],
    }


@wal.command(short_help="Show the segments of a journal, and its frames.")
@PATH
@JSON
@click.option("--frames", "with_frames", is_flag=True, help="List frames too.")
@click.option("--from", "start", type=click.IntRange(min=0), default=0, help="The first LSN to list.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="How many frames to list.")
def inspect(path: Path, as_json: bool, with_frames: bool, start: int, limit: int) -> None:
    """Show the segments of a journal, and its frames; or what a log of DriftQ, Danube, BlipMQ or airunner holds.

    A foreign log is read to its last byte; exit 65 if whole records in it are damaged.

    \b
    Example: cordwood wal inspect ./data --frames --from 1000 --limit 20
             cordwood wal inspect driftq.wal --json
    """
    foreign = _foreign(path)
    if foreign is not None:
        if with_frames:
            raise Refused(f"{path} is the log of another system; --frames lists those of Cordwood's own journal")
        inspect_foreign(foreign, as_json)
        return
    with journal_at(path) as directory:
        found, verdict = _survey(directory)
        frames = list(_frames(directory, found, start, limit)) if with_frames else []
        others = [name for name in directory.names() if not name.endswith(SUFFIX)]
    if as_json:
        segments = [_segment(report, verdict) for report in found.segments]
        shown = {**_summary(found, verdict), "segments": segments, "other_files": others}
        click.echo(json.dumps({**shown, "frames": frames} if with_frames else shown))
        return
    rows = [_segment(report, verdict) for report in found.segments]
    table(
        ["file", "first", "end", "frames", "snapshot", "bytes", "begun", "state"],
        [
            [
                row["file"],
                row["first"],
                row["end"],
                row["frames"],
                bytes_text(row["snapshot_bytes"]) if row["snapshot_bytes"] is not None else "none",
                bytes_text(row["bytes"]),
                row["created"] or "",
                row["state"],
            ]
            for row in rows
        ],
    )
    if frames:
        columns = ["lsn", "kind", "file", "position", "bytes", "entries", "synced"]
        table(columns, [[frame[column] for column in columns] for frame in frames])
    _tell(found, verdict)
    if others:
        click.echo("also there: " + ", ".join(name if name.isprintable() else repr(name) for name in others))


def _foreign(path: Path) -> Found | None:
    """Return the foreign logs at a path that holds no journal of ours, None if there is none; refuse another file."""
    if path.is_file():
        return found_at(path)
    if not path.is_dir():
        return None
    names = [entry.name for entry in path.iterdir()]
    if "journal" in names or clean.NAME in names or any(_is_segment(name) for name in names):
        return None
    found = find(path)
    return found if found.sources else None


def _is_segment(name: str) -> bool:
    return name.endswith(SUFFIX) and first_of(name) is not None


def _segment(report: SegmentReport, verdict: Verdict) -> dict[str, Any]:
    if any(damage.file == report.name for damage in verdict.damages):
        state = "damaged"
    elif verdict.torn and verdict.torn.name == report.name:
        state = "torn"
    else:
        state = "ok"
    header = report.header
    has_snapshot = header is not None and header.has_snapshot
    created = datetime.fromtimestamp(header.created_ms / 1000, UTC) if header else None
    return {
        "file": report.name,
        "first": report.first,
        "end": report.end,
        "frames": report.frames,
        "snapshot_bytes": header.body - 64 if header and has_snapshot else None,
        "bytes": report.size,
        "created": created.strftime("%Y-%m-%d %H:%M:%S") if created else None,
        "state": state,
    }


def _frames(directory: RealDirectory, found: Survey, start: int, limit: int) -> Iterator[dict[str, Any]]:
    """Yield what there is to tell about each good frame from `start` on, `limit` of them."""
    for report in found.segments:
        for run in report.runs:
            if run.end <= start or report.identity is None or limit <= 0:
                continue
            file = directory.open(report.name, write=False)
            try:
                scan = Scan(file, report.identity, run.position, run.first, run.chain, stop_lsn=run.end)
                for position, header, payload in scan:
                    if header.lsn < start or limit <= 0:
                        continue
                    limit -= 1
                    yield {
                        "lsn": header.lsn,
                        "kind": Kind(header.kind).name.lower(),
                        "file": report.name,
                        "position": position,
                        "bytes": header.length,
                        "entries": len(unpack(payload)) if header.kind == Kind.DATA else 0,
                        "synced": header.synced,
                    }
            finally:
                file.close()


@wal.command(short_help="Check every byte; exit 65 if data is damaged.")
@PATH
@JSON
def verify(path: Path, as_json: bool) -> None:
    """Check every byte of a journal; exit 65 if acknowledged data is damaged.

    Example: cordwood wal verify ./data --json
    """
    with journal_at(path) as directory:
        found, verdict = _survey(directory)
    if as_json:
        click.echo(json.dumps(_summary(found, verdict)))
    else:
        _tell(found, verdict)
    if verdict.damages:
        raise Damaged(verdict.damages)


def _tell(found: Survey, verdict: Verdict) -> None:
    summary = _summary(found, verdict)
    what = f"{summary['segments']} segments, {summary['frames']} frames, {bytes_text(summary['bytes'])}"
    span = f"LSN {summary['first']} to {verdict.end - 1}" if verdict.end > summary["first"] else "no frames"
    if verdict.damages:
        click.echo(f"{what}; {span}; damaged in {len(verdict.damages)} place(s):")
        for damage in verdict.damages:
            click.echo(f"  {damage}")
    else:
        how = "closed cleanly" if verdict.is_clean else f"not closed; proven to be synced below LSN {verdict.proven}"
        click.echo(f"{what}; {span}; {how}: every acknowledged byte holds")
    if verdict.torn:
        torn = verdict.torn
        click.echo(
            f"{torn.name}, byte {torn.position}: a write was cut short at LSN {torn.lsn}; "
            "it was never acknowledged, and the next start cuts it and keeps a copy"
        )


@wal.command("repair", short_help="Make a damaged journal open again, by choice.")
@PATH
@JSON
@click.option("--quarantine", is_flag=True, help="Give up the frames that cannot be read.")
@click.option("--truncate", is_flag=True, help="Give up everything from the first damage on.")
@click.option("--dry-run", is_flag=True, help="Say what would be lost, change nothing, exit 0.")
def repair_command(path: Path, as_json: bool, quarantine: bool, truncate: bool, dry_run: bool) -> None:
    """Make a damaged journal open again, keeping a copy of all that is changed.

    Without a choice it mends only what can be mended without losing anything: because no frame is lost, or because
    the tier has the messages of those that are. Otherwise it shows what each choice would lose and exits with 65.

    Example: cordwood wal repair ./data --quarantine
    """
    from cordwood.broker.losses import find_losses, spares, text_of

    if quarantine and truncate:
        raise Refused("--quarantine and --truncate are two choices; take one")
    chosen = repair.Choice.MEND
    if quarantine or truncate:
        chosen = repair.Choice.QUARANTINE if quarantine else repair.Choice.TRUNCATE
    with journal_at(path) as directory:
        found, verdict = _survey(directory)
        if not verdict.damages:
            _report(repair.Repaired((), (), ()), as_json, "nothing to repair: every acknowledged byte holds")
            return
        if chosen is repair.Choice.MEND and not repair.can_mend(found, verdict):
            lossless = spares(directory, repair.lost_by(repair.Choice.QUARANTINE, found, verdict))
            chosen = repair.Choice.QUARANTINE if lossless and not dry_run else chosen
        if dry_run or (chosen is repair.Choice.MEND and not repair.can_mend(found, verdict)):
            _choices(directory, found, verdict, as_json)
            if not dry_run:
                raise Damaged(verdict.damages)
            return
        losses = find_losses(directory, repair.lost_by(chosen, found, verdict))
        done = repair.repair(directory, chosen, SystemRandom())
    lost = ", ".join(_run_text(run) for run in done.lost) or "no frame"
    if losses:
        lost += f" ({text_of(losses)})"
    elif done.lost and not (quarantine or truncate):
        lost += " (no message: the tier has them)"
    changed, copies = ", ".join(done.changed), ", ".join(done.copies)
    _report(
        done,
        as_json,
        f"repaired ({chosen}): {changed} changed, copies kept as {copies}; lost: {lost}",
    )


def _choices(directory: Directory, found: Survey, verdict: Verdict, as_json: bool) -> None:
    from cordwood.broker.losses import find_losses, text_of

    offered = [repair.Choice.QUARANTINE, repair.Choice.TRUNCATE]
    if repair.can_mend(found, verdict):
        offered.insert(0, repair.Choice.MEND)
    losses = {str(choice): repair.lost_by(choice, found, verdict) for choice in offered}
    messages = {choice: find_losses(directory, lost) for choice, lost in losses.items()}
    if as_json:
        named = {choice: [loss._asdict() for loss in found] for choice, found in messages.items()}
        click.echo(json.dumps({**_summary(found, verdict), "choices": losses, "messages": named}))
        return
    _tell(found, verdict)
    for choice, lost in losses.items():
        option = "" if choice == "mend" else f" --{choice}"
        click.echo(f"repair{option} would lose: {', '.join(map(_run_text, lost)) or 'no frame'}")
        if messages[choice]:
            click.echo(f"  that is: {text_of(messages[choice])}")


def _report(done: repair.Repaired, as_json: bool, text: str) -> None:
    click.echo(json.dumps(asdict(done)) if as_json else text)


def _run_text(run: tuple[int, int]) -> str:
    first, end = run
    return f"LSN {first}" if end == first + 1 else f"LSN {first} to {end - 1}"
