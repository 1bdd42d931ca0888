"""Clients that produce: numbered, and plain.

Each is a loop of one request after the other. What an answer promises is told to `truth`; where no answer came, the
numbered ones send the same again, and the plain ones never know.
"""

import base64
from collections.abc import Sequence
from random import Random
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa

from cordwood.client.reply import Reply
from cordwood.drills.whole.groups import Deliveries
from cordwood.drills.whole.talk import ARROW, JSON, NDJSON, Caller
from cordwood.drills.whole.truth import Truth, check
from cordwood.sim.loop import SimLoop, Timeline
from cordwood.sim.network import Network
from cordwood.wire.pieces import stream_pieces

LATER = (408, 429, 503, 507)
PARTITIONS = 2


def in_json(value: str) -> bytes:
    return msgspec.json.encode({"value": value})


def in_ndjson(values: Sequence[str], keys: Sequence[str] | None = None) -> bytes:
    """Return messages as lines; every other value as base64."""
    rows: list[dict[str, str]] = []
    for number, value in enumerate(values):
        if number % 2:
            rows.append({"value_base64": base64.b64encode(value.encode()).decode()})
        else:
            rows.append({"value": value})
        if keys is not None:
            rows[-1]["idempotency_key"] = keys[number]
    return b"\n".join(map(msgspec.json.encode, rows)) + b"\n"


def in_arrow(values: Sequence[str]) -> bytes:
    """Return messages as an Arrow stream; made from buffers, for `pa.array` would load pandas first."""
    texts = [value.encode() for value in values]
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]
    column = pa.Array.from_buffers(pa.binary(), len(texts), buffers)
    batch = pa.RecordBatch.from_arrays([column], ["value"])
    return b"".join(stream_pieces(batch.schema, (batch,)))


class Above(Protocol):
    """What clients ask of their world."""

    timeline: Timeline
    network: Network
    loop: SimLoop
    truth: Truth
    deliveries: Deliveries
    quiet: bool  # nothing new is begun
    losses: int  # how often the broker's disk was lost

    def random_of(self, name: str) -> Random:
        """Return the chance of one client."""

    def note(self, what: str) -> None:
        """Count something that happened."""


class Client(Caller):
    """A client of the world. `pause_ms` is what it waits at most between two requests."""

    pause_ms: float = 300.0

    def __init__(self, world: Above, name: str) -> None:
        super().__init__(world.network, name, world.loop, world.random_of(name))
        self.world = world
        self.truth = world.truth
        self.idle = False  # it did all that it wanted to
        self._count = 0

    async def run(self) -> None:
        """Do what it does until the world is quiet."""
        while not self.world.quiet:
            await self.act()
            await self.sleep_ms(self.random.random() * self.pause_ms)
        self.hang_up()
        self.idle = True

    async def act(self) -> None:
        raise NotImplementedError

    def new(self, count: int) -> list[str]:
        """Return values that nobody ever sent."""
        values = []
        for _ in range(count):
            bad = "!" if self.random.random() < 0.03 else ""
            values.append(f"{self.name}{bad}:{self._count}")
            self._count += 1
        return values

    async def again(self, reply: Reply | None, tries: int) -> None:
        """Wait a while before the next try."""
        self.world.note("no answer" if reply is None else f"answer {reply.status}")
        await self.sleep_ms((0.5 + self.random.random()) * min(1_000, 100 * 2**tries))


class Numbered(Client):
    """A producer that numbers its batches: each is stored once, however often it is sent."""

    def __init__(self, world: Above, name: str, topic: str, partition: int) -> None:
        super().__init__(world, name)
        self._topic, self._partition = topic, partition
        self._epoch = self._sequence = 0

    async def act(self) -> None:
        truth, random = self.truth, self.random
        values = self.new(random.choice((1, 1, 2, 4)))
        for at, value in enumerate(values, self._count - len(values)):
            truth.send(f"{self.name}", at, value, tuple(values))
        kind = random.choice((ARROW, NDJSON, JSON)) if len(values) == 1 else random.choice((ARROW, NDJSON))
        body = in_arrow(values) if kind == ARROW else in_ndjson(values) if kind == NDJSON else in_json(values[0])
        tries = 0
        while True:
            number = f"&producer_id={self.name}&epoch={self._epoch}&sequence={self._sequence}"
            target = f"/v1/produce?topic={self._topic}&partition={self._partition}{number}"
            reply = await self.ask("POST", target, body=body, kind=kind)
            if reply is not None and reply.status == 200:
                self._stored(reply, kind, values, tries)
                return
            if reply is not None and reply.status == 409:
                check(self.world.losses, f"{self.name} is refused by its number: {bytes(reply.body)!r}")
                self._epoch, self._sequence = self._epoch + 1, 0  # the broker forgot with its disk
            elif reply is not None:
                check(reply.status in LATER, f"{self.name}: {reply.status} {bytes(reply.body)!r}")
            tries += 1
            if tries > 3 and random.random() < 0.05 and not self.world.quiet:
                # The program dies; the one after it begins a new epoch and knows nothing of these values.
                self._epoch, self._sequence = self._epoch + 1, 0
                self.world.note("producer died")
                return
            await self.again(reply, tries)

    def _stored(self, reply: Reply, kind: str, values: list[str], tries: int) -> None:
        found = reply.json()
        first = found["offset"] if kind == JSON else found["results"][0]["first_offset"]
        self._sequence += len(values)
        self.truth.stored(self._topic, self._partition, first, values)
        self.world.note("numbered batch acknowledged")
        if found.get("duplicate"):
            check(tries, f"{self.name}: the first try counts as a repeat")
            self.world.note("numbered batch repeated")


class Plain(Client):
    """A producer without numbers: it sends once, or, with idempotency keys, again until it is told."""

    def __init__(self, world: Above, name: str, topic: str) -> None:
        super().__init__(world, name)
        self._topic = topic

    async def act(self) -> None:
        truth, random = self.truth, self.random
        kind = random.choice((JSON, JSON, NDJSON, ARROW))
        values = self.new(1 if kind == JSON else random.choice((1, 2, 3)))
        for at, value in enumerate(values, self._count - len(values)):
            truth.send(f"{self.name}/{value}", at, value, tuple(values))
        keyed = kind != ARROW and random.random() < 0.4
        target = f"/v1/produce?topic={self._topic}"
        if kind == JSON:
            body = in_json(values[0])
            if keyed:
                target += f"&idempotency_key={values[0].replace(':', '-').replace('!', 'x')}"
        elif kind == NDJSON:
            target += f"&partition={random.randrange(PARTITIONS)}"
            body = in_ndjson(values, values if keyed else None)
        else:
            target += f"&partition={random.randrange(PARTITIONS)}"
            body = in_arrow(values)
        tries = 0
        while True:
            reply = await self.ask("POST", target, body=body, kind=kind)
            if reply is not None and reply.status == 200:
                self._stored(reply, kind, values)
                return
            if reply is not None:
                check(reply.status in LATER, f"{self.name}: {reply.status} {bytes(reply.body)!r}")
            tries += 1
            await self.again(reply, tries)
            if not keyed or tries > 12:
                return  # nobody knows, or it was refused for now

    def _stored(self, reply: Reply, kind: str, values: list[str]) -> None:
        found = reply.json()
        self.world.note("plain message acknowledged")
        if kind == JSON:
            self.truth.stored(self._topic, found["partition"], found["offset"], values)
            if found.get("duplicate"):
                self.world.note("idempotency key repeated")
            return
        if found.get("duplicates"):
            check(found["duplicates"] == len(values), f"{self.name}: half of a request was a repeat: {found}")
            self.world.note("idempotency key repeated")
            self.truth.promise(values)
            return
        (run,) = found["results"]
        self.truth.stored(self._topic, run["partition"], run["first_offset"], values)
