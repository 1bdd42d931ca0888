"""An owner of a journal that remembers every frame, and small things to build journals with."""

import json
import threading
from collections.abc import Callable, Iterable
from random import Random

import pytest

from cordwood.journal.fold import Snapshot
from cordwood.journal.journal import Journal
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory

SMALL = Limits(segment_bytes=2048)


class Recorder:
    """State: the hex of every entry, by LSN."""

    def __init__(self) -> None:
        self.frames: dict[int, list[str]] = {}
        self.given_up: list[tuple[int, int]] = []

    def restore(self, parts: Iterable[memoryview]) -> None:
        text = b"".join(bytes(part) for part in parts)
        self.frames = {int(lsn): entries for lsn, entries in json.loads(text).items()}

    def apply(self, lsn: int, entries: list[memoryview]) -> None:
        self.frames[lsn] = [bytes(entry).hex() for entry in entries]

    def lost(self, first: int, end: int) -> None:
        self.given_up.append((first, end))

    def snapshot(self) -> Snapshot:
        text = json.dumps(self.frames).encode()
        return Snapshot([text[: len(text) // 2], text[len(text) // 2 :]], 2, len(text))


class Counting(Recorder):
    """Like Recorder, with a snapshot that stays small: the entries only as their number."""

    def restore(self, parts: Iterable[memoryview]) -> None:
        self.frames = {lsn: [] for lsn in range(int(b"".join(bytes(part) for part in parts)))}

    def snapshot(self) -> Snapshot:
        text = str(max(self.frames, default=-1) + 1).encode()
        return Snapshot([text], 1, len(text))


def open_sim(disk: SimDirectory, fold: Recorder | None = None, limits: Limits = SMALL, seed: int = 1) -> Journal:
    """Open a journal on a pretended disk."""
    return open_journal(disk, fold or Counting(), limits, clock=SimClock(), random=Random(seed))


def ready(disk: SimDirectory | None = None, limits: Limits = SMALL) -> Journal:
    """Open a journal that has its spares."""
    journal = open_sim(disk or SimDirectory(), limits=limits)
    journal.maintain()
    return journal


def append(journal: Journal, *entries: bytes) -> int:
    """Append and sync one frame, and keep the owner up to date."""
    lsn = journal.write(list(entries))
    journal._fold.apply(lsn, [memoryview(entry) for entry in entries])
    return lsn


def contents(journal: Journal) -> dict[int, bytes]:
    """Return every frame that can be read, its entries joined."""
    return {lsn: b"".join(entries) for lsn, entries in journal.frames(journal.first)}


def files(disk: SimDirectory) -> dict[str, bytes]:
    """Return the bytes of every file, as a process sees them."""
    return {name: bytes(disk._names[name].cache) for name in disk.names()}


def disk_of(contents_of: dict[str, bytes]) -> SimDirectory:
    """Return a pretended disk that holds exactly these files, all synced."""
    disk = SimDirectory()
    for name, data in contents_of.items():
        file = disk.open(name, create=True)
        file.write([data], 0) if data else None
        file.sync()
    disk.sync()
    disk.operations = 0
    return disk


def until(what: Callable[[], bool]) -> None:
    """Wait for something that happens in another thread, long enough for any machine."""
    pause = threading.Event()
    for _ in range(5000):
        if what():
            return
        pause.wait(0.002)
    pytest.fail("it did not happen")
