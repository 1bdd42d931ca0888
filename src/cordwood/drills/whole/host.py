"""The broker's machine: it starts the broker, the broker dies, what the disk keeps of it is drawn, it starts again.

    boot ──▶ open the journal ──▶ take the store ──▶ listen ──▶ …requests… ──▶ fall ──▶ boot
              │                    │                             │
              a crash may fall before any disk operation or call to the store

The store is another machine's: it outlasts everything. A broker whose journal failed is started again by hand.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from cordwood.broker.running import open_broker
from cordwood.broker.state import State
from cordwood.drills.whole.machine import MachineClock, PowerCut
from cordwood.drills.whole.phases import phase
from cordwood.drills.whole.stepped import SteppedRunning
from cordwood.drills.whole.truth import check
from cordwood.errors import CordwoodError, Damaged, Full, Locked, Unavailable
from cordwood.http.connection import Connection
from cordwood.http.limits import Limits as HttpLimits
from cordwood.http.occupancy import Occupancy
from cordwood.journal.limits import Limits
from cordwood.server.routes import handler
from cordwood.settings import Settings
from cordwood.sim.disk import SimDirectory
from cordwood.sim.loop import SimLoop, Timeline
from cordwood.sim.network import Network
from cordwood.sim.objects import SimObjects
from cordwood.tier.claim import Owned, Terms
from cordwood.tier.claims_in_store import StoreClaims

DISK, STORE = "disk", "store"  # where a fuse burns
TERMS = Terms(renew_ms=120, hold_ms=300, lapse_ms=400, patience_ms=2_000, look_ms=150)
HTTP = HttpLimits()


class Above(Protocol):
    """What the machine asks of its world."""

    timeline: Timeline
    network: Network
    loop: SimLoop

    def note(self, what: str) -> None:
        """Count something that happened."""

    def complain(self, error: BaseException | str) -> None:
        """Hear of an error that nobody took."""

    def opened(self, state: State) -> None:
        """Look at what a broker found when it opened."""

    def ended(self, running: SteppedRunning) -> None:
        """Look at a broker that is over."""

    def fell(self, how: str, where: str) -> None:
        """Count a crash."""


@dataclass(slots=True)
class Fuse:
    """The crash that is to come: before the how-many-th operation of the disk, or call to the store.

    With `aim` only those count that have it: the disk's in the operation, the store's in the name.
    """

    how: str  # "power" or "kill"
    at: str  # DISK or STORE
    left: int
    aim: str = ""


class Host:
    """The machine, and whichever broker runs on it. `store` is None where there is no tier."""

    def __init__(
        self, above: Above, seed: str, settings: Settings, limits: Limits, store: SimObjects | None, random: Random
    ):
        self.clock = MachineClock(above.timeline)
        self.disk = SimDirectory()
        self.fuse: Fuse | None = None
        self.running: SteppedRunning | None = None
        self.serving = False
        self.starts = 0
        self.loop: SimLoop | None = None
        self.refusing = 0.0  # how likely a sync fails
        self.short = 0.0  # how likely a write takes only some bytes
        self._synced = 0  # how far the journal said that it was, whenever it ended: also in the middle of a commit
        self._above = above
        self._seed = seed
        self._settings = settings
        self._limits = limits
        self._store = store
        self._random = random
        self._serving: Coroutine[Any, Any, None]

    # Starting

    def boot(self) -> None:
        """Start the broker's process."""
        assert self.loop is None, "one at a time"
        self.starts += 1
        name = f"{self._seed}/broker/{self.starts}"
        self.loop = loop = SimLoop(self._above.timeline, Random(f"{name}/threads"), self._above.complain)
        self.disk.watch = lambda operation, name: self._watch(loop, DISK, operation, aimed=operation)
        self.disk.faults = self._fail
        if self._store is not None:
            self._store.watch = lambda operation, name: self._watch(loop, STORE, operation, aimed=name)
        loop.call_soon(self._begin, loop, Random(name))

    def _begin(self, loop: SimLoop, random: Random) -> None:
        self._serving = self._serve(loop, random)
        loop.create_task(self._serving)

    async def _serve(self, loop: SimLoop, random: Random) -> None:
        above = self._above
        try:
            running = open_broker(
                self._settings,
                directory=self.disk,
                clock=self.clock,
                random=random,
                limits=self._limits,
                kind=SteppedRunning,
            )
            assert isinstance(running, SteppedRunning)
            self._check_synced(running)
            self.running = running
            if self._store is not None:
                claims = StoreClaims(self._store, self.clock, TERMS, lambda ms: self._wait(loop, ms))
                await running.use_tier(self._store, claims, "the broker")
        except Full:
            above.note("no room to start")
            self.disk.capacity_bytes = None  # an operator makes room
            self._give_up(loop)
            return
        except (Damaged, Locked) as error:
            above.complain(f"the broker does not start: {error}")
            return
        except (Unavailable, Owned, OSError):  # of the store, or of the disk: whoever started it tries again
            above.note("start refused")
            self._give_up(loop)
            return
        except CordwoodError as error:
            above.complain(f"the broker does not start: {error}")
            return
        handle = handler(running, clock=self.clock)
        occupancy = Occupancy(HTTP)
        above.network.listen(loop, lambda: Connection(handle, HTTP, occupancy))
        self.serving = True
        above.opened(running.broker.state)

    def _check_synced(self, running: SteppedRunning) -> None:
        """Whoever looks at a journal may rely on what it calls synced, at every moment: it is there."""
        assert running._journal is not None, "it is on a disk"
        end = running._journal.end
        check(end >= self._synced, f"the journal ends at {end}, and was said to be synced up to {self._synced}")

    def _wait(self, loop: SimLoop, duration_ms: int) -> None:
        """Let the others go on for a while: it is a thread that waits here."""
        timeline = self._above.timeline
        timeline.run(lambda: not loop.alive, timeline.now_us + duration_ms * 1000)
        if not loop.alive:
            raise PowerCut

    # Ending

    def fall(self, how: str, where: str = "between") -> None:
        """End the process: "kill", "power", or "lost", with which the disk goes, too."""
        loop = self.loop
        assert loop is not None, "it runs"
        self._let_go(loop)
        if how == "kill":
            self.disk = self.disk.after_kill()
        elif how == "power":
            capacity = self.disk.capacity_bytes
            self.disk = self.disk.image().after_power_cut(self._random)
            self.disk.capacity_bytes = capacity
        else:
            self.disk = SimDirectory()
            self._synced = 0
        # With a lost disk goes what was acknowledged and not in the store: so that it is known what anybody heard of,
        # answers that are on their way are lost, too.
        self._above.network.server_fell(silent=how != "kill", drop=how == "lost")
        self._above.fell(how, where)

    def _give_up(self, loop: SimLoop) -> None:
        """The process ended by itself."""
        self._let_go(loop)
        self.disk = self.disk.after_kill()
        self._above.network.server_fell(silent=False)
        self._above.fell("exit", "")

    def _let_go(self, loop: SimLoop) -> None:
        loop.end()
        if self.running is not None:
            assert self.running._journal is not None, "it is on a disk"
            self._synced = self.running._journal.synced
            self._above.ended(self.running)
        self.loop = self.running = self.fuse = None
        self.serving = False
        self.refusing = self.short = 0.0
        self._above.loop.call_soon(_bury, self._serving)

    def close(self, done: Callable[[], None]) -> None:
        """Stop the broker in an orderly way; `done` is called when it is."""
        loop, running = self.loop, self.running
        assert loop is not None and running is not None and self.serving
        self.serving = False
        self._above.network.deaf()

        async def stop() -> None:
            try:
                await running.close()
            except Unavailable:
                assert running._journal is not None, "it is on a disk"
                if running._journal.failure is None:
                    raise
                # Its disk failed in its last moment: it says so and ends, and leaves no mark.
            self._let_go(loop)
            self.disk = self.disk.after_kill()
            self._above.network.server_fell(silent=False)
            done()

        loop.call_soon(lambda: loop.create_task(stop()))

    @property
    def failed(self) -> bool:
        """Whether the journal no longer takes anything."""
        return self.running is not None and self.running.broker.failure is not None

    # Faults

    def fill(self, more_bytes: int) -> None:
        """Let the disk have room for so much more."""
        held = sum(len(inode.cache) for inode in self.disk._names.values())
        self.disk.capacity_bytes = held + more_bytes

    def free(self) -> None:
        """Make room on the disk."""
        self.disk.capacity_bytes = None

    def _watch(self, loop: SimLoop, at: str, operation: str, aimed: str) -> None:
        if not loop.alive:
            raise PowerCut
        fuse = self.fuse
        if fuse is not None and fuse.at == at and fuse.aim in aimed:
            fuse.left -= 1
            if not fuse.left:
                self.fall(fuse.how, phase(operation))
                raise PowerCut

    def _fail(self, operation: str, name: str, size: int) -> int | None:
        if self.short and operation == "write" and size > 1 and self._random.random() < self.short:
            self._above.note("short write")
            return self._random.randrange(1, size)
        if self.refusing and operation in ("sync", "write") and self._random.random() < self.refusing:
            self.refusing = 0.0
            self._above.note("failed sync" if operation == "sync" else "failed write")
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return None


def _bury(serving: Coroutine[Any, Any, None]) -> None:
    """End what a dead process was doing; else Python complains when it is thrown away."""
    with contextlib.suppress(BaseException):
        serving.throw(PowerCut())
    serving.close()


def check_done(state: State, topic: str, group: str, partition: int, offset: int) -> None:
    """A message that was acknowledged is done for its group."""
    found = state.topics.get(topic)
    check(found is not None and group in found.groups, f"the group {group} of {topic} is gone")
    assert found is not None
    known = found.groups[group]
    cursor = known.cursors.get(partition)
    check(
        offset < known.floor(partition) or (cursor is not None and offset in cursor.done),
        f"{topic}/{partition}@{offset} was acknowledged by {group}, and is not done",
    )
