"""What is asked next, drawn at random: names, messages, places, terms. Most of it is there, some of it is not."""

from random import Random
from typing import Any

from cordwood.drills.broker_model.facts import Message
from cordwood.drills.broker_model.model import Model
from cordwood.drills.broker_model.requests import Place
from cordwood.drills.broker_model.world import DEAD

TOPICS = ("jobs", "shop/orders")
GROUPS = ("mail", "audit")
OWNERS = ("ann", "bob", "cy")

Wanted = list[tuple[int | None, Message]]


class Draw:
    """Draws from what the model says is there."""

    def __init__(self, random: Random, model: Model):
        self.random = random
        self.model = model
        self._values = 0

    def topic(self, *, dead: float = 0.12) -> str:
        """Return the name of a topic; in this share of cases one of dead letters, if there is one."""
        topics = self.model.world.topics
        found = [name for name in topics if not name.startswith(DEAD)]
        if self.random.random() < dead:
            found = [DEAD + name for name in found if DEAD + name in topics] or found
        return self.random.choice(found) if found and self.random.random() < 0.95 else self.random.choice(TOPICS)

    def group(self, topic: str) -> str:
        found = self.model.world.topics.get(topic)
        if found is not None and found.groups and self.random.random() < 0.9:
            return self.random.choice(list(found.groups))
        return self.random.choice(GROUPS)

    def partitions(self, topic: str) -> int:
        found = self.model.world.topics.get(topic)
        return len(found.logs) if found is not None else 1

    def partition(self, topic: str) -> int:
        count = self.partitions(topic)
        return self.random.randrange(count) if self.random.random() < 0.98 else count

    def limited(self, topic: str) -> bool:
        """Say whether a topic takes only so many messages; then nobody may leave the partition open."""
        found = self.model.world.topics.get(topic)
        return found is not None and "max_buffered_messages" in found.terms

    def message(self) -> Message:
        random, now = self.random, self.model.now
        self._values += 1
        value = None if random.random() < 0.05 else b"%d" % self._values + b"." * random.choice((0, 0, 5, 40))
        key = b"k%d" % random.randrange(5) if random.random() < 0.3 else None
        headers = (("h", b"1"), ("cordwood-h", b"2"))[: random.choice((0, 0, 0, 1, 2))]
        deliver_at = now + random.choice((-5, 20, 300)) if random.random() < 0.2 else None
        expires_at = now + random.choice((-5, 0, 20, 300, 60_000)) if random.random() < 0.1 else None
        return Message(value, key, headers, now - random.choice((0, 0, 0, 1, 1_000, 700_000)), deliver_at, expires_at)

    def messages(self, topic: str, *, least: int = 1) -> Wanted:
        count = max(least, self.random.choice((0, 1, 1, 2, 3, 5)))
        asks = self.random.random() < 0.5 or self.limited(topic)
        return [(self.partition(topic) if asks else None, self.message()) for _ in range(count)]

    def place(self, topic: str) -> Place:
        """Return a place to begin at; a time is often that of a message."""
        random = self.random
        kind = random.random()
        if kind < 0.5:
            return Place(0)
        if kind < 0.7:
            return Place()
        if kind < 0.85:
            return Place(random.randrange(20))
        found = self.model.world.topics.get(topic)
        times = [m.timestamp for log in found.logs for m in log.messages.values()] if found is not None else []
        return Place(time=random.choice(times or [self.model.now]) + random.choice((0, 0, 1)))

    def offsets(self, topic: str, partition: int) -> list[int]:
        """Return some offsets of a partition; now and then one that is not there yet."""
        random = self.random
        found = self.model.world.topics.get(topic)
        if found is None or partition >= len(found.logs):
            return [0]
        log = found.logs[partition]
        end = log.end if random.random() < 0.97 else log.end + 2
        if end <= log.start:
            return [0]
        if log.holes:
            there = [*log.offsets(0, end), *range(log.end, end), log.holes[-1][0], log.holes[-1][1] - 1]
            there = sorted({offset for offset in there if log.start <= offset < end})
            some = random.sample(there, min(len(there), random.choice((1, 1, 2, 3))))
        else:
            some = random.sample(range(log.start, end), min(end - log.start, random.choice((1, 1, 2, 3))))
        return sorted(some) if random.random() < 0.7 else some

    def topic_terms(self) -> dict[str, Any]:
        return self._some(
            {
                "retention_ms": (0.15, (100, 1_000, 60_000)),
                "retention_bytes": (0.1, (1, 20, 200)),
                "discard": (0.2, ("acked", "none")),
                "hold_max_ms": (0.1, (0, 1_000, 60_000)),
                "max_buffered_messages": (0.1, (1, 5, 10)),
            }
        )

    def group_terms(self) -> dict[str, Any]:
        return self._some(
            {
                "max_attempts": (0.6, (0, 1, 1, 2, 3)),
                "on_exhausted": (0.4, ("dlq", "dlq", "block", "drop", None)),
                "mode": (0.4, ("ordered", "ordered", "shared", None)),
                "max_in_flight": (0.3, (1, 2, 3, None)),
                "backoff_ms": (0.3, (0, 1, 100)),
            }
        )

    def _some(self, known: dict[str, tuple[float, tuple[Any, ...]]]) -> dict[str, Any]:
        random = self.random
        return {name: random.choice(values) for name, (share, values) in known.items() if random.random() < share}
