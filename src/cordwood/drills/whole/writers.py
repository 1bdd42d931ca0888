"""Clients that write in other ways: one stages and publishes, one makes topics and deletes them."""

import msgspec

from cordwood.drills.whole.producers import LATER, Above, Client, in_arrow, in_ndjson
from cordwood.drills.whole.talk import ARROW, NDJSON
from cordwood.drills.whole.truth import check


class Publisher(Client):
    """A writer whose batches become visible all together: tasks stage, one publish; or it dies between."""

    pause_ms = 700.0

    def __init__(self, world: Above, name: str, topic: str) -> None:
        super().__init__(world, name)
        self._topic = topic
        self._batch = 0

    async def act(self) -> None:
        batch = self._batch
        attempts = {0: 0, 1: 0}
        for task in attempts:
            while self.random.random() < 0.15:  # an attempt that fails is forgotten
                values = self._values(f"{self.name}.{batch}.{task}.{attempts[task]}")
                await self._stage(batch, task, attempts[task], values)
                self.truth.refuse(values)
                attempts[task] += 1
        chosen = {task: self._values(f"{self.name}.{batch}.{task}.{attempts[task]}") for task in attempts}
        together = tuple(value for values in chosen.values() for value in values)
        for value in together:
            self.truth.sent[value].batch = together
        for task, values in chosen.items():
            if not await self._stage(batch, task, attempts[task], values):
                self.truth.refuse(together)  # it gave up, and publishes nothing of it
                self._batch += 1
                return
        if self.random.random() < 0.1:
            self.truth.refuse(together)
            self._batch += 1
            return
        await self._publish(batch, list(attempts.items()), together)
        self._batch += 1

    def _values(self, name: str) -> list[str]:
        values = [f"{name}:{number}" for number in range(self.random.choice((1, 2, 3)))]
        for number, value in enumerate(values):
            self.truth.send(name, number, value, published=True)
        return values

    async def _stage(self, batch: int, task: int, attempt: int, values: list[str]) -> bool:
        target = f"/v1/stage?topic={self._topic}&partition={task}&writer={self.name}&batch={batch}"
        target += f"&task={task}&attempt={attempt}&sequence=0"
        for tries in range(40):
            reply = await self.ask("POST", target, body=in_arrow(values), kind=ARROW)
            if reply is not None and reply.status == 200:
                return True
            if reply is not None and reply.status == 409 and self.world.losses:
                return False
            if reply is not None:
                check(reply.status in LATER, f"{self.name}: {reply.status} {bytes(reply.body)!r}")
            await self.again(reply, tries)
        return False

    async def _publish(self, batch: int, tasks: list[tuple[int, int]], values: tuple[str, ...]) -> None:
        body = msgspec.json.encode({"writer": self.name, "batch": batch, "tasks": tasks})
        tries = 0
        while True:
            reply = await self.ask("POST", "/v1/publish", body=body)
            if reply is not None and reply.status == 200:
                again = reply.json()["duplicate"]
                # A batch that was published and went with a lost disk is answered as a repeat, and is not there.
                if not (again and any(self.truth.sent[value].lost for value in values)):
                    self.truth.promise(values)
                self.world.note("batch published")
                if again:
                    check(tries, f"{self.name}: the first publish of {batch} counts as a repeat")
                    self.world.note("published again")
                return
            if reply is not None and reply.status in (404, 409) and self.world.losses:
                return  # what was staged is lost with the disk
            if reply is not None:
                check(reply.status in LATER, f"{self.name}: {reply.status} {bytes(reply.body)!r}")
            tries += 1
            await self.again(reply, tries)


class Maker(Client):
    """Somebody who makes a topic, writes to it, deletes it and makes it again: nothing of the old one comes back."""

    pause_ms = 1_500.0

    def __init__(self, world: Above, name: str, topic: str) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.there = False

    async def act(self) -> None:
        truth = self.truth
        if not self.there:
            await self._surely("POST", "/v1/topics", in_topic(self.topic, 1), (200, 201))
            self.there = True
        for _ in range(self.random.choice((1, 3))):
            values = [value.ljust(90, ".") for value in self.new(2)]  # enough for an object
            for at, value in enumerate(values, self._count - 2):
                # Requests are not numbered: one that was given up may arrive behind the next, on another connection.
                truth.send(f"{self.name}/{values[0]}", at, value, tuple(values))
            reply = await self.ask("POST", f"/v1/produce?topic={self.topic}", body=in_ndjson(values), kind=NDJSON)
            if reply is not None and reply.status == 200:
                truth.stored(self.topic, 0, reply.json()["results"][0]["first_offset"], values)
        await self.sleep_ms(self.random.random() * 2_500)
        if self.random.random() < 0.7 and not self.world.quiet:
            mine = [value for value in truth.sent if value.startswith(self.name)]
            await self._surely("DELETE", f"/v1/topics/{self.topic}", b"", (204, 404))
            self.there = False
            seen = truth.forget_topic(self.topic)
            for value in mine:
                truth.sent[value].promised = False
                truth.sent[value].impossible = value in seen  # an unanswered one may still be on its way
            self.world.note("topic deleted")

    async def _surely(self, method: str, target: str, body: bytes, good: tuple[int, ...]) -> None:
        tries = 0
        while True:
            reply = await self.ask(method, target, body=body)
            if reply is not None and reply.status in good:
                return
            if reply is not None:
                check(reply.status in LATER, f"{self.name}: {method} {reply.status} {bytes(reply.body)!r}")
            tries += 1
            await self.again(reply, tries)


def in_topic(name: str, partitions: int) -> bytes:
    return msgspec.json.encode({"name": name, "partitions": partitions})
