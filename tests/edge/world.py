"""A pretended world for the sender: a broker that numbers as the contract says, a wire that breaks, a clock."""

from collections import defaultdict, deque
from random import Random

from cordwood.edge.answer import STORED, Answer, Means
from cordwood.edge.batch import Batch, partition_of
from cordwood.edge.delivery import Delivery, Terms
from cordwood.edge.event import Draft, Event
from cordwood.edge.facts import VERSION, Begun
from cordwood.edge.log import Log
from cordwood.edge.sender import Sender
from cordwood.journal.limits import Limits
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory

SMALL = Limits(segment_bytes=8 << 10, max_batch_bytes=64 << 10, spares=2, used_again=3, open_files=4)


class PretendedBroker:
    """Stores numbered batches: a repeat is not stored again, a gap is a conflict, a higher epoch begins at 0."""

    numbered = True

    def __init__(self, clock: SimClock, random: Random, partitions: int = 1):
        self.clock, self.random = clock, random
        self.stored: dict[int, list[Event]] = defaultdict(list)
        self.bad: set[bytes] = set()  # values that it never takes
        self.down_until_ms = 0
        self.trouble = 0.0  # how often the wire breaks at a step
        self.refuse: deque[Answer] = deque()  # answers it gives before it takes anything
        self.requests = 0
        self.tries_at_ms: list[int] = []
        self._partitions = partitions
        self._next: dict[tuple[str, int], tuple[int, int]] = {}  # (epoch, next sequence)
        self._answers: deque[Answer] = deque()

    def forget_producers(self) -> None:
        self._next.clear()

    def partitions(self, topic: str) -> int:
        self._reach()
        return self._partitions

    def _reach(self) -> None:
        if self.clock.monotonic_ms() < self.down_until_ms:
            self.tries_at_ms.append(self.clock.monotonic_ms())
            raise ConnectionRefusedError("nobody is there")
        if self.random.random() < self.trouble:
            raise ConnectionResetError("the wire broke")

    def connect(self) -> None:
        self._reach()

    def numbers(self, batch: Batch) -> dict[int, int] | None:
        self._reach()
        found = {place: self._next.get((batch.producer, place), (batch.epoch, 0)) for place in batch.counts}
        if any(epoch > batch.epoch for epoch, _ in found.values()):
            return None
        return {place: following if epoch == batch.epoch else 0 for place, (epoch, following) in found.items()}

    def send(self, batch: Batch) -> None:
        self._reach()
        self.requests += 1
        self._answers.append(self._store(batch))
        self._reach()

    def receive(self) -> Answer:
        self._reach()
        return self._answers.popleft()

    def close(self) -> None:
        self._answers.clear()

    def _store(self, batch: Batch) -> Answer:
        if self.refuse:
            return self.refuse.popleft()
        events = batch.events()
        if any(event.value in self.bad for event in events):
            return Answer(Means.BAD, "400: not this one")
        places: dict[int, list[Event]] = defaultdict(list)
        for event in events:
            places[partition_of(event.key, batch.partitions)].append(event)
        assert {place: len(rows) for place, rows in places.items()} == batch.counts
        numbers = batch.numbers
        fresh = []
        for place, rows in places.items():
            epoch, expected = self._next.get((batch.producer, place), (batch.epoch, 0))
            if batch.epoch < epoch:
                return Answer(Means.CONFLICT, "409: the epoch is over", 0, epoch)
            expected = expected if epoch == batch.epoch else 0
            first = numbers[place]
            if first == expected:
                fresh.append((place, rows, first))
            elif first + len(rows) > expected:
                return Answer(Means.CONFLICT, f"409: {expected} comes next, not {first}", 0, epoch)
        for place, rows, first in fresh:
            self.stored[place] += rows
            self._next[batch.producer, place] = (batch.epoch, first + len(rows))
        return STORED


class World:
    """One outbox on a pretended disk, its sender, and the broker; a crash makes them anew."""

    def __init__(self, seed: int, partitions: int = 1, terms: Terms | None = None, producer: str = "producer-1"):
        self.random = Random(seed)
        self.producer = producer
        self.clock = SimClock()
        self.broker = PretendedBroker(self.clock, self.random, partitions)
        self.terms = terms or Terms(batch_events=7, batch_bytes=4 << 10, window=4, linger_ms=50)
        self.disk = SimDirectory()
        self.appended = 0
        self.open()

    def open(self) -> None:
        begun = Begun(VERSION, "job/1", "t", self.producer, self.clock.now_ms())
        self.log = Log(self.disk, self.clock, self.random, begun=begun, limits=SMALL)
        self.delivery = Delivery(self.log, self.terms, self.random.random)
        self.sender = Sender(self.broker, self.clock, self.random.random)
        self.sender.add(self.delivery)

    def append(self, *values: bytes, key: bytes | None = None) -> None:
        self.log.append([Draft(self.clock.now_ms() * 1000, key, value, None) for value in values])
        self.appended += len(values)

    def run(self, *, most_turns: int = 100_000, until_ms: int | None = None) -> None:
        """Take turns until everything is settled; time passes as the sender waits."""
        for _ in range(most_turns):
            wait = self.sender.turn()
            if not self.delivery.pending and self.delivery.idle:
                return
            if until_ms is not None and self.clock.monotonic_ms() >= until_ms:
                return
            self.clock.pass_ms(wait)
        raise AssertionError(f"not settled after {most_turns} turns: {self.delivery.error}")

    def values(self, partition: int = 0) -> list[bytes | None]:
        return [event.value for event in self.broker.stored[partition]]
