"""What goes wrong when: drawn from the seed, on the world's own time."""

from typing import Any, Protocol

from cordwood.drills.whole.host import DISK, STORE, Fuse, Host
from cordwood.drills.whole.worker import Worker
from cordwood.sim.loop import SimLoop, Timeline
from cordwood.sim.network import Network, Trouble
from cordwood.sim.objects import SimObjects, Weather
from cordwood.tier.leftovers import TOMBSTONE

POWER_SHARE = 0.6  # of the crashes; the others are kills
RECOVERY_SHARE = 0.25  # of the starts that do not come to their end
LONGEST_US = 700_000  # a fuse that nothing burns down by then is a crash between two operations


class Above(Protocol):
    """What troubles are made of."""

    timeline: Timeline
    loop: SimLoop
    network: Network
    host: Host
    workers: list[Worker]
    store: SimObjects | None
    quiet: bool

    def random_of(self, name: str) -> Any:
        """Return the chance of one thing."""

    def note(self, what: str) -> None:
        """Count something that happened."""

    def lose_disk(self) -> None:
        """Let the broker's disk be gone."""

    def fell(self, how: str, where: str) -> None:
        """Count a crash."""


class Troubles:
    """The troubles of one world, until `end`."""

    def __init__(self, above: Above, *, may_lose: bool):
        self._above = above
        self._random = above.random_of("trouble")
        self._may_lose = may_lose
        self._over = False
        self._begun = False
        self._lives = 0

    # The broker

    def before_boot(self) -> None:
        """A broker is about to start; it may not get far."""
        if not self._over and self._random.random() < RECOVERY_SHARE:
            self._above.host.fuse = Fuse(self._how(), DISK, self._random.randrange(1, 30))
        elif not self._over and self._above.store is not None and self._random.random() < 0.08:
            self._above.host.fuse = Fuse(self._how(), STORE, self._random.randrange(1, 12))

    def before_worker(self, worker: Worker) -> None:
        """A worker is about to start; the same."""
        if not self._over and self._random.random() < 0.15:
            worker.fuse = ("power" if self._random.random() < 0.6 else "kill", self._random.randrange(1, 25))

    def opened(self) -> None:
        """A broker serves; draw how it ends."""
        if self._over:
            return
        random, host = self._random, self._above.host
        self._lives += 1
        chance = random.random()
        after_us = random.randrange(LONGEST_US)
        # Not before the topics are made: a broker that starts with them puts a snapshot of them before it serves.
        if self._may_lose and self._begun and chance < 0.1:
            self._above.loop.after_us(after_us, self._lose, self._lives)
            return
        if chance < 0.12:
            self._above.loop.after_us(after_us, self._stop, self._lives)
        elif self._buries() and chance < 0.4:
            host.fuse = Fuse(self._how(), STORE, random.randrange(1, 3), aim=TOMBSTONE)
        elif chance < 0.52:
            aim = random.choice(("", "", "", "", "", "rename", "directory"))
            most = random.choice((10, 45)) if not aim else 4
            host.fuse = Fuse(self._how(), DISK, random.randrange(1, most), aim=aim)
        elif chance < 0.75 and self._above.store is not None:
            aim = random.choice(("", ".parquet", ".parquet", ".snapshot"))
            host.fuse = Fuse(self._how(), STORE, random.randrange(1, 25 if not aim else 4), aim=aim)
        self._above.loop.after_us(max(after_us, LONGEST_US // 3), self._end_life, self._lives)

    def _buries(self) -> bool:
        """Whether the broker is about to delete what is left of a topic."""
        running = self._above.host.running
        return self._above.store is not None and running is not None and bool(running.broker.state.graves)

    def _how(self) -> str:
        return "power" if self._random.random() < POWER_SHARE else "kill"

    def _end_life(self, life: int) -> None:
        host = self._above.host
        if life == self._lives and host.loop is not None and not self._over:
            host.fall(self._how())

    def _lose(self, life: int) -> None:
        if life == self._lives and self._above.host.serving and not self._over:
            self._may_lose = False
            self._above.lose_disk()

    def _stop(self, life: int) -> None:
        above = self._above
        if life == self._lives and above.host.serving and not self._over and not above.host.failed:
            above.note("clean stop of the broker")
            if self._random.random() < 0.3:
                above.host.fuse = Fuse(self._how(), DISK, self._random.randrange(1, 12))
            above.host.close(lambda: above.fell("exit", ""))

    # Everything else

    def begin(self) -> None:
        """Begin with it: everybody is there."""
        self._begun = True
        self._above.loop.after_us(100_000, self._next)

    def end(self) -> None:
        """Let everything be well from now on."""
        above = self._above
        self._over = True
        above.network.heal()
        above.host.free()
        above.host.clock.put_right()
        above.host.fuse = None
        above.host.refusing = above.host.short = 0.0
        for worker in above.workers:
            worker.fill(False)
            worker.fuse = None
            worker.refusing = 0.0
        if above.store is not None:
            above.store.weather = Weather()
            above.store.outage_until_ms = 0

    def _next(self) -> None:
        if self._over:
            return
        random, above = self._random, self._above
        random.choice(
            (
                self._wires,
                self._wires,
                self._partition,
                self._clock,
                self._worker,
                self._worker,
                self._worker,
                self._disk,
                self._disk,
                self._store,
                self._store,
            )
        )()
        if above.host.failed:
            above.loop.after_us(100_000, self._end_life, self._lives)  # somebody starts it again
        above.loop.after_us(random.choice((20_000, 100_000, 400_000, 800_000)), self._next)

    def _wires(self) -> None:
        likely = self._random.choice((0.0, 0.03, 0.15))
        self._above.network.trouble = Trouble(*(likely * self._random.random() for _ in range(4)))

    def _partition(self) -> None:
        names = ["p0", "s0", "writer", "c0", "c1", "c2", "reader", *(worker.name for worker in self._above.workers)]
        length_us = self._random.choice((100_000, 1_000_000, 5_000_000))
        self._above.network.cut_off(self._random.choice(names), self._above.timeline.now_us + length_us)
        self._above.note("partition")

    def _clock(self) -> None:
        clock = self._random.choice((self._above.host, *self._above.workers)).clock
        jump_ms = self._random.choice((-30_000, -1_000, -50, 50, 1_000, 30_000))
        clock.jump_ms(jump_ms)
        self._above.note("clock set back" if jump_ms < 0 else "clock set forward")

    def _worker(self) -> None:
        random = self._random
        worker = random.choice(self._above.workers)
        chance = random.random()
        if worker.loop is None:
            return
        if chance < 0.15:
            worker.fall("power" if random.random() < 0.5 else "kill")
        elif chance < 0.65:
            worker.fuse = ("power" if random.random() < 0.7 else "kill", random.randrange(1, 20))
        elif chance < 0.75:
            worker.refusing = 0.3
        elif chance < 0.9:
            self._above.note("disk of a worker full")
            worker.fill(True)
        else:
            worker.fill(False)

    def _disk(self) -> None:
        random, above, host = self._random, self._above, self._above.host
        chance = random.random()
        if chance < 0.3:
            above.note("disk full")
            host.fill(random.choice((0, 2_000)))
            above.loop.after_us(random.choice((50_000, 500_000)), self._free)
        elif chance < 0.6:
            host.short = 0.2
        elif chance < 0.75 and host.serving:
            host.refusing = 0.3
        else:
            host.short = 0.0

    def _free(self) -> None:
        self._above.note("disk freed")
        self._above.host.free()

    def _store(self) -> None:
        random, above, store = self._random, self._above, self._above.store
        if store is None:
            return
        chance = random.random()
        likely = random.choice((0.03, 0.15))
        if above.host.loop is not None:
            above.host.loop.slow = 1
        if chance < 0.3:
            store.weather = Weather()
        elif chance < 0.45:
            above.note("store outage")
            store.outage_until_ms = above.timeline.now_us // 1000 + random.choice((50, 500, 3_000))
        elif chance < 0.6:
            above.note("put failed")
            store.weather = Weather(fail_before=likely)
        elif chance < 0.75:
            above.note("lost answer of the store")
            store.weather = Weather(fail_after=likely)
        elif chance < 0.85:
            above.note("put done late")
            store.weather = Weather(fail_late=likely, late_ms=2_000)
        else:
            above.note("slow store")
            if above.host.loop is not None:
                above.host.loop.slow = 30
