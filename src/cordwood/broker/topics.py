"""Topics: made, described, changed, deleted; and what of them goes with time."""

from random import Random
from typing import Any

from msgspec import Struct

from cordwood.broker import names, ops
from cordwood.broker.counts import Counts
from cordwood.broker.ledger import Ledger, Then
from cordwood.broker.state import Partition, Topic
from cordwood.broker.terms import TopicTerms, changed, in_force
from cordwood.errors import Conflict, NotFound
from cordwood.machine.clock import Clock
from cordwood.settings import Settings, check

KEYS_KEPT_MS = 600_000  # how long an idempotency key counts


class TopicLine(Struct, frozen=True):
    """A topic in a list."""

    name: str
    partitions: int
    messages: int
    bytes: int


class PartitionInfo(Struct, frozen=True, omit_defaults=True):
    """One partition: offsets from `start_offset` to `end_offset`; below `tiered_offset` they are in the tier.

    `bytes` are those of keys, values and headers; `journal_bytes` of them are in the journal, `memory_bytes` of those
    in memory, too; `tiered_bytes` are in `objects` of `object_bytes`. `holes` were lost with a journal: [first, end].
    """

    partition: int
    start_offset: int
    end_offset: int
    tiered_offset: int
    bytes: int
    memory_bytes: int = 0
    journal_bytes: int = 0
    tiered_bytes: int = 0
    objects: int = 0
    object_bytes: int = 0
    holes: list[tuple[int, int]] = []


class TopicInfo(Struct, frozen=True):
    """A topic as it is."""

    name: str
    id: str
    created_at: int
    partitions: list[PartitionInfo]
    groups: list[str]
    settings: dict[str, Any]


class Topics:
    """Makes, describes, changes and deletes topics."""

    def __init__(self, ledger: Ledger, settings: Settings, clock: Clock, random: Random, counts: Counts):
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._random = random
        self._counts = counts
        self.max_groups = settings.max_groups

    def find(self, name: str) -> Topic:
        """Return a topic that is there."""
        found = self._ledger.state.topics.get(name)
        if found is None:
            raise NotFound(f"there is no topic {name[:250]!r}")
        return found

    def create(self, name: str, partitions: int | None, settings: dict[str, Any], then: Then) -> None:
        """Make a topic; `then` gets (whether it is new, TopicInfo). One that is there must be the same."""
        names.check_topic(name)
        terms = changed(TopicTerms(), settings)
        if partitions is not None:
            check("partitions", partitions, "partitions")
        found = self._ledger.state.topics.get(name)
        if found is None:
            made = self.make(name, partitions, terms)
            self._ledger.reply(then, (True, self._describe(made)))
            return
        wanted = self._settings.partitions if partitions is None else partitions
        if len(found.partitions) != wanted or found.terms != terms:
            raise Conflict(f"the topic {name!r} is there already, with other partitions or settings")
        self._ledger.reply(then, (False, self._describe(found)))

    def make(self, name: str, partitions: int | None, terms: TopicTerms) -> Topic:
        """Write that a topic is made, and return it."""
        topics, most = self._ledger.state.topics, self._settings.max_topics
        if len(topics) >= most and sum(not names.is_dead_letters(other, topics) for other in topics) >= most:
            raise Conflict(f"there are {most} topics already (max_topics); delete some, or raise that setting")
        self._ledger.write([self.making(name, partitions or self._settings.partitions, terms)], reserve=True)
        return self._ledger.state.topics[name]

    def making(self, name: str, partitions: int, terms: TopicTerms) -> ops.TopicMade:
        """Return the fact that a topic is made, with an id that no other ever had."""
        return ops.TopicMade(name, f"{self._random.getrandbits(64):016x}", partitions, terms, self._clock.now_ms())

    def lines(self, then: Then) -> None:
        """`then` gets a TopicLine for each topic, by name."""
        lines = []
        for name, topic in sorted(self._ledger.state.topics.items()):
            messages = sum(p.messages for p in topic.partitions)
            lines.append(TopicLine(name, len(topic.partitions), messages, sum(p.bytes for p in topic.partitions)))
        self._ledger.show(then, lines)

    def info(self, name: str, then: Then) -> None:
        """`then` gets the TopicInfo."""
        self._ledger.show(then, self._describe(self.find(name)))

    def set(self, name: str, changes: dict[str, Any], then: Then) -> None:
        """Change some settings; `then` gets the TopicInfo."""
        topic = self.find(name)
        if "partitions" in changes and changes.pop("partitions") != len(topic.partitions):
            raise Conflict(f"the topic has {len(topic.partitions)} partitions, and that is fixed")
        terms = changed(topic.terms, changes)
        if terms != topic.terms:
            self._ledger.write([ops.TopicSet(name, terms)], reserve=True)
        self._ledger.reply(then, self._describe(topic))

    def delete(self, name: str, then: Then) -> None:
        """Delete a topic with all its messages, groups and readers."""
        self.find(name)
        self._ledger.write([ops.TopicDeleted(name)], reserve=True)
        self._counts.forget(name)
        self._ledger.reply(then, None)

    def _describe(self, topic: Topic) -> TopicInfo:
        return describe(topic, self._settings, self._ledger.cache.first_lsn)

    # Time

    def expire(self) -> int | None:
        """Let go what is over; return the LSN below which no frame is needed any more, None for none."""
        now = self._clock.now_ms()
        facts: list[ops.Op] = []
        for topic in self._ledger.state.topics.values():
            for number, partition in enumerate(topic.partitions):
                start = min(self._expired(topic, number, now), partition.shown)
                if start > partition.start:
                    facts.append(ops.Trimmed(topic.name, number, start))
        forgotten = self._forgotten(now)
        if forgotten is not None:
            facts.append(forgotten)
        if facts:
            self._ledger.write(facts, reserve=True)
        return self._ledger.state.lowest_lsn()

    def _expired(self, topic: Topic, number: int, now: int) -> int:
        """Return where a partition should begin."""
        terms = in_force(topic.terms, self._settings)
        if not terms["retention_ms"] and not terms["retention_bytes"] and terms["discard"] == "none":
            return 0
        partition = topic.partitions[number]
        start = partition.start
        if terms["retention_ms"]:
            newer = partition.index.first_newer((now - terms["retention_ms"]) * 1000)
            start = max(start, partition.end if newer is None else newer)
        if terms["retention_bytes"]:
            within = partition.index.first_within(terms["retention_bytes"])
            start = max(start, partition.end if within is None else within)
        if terms["discard"] == "acked" and topic.groups:
            start = max(start, min(group.floor(number) for group in topic.groups.values()))
        oldest = now - terms["hold_max_ms"]
        holds = [group.floor(number) for group in topic.groups.values() if group.moved_ms >= oldest]
        holds += [r.offsets.get(number, 0) for r in topic.readers.values() if r.moved_ms >= oldest]
        return min([start, *holds])

    def _forgotten(self, now: int) -> ops.Forgotten | None:
        """Return what is to be forgotten, None when there is nothing."""
        state, settings = self._ledger.state, self._settings
        op = ops.Forgotten(now - settings.producer_retention_ms, now - KEYS_KEPT_MS, now - settings.stage_ttl_ms)
        for topic in state.topics.values():
            oldest_key = next(iter(topic.keys.values()), None)
            if oldest_key is not None and oldest_key.at < op.keys_before:
                return op
            for partition in topic.partitions:
                if any(known.used_ms < op.producers_before for known in partition.producers.values()):
                    return op
        for writer in state.writers.values():
            if not writer.stages and writer.used_ms < op.producers_before:
                return op
            for parts in writer.stages.values():
                if not parts or max(part.at for part in parts) < op.stages_before:
                    return op
        return None


def partition_info(number: int, partition: Partition, in_memory: int) -> PartitionInfo:
    """Return a partition as others see it; frames from LSN `in_memory` on are in memory."""
    index, tiered = partition.index, partition.tiered
    below = index.bytes_before(tiered)
    newest = index.first_from_lsn(in_memory)
    return PartitionInfo(
        number,
        partition.start,
        partition.end,
        tiered,
        partition.bytes,
        0 if newest is None else index.total_bytes - index.bytes_before(max(newest, tiered)),
        index.total_bytes - below,
        below - index.bytes_before(partition.start),
        len(index.tiered),
        sum(one.bytes for one in index.tiered),
        partition.holes,
    )


def describe(topic: Topic, settings: Settings, in_memory: int) -> TopicInfo:
    """Return a topic as others see it."""
    return TopicInfo(
        topic.name,
        topic.id,
        topic.made_ms,
        [partition_info(n, p, in_memory) for n, p in enumerate(topic.partitions)],
        sorted(topic.groups),
        in_force(topic.terms, settings),
    )
