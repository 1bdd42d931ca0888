"""A worker's machine: a process that appends to its outbox and sends, dies, and is followed by another one.

Each process is an execution of its own. What it leaves is found, sent, archived and removed by the next one, as
`edge.leftovers` does it on a real disk: there the lock says who lives, here there is one process at a time.
"""

import errno
import os
from random import Random
from typing import Any, Protocol

from cordwood.drills.whole.machine import MachineClock, PowerCut
from cordwood.drills.whole.phases import phase
from cordwood.drills.whole.post import SteppedSender, WirePost
from cordwood.drills.whole.truth import Truth
from cordwood.edge import archive
from cordwood.edge.delivery import Delivery, Terms
from cordwood.edge.event import Draft
from cordwood.edge.facts import VERSION, Begun, Renewed
from cordwood.edge.log import Log
from cordwood.errors import CordwoodError, Full, Unavailable
from cordwood.journal.limits import Limits
from cordwood.sim.disk import SimDirectory
from cordwood.sim.loop import SimLoop, Timeline
from cordwood.sim.network import Network

LIMITS = Limits(segment_bytes=4 << 10, max_batch_bytes=64 << 10, spares=2, used_again=3, open_files=4)
TERMS = Terms(batch_events=6, batch_bytes=4 << 10, window=3, linger_ms=50)
KEEP_BYTES = 300  # of what was sent, then it is archived
MOST_WAIT_MS = 1_000


class Above(Protocol):
    """What the machine asks of its world."""

    timeline: Timeline
    network: Network
    loop: SimLoop
    truth: Truth
    large: int  # a value of so many bytes is refused
    quiet: bool  # nothing more is appended

    def note(self, what: str) -> None:
        """Count something that happened."""

    def complain(self, error: BaseException | str) -> None:
        """Hear of an error that nobody took."""

    def worker_fell(self, worker: "Worker", how: str, where: str) -> None:
        """Count a crash."""


class Worker:
    """The machine. A fuse counts disk operations until it dies."""

    def __init__(self, above: Above, seed: str, name: str, topic: str, random: Random):
        self.name = name
        self.clock = MachineClock(above.timeline)
        self.logs: dict[str, SimDirectory] = {}  # execution → its log, the oldest first
        self.shelf = SimDirectory()
        self.fuse: tuple[str, int] | None = None
        self.loop: SimLoop | None = None
        self.appended = 0
        self.refusing = 0.0
        self.stuck = False  # a disk of the broker was lost: it may have forgotten our numbers
        self._above = above
        self._seed = seed
        self._topic = topic
        self._random = random
        self._runs = 0
        self._deliveries: dict[Delivery, str] = {}
        self._sent: set[str] = set()

    # One process after the other

    def boot(self) -> None:
        """Start a process."""
        assert self.loop is None, "one at a time"
        self._runs += 1
        name = f"{self._seed}/{self.name}/{self._runs}"
        self.loop = loop = SimLoop(self._above.timeline, Random(f"{name}/threads"), self._above.complain)
        self._chance = Random(name)
        self._deliveries = {}
        for disk in (*self.logs.values(), self.shelf):
            self._guard(disk, loop)
        loop.call_soon(self._begin, loop)

    def _guard(self, disk: SimDirectory, loop: SimLoop) -> None:
        disk.watch = lambda operation, name: self._watch(loop, operation)
        disk.faults = self._fail

    def _begin(self, loop: SimLoop) -> None:
        execution = f"{self.name}.{self._runs}"
        self.keyed = self._chance.random() < 0.3
        self._left = list(self.logs)
        disk = SimDirectory()
        self._guard(disk, loop)
        self.logs[execution] = disk
        try:
            log = self._open(disk, execution)
        except (CordwoodError, OSError):
            del self.logs[execution]  # it was never begun
            self.fall("kill", "outbox between")
            return
        self._log = log
        self._execution = execution
        self.post = WirePost(self._above.network, self.name, loop, self._topic, self._ring)
        self.sender = SteppedSender(self.post, self.clock, self._chance.random, self)
        delivery = self._delivery(log)
        self._deliveries[delivery] = execution
        self.sender.add(delivery)
        self._rung = False
        self._timer: Any = None
        self._ring()
        loop.after_us(self._pause_us(), self._append)

    def _open(self, disk: SimDirectory, execution: str | None) -> Log:
        begun = None
        if execution is not None:
            producer = f"{self._chance.getrandbits(64):016x}"
            begun = Begun(VERSION, execution, self._topic, producer, self.clock.now_ms())
        return Log(disk, self.clock, self._chance, begun=begun, limits=LIMITS, recent_bytes=200)

    def _delivery(self, log: Log) -> Delivery:
        return Delivery(log, TERMS, self._chance.random, keep=self._keep)

    # Appending

    def _pause_us(self) -> int:
        return self._chance.choice((5_000, 100_000, 500_000, 1_000_000, 2_000_000))

    def _append(self) -> None:
        above, loop, truth = self._above, self.loop, self._above.truth
        assert loop is not None, "it runs"
        if above.quiet:
            return
        drafts, values = [], []
        for _ in range(self._chance.choice((1, 1, 2, 4))):
            key = self._chance.choice((b"a", b"b", b"c")) if self.keyed else None
            number = self.appended
            self.appended += 1
            value = f"{self._execution}{key.decode() if key else ''}#{number}"
            large = self._chance.random() < 0.02
            if large:
                value = value.ljust(above.large + 1, ".")
            line = f"{self._execution}/{key.decode() if key else ''}"
            truth.send(line, number, value)
            if large:
                truth.refuse([value])
            else:
                values.append(value)
            drafts.append(Draft(self.clock.now_ms() * 1000, key, value.encode(), None))
        try:
            self._log.append(drafts)
            truth.promise(values)
        except Full:
            truth.refuse(values)
        except Unavailable:  # its disk failed: nobody knows
            loop.after_us(20_000, self._restart)
            return
        loop.after_us(self._pause_us(), self._append)
        self._ring()

    def _restart(self) -> None:
        if self.loop is not None:
            self.fall("kill", "outbox between")

    # Sending

    def _ring(self) -> None:
        if self.loop is not None and not self._rung:
            self._rung = True
            self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        loop, sender = self.loop, self.sender
        assert loop is not None, "it runs"
        self._rung = False
        wait_ms = sender.turn()
        if any(one.log.journal.failure is not None for one in self._deliveries):
            loop.after_us(20_000, self._restart)  # its disk failed
            return
        if self.stuck:
            self._number_anew()
        if sender.waits or self.post.asking:
            if self.post.came:
                self._ring()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.after_us(min(wait_ms, MOST_WAIT_MS) * 1000 + 1, self._ring)

    def _number_anew(self) -> None:
        """Do what a person does where the broker forgot numbers with its disk (`cordwood outbox`).

        A batch in doubt is refused by its number, or before that for an event that is too large.
        """
        for delivery in list(self._deliveries):
            if delivery.error is not None and delivery.error.startswith(("409", "413")) and not delivery.over:
                log = delivery.log
                if log.state.cuts and delivery.idle and not self.sender.waits:
                    log.record([Renewed(log.state.epoch + 1)])
                    again = self._delivery(log)
                    self._deliveries[again] = self._deliveries.pop(delivery)
                    left = delivery in self.sender._left
                    self.sender.remove(delivery)
                    self.sender._left.discard(delivery)
                    self.sender.add(again)
                    if left:
                        self.sender._left.add(again)
                    self._ring()

    # Left-overs, as the sender asks for them

    def take(self) -> Delivery | None:
        """Open the next log that an earlier process left."""
        while self._left:
            execution = self._left.pop(0)
            try:
                log = self._open(self.logs[execution], None)
            except (Full, OSError):
                self._left.append(execution)  # for the next scan
                return None
            except Unavailable:
                del self.logs[execution]  # nothing was ever appended to it: not even its beginning is there
                continue
            delivery = self._delivery(log)
            self._deliveries[delivery] = execution
            return delivery
        return None

    def blocked(self, delivery: Delivery) -> bool:
        """No execution has two runs here."""
        return False

    def finish(self, delivery: Delivery) -> None:
        """Archive what was sent, and remove it."""
        execution = self._deliveries.pop(delivery)
        if self._put_away(delivery.log):
            del self.logs[execution]
            self._above.note("left-over sent")

    def _put_away(self, log: Log) -> bool:
        if log.state.failed:
            self._above.note("event parked")
        try:
            archive.put(log, self.shelf, log.journal.end)
        except (CordwoodError, OSError):
            log.close()
            return False
        log.abandon()
        return True

    crowded = False  # all of them are taken

    def release(self, delivery: Delivery) -> None:
        """Let go of one that is not finished."""
        self._deliveries.pop(delivery)
        delivery.log.close()

    def _keep(self, log: Log, busy: bool) -> None:
        """Archive what was sent when it is enough, and let it go; as `leftovers.keeper` does."""
        state = log.state
        through = state.settled
        if through <= state.archived or (not log.short and state.settled_bytes < KEEP_BYTES * (state.archived + 1)):
            return
        try:
            _, through = archive.put_part(log, self.shelf, state.archived, through)
        except Full:
            if any(place < through for place in state.parked_lsns):
                raise
        log.release(through)

    @property
    def settled(self) -> bool:
        """Whether everything that was ever appended here is with the broker."""
        if self.loop is None or not hasattr(self, "_log") or len(self.logs) > 1:
            return False
        return all(not one.pending and one.idle for one in self._deliveries)

    # Dying

    def fall(self, how: str, where: str = "outbox between") -> None:
        """End the process: "kill" or "power"."""
        loop = self.loop
        assert loop is not None, "it runs"
        loop.end()
        self.loop = None
        self.fuse = None
        self.refusing = 0.0
        if how == "kill":
            self.logs = {name: disk.after_kill() for name, disk in self.logs.items()}
            self.shelf = self.shelf.after_kill()
        else:
            random = self._random
            self.logs = {name: disk.image().after_power_cut(random) for name, disk in self.logs.items()}
            self.shelf = self.shelf.image().after_power_cut(random)
        self._above.network.client_fell(self.name, silent=how == "power")
        self._above.worker_fell(self, how, where)

    def fill(self, full: bool) -> None:
        """Fill the disk, or make room."""
        for disk in self.logs.values():
            held = sum(len(inode.cache) for inode in disk._names.values())
            disk.capacity_bytes = held if full else None

    def _watch(self, loop: SimLoop, operation: str) -> None:
        if not loop.alive:
            raise PowerCut
        if self.fuse is not None:
            how, left = self.fuse
            self.fuse = (how, left - 1)
            if left <= 1:
                self.fall(how, phase(operation))
                raise PowerCut

    def _fail(self, operation: str, name: str, size: int) -> int | None:
        if self.refusing and operation == "sync" and self._random.random() < self.refusing:
            self.refusing = 0.0
            self._above.note("failed sync of a worker")
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return None
