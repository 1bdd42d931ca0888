"""Crashes of a journal on a pretended disk, each at a uniformly drawn disk operation.

A round opens what the last crash left, appends from several callers at once, and commits, rotates, marks, releases
and maintains in a random order. While it runs, every disk operation has the same chance of being the one before
which the power goes: a reservoir of one keeps what the disk held then, what had been acknowledged, and
which code was at work. The next round opens one of the states that such a disk may be left in, and checks:

    no acknowledged frame is lost          none is invented, none changed
    LSNs are dense and in order            the state that snapshots carry is the fold of the frames

One seed gives one run, byte for byte.
"""

import errno
import os
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from types import FrameType

from awscrt.checksums import crc64nvme

from cordwood.errors import Full, Preparing, Unavailable
from cordwood.journal.fold import Snapshot
from cordwood.journal.journal import Journal
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import CrashImage, SimDirectory

PHASES = {  # the function at work → what we call it
    "_rotate": "rotation",
    "write_snapshot": "snapshot",
    "recycle": "recycling",
    "cut": "cut",
    "keep_torn": "cut",
    "recover": "recovery",
    "_commit_group": "commit",
    "make": "preparing",
    "_leave_clean": "closing",
}
WANTED = ("rotation", "snapshot", "recycling", "cut", "recovery")
ROUNDS_OF_ONE_DISK = 12
APPENDS = 50
CALLERS = 4


class Violation(AssertionError):
    """A promise was broken. The message says which, and the seed that shows it."""


class Digest:
    """State that is a fold of the log: how many frames, and a checksum over all of them."""

    def __init__(self) -> None:
        self.count = 0
        self.value = 0
        self.parts = 1
        self.size = 40

    def restore(self, parts: Iterable[memoryview]) -> None:
        fields = b"".join(bytes(part) for part in parts).split(b" ")
        self.count, self.value = int(fields[0]), int(fields[1])

    def apply(self, lsn: int, entries: list[memoryview]) -> None:
        self.count += 1
        for entry in entries:
            self.value = crc64nvme(bytes(entry), self.value)

    def lost(self, first: int, end: int) -> None:
        raise Violation(f"frames {first} to {end} were given up, and nobody asked for that")

    def snapshot(self) -> Snapshot:
        text = b"%d %d %s" % (self.count, self.value, b"." * (self.count * 7919 % self.size))
        step = -(-len(text) // self.parts)
        parts = [text[start : start + step] for start in range(0, len(text), step)]
        return Snapshot(iter(parts), len(parts), len(text))


@dataclass(slots=True)
class Truth:
    """What was appended: an entry for each LSN (None for a mark), and the digest before each."""

    entries: list[bytes | None] = field(default_factory=list)
    digests: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    def add(self, entry: bytes | None) -> None:
        count, value = self.digests[-1]
        self.entries.append(entry)
        self.digests.append((count, value) if entry is None else (count + 1, crc64nvme(entry, value)))

    def until(self, end: int) -> "Truth":
        return Truth(self.entries[:end], self.digests[: end + 1])


@dataclass(slots=True)
class Moment:
    """One instant: the disk, what had been appended, written and acknowledged, and the code at work."""

    image: CrashImage
    truth: Truth
    appended: int
    written: int
    acknowledged: int
    failed: bool
    phases: frozenset[str]


@dataclass(slots=True)
class Tally:
    """What a run covered."""

    rounds: int = 0
    appends: int = 0
    operations: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        self.rounds += other.rounds
        self.appends += other.appends
        self.operations += other.operations
        self.phases.update(other.phases)
        self.events.update(other.events)

    def missing(self) -> list[str]:
        """Return the phases that fewer than 1 % of the crashes fell into."""
        return [phase for phase in WANTED if self.phases[phase] * 100 < self.rounds]


def run_disk(seed: int, rounds: int = ROUNDS_OF_ONE_DISK) -> Tally:
    """Crash one disk `rounds` times. Raises `Violation` with the seed in it."""
    try:
        return _Disk(seed).run(rounds)
    except Violation as violation:
        raise Violation(f"{violation} [seed {seed}]") from violation
    except Exception as error:
        raise Violation(f"{type(error).__name__}: {error} [seed {seed}]") from error


class _Disk:
    """A disk that goes through one crash after another."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.draw = Random(seed + 1)  # the reservoir's own, so that watching changes nothing
        self.disk = SimDirectory()
        self.clock = SimClock()
        self.truth = Truth()
        self.acknowledged = 0
        self.released = 0
        self.errors = 0  # how often the disk failed since the journal was opened
        self.told = 0  # frames whose callers were told that they are written
        self.least = 0  # frames that must be there: acknowledged, or written when only the process died
        self.most = 0
        self.journal: Journal | None = None
        self.moment: Moment | None = None
        self.seen = 0
        self.tally = Tally()
        self.limits = Limits(
            segment_bytes=self.random.choice((1024, 2048, 4096)),
            max_batch_bytes=self.random.choice((300, 4096, 1 << 20)),
            spares=self.random.choice((2, 2, 3)),
            open_files=3,
        )

    def run(self, rounds: int) -> Tally:
        for _ in range(rounds):
            self._round()
        return self.tally

    def _round(self) -> None:
        self.seen, self.moment = 0, None
        self.disk.watch = self._watch
        appends = 0
        while appends < APPENDS:  # a disk that failed is opened again, by another process on the same machine
            self.journal = None
            self.disk.faults = None
            self.errors = 0
            fold = Digest()
            fold.parts = self.random.choice((1, 1, 3))
            fold.size = self.random.choice((40, 400, 2 * self.limits.segment_bytes))
            try:
                journal = open_journal(self.disk, fold, self.limits, clock=self.clock, random=self.random)
            except Full:
                # A state that grew over its segment needs more than the reserve; somebody frees space.
                self.tally.events["no room to open"] += 1
                self.disk.capacity_bytes = None
                continue
            self._check_opened(journal, fold)
            self.journal = journal
            appends += self._live(journal, fold, APPENDS - appends)
        self.tally.appends += appends
        self._crash()

    def _check_opened(self, journal: Journal, fold: Digest) -> None:
        end = journal.end
        if end < self.least:
            raise Violation(f"frames {end} to {self.least - 1} were acknowledged and are lost")
        if end > self.most:
            raise Violation(f"the log ends at {end}, but only {self.most} frames were appended")
        if (fold.count, fold.value) != self.truth.digests[end]:
            raise Violation(f"the state at {end} is not the fold of what was appended")
        if journal.first > self.released:
            raise Violation(f"the log begins at {journal.first}, but only what is below {self.released} was released")
        for lsn, entries in journal.frames(journal.first):
            if self.truth.entries[lsn] != b"".join(entries):
                raise Violation(f"frame {lsn} has another content")
        if journal.synced != end:
            raise Violation("an opened journal shows frames that are not synced")
        self.tally.events["torn" if journal.torn_bytes else "whole"] += 1
        # What was found is seen from now on, so it must stay.
        self.truth = self.truth.until(end)
        self.acknowledged = self.told = end

    def _live(self, journal: Journal, fold: Digest, wanted: int) -> int:
        """Use the journal until `wanted` frames are appended, or disk or process fail; return how many were."""
        random = self.random
        faulty = random.random() < 0.15
        small = random.random() < 0.15
        waiting: dict[int, int] = {}  # caller → the LSN it waits for
        appends = 0
        steps = 0
        if small:
            held = sum(len(inode.cache) for inode in self.disk._names.values())
            self.disk.capacity_bytes = held + random.randrange(6 * self.limits.segment_bytes)
        faults_from = random.randrange(80)
        while appends < wanted:
            steps += 1
            if steps == faults_from and faulty:
                self.disk.faults = self._fault
            if random.random() < 0.012:
                # The process dies; another one goes on with what the kernel has.
                journal.abandon()
                self.tally.events["restarted"] += 1
                self.acknowledged = max(self.acknowledged, journal.synced)
                self.least, self.most = max(self.acknowledged, journal.written), len(self.truth.entries)
                return appends
            if steps > 400:
                self.disk.capacity_bytes = None  # somebody freed space
                self.tally.events["space freed"] += 1
                steps = 0
            try:
                what = random.random()
                caller = random.randrange(CALLERS + 4)
                if what < 0.72:
                    if waiting.get(caller, -1) < journal.synced:
                        waiting[caller] = self._append(journal, fold)
                        appends += 1
                elif what < 0.81:
                    self._commit(journal)
                elif what < 0.83:
                    if journal.mark() is not None:
                        self.truth.add(None)
                elif what < 0.90:
                    journal.maintain()
                elif what < 0.96:
                    self._release(journal, random.randrange(journal.synced + 1))
                elif journal.synced > journal.first:
                    lsn = random.randrange(journal.first, journal.synced)
                    entry = self.truth.entries[lsn]
                    if entry is not None and b"".join(journal.read(lsn)) != entry:
                        raise Violation(f"frame {lsn} reads as something else")
            except Preparing:
                journal.maintain()
            except Full:
                self.tally.events["disk full"] += 1
                self._release(journal, journal.synced)
                journal.maintain()
            except Unavailable:
                self.tally.events["disk failed"] += 1
                journal.abandon()
                self.acknowledged = max(self.acknowledged, journal.synced)
                self.least = max(self.acknowledged, self.told)
                # If the disk failed only once, what was not acknowledged is cut back and is not there.
                self.most = self.least if self.errors == 1 else len(self.truth.entries)
                return appends
            self.acknowledged = max(self.acknowledged, journal.synced)
        if random.random() < 0.2 and journal.failure is None:
            try:
                journal.close()
                self.acknowledged = len(self.truth.entries)
                self._finished_close()
            except Unavailable:
                self.tally.events["close failed"] += 1
        return appends

    def _finished_close(self) -> None:
        """Let half of the crashes of such a round come after the last operation, where the mark is complete."""
        self.tally.events["clean close"] += 1
        if self.draw.random() < 0.5:
            end = len(self.truth.entries)
            self.moment = Moment(self.disk.image(), self.truth, end, end, end, False, frozenset({"closed"}))

    def _release(self, journal: Journal, lsn: int) -> None:
        self.released = max(self.released, lsn)
        journal.release(lsn)

    def _commit(self, journal: Journal) -> None:
        if self.random.random() < 0.45:
            journal.commit()
        else:
            journal.commit(sync=False)
            self.told = journal.written

    def _append(self, journal: Journal, fold: Digest) -> int:
        random = self.random
        size = random.choice((0, 1, 8, 40, 100, 100, 200, 3 * self.limits.segment_bytes // 2))
        if size > 200 and random.random() < 0.9:
            size = 60
        entry = random.randbytes(size)
        middle = random.randrange(size + 1)
        entries = [entry] if random.random() < 0.7 else [entry[:middle], entry[middle:]]
        lsn = journal.append(entries, reserve=random.random() < 0.1)
        if lsn != len(self.truth.entries):
            raise Violation(f"LSN {lsn} was given out where {len(self.truth.entries)} comes next")
        self.truth.add(entry)
        fold.apply(lsn, [memoryview(entry)])
        return lsn

    def _fault(self, operation: str, name: str, size: int) -> int | None:
        chance = self.random.random()
        if operation == "write" and chance < 0.05 and size > 1:
            return self.random.randrange(1, size)
        if chance > (0.97 if operation == "sync" else 0.995):
            self.errors += 1
            if self.random.random() < 0.7:
                self.disk.faults = None  # it fails once
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if operation == "write" and chance > 0.985 and name.endswith(".tmp"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return None

    def _watch(self, operation: str, name: str) -> None:
        self.seen += 1
        if self.draw.random() * self.seen >= 1.0:
            return
        journal = self.journal
        synced = journal.synced if journal else 0
        self.moment = Moment(
            self.disk.image(),
            self.truth,
            self.most if journal is None else len(self.truth.entries),
            self.least if journal is None else journal.written,
            max(self.acknowledged, synced),
            journal is not None and journal.failure is not None,
            _phases(sys._getframe(1)),
        )

    def _crash(self) -> None:
        moment = self.moment
        assert moment is not None, "an opening alone writes to the disk"
        self.tally.rounds += 1
        self.tally.operations += self.seen
        self.tally.phases.update(moment.phases)
        killed = self.random.random() < 0.2
        if killed and not moment.failed:
            self.disk, self.least = moment.image.after_kill(), max(moment.acknowledged, moment.written)
            self.tally.events["process killed"] += 1
        else:
            self.disk, self.least = moment.image.after_power_cut(self.random), moment.acknowledged
            self.tally.events["power cut"] += 1
        self.truth, self.most = moment.truth, moment.appended
        self.acknowledged = moment.acknowledged


def _phases(frame: FrameType | None) -> frozenset[str]:
    """Return what was at work, by the functions on the stack."""
    found = set()
    while frame is not None:
        phase = PHASES.get(frame.f_code.co_name)
        if phase:
            found.add(phase)
        frame = frame.f_back
    return frozenset(found)
