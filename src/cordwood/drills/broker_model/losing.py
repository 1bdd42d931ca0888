"""What a lost disk leaves: a snapshot of the world, and of the messages those that are kept elsewhere.

    promised    all that was kept elsewhere is there, unless retention or a deletion was to take it anyway
                no offset is ever given out again
                topics, groups, floors, producers are as they were in the newest snapshot that is whole
    a choice    messages that were about to be kept elsewhere: there, or not

So the broker's word is checked, and the history goes on from it.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

from cordwood.drills.broker_model.asked import Disagreement
from cordwood.drills.broker_model.facts import Restored
from cordwood.drills.broker_model.world import Append, Log, Topic, World

Place = tuple[str, int]  # (topic's id, partition)


@dataclass(slots=True)
class Loss:
    """What was true when the disk went: for sure, in part, and for whoever was answered."""

    durable: World
    written: World
    given: dict[Place, int]  # the end of what somebody was told of

    @staticmethod
    def of(durable: World, written: World, replied: World) -> "Loss":
        given = {(t.id, n): log.end for t in replied.topics.values() for n, log in enumerate(t.logs)}
        return Loss(durable, written, given)


def left(
    loss: Loss,
    snapshot: World,
    claim: Restored,
    missing: Sequence[tuple[str, int, int]],
    *,
    newest: bool,
    clean: bool,
) -> World:
    """Return the world that a broker goes on with that says this of itself, or raise `Disagreement`.

    `missing` are places (topic's id, partition, first offset) of which the store has nothing any more. The snapshot
    is the `newest`, or that one is damaged; a `clean` one was the last word of a broker that stopped.
    """
    world = deepcopy(snapshot)
    for name, topic in loss.durable.topics.items():
        kept = any(end > log.start for log in topic.logs for _, end in log.tiered)
        if newest and kept and _topic(snapshot, topic.id) is None:
            raise Disagreement(f"the topic {name} is in the tier, and no snapshot knows it")
    going_on = {topic for topic, _, _ in claim.ends}
    for name, topic in list(world.topics.items()):
        if name not in going_on:
            if any(topic.id == other.id for other in loss.durable.topics.values()):
                raise Disagreement(f"the topic {name} was there, and in the snapshot, and is gone with the disk")
            del world.topics[name]
            continue
        for number, log in enumerate(topic.logs):
            (end,) = [end for at, partition, end in claim.ends if (at, partition) == (name, number)]
            _leave(
                loss, claim, topic, number, log, {place[2] for place in missing if place[:2] == (topic.id, number)}
            )
            _go_on(loss, topic, number, log, end, newest and clean)
    for writer in world.writers.values():
        writer.stages.clear()
    return world


def _leave(loss: Loss, claim: Restored, topic: Topic, number: int, log: Log, missing: set[int]) -> None:
    """Leave the messages that are kept elsewhere."""
    lately = loss.written.deleted.get(topic.id) or _topic(loss.written, topic.id)
    known = {**log.messages, **(lately.logs[number].messages if lately is not None else {})}
    ranges = [span for span in log.tiered if span[1] > log.start and span[0] not in missing]
    appends = [one for one in log.appends if any(first <= one.first < end for first, end in ranges)]
    for kept in claim.kept:
        if (kept.topic_id, kept.partition) == (topic.id, number):
            if ranges and kept.first < ranges[-1][1]:
                raise Disagreement(f"{kept} overlaps {ranges[-1]}")
            ranges.append((kept.first, kept.end))
            appends.append(Append(kept.first, kept.end, kept.bytes, kept.latest))
    there = {offset for first, end in ranges for offset in range(first, end)}
    surely = _topic(loss.durable, topic.id)
    if surely is not None:
        durable = surely.logs[number]
        promised = {o for first, end in durable.tiered for o in range(max(first, durable.start), end)}
        if promised - there:
            raise Disagreement(f"{sorted(promised - there)} of {topic.id}/{number} were in the tier, and are gone")
    if there - known.keys():
        raise Disagreement(f"{sorted(there - known.keys())} of {topic.id}/{number} are there, and never were")
    log.messages = {offset: known[offset] for offset in sorted(there)}
    log.tiered, log.appends = ranges, appends


def _go_on(loss: Loss, topic: Topic, number: int, log: Log, end: int, exact: bool) -> None:
    """Go on at an end that nobody ever heard of."""
    given = max(loss.given.get((topic.id, number), 0), log.end)
    if end < given or (exact and end != given):
        raise Disagreement(f"{topic.id}/{number} goes on at {end}; {given} were given out{', not more' * exact}")
    log.holes = []
    at = log.start
    for first, stop in [*log.tiered, (end, end)]:
        if at < first:
            log.holes.append((at, first))
        at = max(at, stop)
    log.end = end


def _topic(world: World, topic_id: str) -> Topic | None:
    return next((topic for topic in world.topics.values() if topic.id == topic_id), None)
