"""The whole state of a broker against the world: after each opening, and at the end."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from cordwood.broker.broker import Broker
from cordwood.broker.reads import Page
from cordwood.broker.state import Group as RealGroup
from cordwood.broker.state import State
from cordwood.broker.state import Topic as RealTopic
from cordwood.drills.broker_model.asked import Disagreement
from cordwood.drills.broker_model.facts import Message
from cordwood.drills.broker_model.model import Model
from cordwood.drills.broker_model.rows import messages_of
from cordwood.drills.broker_model.world import DEAD, Group, Topic, World

Read = Callable[[Callable[[], Page]], Page]


def at_once(call: Callable[[], Page]) -> Page:
    """Read what is all here."""
    return call()


def compare(model: Model, broker: Broker, read: Read = at_once) -> None:
    """Raise `Disagreement` unless the broker knows exactly what the world says.

    `read` returns what a reader of the log gets, and has fetched for it what is elsewhere.
    """
    world, state = model.world, broker.state
    same("topics", sorted(state.topics), sorted(world.topics))
    for name, topic in world.topics.items():
        _compare_topic(model, name, topic, state.topics[name])
        for number, log in enumerate(topic.logs):
            _compare_log(broker, name, topic, number, log.shown(model.shown), read)
    _compare_writers(world, state)


def same(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise Disagreement(f"{what}: {found}, where {expected} was right")


def _compare_topic(model: Model, name: str, topic: Topic, real: RealTopic) -> None:
    same(f"{name}: id", real.id, topic.id)
    same(f"{name}: settings", msgspec.to_builtins(real.terms), topic.terms)
    same(f"{name}: made at", real.made_ms, topic.made)
    ends = [(log.start, log.end) for log in topic.logs]
    same(f"{name}: starts and ends", [(p.start, p.end) for p in real.partitions], ends)
    for number, log in enumerate(topic.logs):
        found = {
            producer: (known.epoch, [known.offset(n) for n in range(known.next)], known.used_ms)
            for producer, known in real.partitions[number].producers.items()
        }
        expected = {producer: (known.epoch, known.offsets, known.used) for producer, known in log.producers.items()}
        same(f"{name}/{number}: numbered producers", found, expected)
    same(f"{name}: keys", sorted(real.keys.values()), sorted(topic.keys.values()))
    readers = {reader: (known.offsets, known.moved_ms) for reader, known in real.readers.items()}
    same(
        f"{name}: readers", readers, {reader: (known.offsets, known.moved) for reader, known in topic.readers.items()}
    )
    same(f"{name}: groups", sorted(real.groups), sorted(topic.groups))
    dead = model.world.topics.get(DEAD + name)
    for group, known in topic.groups.items():
        what = f"group {group} of {name}"
        _compare_group(what, topic, known, real.groups[group])
        sent = {
            (number, offset)
            for number, ranges in real.groups[group].redriven.items()
            for first, end in ranges
            for offset in range(first, end)
        }
        here = {place[1:] for place in known.redriven if dead is not None and place[0] == dead.id}
        same(f"{what}: dead letters sent back", sent, here)


def _compare_group(what: str, topic: Topic, group: Group, real: RealGroup) -> None:
    same(f"{what}: settings", msgspec.to_builtins(real.terms), group.terms)
    same(f"{what}: made, moved", (real.made_ms, real.moved_ms), (group.made, group.moved))
    for number, log in enumerate(topic.logs):
        cursor = real.cursors.get(number)
        floor = real.floor(number)
        done = list(cursor.done) if cursor is not None else []
        same(f"{what}: floor of {number}", floor, group.floor(number, log))
        same(f"{what}: done in {number}", done, group.over(number, log))
        for offset in group.open(number, log):
            tried = next(cursor.tries.within(offset, offset + 1))[2] if cursor is not None else (0, 0, "")
            same(f"{what}: attempts, delay and error of {number}/{offset}", tried, group.tried(number, offset))


def _compare_log(broker: Broker, name: str, topic: Topic, number: int, shown: int, read: Read) -> None:
    log = topic.logs[number]
    found: dict[int, Message] = {}
    at = 0
    while True:
        page = read(partial(broker.page, name, topic.id, number, at))
        found |= {run.first_offset + row: m for run in page.runs for row, m in enumerate(messages_of(run.batch))}
        if page.next_offset in (at, shown) or (at == 0 and page.next_offset >= shown):
            break
        at = page.next_offset
    same(f"{name}/{number}: messages", found, {offset: log.messages[offset] for offset in log.offsets(0, shown)})
    holes = broker.state.topics[name].partitions[number].holes
    same(f"{name}/{number}: holes", holes, log.holes)


def _compare_writers(world: World, state: State) -> None:
    found = {
        name: (
            writer.last,
            writer.results,
            writer.used_ms,
            {
                stage: [(part.topic, part.topic_id, sum(p.count for p in part.pieces), part.at) for part in parts]
                for stage, parts in writer.stages.items()
            },
        )
        for name, writer in state.writers.items()
    }
    expected = {
        name: (
            writer.last,
            writer.results,
            writer.used,
            {
                stage: [(part.topic, part.topic_id, sum(p.count for p in part.pieces), part.at) for part in parts]
                for stage, parts in writer.stages.items()
            },
        )
        for name, writer in world.writers.items()
    }
    same("writers", found, expected)
