"""A broker on an event loop, with its journal on a disk or in memory: from open to close.

    requests ──▶ broker.… , touch ──▶ end of this turn: flush ──▶ commit
                                                                  ├─ little, and the disk is quick: right here
                                                                  └─ else: the committing thread ──▶ told

What came in one turn of the loop is committed together. While the thread syncs, single messages gather for the next.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random, SystemRandom

from cordwood.broker import ops
from cordwood.broker.broker import Broker
from cordwood.broker.histogram import Histogram
from cordwood.broker.joining import join
from cordwood.broker.ledger import Ledger
from cordwood.broker.losses import with_losses
from cordwood.broker.memory import MemoryLog
from cordwood.broker.rounds import Rounds
from cordwood.broker.state import State
from cordwood.broker.tiering import Tiering, Trouble
from cordwood.errors import Conflict, CordwoodError, Damage, Damaged, Preparing, Unavailable
from cordwood.journal.committer import Committer, SyncMode
from cordwood.journal.journal import Journal
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.machine.clock import Clock, SystemClock
from cordwood.machine.disk import Buffer, Directory, RealDirectory, make_directory
from cordwood.machine.objects.store import Objects, StoreUnavailable
from cordwood.settings import Settings
from cordwood.tier.claim import Claim, Claims

log = logging.getLogger("cordwood.broker")

PREPARING_S = 0.05  # between two tries to write while a segment is being prepared
AGAIN_S = 5.0  # between two tries to open a store that could not be
PATIENT_S = 1.0  # then somebody is told that the store is waited for
UNSAID_S = 0.05  # how often it is looked whether the claim holds again
FINISH_S = 30.0  # to write what was accepted; a disk that is full may never take it
HERE_BYTES = 128 << 10  # what the loop may write by itself: larger writes would keep it from reading requests
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_FRAMES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Running:
    """An open broker. Made by `open_broker` on the loop that it runs on."""

    # Who commits and who tiers, each with threads of its own; a simulator has other ones, without.
    committing: type[Committer] = Committer
    tiering_by: type[Tiering] = Tiering

    def __init__(self, settings: Settings, clock: Clock, random: Random, ledger: Ledger, *, memory: bool):
        self.settings = settings
        self.memory = memory
        self.durability = "memory" if memory else "fsync" if settings.sync == "always" else "written"
        self.started_ms = clock.now_ms()
        self.sync_seconds = Histogram(_SECONDS)
        self.group_frames = Histogram(_FRAMES)
        self.connections: Callable[[], int] = lambda: 0  # whoever listens says how many there are
        self.broker = Broker(ledger, settings, clock, random, self._release)
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()
        self._touched = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._closed = False
        self._pushed = 0  # the LSN behind the last frame that a commit was asked for
        self._pushed_bytes = 0
        self._committer: Committer | None = None
        self._journal: Journal | None = None
        self._log: MemoryLog | None = None
        self.tiering: Tiering | None = None
        self._tier_trouble: Trouble | None = None  # of a store that is waited for
        self._tier_failures = 0
        self._clock = clock
        self._random = random
        self._waiting_for_tier: asyncio.Task[None] | None = None
        self._unsaid: tuple[int, int] | None = None  # how far the journal is, while the claim does not hold

    # Opening

    def use_journal(self, journal: Journal) -> None:
        """Go on from a journal that was opened with this broker's ledger as its fold."""
        self._journal = journal
        mode: SyncMode = self.settings.sync  # type: ignore[assignment]  # checked when it was set
        self._committer = self.committing(
            journal,
            self._told_by_thread,
            failed=lambda error: self._from_thread(self._failed, error),
            room=lambda: self._from_thread(self.broker.room),
            sync=mode,
            sync_interval_ms=self.settings.sync_interval_ms,
            observe=self._observe,
        )
        self._ledger.attach(self, journal.end)
        self._pushed = journal.end
        self._committer.start()
        self._arm()

    def use_memory(self) -> None:
        """Keep everything in memory only."""
        self._log = MemoryLog()
        self._ledger.attach(self, 0)
        self._arm()

    async def use_tier(self, objects: Objects, claims: Claims, owner: str, *, cut: bool = False) -> None:
        """Take the store, find again what it knows if the journal is new, and begin to ship.

        `cut` says that an operator gave up the end of the journal, so that the store may know more.

        Raises `Owned` when another broker has it, `Conflict` when it belongs to another journal, StoreUnavailable.
        """
        assert self._journal is not None, "only a journal is tiered"
        claim = await self._take(claims, objects, owner)
        rounds = Rounds(
            self._ledger,
            self.broker.shipping,
            self.settings,
            self._clock,
            objects,
            claim.catalogue,
            self._journal.read_ahead,
            collects=not cut,
        )
        tiering = self.tiering_by(self._ledger, self.broker.shipping, self._clock, objects, claim, rounds, self)
        try:
            name = f"{self._random.getrandbits(64):016x}"
            joining = join(self._ledger, objects, claim.catalogue, claim.epoch, name, cut=cut)
            await self._write(await tiering.go_through(joining))
            await tiering.put_snapshot()  # before anything is acknowledged: the last one may say that it was clean
        except BaseException:
            await self._loop.run_in_executor(None, tiering.release)
            raise
        self.tiering = tiering
        tiering.start()

    async def _write(self, facts: Sequence[ops.Op]) -> None:
        """Write what was found out about the store; return when it is as durable as a reply."""
        while True:
            try:
                self._ledger.write(facts, reserve=True)
                break
            except Preparing:  # what was restored may want a segment of its own
                await asyncio.sleep(PREPARING_S)
        came = self._loop.create_future()
        self._ledger.reply(came.set_result, None)
        self.touch()
        result = await came
        if isinstance(result, CordwoodError):
            raise result
        if any(isinstance(fact, ops.Restored) for fact in facts):  # only a new journal's: nobody is served yet
            self._ledger.show_all()

    def use_tier_later(self, objects: Objects, claims: Claims, owner: str, error: StoreUnavailable) -> None:
        """Go on without the store until it can be used: for a journal that had it, where no other can take it."""
        log.warning("history waits in the journal: %s", error)
        self._tier_trouble = Trouble(str(error), self._clock.now_ms())
        self._tier_failures = 1
        self._waiting_for_tier = asyncio.ensure_future(self._use_tier_later(objects, claims, owner))

    async def _use_tier_later(self, objects: Objects, claims: Claims, owner: str) -> None:
        while True:
            await asyncio.sleep(AGAIN_S)
            try:
                await self.use_tier(objects, claims, owner)
                self._tier_trouble = None
                return
            except Conflict as error:
                self.lose_claim(Unavailable(str(error)))
                return
            except (CordwoodError, OSError) as error:
                log.info("the store cannot be used yet: %s", error)
                assert self._tier_trouble is not None, "it is waited for"
                self._tier_trouble = self._tier_trouble._replace(error=str(error))
                self._tier_failures += 1

    @property
    def tier_trouble(self) -> Trouble | None:
        """Why the store cannot be used, None while it can, or there is none."""
        return self._tier_trouble if self.tiering is None else self.tiering.trouble

    @property
    def tier_failures(self) -> int:
        """How often the store was not there for what was to be done."""
        return self._tier_failures + (0 if self.tiering is None else self.tiering.failures)

    async def _take(self, claims: Claims, objects: Objects, owner: str) -> Claim:
        taking = self._loop.run_in_executor(None, claims.take, owner)
        done, _ = await asyncio.wait([taking], timeout=PATIENT_S)
        if not done:
            log.info("waiting for the claim to %s", objects.url)
        return await taking

    # The ledger's log

    def append(self, entries: Sequence[Buffer], *, reserve: bool = False) -> int:
        """Number a frame; it is committed at the end of this turn."""
        if self._log is not None:
            lsn = self._log.append(entries, reserve=reserve)
        else:
            assert self._committer is not None
            lsn = self._committer.push(entries, reserve=reserve)
            self._pushed_bytes += sum(map(len, entries))
            if self._pushed_bytes > HERE_BYTES:
                # So much is the thread's work: it begins while the loop reads the next requests.
                self._committer.commit_pushed(self._pushed, lsn + 1, here=False)
                self._pushed, self._pushed_bytes = lsn + 1, 0
        self.touch()
        return lsn

    def read(self, lsn: int, most_bytes: int) -> Iterator[tuple[int, list[memoryview]]]:
        """Yield a durable frame and those behind it, about this many bytes; each is valid until the next."""
        if self._log is not None:
            return self._log.read(lsn, most_bytes)
        assert self._journal is not None
        return self._journal.read_ahead(lsn, most_bytes)

    def _release(self, lsn: int) -> None:
        if self._log is not None:
            self._log.release(lsn)
        elif self._committer is not None and not self._closed:
            self._committer.release(lsn)

    # Turns of the loop

    def touch(self) -> None:
        """Have the broker go on at the end of this turn: it was asked something."""
        if not self._touched:
            self._touched = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._touched = False
        if self._closed:
            return
        try:
            self.broker.flush()
        finally:
            self._commit()
            self._arm()

    def _commit(self) -> None:
        """Have everything committed that was appended since the last time."""
        while (end := self._ledger.end) > self._pushed:
            first, size = self._pushed, self._pushed_bytes
            self._pushed, self._pushed_bytes = end, 0
            if self._log is not None:
                self.broker.told(end, end)
                continue
            assert self._committer is not None
            alone = size <= HERE_BYTES and self._ledger.replied >= first
            try:
                if self._committer.commit_pushed(first, end, here=alone):
                    self._tell(end, end)
            except CordwoodError:
                return  # `failed` has been told, and comes as the next call of this loop

    def _arm(self) -> None:
        """Set the timer to when the broker has something to do."""
        wait_ms = self.broker.wait_ms
        if wait_ms is None or self._closed:
            return
        at = self._loop.time() + wait_ms / 1000
        if self._timer is not None:
            if self._timer_at <= at + 0.001:
                return  # it rings early enough, and is set again then
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.touch()

    # What the threads tell

    def _from_thread(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(self._called, call, arguments)
        except RuntimeError:
            if not self._closed:  # a loop that ended under a broker that was never closed
                raise

    def _called(self, call: Callable[..., object], arguments: tuple[object, ...]) -> None:
        if not self._closed:
            call(*arguments)
            self.touch()

    def _told_by_thread(self, written: int, synced: int) -> None:
        self._from_thread(self._told, written, synced)

    def _told(self, written: int, synced: int) -> None:
        self._tell(written, synced)
        self._commit()

    def _tell(self, written: int, synced: int) -> None:
        """Let out what is durable; but nothing while another broker may have taken the store."""
        if self.tiering is None or self.tiering.holds:
            self.broker.told(written, synced)
            return
        if self._unsaid is None:
            log.warning("nothing is acknowledged until the claim to the store is renewed")
            self._loop.call_later(UNSAID_S, self._say)
        self._unsaid = max(self._unsaid or (0, 0), (written, synced))

    def _say(self) -> None:
        if self._unsaid is None or self._closed:
            return
        if self.tiering is not None and not self.tiering.holds:
            self._loop.call_later(UNSAID_S, self._say)
            return
        unsaid, self._unsaid = self._unsaid, None
        self.broker.told(*unsaid)
        self.touch()

    def sync(self) -> None:
        """Make all that was written so far survive a power cut; for a thread, in a mode in which nobody else does."""
        assert self._journal is not None
        self._journal.sync(self._ledger.end - 1)

    def lose_claim(self, error: Unavailable) -> None:
        """Stop for good: another broker has the store."""
        log.error("%s", error)
        self._unsaid = None
        self.broker.failed(error, self._durable_state())

    def _failed(self, error: Unavailable) -> None:
        self.broker.failed(error, self._durable_state())

    def _durable_state(self) -> State | None:
        """Return the state that the journal holds for sure."""
        assert self._journal is not None
        fresh = Ledger(0)
        try:
            self._journal.refold(fresh)
        except (OSError, CordwoodError) as error:
            log.error("the state cannot be read again: %s", error)
            return None
        return fresh.state

    def _observe(self, frames: int, seconds: float) -> None:
        self.sync_seconds.add(seconds)
        self.group_frames.add(frames)

    # About

    @property
    def journal_bytes(self) -> int:
        """What the log takes on disk, or in memory."""
        if self._log is not None:
            return self._log.bytes
        assert self._journal is not None
        return self._journal.bytes_on_disk

    @property
    def had_store(self) -> bool:
        """Whether the journal knows the store that it belongs to."""
        return bool(self._ledger.state.store)

    @property
    def has_objects(self) -> bool:
        """Whether some of the messages are in a tier, and nowhere else."""
        return self._ledger.state.has_objects

    @property
    def torn_bytes(self) -> int:
        """What the opening cut off."""
        return self._journal.torn_bytes if self._journal is not None else 0

    # Closing

    async def close(self) -> None:
        """Finish what was accepted, and leave the journal cleanly closed."""
        if self._closed:
            return
        until = self._loop.time() + FINISH_S
        while not self.broker.idle and self.broker.failure is None and self._loop.time() < until:
            self.touch()
            await asyncio.sleep(0.001)
        if self._waiting_for_tier is not None:
            self._waiting_for_tier.cancel()
        if self.tiering is not None:
            await self.tiering.close()
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.broker.failed(Unavailable("the broker is stopping"), self._ledger.state)
        if self._committer is not None and self._journal is not None:
            await self._loop.run_in_executor(None, self._stop)

    def _stop(self) -> None:
        assert self._committer is not None and self._journal is not None
        self._committer.stop()
        try:
            self._journal.close()
        finally:  # a disk that fails now makes no other broker wait for the claim
            if self.tiering is not None:
                self.tiering.release()


def open_broker(
    settings: Settings,
    *,
    memory: bool = False,
    directory: Directory | None = None,
    clock: Clock | None = None,
    random: Random | None = None,
    limits: Limits | None = None,
    kind: type[Running] = Running,
) -> Running:
    """Return a running broker on `settings.data` (or on the directory given), recovered to its last durable frame.

    Raises `Locked`, `Damaged`, `Full`, or OSError; then nothing was changed. Call it on the loop it is to run on.
    """
    clock, random = clock or SystemClock(), random or SystemRandom()
    ledger = Ledger(settings.cache_bytes, settings.sync)
    running = kind(settings, clock, random, ledger, memory=memory)
    if memory:
        running.use_memory()
        return running
    if directory is None:
        path = Path(settings.data) / "journal"
        make_directory(path)
        directory = RealDirectory(path)
    limits = limits or Limits(
        segment_bytes=settings.segment_bytes,
        max_batch_bytes=settings.max_batch_bytes,
        segment_max_age_ms=settings.segment_max_age_s * 1000,
    )
    try:
        journal = open_journal(directory, ledger, limits, clock=clock, random=random)
    except Damaged as error:
        raise _named(error, settings) from None
    try:
        _check_complete(journal, ledger.state, directory.path)
    except BaseException:
        journal.abandon()
        raise
    running.use_journal(journal)
    return running


def _named(error: Damaged, settings: Settings) -> Damaged:
    """Return the error with the offsets that are lost; the directory was closed with the journal."""
    path = Path(settings.data) / "journal"
    if not path.is_dir():
        return error
    directory = RealDirectory(path)
    try:
        return with_losses(directory, error)
    except OSError:
        return error
    finally:
        directory.close()


def _check_complete(journal: Journal, state: State, path: str) -> None:
    """Raise `Damaged` if a frame that holds messages is not there: whole files were taken away."""
    lowest = state.lowest_lsn()
    if lowest is None or lowest >= journal.first:
        return
    lost = [
        f"{topic.name}/{number}: {place.first} to {place.end - 1}"
        for topic in state.topics.values()
        for number, partition in enumerate(topic.partitions)
        for place in partition.index.places(0, partition.end)
        if place.lsn < journal.first
    ]
    more = f" and {len(lost) - 20} more" if len(lost) > 20 else ""
    raise Damaged(
        [
            Damage(
                path,
                0,
                lowest,
                journal.first,
                f"segments are missing at the beginning; with them the messages {', '.join(lost[:20])}{more}",
                "the snapshot of a later segment names them",
                "Put the files back.",
            )
        ]
    )
