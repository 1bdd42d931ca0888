"""What an outbox's directory holds, without changing it: for people who look, and for a sender before it takes it."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from cordwood.edge.event import Event, events_of
from cordwood.edge.facts import Appended, Parked, decode
from cordwood.edge.names import execution_of, is_log, run_of
from cordwood.edge.state import State
from cordwood.errors import Damaged, Locked, Unavailable
from cordwood.journal.frame import Kind, unpack
from cordwood.journal.scan import Scan, Window
from cordwood.journal.segment import HEADER_BYTES
from cordwood.journal.survey import survey
from cordwood.journal.verdict import judge
from cordwood.machine.disk import Directory, RealDirectory

_TRIES = 5  # a living outbox may remove a file while it is read


@dataclass(frozen=True, slots=True)
class Look:
    """Where an outbox stands. `living`: some process has it, to append or to send."""

    path: Path
    execution: str
    topic: str | None
    producer: str
    created_ms: int
    living: bool
    events: int
    pending: int
    pending_bytes: int
    sent: int
    failed: int
    epoch: int
    parked: tuple[Parked, ...]
    bytes_on_disk: int
    endpoint: str | None
    doubtful: int


def outboxes(root: str | Path) -> list[Path]:
    """Return the directories of this root that hold an outbox each."""
    root = Path(root)
    return sorted(path for path in root.iterdir() if is_log(path.name) and path.is_dir()) if root.is_dir() else []


def of_execution(root: str | Path, execution: str) -> list[Path]:
    """Return the directories with an outbox of this execution: left-overs in their order, then the last run."""
    found = [path for path in outboxes(root) if execution_of(path.name) == execution]
    return sorted(found, key=lambda path: (run_of(path.name) is None, run_of(path.name) or 0))


def look(path: str | Path) -> Look:
    """Return where the outbox in this directory stands. Raises `Damaged`, and `Unavailable` where there is none."""
    path = Path(path)
    directory = RealDirectory(path)
    try:
        state = fold(directory)
        living = False
        try:
            directory.lock()
        except Locked:
            living = True
    finally:
        directory.close()
    if state.begun is None:
        raise Unavailable(f"{path} holds no outbox")
    size = sum(file.lstat().st_size for file in path.iterdir() if file.is_file())
    return Look(
        path,
        execution_of(path.name),
        state.begun.topic,
        state.begun.producer,
        state.begun.created_ms,
        living,
        state.end,
        state.pending,
        state.pending_bytes,
        state.sent - state.failed,
        state.failed,
        state.epoch,
        tuple(state.parked),
        size,
        state.begun.endpoint,
        state.doubtful,
    )


def fold(directory: Directory) -> State:
    """Return the state that the frames in this directory amount to, good ones behind the proven point included."""
    return _walk(directory, lambda fact: False)[0]


def events(path: str | Path, start: int = 0, limit: int | None = None) -> list[Event]:
    """Return the events that this directory still holds from number `start` on, in order, settled ones too."""
    end = None if limit is None else start + limit
    directory = RealDirectory(Path(path))
    try:
        state, found = _walk(directory, lambda fact: fact.end > start and (end is None or fact.first < end))
    finally:
        directory.close()
    if state.begun is None:
        return []
    found_events = (event for fact in found for event in events_of(fact, state.begun.execution, start, fact.end))
    return list(islice(found_events, limit))


def _walk(directory: Directory, wanted: Callable[[Appended], bool]) -> tuple[State, list[Appended]]:
    for _ in range(_TRIES):
        try:
            return _walk_once(directory, wanted)
        except FileNotFoundError:
            continue
    raise Unavailable(f"{directory.path} changes while it is read; try again")


def _walk_once(directory: Directory, wanted: Callable[[Appended], bool]) -> tuple[State, list[Appended]]:
    window = Window()
    found = survey(directory, window=window)
    verdict = judge(found)
    if verdict.damages:
        raise Damaged(verdict.damages)
    state = State()
    appended: list[Appended] = []
    for number, report in enumerate(found.segments):
        if report.header is None or report.identity is None:
            continue
        file = directory.open(report.name, write=False)
        try:
            header = report.header
            parts = Scan(
                file, report.identity, HEADER_BYTES, 0, header.chain, end=header.body, snapshot=True, window=window
            )
            if number == verdict.snapshot:
                state.restore(payload for _, _, payload in parts)
            for _ in parts:
                pass
            counts = verdict.snapshot is None or number >= verdict.snapshot
            scan = Scan(
                file, report.identity, header.body, report.first, parts.chain, stop_lsn=report.end, window=window
            )
            for _, frame, payload in scan:
                if frame.kind != Kind.DATA:
                    continue
                facts = [decode(entry) for entry in unpack(payload)]
                appended += [fact for fact in facts if isinstance(fact, Appended) and wanted(fact)]
                for fact in facts if counts else ():
                    state.take(frame.lsn, fact)
        finally:
            file.close()
    return state, appended
