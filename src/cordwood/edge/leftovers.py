"""Left-overs: directories whose execution is dead, found, taken, sent, archived.

nobody has the lock        the execution is dead; whoever gets the lock sends it
taken                      it is renamed to `<execution>@<n>`, so that its old name means a living run again
settled                    archived, verified, then renamed to `@gone-…` and removed; a kill between does no harm
an event of it is parked   it stays, to be looked at; `cordwood outbox archive` puts it away
"""

import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from cordwood.edge import archive
from cordwood.edge.delivery import Delivery, Terms
from cordwood.edge.facts import Begun
from cordwood.edge.log import Log
from cordwood.edge.look import fold
from cordwood.edge.names import ARCHIVE, GONE, NEW, is_log, run_of, taken_name
from cordwood.errors import CordwoodError, Full, Locked, Unavailable
from cordwood.journal.repair import ASIDE
from cordwood.machine.clock import Clock
from cordwood.machine.disk import RealDirectory, make_directory, sync_path

log = logging.getLogger("cordwood.edge")

MOST_TAKEN = 64  # at once; the next ones when some of these are done
BUSY_BYTES = 256 << 20  # while there is more to send, files and archives wait until so much was
ROUND_MS = 300_000  # for so long, what was tried comes behind what was not
UNFINISHED_S = 3600.0  # a directory that has been in the making for so long is nobody's


@dataclass(slots=True)
class _Taken:
    root: Path
    path: Path
    settled: int  # events that were settled when it was taken


class LeftOvers:
    """Finds left-overs in the roots that it watches, for one way out.

    Those that were meant for another broker than `endpoint` are left alone; None takes them all.
    """

    def __init__(
        self,
        clock: Clock,
        random: Random,
        terms: Terms,
        *,
        numbered: bool,
        archives: bool = True,
        endpoint: str | None = None,
    ):
        self._clock = clock
        self._random = random
        self._terms = terms
        self._numbered = numbered
        self._endpoint = endpoint
        self._archives = archives
        self._roots: list[Path] = []
        self._runs: dict[Delivery, Path] = {}  # living outboxes
        self._taken: dict[Delivery, _Taken] = {}
        self._settled = 0  # events of left-overs that are not taken any more
        self._opening: RealDirectory | None = None  # locked, and not yet taken
        self._alone: set[Path] = set()  # not ours to send, or nothing to be done about them
        self._tried: set[Path] = set()  # others come before these
        self._round_at_ms = 0  # when they all may come first again
        self.crowded = False  # the last `take` left some alone that were not tried, because enough are taken

    def watch(self, root: Path) -> None:
        """Look here, too."""
        if root not in self._roots:
            self._roots.append(root)

    def lives(self, delivery: Delivery, path: Path) -> None:
        """Know that a delivery is that of the living run in this directory."""
        self._runs[delivery] = path

    def ended(self, delivery: Delivery) -> None:
        """Know that this run is over."""
        self._runs.pop(delivery, None)

    def forget(self) -> None:
        """Leave the left-overs to the process that this one was forked from: its locks must end with it."""
        for delivery in self._taken:
            delivery.log.directory.close()
        self._taken.clear()
        if self._opening is not None:
            self._opening.close()

    def take(self) -> Delivery | None:
        """Return the delivery of a left-over that nobody else has; None when there is none, or enough are taken.

        Those that were not tried yet come first: what is refused shall not keep others from being sent.
        """
        now = self._clock.monotonic_ms()
        if now >= self._round_at_ms:
            self._tried.clear()
            self._round_at_ms = now + ROUND_MS
        self.crowded = False
        tried = set(self._tried)
        runs = list(self._runs.values())
        stems = {path.name for path in runs}  # an earlier run of these is never too many: they wait for it
        for again in (False, True):
            for root, path in self._candidates(runs):
                if (path in tried) != again:
                    continue
                if len(self._taken) < MOST_TAKEN or _stem(path) in stems:
                    self._tried.add(path)
                    delivery = self._take(root, path)
                    if delivery is not None:
                        return delivery
                elif not again:
                    self.crowded = True
        return None

    def _candidates(self, runs: list[Path]) -> Iterator[tuple[Path, Path]]:
        """Yield what may be taken, each with its root: of each execution the first; the others wait for it.

        Those that a living run waits for are all yielded: it shall not wait for the next look as well.
        """
        mine = {taken.path for taken in self._taken.values()} | set(runs)
        for root in list(self._roots):
            first: dict[str, Path] = {}
            for path in _paths(root):
                if not is_log(path.name):
                    _sweep(path)
                    continue
                before = first.get(_stem(path))
                waits = before is not None and before not in self._alone and before.exists()
                if path in self._alone or (waits and root / _stem(path) not in runs):
                    continue
                first[_stem(path)] = path
                if path not in mine:
                    yield root, path

    def _take(self, root: Path, path: Path) -> Delivery | None:
        try:
            directory = self._opening = lock(path)
        except PermissionError as error:
            self._leave_alone(path, error)
            return None
        if directory is None:
            return None
        try:
            state = fold(directory)
            # One without events to send, but with parked ones, waits for a person; one of another kind for another.
            if not self._is_ours(state.begun) or (not state.pending and state.failed):
                self._alone.add(path)
                directory.close()
                return None
            if run_of(path.name) is None:
                taken = root / taken_name(path.name, [other.name for other in _paths(root)])
                path.rename(taken)
                sync_path(root)
                path = taken
                directory.path = str(path)
            opened = Log(directory, self._clock, self._random)
        except (Unavailable, OSError) as error:  # a full disk, too many open files: the next scan tries again
            directory.close()
            log.warning("the left-over outbox %s cannot be sent for now: %s", path, error)
            return None
        except Exception as error:  # one that cannot be read must not hold up the others
            directory.close()
            self._leave_alone(path, error)
            return None
        log.info("%s is left over with %d events to send", path, opened.state.pending)
        delivery = Delivery(
            opened, self._terms, self._random.random, numbered=self._numbered, keep=keeper(root, self._archives)
        )
        self._taken[delivery] = _Taken(root, path, opened.state.sent)
        return delivery

    def _leave_alone(self, path: Path, error: Exception) -> None:
        self._alone.add(path)
        log.error("the left-over outbox %s is left alone: %s", path, error)

    def _is_ours(self, begun: Begun | None) -> bool:
        if begun is None or (begun.topic is not None) != self._numbered:
            return False
        return self._endpoint is None or begun.endpoint == self._endpoint

    def blocked(self, delivery: Delivery) -> bool:
        """Say whether an earlier run of this execution has still to be sent, by us or by another process."""
        here = self._taken[delivery].path if delivery in self._taken else self._runs.get(delivery)
        if here is None:
            return False
        own = run_of(here.name)
        stem = here.name.partition("@")[0]
        for path in _paths(here.parent):
            run = run_of(path.name) if path.name.startswith(f"{stem}@") else None
            if run is not None and (own is None or run < own) and path not in self._alone:
                return True
        return False

    def earlier(self, delivery: Delivery) -> list[Delivery]:
        """Return the deliveries of earlier runs of this execution that are being sent here."""
        execution = delivery.log.begun.execution
        return [one for one in list(self._taken) if one is not delivery and one.log.begun.execution == execution]

    def finish(self, delivery: Delivery) -> None:
        """Archive and remove a left-over of which everything is settled, and let it go."""
        taken = self._let_go(delivery)
        if not put_away(delivery.log, taken.path, archives=self._archives):
            self._alone.add(taken.path)

    def release(self, delivery: Delivery) -> None:
        """Let go of a left-over that is not finished."""
        self._tried.add(self._let_go(delivery).path)
        delivery.log.close()

    def _let_go(self, delivery: Delivery) -> _Taken:
        taken = self._taken.pop(delivery)
        self._settled += delivery.log.state.sent - taken.settled
        return taken

    @property
    def settled(self) -> int:
        """How many events of left-overs have been sent or parked here so far."""
        now = sum(delivery.log.state.sent - taken.settled for delivery, taken in list(self._taken.items()))
        return self._settled + now


def lock(path: Path) -> RealDirectory | None:
    """Return the directory, locked; None when another process has it, or took it away meanwhile.

    Raises PermissionError for one that is not ours to open.
    """
    try:
        before = path.stat()
        directory = RealDirectory(path)
    except PermissionError:
        raise
    except OSError:
        return None
    try:
        directory.lock()
        now = path.stat()
    except (OSError, Locked):
        directory.close()
        return None
    if (before.st_ino, before.st_dev) != (now.st_ino, now.st_dev):
        directory.close()
        return None
    return directory


def keeper(root: Path, archives: bool) -> Callable[[Log, bool], None]:
    """Return what lets go of what was sent, some megabytes at a time, archived first if that is wanted."""
    settled = -1

    def keep(kept: Log, busy: bool) -> None:
        nonlocal settled
        state = kept.state
        if settled < 0:
            settled = 0 if state.archived == 0 else state.settled_bytes
        through = state.settled
        enough = 0 if kept.short else BUSY_BYTES if busy else archive.PART_BYTES
        if state.settled_bytes - settled < enough or through <= state.archived:
            return
        archived_or_dropped(kept, root, through, archives=archives)
        settled = min(settled + archive.PART_BYTES, state.settled_bytes) if archives else state.settled_bytes

    return keep


def archived_or_dropped(kept: Log, root: Path, through: int, *, archives: bool) -> None:
    """Archive the frames below `through`, some 16 MiB of them, then let them go.

    Without archives only what holds parked events is archived. Where the disk has no room for an archive, what the
    broker has leaves without one: else the disk would stay full.
    """
    parked = any(place < through for place in kept.state.parked_lsns)
    if archives or parked:
        shelf = archive.open_shelf(root)
        try:
            _, through = archive.put_part(kept, shelf, kept.state.archived, through)
        except Full as error:
            if parked:
                raise
            log.warning("%s; what was sent goes without an archive", error)
        finally:
            shelf.close()
    kept.release(through)


def put_away(kept: Log, path: Path, *, archives: bool, parked_too: bool = False) -> bool:
    """Archive a log of which everything is settled, remove it and let it go; say whether it was.

    One with parked events stays, unless it is wanted otherwise.
    """
    kept.seal()  # what is appended while it is put away would be gone with it
    state = kept.state
    if state.pending or (state.failed and not parked_too):
        kept.close()
        return False
    try:
        if archives or state.parked_lsns:
            shelf = archive.open_shelf(path.parent)
            try:
                archive.put(kept, shelf, kept.journal.end)
            finally:
                shelf.close()
        _keep_asides(path, kept.begun)
        gone = path.with_name(f"{path.name.partition('@')[0]}@{GONE}{secrets.token_hex(8)}")
        path.rename(gone)
        sync_path(path.parent)
    except (CordwoodError, OSError) as error:
        log.warning("%s was sent and cannot be put away now: %s", path, error)
        kept.close()
        return False
    kept.abandon()
    remove(gone)
    return True


def _keep_asides(path: Path, begun: Begun) -> None:
    """Let what an operator's repair put aside of a damaged log be with the archives: it is the only copy."""
    names = [name for name in os.listdir(path) if name.endswith(ASIDE)]
    if not names:
        return
    make_directory(path.parent / ARCHIVE)
    for name in names:
        kept = path.parent / ARCHIVE / f"{path.name.partition('@')[0]}.{begun.producer[:8]}.{name}"
        with suppress(FileExistsError):  # somebody was killed behind this
            os.link(path / name, kept)
    sync_path(path.parent / ARCHIVE)


def remove(gone: Path) -> None:
    """Remove a directory that nobody needs; another process may be at it, too."""
    shutil.rmtree(gone, ignore_errors=True)


def _paths(root: Path) -> list[Path]:
    """Return the directories in a root: taken ones first, in their order, then the others."""
    try:
        found = [path for path in root.iterdir() if path.is_dir()]
    except OSError:
        return []
    return sorted(found, key=lambda path: (run_of(path.name) is None, run_of(path.name) or 0, path.name))


def _stem(path: Path) -> str:
    """Return what the directories of one execution have in common."""
    return path.name.partition("@")[0]


def _sweep(path: Path) -> None:
    """Remove what somebody who was killed left half made or half removed."""
    kind = path.name.partition("@")[2]
    try:
        old = time.time() - path.stat().st_mtime > UNFINISHED_S
    except OSError:
        return
    if kind.startswith(GONE) or (kind.startswith(NEW) and old):
        try:
            directory = lock(path)
        except PermissionError:
            return
        if directory is not None:
            remove(path)
            directory.close()


def remove_new(path: Path) -> None:
    """Remove a directory that was not finished."""
    if os.path.isdir(path):
        remove(path)
