"""Topics, groups and readers: what each request about them must write, and what it must be answered."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from cordwood.drills.broker_model import facts as f
from cordwood.drills.broker_model.asked import Judge, Plan
from cordwood.drills.broker_model.deliveries import join
from cordwood.drills.broker_model.hands import Consumer
from cordwood.drills.broker_model.world import DEAD, Log
from cordwood.errors import Conflict, NotFound, Refused

if TYPE_CHECKING:
    from cordwood.drills.broker_model.model import Model

TOPIC_TERMS = (
    "max_buffered_messages",
    "max_buffered_bytes",
    "retention_ms",
    "retention_bytes",
    "discard",
    "hold_max_ms",
)
GROUP_TERMS = (
    "max_in_flight",
    "lease_ms",
    "max_attempts",
    "backoff_ms",
    "max_backoff_ms",
    "on_exhausted",
    "mode",
)


class Place(NamedTuple):
    """Where to begin: an offset, or a time; neither is the end."""

    offset: int | None = None
    time: int | None = None

    def resolve(self, log: Log, end: int) -> int:
        """Return the offset that this means in a log that goes up to `end`."""
        if self.offset is not None:
            return min(max(self.offset, log.start), end)
        if self.time is None:
            return end
        return next((o for o in log.offsets(0, end) if log.messages[o].timestamp >= self.time), end)


# Topics


def create_topic(model: "Model", name: str, partitions: int | None, terms: dict[str, Any]) -> Plan:
    found = model.world.topics.get(name)
    wanted = model.settings["partitions"] if partitions is None else partitions
    if found is None:
        yield model.exactly([f.TopicMade(name, "", wanted, terms, model.now)])
        return True, topic_info(model, name)
    if len(found.logs) != wanted or found.terms != terms:
        raise Conflict("another one")
    return False, topic_info(model, name)


def set_topic(model: "Model", name: str, changes: dict[str, Any]) -> Plan:
    terms = _changed(model.topic(name).terms, changes)
    if terms != model.topic(name).terms:
        yield model.exactly([f.TopicSet(name, terms)])
    return topic_info(model, name)


def delete_topic(model: "Model", name: str) -> Plan:
    model.topic(name)
    yield model.exactly([f.TopicDeleted(name)])
    model.turns.pop(name, None)
    model.dismissed += model.hands.disband(name, None)
    model.reached.add("deleted topic")
    return None


def topic_info(model: "Model", name: str) -> dict[str, Any]:
    topic = model.topic(name)
    terms = {**model.settings, **topic.terms}
    return {
        "name": name,
        "id": topic.id,
        "created_at": topic.made,
        "partitions": [(number, log.start, log.end) for number, log in enumerate(topic.logs)],
        "groups": sorted(topic.groups),
        "settings": {key: terms[key] for key in TOPIC_TERMS},
    }


def _changed(terms: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**terms, **changes}.items() if value is not None}


# Groups


def consume(model: "Model", consumer: Consumer, start: Place) -> Plan:
    """A poll, or a stream: the group is made if need be, then the consumer waits."""
    yield from _ensure(model, consumer.topic, consumer.group, start, {})
    consumer.since = model.clock.monotonic_ms()
    join(model, consumer)
    return None


def set_group(model: "Model", topic: str, group: str, changes: dict[str, Any], start: Place) -> Plan:
    found = model.topic(topic).groups.get(group)
    terms = _changed(found.terms if found is not None else {}, changes)
    if topic.startswith(DEAD) and terms.get("on_exhausted") == "dlq":
        raise Refused("dead letters have no dead letters")
    if found is None:
        yield from _ensure(model, topic, group, start, terms)
    elif terms != found.terms:
        yield model.exactly([f.GroupSet(topic, group, terms)])
    return group_info(model, topic, group)


def _ensure(model: "Model", topic: str, group: str, start: Place, terms: dict[str, Any]) -> Iterator[Judge]:
    found = model.topic(topic)
    if group not in found.groups:
        starts = tuple(start.resolve(log, log.end) for log in found.logs)
        yield model.exactly([f.GroupMade(topic, group, starts, terms, model.now)])


def delete_group(model: "Model", topic: str, group: str) -> Plan:
    model.group(topic, group)
    yield model.exactly([f.GroupDeleted(topic, group)])
    model.dismissed += model.hands.disband(topic, group)
    return None


def seek(model: "Model", topic: str, group: str, to: Place, partition: int | None) -> Plan:
    model.group(topic, group)
    logs = model.topic(topic).logs
    if partition is not None and partition >= len(logs):
        raise Refused("no such partition")
    numbers = range(len(logs)) if partition is None else [partition]
    places = tuple((number, to.resolve(logs[number], logs[number].end)) for number in numbers)
    yield model.exactly([f.Sought(topic, group, places, model.now)])
    model.reached.add("seek")
    return group_info(model, topic, group)


def group_info(model: "Model", topic: str, name: str) -> dict[str, Any]:
    group = model.group(topic, name)
    hand = model.hands.of(topic, name)
    partitions = []
    for number, log in enumerate(model.topic(topic).logs):
        waiting = group.open(number, log)
        retried = sum(group.tried(number, offset).attempts > 1 for offset in waiting)
        floor, done = group.floor(number, log), group.over(number, log)
        partitions.append((number, floor, log.end, len(waiting), len(hand.held(number)), retried, done))
    terms = model.terms(topic, group)
    return {
        "topic": topic,
        "group": name,
        "created_at": group.made,
        "moved_at": group.moved,
        "lag": sum(found[3] for found in partitions),
        "in_flight": len(hand.leases),
        "settings": {key: terms[key] for key in GROUP_TERMS},
        "partitions": partitions,
    }


# Readers


def put_reader(model: "Model", topic: str, reader: str, offsets: dict[int, int]) -> Plan:
    logs = model.topic(topic).logs
    if any(number >= len(logs) or offset > logs[number].end for number, offset in offsets.items()):
        raise Refused("no such place")
    yield model.exactly([f.ReaderPut(topic, reader, tuple(sorted(offsets.items())), model.now)])
    return reader_info(model, topic, reader)


def delete_reader(model: "Model", topic: str, reader: str) -> Plan:
    reader_info(model, topic, reader)
    yield model.exactly([f.ReaderDeleted(topic, reader)])
    return None


def reader_info(model: "Model", topic: str, reader: str) -> dict[str, Any]:
    logs = model.topic(topic).logs
    found = model.topic(topic).readers.get(reader)
    if found is None:
        raise NotFound(reader)
    lag = sum(len(log.offsets(found.offsets.get(n, 0))) for n, log in enumerate(logs))
    offsets = {str(number): offset for number, offset in sorted(found.offsets.items())}
    return {"topic": topic, "reader": reader, "moved_at": found.moved, "lag": lag, "offsets": offsets}


# What is only looked at


def look(model: "Model", what: str, *names: str) -> Plan:
    """A description of what is there; nothing is written."""
    topics = sorted(model.world.topics.items())
    if what == "topic":
        return topic_info(model, *names)
    if what == "group":
        return group_info(model, *names)
    if what == "reader":
        return reader_info(model, *names)
    if what == "spans":
        logs = enumerate(model.topic(*names).logs)
        return [(number, log.start, log.end) for number, log in logs if log.end > log.start]
    if what == "topics":
        return [(name, len(t.logs), sum(len(log.offsets()) for log in t.logs)) for name, t in topics]
    return [
        (name, group, sum(len(known.open(number, log)) for number, log in enumerate(topic.logs)))
        for name, topic in topics
        for group, known in sorted(topic.groups.items())
    ]
    yield  # a plan is a generator, also one without frames
