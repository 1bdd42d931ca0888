"""Clients that read: consumers of groups, by polls and by streams, and readers of the log."""

import base64
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from cordwood.client.reply import Reply
from cordwood.drills.whole.producers import LATER, PARTITIONS, Above, Client
from cordwood.drills.whole.talk import ARROW, JSON, NDJSON
from cordwood.drills.whole.truth import check


class Row(NamedTuple):
    """A message as a client gets it."""

    partition: int
    offset: int
    attempts: int
    value: str
    headers: dict[str, Any]


def rows_of(kind: str, body: bytes) -> list[Row]:
    """Return the messages of a body."""
    if kind == ARROW:
        if not body:
            return []
        table = pa.ipc.open_stream(pa.BufferReader(body)).read_all()
        columns = table.to_pydict()
        return [
            Row(partition, offset, attempts, bytes(value).decode(), {})
            for partition, offset, attempts, value in zip(
                columns["partition"], columns["offset"], columns["attempts"], columns["value"], strict=True
            )
        ]
    if kind == JSON:
        return list(map(_row, msgspec.json.decode(body)["messages"])) if body else []
    return [_row(json.loads(line)) for line in body.split(b"\n") if line]


def _row(found: dict[str, Any]) -> Row:
    value = found["value"] if "value" in found else base64.b64decode(found["value_base64"]).decode()
    return Row(found["partition"], found["offset"], found["attempts"], value, found["headers"])


class Consumer(Client):
    """One consumer of a group: it polls, or streams, and does what it gets; poison it always gives back."""

    pause_ms = 250.0

    def __init__(self, world: Above, name: str, topic: str, group: str, *, streams: bool) -> None:
        super().__init__(world, name)
        self._topic, self._group, self._streams = topic, group, streams
        self.drained = False

    async def run(self) -> None:
        while not self.drained:
            await self.act()
            await self.sleep_ms(self.random.random() * self.pause_ms)
        self.hang_up()
        self.idle = True

    async def act(self) -> None:
        if self._streams:
            await self._stream()
        else:
            await self._poll()

    async def _poll(self) -> None:
        random = self.random
        kind = random.choice((JSON, NDJSON, ARROW))
        asked = {"topic": self._topic, "group": self._group, "owner": self.name}
        limits = {"max_messages": random.choice((1, 5, 20)), "wait_ms": random.choice((0, 100, 400))}
        asked_us = self.world.timeline.now_us
        reply = await self.ask("POST", "/v1/lease", body=msgspec.json.encode({**asked, **limits}), accept=kind)
        if reply is None or reply.status not in (200, 204):
            if reply is not None:
                check(reply.status in LATER, f"{self.name}: lease {reply.status} {bytes(reply.body)!r}")
            await self.again(reply, 2)
        elif reply.status == 200:
            await self._work(self._take(rows_of(kind, reply.body), asked_us))

    async def _stream(self) -> None:
        """Take a stream until it breaks, or until it was enough; what is not done then goes back."""
        asked_us = self.world.timeline.now_us
        held = bytearray()
        got: list[Row] = []
        news = self._loop.create_future()

        def piece(data: bytes) -> None:
            held.extend(data)
            whole, mark, rest = bytes(held).rpartition(b"\n")
            held[:] = rest
            if mark:
                came = self._take(rows_of(NDJSON, whole), asked_us)
                for row in came:
                    self._handed(row).returned = True  # a stream that ends gives back what it has
                got.extend(came)
                if not news.done():
                    news.set_result(None)

        def ended(reply: Reply | None) -> None:
            if not news.done():
                news.set_result(reply)

        target = f"/v1/consume?topic={self._topic}&group={self._group}&owner={self.name}&max_in_flight=10"
        task = self._loop.create_task(self.listen(target, NDJSON, piece))
        task.add_done_callback(lambda _: ended(None))
        self._loop.after_us(self.random.choice((200_000, 1_000_000)), ended, None)
        await news
        if got:
            await self._work(got)
        self.hang_up()
        if not got:
            await self.sleep_ms(self.random.random() * 300)

    def _handed(self, row: Row) -> Any:
        return self.world.deliveries.handed[(self._topic, self._group, row.partition, row.offset)]

    def _take(self, rows: list[Row], asked_us: int) -> list[Row]:
        for row in rows:
            self.truth.see(self._topic, row.partition, row.offset, row.value)
            key = (self._topic, self._group, row.partition, row.offset)
            handed = self.world.deliveries.came(key, row.attempts, asked_us, self.world.timeline.now_us)
            if self._group == "ordered":
                handed.returned = True  # with one that fails, those behind it go back, and do not count
        return rows

    async def _work(self, rows: list[Row]) -> None:
        """Do some of it at once, some later, some never."""
        random, quiet = self.random, self.world.quiet
        for partition in range(PARTITIONS):
            mine = [row for row in rows if row.partition == partition]
            if not mine:
                continue
            if random.random() < 0.1 and not quiet:
                await self._tell("extend", mine, {"lease_ms": random.choice((0, 300, 900))})
                if random.random() < 0.5:
                    continue
            poison = [row for row in mine if "!" in row.value]
            good = [row for row in mine if "!" not in row.value]
            if not quiet:
                random.shuffle(good)
                keep = random.choice((0, 1, len(good), len(good)))
                good, rest = good[:keep], good[keep:]
                if random.random() < 0.3:
                    poison += rest  # the others run out
            if poison:
                await self._tell("nack", poison, {"reason": "it cannot be done", "delay_ms": random.choice((0, 100))})
            if good and await self._tell("ack", good, {}):
                now_us = self.world.timeline.now_us
                for row in good:
                    self._handed(row).acked_us = now_us

    async def _tell(self, verb: str, rows: Iterable[Row], more: dict[str, Any]) -> bool:
        """Settle messages of one partition; say whether that is sure."""
        rows = list(rows)
        for row in rows:
            handed = self._handed(row)
            if verb == "ack":
                handed.asked = True
            elif verb == "extend" and more["lease_ms"] == 0:
                handed.returned = True
        ranges = [[offset, offset + 1] for offset in sorted({row.offset for row in rows})]
        asked = {"topic": self._topic, "group": self._group, "owner": self.name, "partition": rows[0].partition}
        body = msgspec.json.encode({**asked, "ranges": ranges, **more})
        for tries in range(self.random.choice((1, 3))):
            reply = await self.ask("POST", f"/v1/{verb}", body=body)
            if reply is not None and reply.status == 204:
                words = {"ack": "message acknowledged", "nack": "message given back", "extend": "lease extended"}
                self.world.note(words[verb])
                return True
            if reply is not None:
                check(reply.status in (*LATER, 409), f"{self.name}: {verb} {reply.status} {bytes(reply.body)!r}")
                if reply.status == 409:
                    return False  # another one has some of it by now
            await self.again(reply, tries)
        return False


class Reader(Client):
    """Somebody who reads the log, from where he was or from anywhere, and sees no gap and nothing twice."""

    pause_ms = 900.0

    def __init__(self, world: Above, name: str, topics: tuple[str, ...]) -> None:
        super().__init__(world, name)
        self._topics = topics

    async def act(self) -> None:
        random = self.random
        topic, partition = random.choice(self._topics), random.randrange(PARTITIONS)
        end = self.truth.ends.get((topic, partition), 0)
        offset = random.choice((0, random.randrange(end + 1), max(0, end - 5), end))
        await self.read(topic, partition, offset)

    async def read(self, topic: str, partition: int, offset: int) -> list[Row] | None:
        """Return the messages from an offset to the end; None when that did not come through."""
        kind = self.random.choice((NDJSON, ARROW))
        target = f"/v1/read?topic={topic}&partition={partition}&offset={offset}"
        reply = await self.ask("GET", target, accept=kind)
        if reply is None or reply.status != 200:
            if reply is not None:
                check(reply.status in LATER, f"{self.name}: read {reply.status} {bytes(reply.body)!r}")
            await self.again(reply, 2)
            return None
        rows = rows_of(kind, reply.body)
        for at, row in enumerate(rows, offset):
            check(row.offset == at or self.world.losses, f"{topic}/{partition}: {row.offset} comes behind {at - 1}")
            self.truth.see(topic, partition, row.offset, row.value)
        if rows:
            self.world.note("log read")
        return rows
