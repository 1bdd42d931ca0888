"""A real process that appends to a real journal, killed with SIGKILL at random moments, again and again.

A kill cannot catch a missing fsync (the kernel still has the bytes); it catches what is written in the wrong order,
half-made files, and a recovery that drops or doubles what was acknowledged.
"""

import os
import random
import signal
import struct
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cordwood.errors import CordwoodError
from cordwood.journal.committer import Committer
from cordwood.journal.fold import Snapshot
from cordwood.journal.journal import Journal
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.machine.disk import RealDirectory, make_directory

LIMITS = Limits(segment_bytes=256 << 10)


@dataclass(slots=True)
class Report:
    kills: int = 0
    acknowledged: int = 0
    torn: int = 0
    wrong: list[str] = field(default_factory=list)


class Count:
    """State that is a fold: how many data frames there were."""

    def __init__(self) -> None:
        self.count = 0

    def restore(self, parts: Iterable[memoryview]) -> None:
        (self.count,) = struct.unpack("<Q", b"".join(bytes(part) for part in parts))

    def apply(self, lsn: int, entries: list[memoryview]) -> None:
        self.count += 1

    def lost(self, first: int, end: int) -> None:
        raise AssertionError("nobody gave up a frame")

    def snapshot(self) -> Snapshot:
        return Snapshot([struct.pack("<Q", self.count)], 1, 8)


def entry_of(number: int, seed: int) -> bytes:
    """Return the content of data frame `number`: long enough to be torn, different for each."""
    return struct.pack("<QQ", number, seed) + random.Random(f"{seed}-{number}").randbytes(number * 37 % 3000)


def run(seed: int, kills: int) -> Report:
    """Append, kill, open, check, `kills` times over one journal."""
    report = Report()
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="cordwood-kill-") as scratch:
        path = Path(scratch) / "journal"
        make_directory(path)
        known = 0
        for _ in range(kills):
            told = appended_until(path, seed, lambda: time.sleep(draw.random() * 0.04))
            report.kills += 1
            known = max(known, told)
            try:
                known = check(path, seed, known, report)
            except (CordwoodError, AssertionError) as error:
                report.wrong.append(f"{error} [seed {seed}, kill {report.kills}]")
                return report
        report.acknowledged = known
    return report


def appended_until(path: Path, seed: int, moment: Callable[[], None], reports: int = 0) -> int:
    """Fork a process that appends, kill it after `moment`, and return how many frames it said are durable.

    `moment` begins after so many reports; a busy machine may need a while for the first.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            _append(path, seed, writing)
        finally:
            os._exit(1)
    os.close(writing)
    said = b""
    while len(said) < 8 * (1 + reports):  # the child says 0 when the journal is open
        piece = os.read(reading, 8)
        if not piece:
            break
        said += piece
    moment()
    os.kill(child, signal.SIGKILL)
    while piece := os.read(reading, 1 << 16):
        said += piece
    os.close(reading)
    os.waitpid(child, 0)
    whole = len(said) // 8
    return max(struct.unpack(f"<{whole}Q", said[: whole * 8]), default=0)


def _append(path: Path, seed: int, pipe: int) -> None:
    fold = Count()
    journal = open_journal(RealDirectory(path), fold, LIMITS)
    numbers: dict[int, int] = {}

    def told(written: int, synced: int) -> None:
        done = [lsn for lsn in list(numbers) if lsn < synced]
        if done:
            os.write(pipe, struct.pack("<Q", max(numbers.pop(lsn) for lsn in done)))

    committer = Committer(journal, told).start()
    os.write(pipe, struct.pack("<Q", 0))
    while True:
        number = fold.count
        lsn = committer.append_when_room([entry_of(number, seed)])
        fold.count += 1
        numbers[lsn] = number + 1
        if number % 7 == 0:
            committer.release(journal.synced)
        if len(numbers) > 200:
            time.sleep(0.0005)


def check(path: Path, seed: int, known: int, report: Report) -> int:
    """Open what the kill left; return how many frames are there, all of them as they were appended."""
    fold = Count()
    journal: Journal = open_journal(RealDirectory(path), fold, LIMITS)
    try:
        assert fold.count >= known, f"{known} frames were acknowledged, {fold.count} are there"
        report.torn += journal.torn_bytes > 0
        previous = None
        for _, entries in journal.frames(journal.first):
            (number,) = struct.unpack_from("<Q", entries[0])
            assert previous is None or number == previous + 1, f"frame {number} follows {previous}"
            assert bytes(entries[0]) == entry_of(number, seed), f"frame {number} has another content"
            previous = number
        assert previous is None or previous == fold.count - 1, "the last frame is not the last counted"
        return fold.count
    finally:
        if random.random() < 0.5:
            journal.close()
        else:
            journal.abandon()
