"""One seed, one world: a broker with its tier, workers with their outboxes, clients, a network; everything fails.

    live      requests come and go; the broker's machine crashes again and again, and all else breaks now and then
    heal      the network is whole, the disks have room, the store is there; nothing new is begun
    drain     every outbox is sent, every message is acknowledged or a dead letter, every client is told
    judge     the whole log is read, from a broker that was started for that; all that was promised is there

One thread, one order of events, nothing of the real computer: the same seed gives the same world, byte for byte.
"""

import hashlib
from random import Random
from typing import Any

from cordwood.broker.state import State
from cordwood.drills.whole.consumers import Consumer, Reader, Row, rows_of
from cordwood.drills.whole.groups import Deliveries
from cordwood.drills.whole.host import Fuse, Host, check_done
from cordwood.drills.whole.producers import PARTITIONS, Client, Numbered, Plain
from cordwood.drills.whole.stepped import SteppedRunning
from cordwood.drills.whole.talk import NDJSON
from cordwood.drills.whole.tally import Tally
from cordwood.drills.whole.trouble import Troubles
from cordwood.drills.whole.truth import DEAD, Broken, Truth, check
from cordwood.drills.whole.worker import Worker
from cordwood.drills.whole.writers import Maker, Publisher, in_topic
from cordwood.journal.limits import Limits
from cordwood.settings import Settings
from cordwood.sim.loop import SimLoop, Timeline
from cordwood.sim.network import Network
from cordwood.sim.objects import SimObjects

LOG, EVENTS, PUBLISHED, MADE = "log", "events", "published", "made"
GROUPS = ((LOG, "shared"), (EVENTS, "ordered"))
CRASHES = 14  # of the broker in one world, about
MOST_CALLS = 150_000  # of all processes together; a world has some 4,000
STUCK_US = 100_000_000  # what is healed has settled after that, or never will


class Violation(AssertionError):
    """A promise was broken. The message says which, and the seed that shows it."""


def run_world(seed: int, crashes: int = CRASHES) -> Tally:
    """Live through one world. Raises `Violation`."""
    world = World(seed, crashes)
    try:
        return world.run()
    except Broken as broken:
        raise Violation(f"{broken} [seed {seed}]") from broken
    except Exception as error:
        raise Violation(f"{type(error).__name__}: {error} [seed {seed}]") from error


class World:
    """Everything there is."""

    def __init__(self, seed: int, crashes: int):
        self.random = random = Random(f"world {seed}")
        self.seed = f"{seed}"
        self.timeline = Timeline(MOST_CALLS)
        self.tally = Tally()
        self.truth = Truth()
        self.deliveries = Deliveries()
        self.quiet = False
        self.losses = 0
        self.large = 400
        self._complaints: list[BaseException | str] = []
        self._trace = hashlib.blake2b(digest_size=16)
        self._crashes = crashes
        self._finished = False
        self.loop = SimLoop(self.timeline, self.random_of("loop"), self.complain)
        self.network = Network(self.timeline, self.random_of("network"), self.note)
        tiered = random.random() < 0.7
        settings = Settings(
            cache_bytes=random.choice((0, 1_000, 1 << 20, 1 << 20)),
            max_message_bytes=self.large,
            lease_ms=random.choice((300, 700)),
            max_attempts=random.choice((3, 6)),
            backoff_ms=random.choice((0, 50)),
            max_backoff_ms=150,
            tier_object_bytes=random.choice((40, 200)),
            tier_interval_s=random.choice((2, 6)),
        )
        limits = Limits(
            segment_bytes=random.choice((4096, 8192)),
            max_batch_bytes=random.choice((600, 1 << 20)),
            used_again=4,
            open_files=3,
        )
        store = None
        if tiered:
            store = SimObjects(_Clock(self.timeline), self.random_of("store"))  # type: ignore[arg-type]
        self.store = store
        self.host = Host(self, self.seed, settings, limits, store, self.random_of("host"))
        self.workers = [
            Worker(self, self.seed, f"w{number}", EVENTS, self.random_of(f"w{number}"))
            for number in range(random.choice((1, 2)))
        ]
        self.reader = Reader(self, "reader", (LOG, EVENTS, PUBLISHED))
        self.maker = Maker(self, "maker", MADE)
        self.consumers = [
            Consumer(self, "c0", LOG, "shared", streams=False),
            Consumer(self, "c1", LOG, "shared", streams=random.random() < 0.4),
            Consumer(self, "c2", EVENTS, "ordered", streams=random.random() < 0.3),
        ]
        may_lose = tiered and random.random() < 0.06
        self.clients: list[Client] = [
            Numbered(self, "p0", LOG, 0),
            Numbered(self, "p1", LOG, 1),
            Plain(self, "s0", LOG),
            Publisher(self, "writer", PUBLISHED),
            self.reader,
            *([self.maker] if random.random() < 0.7 and not may_lose else []),
        ]
        self.troubles = Troubles(self, may_lose=may_lose)

    # What the others ask for

    def random_of(self, name: str) -> Random:
        """Return the chance of one client, machine or network: nobody's draws change another's."""
        return Random(f"{self.seed}/{name}")

    def note(self, what: str) -> None:
        """Count something that happened."""
        self.tally.happened[what] += 1
        self._trace.update(f"{self.timeline.now_us} {what}\n".encode())

    def complain(self, error: BaseException | str) -> None:
        """Hear of an error that nobody took."""
        self._complaints.append(error)

    def opened(self, state: State) -> None:
        """A broker serves: all that was acknowledged is there."""
        self.tally.openings += 1
        for topic in state.topics.values():
            for number, partition in enumerate(topic.partitions):
                self.truth.holes[(topic.name, number)] = list(partition.holes)
                if topic.name != MADE:
                    self.truth.check_ends(topic.name, number, partition.end)
        for key in self.deliveries.acked():
            check_done(state, *key)
        self.troubles.opened()

    def fell(self, how: str, where: str) -> None:
        """The broker's process is gone; its machine starts it again."""
        if how != "exit":
            self.tally.crashes += 1
            self.tally.phases[where] += 1
            self.note({"kill": "kill of the broker", "power": "power cut of the broker"}.get(how, "lost"))
            if where == "recovery":
                self.note("crash during recovery")
        self.loop.after_us(self.random.choice((1_000, 20_000, 150_000)), self._boot)

    def _boot(self) -> None:
        if self.host.loop is None:
            if not self.quiet and self.tally.crashes >= self._crashes:
                self._heal()
            self.troubles.before_boot()
            self.host.boot()

    def worker_fell(self, worker: Worker, how: str, where: str) -> None:
        """A worker's process is gone; another one is started."""
        self.tally.worker_crashes += 1
        self.tally.phases[where] += 1
        self.note("kill of a worker" if how == "kill" else "power cut of a worker")
        self.loop.after_us(self.random.choice((1_000, 200_000)), self._boot_worker, worker)

    def _boot_worker(self, worker: Worker) -> None:
        if worker.loop is None:
            worker.stuck = self.losses > 0
            self.troubles.before_worker(worker)
            worker.boot()

    def lose_disk(self) -> None:
        """The broker's disk is gone; what the store has is left."""
        running = self.host.running
        assert running is not None
        kept = {
            (topic.name, number): partition.tiered
            for topic in running.broker.state.topics.values()
            for number, partition in enumerate(topic.partitions)
        }
        self.losses += 1
        self.truth.lose(kept)
        self.deliveries.forget()
        for worker in self.workers:
            worker.stuck = True
        self.note("disk of the broker lost")
        self.host.fall("lost")

    def ended(self, running: SteppedRunning) -> None:
        """Count what a broker did that is over."""
        if running.broker.counts.objects:
            self.note("object shipped")
        if running._journal is not None and running._journal.first > 0:
            self.note("segment released")

    # A life

    def run(self) -> Tally:
        """Live, heal, drain and judge."""
        self.host.boot()
        self.loop.call_soon(lambda: self.loop.create_task(self._begin()))
        self._until(lambda: self._finished, STUCK_US * 10)
        if not self._finished:
            raise Broken(f"nothing goes on: {self._stuck()}")
        self.tally.messages = len(self.truth.seen)
        self.tally.trace = self._trace.hexdigest()
        self.tally.close()
        return self.tally

    def _until(self, done: Any, until_us: int) -> None:
        complaints = self._complaints
        self.timeline.run(lambda: bool(complaints) or done(), until_us)
        for complaint in complaints:
            if isinstance(complaint, Exception):
                raise complaint
            raise Broken(f"an error that nobody took: {complaint!r}")

    async def _begin(self) -> None:
        for name in (LOG, EVENTS, PUBLISHED):
            await self.maker._surely("POST", "/v1/topics", in_topic(name, PARTITIONS), (200, 201))
        for topic, group in GROUPS:
            body = b'{"mode":"ordered"}' if group == "ordered" else b"{}"
            await self.maker._surely("PATCH", f"/v1/groups/{topic}/{group}", body, (200, 201))
        for client in (*self.clients, *self.consumers):
            self.loop.create_task(client.run())
        for worker in self.workers:
            worker.boot()
        self.troubles.begin()

    def _heal(self) -> None:
        """Let everything be well, and nothing new begin."""
        self.quiet = True
        self.troubles.end()
        self._drains_since_us = self.timeline.now_us
        self.loop.after_us(100_000, lambda: self.loop.create_task(self._drain()))

    async def _drain(self) -> None:
        sleep = self.reader.sleep_ms
        while not self._settled():
            self._hurry()
            for worker in self.workers:
                if worker.loop is not None and not worker.settled and self.random.random() < 0.02:
                    worker.fall("kill")  # what an earlier process could not put away, the next one can
            await sleep(100)
        while not await self._done():
            self._hurry()
            await sleep(200)
        for consumer in self.consumers:
            consumer.drained = True
        while not all(consumer.idle for consumer in self.consumers):
            await sleep(100)
        await self._judge()
        self._finished = True

    def _hurry(self) -> None:
        if self.timeline.now_us - self._drains_since_us >= STUCK_US:
            raise Broken(f"nothing goes on: {self._stuck()}")

    def _settled(self) -> bool:
        return (
            self.host.serving
            and all(client.idle for client in self.clients)
            and all(worker.settled for worker in self.workers)
        )

    async def _done(self) -> bool:
        """Whether no group has anything left to do."""
        for topic, group in GROUPS:
            reply = await self.reader.ask("GET", f"/v1/groups/{topic}/{group}")
            if reply is None or reply.status != 200:
                return False
            found = reply.json()
            if any(one["lag"] for one in found["partitions"]):
                return False
        return True

    def _stuck(self) -> str:
        running = self.host.running
        lags = []
        if running is not None:
            for topic, group in GROUPS:
                found = running.broker.state.topics[topic]
                for number, one in enumerate(found.partitions):
                    known = found.groups[group]
                    cursor = known.cursors.get(number)
                    done = None if cursor is None else list(cursor.done)
                    lags.append((topic, group, number, known.floor(number), done, one.end))
        waits = [client.name for client in (*self.clients, *self.consumers) if not client.idle]
        errors = [
            (worker.name, worker.loop is not None, list(worker.logs), [one.error for one in worker._deliveries])
            for worker in self.workers
        ]
        broker = f"serving {self.host.serving}, failed {self.host.failed}"
        return f"{broker}, waiting {waits}, groups {lags}, workers {errors}"

    # The judgement

    async def _judge(self) -> None:
        """Read everything from a broker that has just started, and compare."""
        closed = self.loop.create_future()
        if self.random.random() < 0.5:
            self.host.close(lambda: closed.set_result(None))
            await closed
            self.host.boot()
        else:
            self.host.fall("kill")
        while not self.host.serving:
            await self.reader.sleep_ms(50)
        topics = [LOG, EVENTS, PUBLISHED]
        contents = {topic: await self._contents(topic) for topic in topics}
        for topic, found in contents.items():
            self.truth.check_log(topic, found)
        if self.maker.there:
            self.truth.check_log(MADE, {0: await self._read(MADE, 0)})
            topics.append(MADE)
        self.truth.check_promised(topics)
        for topic, group in GROUPS:
            await self._judge_dead(topic, group)
            self.deliveries.check_all(topic, group, contents[topic])
        for value, sent in self.truth.sent.items():
            if sent.line.startswith("w") and sent.promised and value in self.truth.place:
                self.note("outbox event stored")
                break

    async def _contents(self, topic: str) -> dict[int, list[tuple[int, str]]]:
        return {number: await self._read(topic, number) for number in range(PARTITIONS)}

    async def _read(self, topic: str, partition: int) -> list[tuple[int, str]]:
        rows = await self.reader.read(topic, partition, 0)
        while rows is None:
            rows = await self.reader.read(topic, partition, 0)
        self._trace.update(repr(rows).encode())
        return [(row.offset, row.value) for row in rows]

    async def _judge_dead(self, topic: str, group: str) -> None:
        """A dead letter is there once, says where it comes from, and had its attempts."""
        reply = await self.reader.ask("GET", f"/v1/read?topic={DEAD}{topic}&offset=0", accept=NDJSON)
        if reply is None or reply.status != 200:
            check(reply is not None and reply.status == 404, f"the dead letters cannot be read: {reply}")
            return
        for row in rows_of(NDJSON, reply.body):
            self._dead(topic, group, row)

    def _dead(self, topic: str, group: str, row: Row) -> None:
        said = row.headers
        check(said["cordwood-topic"] == topic and said["cordwood-group"] == group, f"a strange dead letter: {row}")
        key = (topic, group, int(said["cordwood-partition"]), int(said["cordwood-offset"]))
        check(key not in self.deliveries.dead or self.losses, f"{key} is a dead letter twice")
        self.deliveries.dead.add(key)
        there = self.truth.seen.get((topic, key[2], key[3]))
        check(there == row.value or (there is None and self.losses), f"the dead letter {row} is {there!r} at {key}")
        self.note("dead letter")


class _Clock:
    """The store's own clock."""

    def __init__(self, timeline: Timeline):
        self._timeline = timeline

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self._timeline.now_us // 1000

    def monotonic_ms(self) -> int:
        return self._timeline.now_us // 1000


__all__ = ["Fuse", "Violation", "World", "run_world"]
