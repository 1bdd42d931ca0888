"""Writers: numbered and single messages, one request after the other, until they are told to stop.

Each notes in the history what it sent and what it was told. A message says who sent it and which number it has, and
all of its bytes follow from that: whoever reads it knows whether a bit of it is wrong.
"""

import hashlib
import json
import random
import time
from collections.abc import Sequence

from cordwood.drills.field.actor import Actor
from cordwood.drills.field.process import GONE, BrokerProcess, Line
from cordwood.drills.field.stage import Failed, Stage, Timeline
from cordwood.drills.field.witness import History, Place, Write

TOPIC = "drill"
PARTITIONS = 3
BATCH = 20  # the most messages of one request
AGAIN_S = 0.01  # after a refusal


def value_of(write: Write, size: int = 0) -> str:
    """Return the only value that this write may have, of at least so many bytes."""
    digest = hashlib.blake2b(f"{write.producer}:{write.number}".encode(), digest_size=32).hexdigest()
    text = f"{write.producer}:{write.number}:{size}:{digest}"
    if len(text) < size:
        text += random.Random(text).randbytes((size - len(text) + 1) // 2).hex()
    return text


def write_of(value: str | None) -> Write | None:
    """Return which write a value is, None if it is none."""
    try:
        producer, number, size, _ = (value or "").split(":", 3)
        write = Write(producer, int(number))
        return write if value == value_of(write, int(size)) else None
    except ValueError:
        return None


class Writer(Actor):
    """Sends until it is told to stop, one request after the other; waits while the broker is down.

    A numbered one sends batches to one partition, and again if it did not hear of them. A single one sends message by
    message, and never again.
    """

    def __init__(
        self,
        broker: BrokerProcess,
        history: History,
        timeline: Timeline,
        name: str,
        *,
        partition: int | None = None,
        seed: int = 0,
        size: int = 0,
        pause_s: float = 0.0,
    ):
        super().__init__(name)
        self.latencies_s: list[float] = []
        self.statuses: dict[int, int] = {}
        self._broker, self._history, self._timeline = broker, history, timeline
        self._partition = partition
        self._draw = random.Random(f"{name} {seed}")
        self._size, self._pause_s = size, pause_s

    def act(self) -> None:
        line = Line(self._broker.port)
        number = 0
        try:
            while not self.over.is_set():
                count = 1 if self._partition is None else self._draw.randint(1, BATCH)
                number = self._send(line, [Write(self.name, number + step) for step in range(count)])
                if self._pause_s:
                    self.over.wait(self._draw.random() * 2 * self._pause_s)
        finally:
            line.close()

    def _send(self, line: Line, writes: Sequence[Write]) -> int:
        """Send these, until they are acknowledged or given up; return the number of the next."""
        self._history.sent.update(writes)
        rows = [json.dumps({"value": value_of(write, self._size)}) for write in writes]
        body: object = "\n".join(rows).encode()
        query: dict[str, object] = {"topic": TOPIC}
        if self._partition is None:
            body = {"value": value_of(writes[0], self._size)}
        else:
            query |= {
                "partition": self._partition,
                "producer_id": self.name,
                "epoch": 0,
                "sequence": writes[0].number,
            }
        unheard = False
        while True:
            began = time.monotonic()
            try:
                answer = line.ask("POST", "/v1/produce", body, **query)
            except GONE:
                unheard = True
                if self._partition is None or not self._wait():
                    self._wait()
                    break
                continue
            self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
            if answer.status == 200:
                self.latencies_s.append(time.monotonic() - began)
                self._told(writes, answer.json)
                break
            if answer.status not in (429, 503, 507):
                raise Failed(f"expected that a message is taken; saw {answer.status} {answer.body[:300]!r}")
            self._timeline.count("refused", len(writes))
            if self._partition is None or self.over.wait(AGAIN_S):
                if not unheard:
                    self._history.refused.update(writes)
                self.over.wait(AGAIN_S)
                break
        return writes[-1].number + 1

    def _told(self, writes: Sequence[Write], told: dict[str, object]) -> None:
        first = told
        if "results" in told:
            (first,) = told["results"]  # type: ignore[misc]  # one partition was asked for
        partition, offset = int(first["partition"]), int(first.get("offset", first.get("first_offset")))  # type: ignore[call-overload]
        self._history.acknowledged.extend(
            (write, Place(partition, offset + step)) for step, write in enumerate(writes)
        )
        self._timeline.count("acknowledged", len(writes))

    def _wait(self) -> bool:
        """Wait until the broker listens; say whether to go on."""
        while not self.over.is_set():
            if self._broker.up.wait(0.05):
                self.over.wait(AGAIN_S)
                return True
        return False


def writers(
    stage: Stage,
    broker: BrokerProcess,
    history: History,
    *,
    numbered: int = 2,
    single: int = 2,
    size: int = 0,
    pause_s: float = 0.0,
    shift: str = "",
) -> list[Writer]:
    """Start writers of both kinds; a later `shift` has names of its own, or its numbers would be used twice."""
    partitions = [n % PARTITIONS for n in range(numbered)] + [None] * single
    found = [
        Writer(
            broker,
            history,
            stage.timeline,
            f"{'single' if partition is None else 'numbered'}{shift}-{n}",
            partition=partition,
            seed=stage.seed,
            size=size,
            pause_s=pause_s,
        )
        for n, partition in enumerate(partitions)
    ]
    for one in found:
        stage.stack.callback(one.halt)
        one.start()
    return found
