"""Consumers: polls and streams, what they get, and what they say about it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from cordwood.broker.broker import Broker
from cordwood.broker.history import Away
from cordwood.broker.starts import Start
from cordwood.drills.broker_model import deliveries, requests, settling
from cordwood.drills.broker_model.asked import Asked
from cordwood.drills.broker_model.draw import OWNERS, Draw
from cordwood.drills.broker_model.hands import Consumer
from cordwood.drills.broker_model.model import Model
from cordwood.drills.broker_model.rows import delivered
from cordwood.errors import CordwoodError

Ask = Callable[[Asked, Callable[[Callable[[Any], None]], object]], None]


class Consumers:
    """All who consume from one broker, from its opening to its end."""

    def __init__(self, draw: Draw, model: Model, broker: Broker, ask: Ask):
        self.draw = draw
        self.random = draw.random
        self.model = model
        self.broker = broker
        self.ask = ask
        self.all: list[_Consuming] = []
        self.acks: list[Asked] = []

    def _consumer(self, *, streams: bool) -> Consumer:
        random = self.random
        topic = self.draw.topic()
        return Consumer(
            topic,
            self.draw.group(topic),
            random.choice(OWNERS),
            random.choice((50, 300, 1_000)),
            1_000 if streams else random.choice((1, 1, 2, 3, 10)),
            wait_ms=0 if streams else random.choice((0, 0, 20, 500)),
            most=random.choice((1, 2, 10)) if streams else None,
        )

    def lease(self) -> None:
        """Ask for one batch."""
        consumer = self._consumer(streams=False)
        place = self.draw.place(consumer.topic)
        asked = Asked("lease", lambda: requests.consume(self.model, consumer, place), silent=True)
        consuming = _Consuming(self.model, consumer, asked)
        self.model.ask(asked)
        consuming.leave = self.broker.lease(
            consumer.topic,
            consumer.group,
            consuming.then,
            owner=consumer.owner,
            start=Start(*place),
            max_messages=consumer.max_messages,
            max_bytes=self.random.choice((8 << 20, 8 << 20, 1, 60)),
            wait_ms=consumer.wait_ms,
            lease_ms=consumer.lease_ms,
        )
        self.model.end(asked)
        self.all.append(consuming)

    def consume(self) -> None:
        """Open a stream."""
        consumer = self._consumer(streams=True)
        place = self.draw.place(consumer.topic)
        plan = partial(requests.consume, self.model, consumer, place)
        asked = Asked("consume", plan, level=None, waits=False, silent=True)
        consuming = _Consuming(self.model, consumer, asked)
        self.model.ask(asked)
        try:
            consuming.more, consuming.leave = self.broker.consume(
                consumer.topic,
                consumer.group,
                consuming.then,
                owner=consumer.owner,
                start=Start(*place),
                lease_ms=consumer.lease_ms,
                max_in_flight=consumer.most,
            )
            self.all.append(consuming)
        except Away as away:
            self.model.take_back(asked)  # it comes again, when what it needs is here
            self.broker.bring(away.wanted, lambda error: None)
            return
        except CordwoodError as error:
            self.model.answer(asked, error)
        self.model.end(asked)

    def more(self) -> None:
        """Let streams that have their last delivery ask for the next."""
        for consuming in self.all:
            if consuming.more is not None and not consuming.consumer.closed and not consuming.consumer.waiting:
                deliveries.join(self.model, consuming.consumer)
                consuming.more()

    def close(self) -> None:
        """Close a stream: its messages come back at once, and their attempts count."""
        self._go([consuming for consuming in self.all if consuming.more is not None])

    def cancel(self) -> None:
        """Take a poll back that waits."""
        self._go([consuming for consuming in self.all if consuming.more is None])

    def _go(self, some: "list[_Consuming]") -> None:
        # Who may have something on its way stays until all know who that is for, or nobody could tell afterwards.
        some = [c for c in some if not c.consumer.closed and self.model.hands.known(c.consumer)]
        if some:
            gone = self.random.choice(some)
            gone.asked.cancelled = gone.consumer.closed = gone.consumer.left = True
            deliveries.leave(self.model, gone.consumer)
            gone.leave()

    def check_turned_away(self) -> None:
        """Every consumer knows that it is over."""
        for consuming in self.all:
            closed = consuming.consumer.closed
            self.model.check(closed, f"{consuming.consumer} waits for ever after the journal failed")

    # What they say

    def _chosen(self) -> tuple[str, str, int, list[int], str | None]:
        """Return messages to say something about: mostly those that somebody has, said by who has them."""
        random = self.random
        got = [c.consumer for c in self.all if any(c.consumer.got)]
        if got and random.random() < 0.85:
            consumer = random.choice(got[-6:])
            places = random.choice([places for places in consumer.got if places])
            partition = random.choice(places)[0]
            offsets = [offset for number, offset in places if number == partition]
            if random.random() < 0.6:
                offsets = random.sample(offsets, random.randrange(1, len(offsets) + 1))
            owner = consumer.owner if random.random() < 0.9 else random.choice((None, *OWNERS))
            return consumer.topic, consumer.group, partition, offsets, owner
        known = [(name, group) for name, topic in self.model.world.topics.items() for group in topic.groups]
        topic, group = random.choice(known) if known and random.random() < 0.97 else ("jobs", "mail")
        partition = self.draw.partition(topic)
        return topic, group, partition, self.draw.offsets(topic, partition), random.choice((None, None, *OWNERS))

    def ack(self) -> None:
        topic, group, partition, offsets, owner = self._chosen()
        asked = Asked("ack", lambda: settling.ack(self.model, topic, group, partition, offsets, owner))
        self.acks.append(asked)
        ranges = ranges_of(offsets)
        self.ask(asked, lambda then: self.broker.ack(topic, group, partition, ranges, then, owner=owner))

    def nack(self) -> None:
        topic, group, partition, offsets, owner = self._chosen()
        delay_ms = self.random.choice((None, None, 0, 30, 400))
        reason = self.random.choice(("", "boom", "bang"))
        asked = Asked(
            "nack", lambda: settling.nack(self.model, topic, group, partition, offsets, owner, reason, delay_ms)
        )
        self.ask(
            asked,
            lambda then: self.broker.nack(
                topic, group, partition, ranges_of(offsets), then, owner=owner, reason=reason, delay_ms=delay_ms
            ),
        )

    def extend(self) -> None:
        topic, group, partition, offsets, owner = self._chosen()
        lease_ms = self.random.choice((None, 0, 0, 100, 2_000))
        if lease_ms != 0 and self._unclear(topic, group, partition, offsets):
            owner = None
        asked = Asked(
            "extend", lambda: settling.extend(self.model, topic, group, partition, offsets, owner, lease_ms)
        )
        self.ask(
            asked,
            lambda then: self.broker.extend(
                topic, group, partition, ranges_of(offsets), then, owner=owner, lease_ms=lease_ms
            ),
        )

    def _unclear(self, topic: str, group: str, partition: int, offsets: list[int]) -> bool:
        """Say whether nobody outside can know who will hold these when the request is run."""
        hand = self.model.hands.groups.get((topic, group))
        leases = [hand.leases.get((partition, offset)) for offset in offsets] if hand is not None else []
        return bool(self.model.backlog) or any(lease is not None and len(lease.owners) > 1 for lease in leases)


class _Consuming:
    """A consumer, with what takes it back."""

    def __init__(self, model: Model, consumer: Consumer, asked: Asked):
        self.model = model
        self.consumer = consumer
        self.asked = asked
        self.leave: Callable[[], None] = lambda: None
        self.more: Callable[[], None] | None = None

    def then(self, result: Any) -> None:
        """Take what the broker hands over, and let the model see it."""
        if isinstance(result, CordwoodError):
            if not self.asked.ready or isinstance(self.asked.answer, CordwoodError):
                self.model.answer(self.asked, result)
                self.consumer.closed = True
            else:
                deliveries.turn_away(self.model, self.consumer, result)
            return
        self.model.catch_up(self.asked)
        if result:
            deliveries.accept(self.model, self.consumer, delivered(result))
        else:
            deliveries.go_empty(self.model, self.consumer)


def ranges_of(offsets: list[int]) -> list[tuple[int, int]]:
    """Return offsets as ranges, in the order given; neighbours become one."""
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return ranges
