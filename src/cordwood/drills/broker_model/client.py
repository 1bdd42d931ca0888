"""Whoever uses the broker: asks the next thing, drawn at random, and lets the model see question and answer."""

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from random import Random
from typing import Any, TypeVar

import msgspec

from cordwood.broker import ops
from cordwood.broker.broker import Broker
from cordwood.broker.history import Away
from cordwood.broker.starts import Start
from cordwood.drills.broker_model import intake, requests, settling
from cordwood.drills.broker_model.answers import plain
from cordwood.drills.broker_model.asked import Asked
from cordwood.drills.broker_model.consumers import Consumers, ranges_of
from cordwood.drills.broker_model.deliveries import check_dismissed
from cordwood.drills.broker_model.draw import GROUPS, TOPICS, Draw, Wanted
from cordwood.drills.broker_model.facts import Message, Number
from cordwood.drills.broker_model.model import Model
from cordwood.drills.broker_model.rows import messages_of, records_of
from cordwood.drills.broker_model.world import DEAD
from cordwood.errors import CordwoodError, NotFound
from cordwood.wire import message as wire

T = TypeVar("T")
PRODUCERS = ("p1", "p2")
WRITERS = ("w1", "w2")
READER = "r1"

WEIGHTS = {
    "produce": 9,
    "produce_one": 8,
    "produce_numbered": 7,
    "produce_over_partitions": 5,
    "produce_keyed": 5,
    "stage": 5,
    "publish": 4,
    "consumers.lease": 16,
    "consumers.consume": 4,
    "consumers.more": 2,
    "consumers.close": 4,
    "consumers.cancel": 2,
    "consumers.ack": 13,
    "consumers.nack": 11,
    "consumers.extend": 4,
    "seek": 2,
    "set_group": 3,
    "delete_group": 0.5,
    "create_topic": 1,
    "set_topic": 1,
    "delete_topic": 0.7,
    "redrive": 5,
    "put_reader": 1,
    "delete_reader": 0.3,
    "look": 4,
    "read": 3,
}
_BOUNDS = list(accumulate(WEIGHTS.values()))


class Client:
    """Asks one broker, from its opening to its end."""

    def __init__(self, random: Random, model: Model, broker: Broker):
        self.random = random
        self.model = model
        self.broker = broker
        self.draw = Draw(random, model)
        self.consumers = Consumers(self.draw, model, broker, self._ask)
        self._kinds: list[Callable[[], None]] = [
            getattr(self.consumers, kind.removeprefix("consumers.")) if "." in kind else getattr(self, kind)
            for kind in WEIGHTS
        ]

    def step(self) -> None:
        """Ask one thing."""
        self.random.choices(self._kinds, cum_weights=_BOUNDS)[0]()

    def begin(self) -> None:
        """Make something to work on."""
        self._create("jobs", self.random.choice((None, 1, 2, 3)), self.draw.topic_terms())
        for group in GROUPS:
            if self.random.random() < 0.5:
                self._set("jobs", group, self.draw.group_terms())
        for _ in range(self.random.randrange(4)):
            self.produce()

    def waiting(self) -> list[Asked]:
        """Return everything that was asked and has no answer."""
        model = self.model
        gathered = [asked for asked, *_ in model.gathered if asked is not None]
        held = [asked for waiting in model.held.values() for asked in waiting]
        return [asked for asked in [*model.running, *model.backlog, *gathered, *held] if not asked.cancelled]

    def _ask(self, asked: Asked, call: Callable[[Callable[[Any], None]], object]) -> None:
        """Ask the broker, with the model looking on."""
        model = self.model

        def then(result: Any) -> None:
            model.answer(asked, plain(result))

        model.ask(asked)
        try:
            call(then)
        except CordwoodError as error:
            then(error)
        model.end(asked)

    # Topics

    def create_topic(self) -> None:
        self._create(self.random.choice(TOPICS), self.random.choice((None, 1, 2, 3)), self.draw.topic_terms())

    def _create(self, name: str, partitions: int | None, terms: dict[str, Any]) -> None:
        self._unlimited(terms)
        asked = Asked(f"create {name}", lambda: requests.create_topic(self.model, name, partitions, terms))
        self._ask(asked, lambda then: self.broker.create_topic(name, partitions, dict(terms), then))

    def set_topic(self) -> None:
        name, changes = self.draw.topic(), self.draw.topic_terms()
        self._unlimited(changes)
        if self.random.random() < 0.3:
            changes = dict.fromkeys(changes)
        asked = Asked(f"set {name}", lambda: requests.set_topic(self.model, name, changes))
        self._ask(asked, lambda then: self.broker.set_topic(name, changes, then))

    def delete_topic(self) -> None:
        """Delete a topic; often it is made again at once, with as many partitions or with others."""
        if self._open_ended():
            return
        name = self.draw.topic(dead=0.4)
        asked = Asked(f"delete {name}", lambda: requests.delete_topic(self.model, name))
        self._ask(asked, lambda then: self.broker.delete_topic(name, then))
        check_dismissed(self.model)
        if name in TOPICS and self.random.random() < 0.5:
            self._create(name, self.random.choice((None, 1, 2, 3)), self.draw.topic_terms())
            if self.random.random() < 0.5:
                self.consumers.lease()

    def _unlimited(self, terms: dict[str, Any]) -> None:
        """Leave a limit out while messages wait of which nobody knows where they go, and so whether they fit."""
        if self._open_ended() or self.model.backlog:
            terms.pop("max_buffered_messages", None)

    def _open_ended(self) -> bool:
        """Say whether messages are gathered of which nobody hears, or hears where they go only when they are there.

        What becomes of those must not depend on anything else, or nobody could tell.
        """
        return any(asked is None or message["partition"] is None for asked, _, _, message in self.model.gathered)

    # Messages in

    def produce(self) -> None:
        name = self.draw.topic(dead=0)
        # A request without messages waits for nothing, so nobody can tell when it is run.
        least = 0 if name in self.model.world.topics and not self.model.backlog else 1
        self._produce(name, self.draw.messages(name, least=least), qos=0 if self.random.random() < 0.1 else 1)

    def produce_numbered(self) -> None:
        """Send the next batch of a producer, or one that was sent before, or one that cannot be."""
        random, draw = self.random, self.draw
        name = draw.topic(dead=False)
        partition = random.randrange(draw.partitions(name))
        wanted: Wanted = [(partition, draw.message()) for _ in range(random.choice((1, 1, 2, 3)))]
        if random.random() < 0.03:
            wanted.append((draw.partition(name), draw.message()))
        producer = random.choice(PRODUCERS)
        topic = self.model.world.topics.get(name)
        known = topic.logs[partition].producers.get(producer) if topic is not None else None
        epoch = known.epoch if known is not None else 0
        following = len(known.offsets) if known is not None else 0
        chance = random.random()
        if chance < 0.08:
            epoch, following = epoch + 1, 0
        elif chance < 0.11 and epoch:
            epoch -= 1
        elif chance < 0.17:
            following += random.randrange(1, 3)
        elif chance < 0.5 and following:
            following = random.randrange(following)
        self._produce(name, wanted, number=Number(producer, epoch, following))

    def produce_over_partitions(self) -> None:
        """Send what some partitions of a producer have next, or one of them has already, or that has a gap."""
        random, draw = self.random, self.draw
        name = draw.topic(dead=False)
        topic = self.model.world.topics.get(name)
        producer = random.choice(PRODUCERS)
        before = [log.producers[producer].epoch for log in topic.logs if producer in log.producers] if topic else []
        epoch = max(0, max(before, default=0) + random.choice((-1, 0, 0, 0, 0, 0, 0, 1)))
        following: dict[int, int] = {}
        wanted: list[tuple[int | None, Message]] = []
        sequences: list[int] = []
        for _ in range(random.choice((1, 2, 3, 5))):
            partition = random.randrange(draw.partitions(name))
            if partition not in following:
                known = topic.logs[partition].producers.get(producer) if topic is not None else None
                mine = known is not None and known.epoch == epoch
                following[partition] = len(known.offsets) if known is not None and mine else 0
                if random.random() < 0.3 and following[partition]:
                    following[partition] -= 1
            wanted.append((partition, draw.message()))
            sequences.append(following[partition])
            following[partition] += 1 if random.random() < 0.99 else random.choice((0, 2))
        self._produce(name, wanted, number=Number(producer, epoch, 0), sequences=sequences)

    def produce_keyed(self) -> None:
        name = self.draw.topic(dead=0)
        wanted = self.draw.messages(name)
        keys = [f"key{self.random.randrange(8)}" if self.random.random() < 0.7 else None for _ in wanted]
        self._produce(name, wanted, keys=keys if any(keys) else None)

    def _produce(
        self,
        name: str,
        wanted: Wanted,
        *,
        number: Number | None = None,
        keys: list[str | None] | None = None,
        qos: int = 1,
        sequences: list[int] | None = None,
    ) -> None:
        records = records_of(wanted, sequences)
        plan = partial(intake.produce, self.model, name, wanted, number, keys, qos, sequences)
        asked = Asked("produce", plan, appends=True, topic=name)
        numbered = ops.Numbered(*number) if number is not None else None
        self._ask(asked, lambda then: self.broker.produce(name, records, then, number=numbered, keys=keys, qos=qos))

    def produce_one(self) -> None:
        random, model = self.random, self.model
        name = self.draw.topic(dead=0)
        drawn = self.draw.message()
        qos = 0 if random.random() < 0.1 and not self.draw.limited(name) else 1
        # Two that go round robin tell nobody whose turn it was, unless that is known.
        free = any(at == name and message["partition"] is None for _, _, at, message in model.gathered)
        unclear = (free or not qos) and name not in model.turns
        message: dict[str, Any] = {
            "message": Message(drawn.value, drawn.key),
            "partition": None,
            "delay_ms": None,
            "qos": qos,
        }
        fields: dict[str, Any] = {"value": msgspec.Raw(msgspec.json.encode(drawn.value and drawn.value.decode()))}
        if drawn.key is not None:
            fields["key"] = drawn.key.decode()
        if unclear or self.draw.limited(name) or random.random() < 0.5:
            message["partition"] = fields["partition"] = self.draw.partition(name)
            if random.random() < 0.2:
                message["delay_ms"] = fields["delay_ms"] = random.choice((0, 20, 300))
            if drawn.expires_at is not None:
                message["message"] = message["message"]._replace(expires_at=drawn.expires_at)
                fields["expires_at"] = drawn.expires_at
        sent = wire.Message(**fields)
        asked = Asked("produce one", lambda: intake.produce_one(model, asked, name, message), stays=True)
        self._ask(asked, lambda then: self.broker.produce_one(name, sent, then, qos=qos, size=100))

    def stage(self) -> None:
        random = self.random
        name = self.draw.topic(dead=0)
        wanted = self.draw.messages(name)
        writer = random.choice(WRITERS)
        known = self.model.world.writers.get(writer)
        batch = max(0, (known.last if known is not None else -1) + random.choice((0, 1, 1, 1, 1, 2)))
        task, attempt = random.randrange(2), random.choice((0, 0, 1))
        staged = len(known.stages.get((batch, task, attempt), [])) if known is not None else 0
        sequence = random.choice((None, staged, staged, max(0, staged - 1), staged + 1))
        records = records_of(wanted)
        plan = partial(intake.stage, self.model, name, wanted, writer, batch, task, attempt, sequence)
        asked = Asked("stage", plan, appends=True)
        self._ask(
            asked,
            lambda then: self.broker.stage(
                name, records, then, writer=writer, batch=batch, task=task, attempt=attempt, sequence=sequence
            ),
        )

    def publish(self) -> None:
        random = self.random
        writer = random.choice(WRITERS)
        known = self.model.world.writers.get(writer)
        last = known.last if known is not None else -1
        staged = sorted(known.stages) if known is not None else []
        batch = staged[0][0] if staged and random.random() < 0.8 else max(0, last + random.choice((-1, 0, 0, 1)))
        tasks: list[tuple[int, int]] | None = None
        if random.random() < 0.4:
            tasks = [(task, attempt) for at, task, attempt in staged if at == batch and random.random() < 0.7]
            random.shuffle(tasks)
            if random.random() < 0.1:
                tasks.append((0, 7))
        asked = Asked("publish", lambda: intake.publish(self.model, writer, batch, tasks))
        self._ask(asked, lambda then: self.broker.publish(writer, batch, tasks, then))

    # Groups

    def set_group(self) -> None:
        topic = self.draw.topic()
        self._set(topic, self.draw.group(topic), self.draw.group_terms())

    def _set(self, topic: str, group: str, changes: dict[str, Any]) -> None:
        place = self.draw.place(topic)
        asked = Asked("set group", lambda: requests.set_group(self.model, topic, group, changes, place))
        start = Start(*place)
        self._ask(asked, lambda then: self.broker.set_group(topic, group, dict(changes), then, start=start))

    def delete_group(self) -> None:
        topic = self.draw.topic()
        group = self.draw.group(topic)
        asked = Asked("delete group", lambda: requests.delete_group(self.model, topic, group))
        self._ask(asked, lambda then: self.broker.delete_group(topic, group, then))
        check_dismissed(self.model)

    def seek(self) -> None:
        topic = self.draw.topic()
        group, place = self.draw.group(topic), self.draw.place(topic)
        partition = None if self.random.random() < 0.5 else self.draw.partition(topic)
        asked = Asked("seek", lambda: requests.seek(self.model, topic, group, place, partition))
        self._ask(asked, lambda then: self.broker.seek(topic, group, Start(*place), then, partition=partition))

    def redrive(self) -> None:
        random = self.random
        buried = [name for name in TOPICS if DEAD + name in self.model.world.topics]
        topic = random.choice(buried) if buried and random.random() < 0.8 else self.draw.topic(dead=0)
        group = self.draw.group(topic)
        partition: int | None = None
        offsets: list[int] | None = None
        if random.random() < 0.3:
            partition = self.draw.partition(DEAD + topic)
            offsets = self.draw.offsets(DEAD + topic, partition) if random.random() < 0.5 else None
        name = DEAD + topic if random.random() < 0.2 else topic
        sent: list[int] = []
        asked = Asked("redrive", lambda: settling.redrive(self.model, name, group, partition, offsets, sent))
        ranges = ranges_of(offsets) if offsets is not None else None
        self._ask(asked, lambda then: self.broker.redrive(name, group, then, partition=partition, ranges=ranges))

    # Readers and reads

    def put_reader(self) -> None:
        topic = self.draw.topic()
        places = range(self.random.choice((1, 2)))
        offsets = {self.draw.partition(topic): self.random.randrange(4) for _ in places}
        asked = Asked("put reader", lambda: requests.put_reader(self.model, topic, READER, offsets))
        self._ask(asked, lambda then: self.broker.put_reader(topic, READER, offsets, then))

    def delete_reader(self) -> None:
        topic = self.draw.topic()
        asked = Asked("delete reader", lambda: requests.delete_reader(self.model, topic, READER))
        self._ask(asked, lambda then: self.broker.delete_reader(topic, READER, then))

    def look(self) -> None:
        """Ask what is there: it is described as it was when asked, once that is durable."""
        topic = self.draw.topic()
        what = self.random.choice(("topic", "topics", "group", "groups", "reader", "spans"))
        names = {
            "topic": (topic,),
            "spans": (topic,),
            "group": (topic, self.draw.group(topic)),
            "reader": (topic, READER),
        }.get(what, ())
        more = (None, None) if what == "spans" else ()
        plan = partial(requests.look, self.model, what, *names)
        asked = Asked(f"look at {what}", plan, level="shown", waits=False)
        self._ask(asked, lambda then: getattr(self.broker, what)(*names, *more, then))

    def read(self) -> None:
        """Read the log: exactly what is durable is there."""
        random, model = self.random, self.model
        name = self.draw.topic()
        topic = model.world.topics.get(name)
        if topic is None:
            try:
                self.broker.page(name, "", 0, 0)
                model.check(False, f"{name} is not there, and can be read")
            except NotFound:
                pass
            return
        partition = random.randrange(len(topic.logs))
        log = topic.logs[partition]
        start, shown = log.start, log.shown(model.shown)
        offset = random.choice([*log.offsets(0, shown), shown, 0]) if log.holes else random.randrange(shown + 2)
        most, most_bytes = random.choice((1, 2, 1000)), random.choice((1, 4 << 20))
        page = self._here(lambda: self.broker.page(name, topic.id, partition, offset, most, most_bytes))
        if page is not None:
            found = {run.first_offset + row: m for run in page.runs for row, m in enumerate(messages_of(run.batch))}
            begin = max(offset, start)
            right = {o: log.messages[o] for o in log.offsets(begin, min(page.next_offset, shown))}
            hole = begin != log.passed(begin)  # what is behind it may come at once, or not
            enough = (hole or bool(found) == (begin < shown)) and len(found) <= most
            on = page.next_offset > begin or begin >= shown
            why = f"{name}/{partition} reads from {offset} on as {found}, not {right}, up to {page.next_offset}"
            model.check(found == right and enough and on, why)
            if any(first <= o < end for first, end in log.tiered for o in found):
                model.reached.add("read from the tier")
        place = self.draw.place(name)
        there = place.resolve(log, max(shown, start))
        resolved = self._here(lambda: self.broker.place(name, partition, Start(*place)))
        model.check(resolved in (there, None), f"{place} of {name}/{partition} is {there}, not {resolved}")

    def _here(self, call: Callable[[], T]) -> T | None:
        """Return what a reader gets; None when it has to be fetched, for whoever reads next."""
        try:
            return call()
        except Away as away:
            self.broker.bring(away.wanted, lambda error: None)
            return None
