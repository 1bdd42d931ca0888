"""One seed, one history: a broker on a pretended computer, asked at random, crashed at random, opened again.

Commits come at random moments, so requests wait for the disk, alone and together. The power goes before a disk
operation or between two requests, the process is killed, or closed cleanly, the disk fails or is full. After each
opening the journal must hold all that was acknowledged, and whole frames, a prefix of what was written; then the
broker's state is compared with the world that these frames make, and the history goes on.
"""

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from random import Random

from cordwood.broker.ledger import Ledger
from cordwood.drills.broker_model.asked import Disagreement
from cordwood.drills.broker_model.client import Client
from cordwood.drills.broker_model.compare import at_once, compare
from cordwood.drills.broker_model.draw import TOPICS
from cordwood.drills.broker_model.losing import Loss
from cordwood.drills.broker_model.model import Model
from cordwood.drills.broker_model.quiet import check_quiet, look_around
from cordwood.drills.broker_model.retention import Due, look_ahead
from cordwood.drills.broker_model.tally import Tally
from cordwood.drills.broker_model.tier import Tier
from cordwood.drills.broker_model.watched import Complaints, Tap, WatchedBroker, WatchedLedger
from cordwood.drills.broker_model.world import DEAD, Book
from cordwood.errors import Full, Unavailable
from cordwood.journal.journal import Journal
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.settings import Settings
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import CrashImage, SimDirectory

STEPS = 60
TIER_SHARE = 0.45  # how often a step of the tier comes first
LOST_SHARE = 0.3  # how often a crash takes the disk, too
TIDY_SHARE = 0.3  # how often the store is looked at in the end


class Violation(AssertionError):
    """A promise was broken. The message says which, and the seed that shows it."""


def run_history(seed: int, steps: int = STEPS) -> Tally:
    """Live through one history; two of five have a tier. Raises `Violation`."""
    history = _History(seed, tiered=seed % 5 in (1, 3))
    broker_log = logging.getLogger("cordwood.broker")
    broker_log.addHandler(history.complaints)
    try:
        return history.run(steps)
    except Disagreement as disagreement:
        raise Violation(f"{disagreement} [seed {seed}]") from disagreement
    except Exception as error:
        raise Violation(f"{type(error).__name__}: {error} [seed {seed}]") from error
    finally:
        broker_log.removeHandler(history.complaints)


class PowerCut(BaseException):
    """The power goes before a disk operation."""


class _History:
    """A computer, and the broker on it."""

    def __init__(self, seed: int, *, tiered: bool):
        random = self.random = Random(seed)
        self.disk = SimDirectory()
        self.clock = SimClock()
        self.settings = Settings(
            sync=random.choices(("always", "interval", "never"), (8, 1, 1))[0],
            cache_bytes=random.choice((0, 1_000, 1 << 20)),
            auto_create_topics=random.random() < 0.3,
            partitions=random.choice((1, 2)),
            lease_ms=500,
            max_attempts=random.choice((0, 1, 2, 3)),
            backoff_ms=random.choice((0, 10, 100)),
            max_backoff_ms=random.choice((100, 150)),
            on_exhausted=random.choices(("dlq", "drop", "block"), (4, 1, 1))[0],
            mode=random.choices(("shared", "ordered"), (2, 1))[0],
            tier_object_bytes=seed % 7 * 20 + 1,  # a few messages
        )
        if tiered and seed % 4 == 0:  # objects go with time
            self.settings = replace(self.settings, retention_ms=1_000, hold_max_ms=0)
        self.limits = Limits(
            segment_bytes=random.choice((4096, 8192, 16384)),
            max_batch_bytes=random.choice((600, 1 << 20, 1 << 20)),
            open_files=3,
        )
        self.model = Model(self.clock, asdict(self.settings))
        self.complaints = Complaints()
        self.tally = Tally()
        self.least = self.most = 0  # frames that must be there at the next opening, and that may be
        self.durable = 0  # frames that must be there even if the power goes while it is opened
        self.kept = 0  # frames that a commit took
        self.errors = 0  # how often the disk failed since the opening
        self.fuse: int | None = None  # disk operations until the power goes
        self.image: CrashImage | None = None
        self.rotated = False  # since the last opening
        self.journal: Journal | None = None
        self.tier = Tier(seed, self.clock, self.model, self._cut_power) if tiered else None

    def run(self, steps: int) -> Tally:
        self._guarded(self._open)
        self._guarded(self._prepare)
        for _ in range(steps):
            while self.tier is not None and self.tier.random.random() < TIER_SHARE:
                self._guarded(self._tier_step)
            self._guarded(self._step)
        self._guarded(self._close)
        if self.tier is not None and self.tier.random.random() < TIDY_SHARE:
            self._guarded(self._tidy)
        self.tally.histories = 1
        self.tally.frames = self.model.book.end
        self.tally.reached.update(sorted(self.model.reached))
        return self.tally

    def _guarded(self, act: Callable[[], None]) -> None:
        while True:
            try:
                act()
                self.model.check(not self.complaints.all, f"the broker complains: {self.complaints.all}")
                return
            except PowerCut:
                act = self._power_cut

    # Steps

    def _step(self) -> None:
        random = self.random
        if not self.model.world.topics and random.random() < 0.5:
            self._prepare()
        chance = random.random()
        if self.model.backlog and chance < 0.3:
            self._make_room()
        elif chance < 0.62:
            self.client.step()
        elif chance < 0.69:
            self._settle(self.broker.flush)
        elif chance < 0.83:
            self._commit()
        elif chance < 0.925:
            self._pass_time()
        elif chance < 0.95:
            self._make_room()
        elif chance < 0.96:
            self._mark()
        elif chance < 0.972:
            self._trouble()
        elif chance < 0.984:
            self._crash()
        else:
            self._light_fuse()

    def _prepare(self) -> None:
        """Begin with something to work on."""
        self.client.begin()
        self._settle(self.broker.flush)
        self._commit()

    def _settle(self, act: Callable[[], None], due: Due | None = None) -> None:
        """Let the broker go on, and see that it leaves nothing undone."""
        look_around(self.model)
        act()
        if not self.model.failure:
            check_quiet(self.model, due)

    def _commit(self) -> None:
        assert self.journal is not None
        sync = self.settings.sync == "always" or self.random.random() < 0.3
        try:
            self.journal.commit(sync=sync)
        except Unavailable:
            self._failed()
            return
        self.kept = self.journal.written
        if self.random.random() < 0.9:
            self._tell()

    def _tell(self) -> None:
        """Tell the broker how far its journal is; who watches a topic learns of what is visible now."""
        assert self.journal is not None
        model, written, synced = self.model, self.journal.written, self.journal.synced
        before = model.shown
        model.told(written, synced)
        news = model.world.visible_between(before, model.shown)
        self.noticed.clear()
        self._settle(lambda: self.broker.told(written, synced))
        model.check(news <= self.noticed, f"{news} have new messages, and only {self.noticed} were said to")

    def _pass_time(self) -> None:
        random = self.random
        self._settle(self.broker.flush)
        self.clock.pass_ms(random.choice((0, 1, 5, 20, 20, 50, 50, 200, 200, 500, 1_100)))
        if random.random() < 0.15:
            self.clock.pass_ms(random.choice((15_000, 61_000, 700_000)))
        if random.random() < 0.02:
            self.clock.pass_ms(random.choice((3_700_000, 8 * 86_400_000)))
        if random.random() < 0.05:
            self.clock.jump_ms(random.choice((-1_000, -50, 50, 1_000)))
        if random.random() < 0.9:
            self._settle(self.broker.tick, look_ahead(self.model))

    def _make_room(self) -> None:
        assert self.journal is not None
        waited = bool(self.model.backlog)
        if self.journal.maintain():
            self.model.room()
            self._settle(self._room)
            if waited and not self.model.backlog:
                self.model.reached.add("waited for room")

    def _room(self) -> None:
        self.broker.room()
        self.model.room_over()

    def _mark(self) -> None:
        """Write the empty frame that a journal writes after idling."""
        assert self.journal is not None
        if self.journal.mark() is not None:
            self.model.book.add([])

    # Trouble

    def _trouble(self) -> None:
        """The disk fills up, or fails now and then from here on."""
        if self.random.random() < 0.6:
            held = sum(len(inode.cache) for inode in self.disk._names.values())
            self.disk.capacity_bytes = held + self.random.choice((0, self.limits.segment_bytes // 2))
        else:
            self.disk.faults = self._fault

    def _fault(self, operation: str, name: str, size: int) -> int | None:
        chance = self.random.random()
        if operation == "write" and chance < 0.2 and size > 1:
            return self.random.randrange(1, size)
        if chance > (0.6 if operation == "sync" else 0.9):
            self.errors += 1
            if self.random.random() < 0.7:
                self.disk.faults = None  # it fails once
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return None

    def _light_fuse(self) -> None:
        """Let the power go a few disk operations from here."""
        if self.fuse is None:
            self.fuse = self.random.randrange(1, 25)

    def _watch(self, operation: str, name: str) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                self.fuse = None
                self._cut_power()

    def _cut_power(self) -> None:
        self.image = self.disk.image()
        raise PowerCut

    def _failed(self) -> None:
        """The journal can no longer write: everybody is told, reads go on, and then it is opened again."""
        assert self.journal is not None
        model, journal, random = self.model, self.journal, self.random
        model.reached.add("failed sync")
        for _ in range(random.choice((0, 0, 1, 3))):
            self.client.step()  # before the broker knows
        durable = Ledger(0)
        journal.refold(durable)
        # If the disk failed only once, what was not acknowledged is cut back and is not there.
        self.least = max(journal.synced, self.kept)
        self.most = self.least if self.errors == 1 else model.book.end
        waiting = self.client.waiting()
        model.failed(journal.synced)
        failure = journal.failure
        assert failure is not None
        self.broker.failed(failure, durable.state)
        if self.tier is not None:
            while self.tier.fetches:
                self.tier.fetch()
        for asked in waiting:
            model.check(asked.answered, f"{asked.name} waits for ever after the journal failed")
        self.client.consumers.check_turned_away()
        self._compare()
        for _ in range(random.choice((0, 2, 5))):
            self.client.step()
            self.broker.tick()
        self.disk.faults = None
        if random.random() < 0.2:
            self.least, self.most = journal.synced, model.book.end
            self._reopen(self.disk.image().after_power_cut(random))
        else:
            journal.abandon()
            self._reopen(self.disk)

    # Ends

    def _crash(self) -> None:
        """Stop at this moment: killed, without power, or closed in an orderly way."""
        assert self.journal is not None
        how = self.random.random()
        if how < 0.25:
            self._close()
            return
        if self.tier is not None and self.tier.random.random() < LOST_SHARE:
            self._lose_disk()
            return
        self.image = self.disk.image()
        if how < 0.6:
            self._power_cut()
            return
        self._count_crash(self.journal)
        self.least, self.most = self.journal.written, self.model.book.end
        self._reopen(self.image.after_kill())

    def _power_cut(self) -> None:
        assert self.image is not None
        if self.journal is not None:
            self._count_crash(self.journal)
            self.least, self.most = self.journal.synced, self.model.book.end
        self._reopen(self.image.after_power_cut(self.random))

    def _lose_disk(self) -> None:
        """The disk is gone, with all that is on it; the store is another machine's."""
        assert self.tier is not None
        model, journal = self.model, self.journal
        if journal is not None:
            book, replied = model.book, max(journal.written, journal.synced)
            worlds = [book.world(end) for end in (journal.synced, book.end, replied)]
            self.tier.lose(Loss.of(*worlds))
        model.book = Book()
        self.least = self.most = self.durable = 0
        self.journal = None
        self._reopen(SimDirectory())

    def _count_crash(self, journal: Journal) -> None:
        if self.tier is not None and self.tier.shipping:
            self.model.reached.add("crash during shipping")
        if any(lsn >= journal.synced for asked in self.client.consumers.acks for lsn in asked.wrote):
            self.model.reached.add("crash with unsynced acks")

    def _close(self) -> None:
        """Finish what was accepted, and close."""
        assert self.journal is not None
        journal, model = self.journal, self.model
        self.disk.capacity_bytes = None
        try:
            for _ in range(1_000):
                if self.tier is not None:
                    self._fetch_all()
                self._make_room()
                journal.commit()
                self.kept = journal.written
                self._tell()
                if self.broker.idle and journal.synced == journal.end:
                    break
            waiting = [asked.name for asked in self.client.waiting()]
            model.check(self.broker.idle and not waiting, f"{waiting} were never answered")
            self._compare()
            if self.tier is not None:
                self.tier.put_snapshot(clean=True)
            journal.close()
        except Unavailable:
            self._failed()
            return
        if self.tier is not None and self.tier.random.random() < LOST_SHARE / 2:
            self._lose_disk()
            return
        self.least = self.most = model.book.end
        self._reopen(self.disk)

    def _reopen(self, disk: SimDirectory) -> None:
        if self.journal is not None:
            self.rotated = self.ledger.captured
            self.durable = self.journal.synced
        self.disk.watch = None
        self.disk = disk
        self.journal = None
        self.fuse = None if self.random.random() < 0.9 else self.random.randrange(1, 30)
        self._open()

    def _open(self) -> None:
        """Open what there is, as often as it takes, and see that it is what it must be."""
        while True:
            self.disk.faults = None
            self.disk.watch = self._watch
            ledger = WatchedLedger(self.settings.cache_bytes, self.settings.sync)
            try:
                journal = open_journal(self.disk, ledger, self.limits, clock=self.clock, random=self.random)
                break
            except Full:
                self.disk.capacity_bytes = None
            except PowerCut:
                assert self.image is not None
                self.least = min(self.least, self.durable)
                self.disk = self.image.after_power_cut(self.random)
        model, end = self.model, journal.end
        model.check(end >= self.least, f"frames {end} to {self.least - 1} were acknowledged and are lost")
        model.check(end <= self.most, f"the log ends at {end}, but only {self.most} frames were written")
        model.opened(end)
        self.tally.openings += 1
        if ledger.restored and self.rotated:
            model.reached.add("snapshot recovered")
        ledger.captured = False
        self.kept, self.errors = end, 0
        self.journal, self.ledger = journal, ledger
        ledger.attach(Tap(journal, model), end)
        self.broker = WatchedBroker(ledger, self.settings, self.clock, self.random, journal.release)
        self.broker.model = model
        self.client = Client(self.random, model, self.broker)
        self.noticed: set[str] = set()  # topics that whoever watches them was told of
        for name in (*TOPICS, *(DEAD + name for name in TOPICS)):
            self.broker.watch(name, partial(self.noticed.add, name))
        if self.tier is not None:
            self._begin_tier(self.tier, journal)
        self._compare()
        if self.tier is not None:
            self.tier.forget_fetched()
        if self.random.random() < 0.8:
            journal.maintain()

    def _compare(self) -> None:
        compare(self.model, self.broker, at_once if self.tier is None else self.tier.read)

    # The tier

    def _begin_tier(self, tier: Tier, journal: Journal) -> None:
        """Go on with the store: nothing is acknowledged before it has a snapshot."""
        self.disk.capacity_bytes = None
        tier.begin(self.ledger, self.broker, self.settings, journal)
        self._commit_all()
        tier.kept()
        # What is lost with a disk it may well say; whether it had to be is the model's business.
        self.complaints.all = [said for said in self.complaints.all if not said.startswith("lost: ")]
        while not tier.put_snapshot():
            tier.clear_up()
        tier.note_snapshot()
        tier.check()
        self.ledger.captured = False

    def _commit_all(self) -> None:
        assert self.journal is not None
        self.journal.commit()
        self.kept = self.journal.written
        self.model.told(self.journal.written, self.journal.synced)
        self.broker.told(self.journal.written, self.journal.synced)
        for topic in self.ledger.state.topics.values():
            for partition in topic.partitions:
                partition.shown = partition.end

    def _tier_step(self) -> None:
        """Let the tier go on a little."""
        tier, random = self.tier, self.tier.random if self.tier is not None else self.random
        assert tier is not None
        chance = random.random()
        if chance < 0.06:
            tier.change_weather()
        elif chance < 0.08:
            tier.light_fuse()
        elif chance < 0.12:
            self.client.read()
        elif chance < 0.3 and tier.fetches:
            self._settle(self._fetch)
        else:
            captured = self.ledger.captured
            for _ in range(random.choice((1, 1, 2, 4))):
                tier.step(everything=random.random() < 0.8)
            self.ledger.captured = captured

    def _fetch(self) -> None:
        assert self.tier is not None
        self.tier.fetch()
        self.broker.flush()

    def _fetch_all(self) -> None:
        assert self.tier is not None
        self.tier.clear_up()
        while self.tier.fetches:
            self._settle(self._fetch)

    def _tidy(self) -> None:
        """Let the tier finish, and see that the store has nothing that nobody needs."""
        tier, journal = self.tier, self.journal
        assert tier is not None and journal is not None
        tier.clear_up()
        for _ in range(3):
            for _ in range(200):
                tier.step()
                journal.maintain()
                journal.commit()
                self._tell()
                if not tier.busy:
                    break
        tier.check()
        tier.check_tidy()
