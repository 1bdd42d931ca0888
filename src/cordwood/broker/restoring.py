"""What a store knows of a broker whose disk is gone: topics, groups, floors, producers, and history.

    the newest snapshot        what was true when it was put
    objects that continue it   shipped after that, under the same claim or a later one

All that was acknowledged after the last snapshot and not shipped is lost with the journal; nobody can say how much it
was. So each partition goes on far above: no offset that was given out is ever given out again. What lies between is a
hole, and shown as one.
"""

import logging
from bisect import bisect_right

from cordwood.broker import ops, snapshot
from cordwood.broker.shipping import stored
from cordwood.broker.state import State, Topic
from cordwood.errors import Damage, Damaged
from cordwood.machine.objects.store import Objects
from cordwood.tier import contents, leftovers
from cordwood.tier import state as states
from cordwood.tier.catalogue import Catalogue
from cordwood.tier.descriptor import Descriptor
from cordwood.tier.ship import Shipped

log = logging.getLogger("cordwood.broker")

# Offsets are skipped up to a multiple of this power of two, and half of it at least: more than a partition takes
# before the next snapshot.
GIVEN_BITS = 40


def restored(objects: Objects, catalogue: Catalogue) -> ops.Restored | None:
    """Return what a store knows, None where it knows nothing. Takes a while.

    Raises Damaged where it knew something: without it, every object would look like one that nobody reads from.
    """
    found = states.newest(objects)
    if found is None:
        marks = states.marks(objects)
        if not marks:
            return None
        reason, proof = "neither this snapshot nor one before it is whole", "they were read back when they were put"
        remedy = "Put one of them back from a copy of the store, or the journal; nothing was changed."
        raise Damaged([Damage(f"{objects.url}/{mark.name}", 0, 0, mark.lsn, reason, proof, remedy) for mark in marks])
    state = snapshot.restore(found.parts)
    listing = leftovers.listed(objects, catalogue)
    by_partition: dict[tuple[str, int], list[Descriptor]] = {}
    for one in listing.objects:
        if one.epoch >= found.mark.epoch:
            by_partition.setdefault((one.topic_id, one.partition), []).append(one)
    later = states.marks(objects)[0].epoch - found.mark.epoch
    more: list[tuple[ops.Stored, int, int]] = []
    ends: list[tuple[str, int, int]] = []
    parts = found.parts
    gone = [topic for topic in state.topics.values() if (topic.name, topic.id) in listing.tombstones]
    for topic in gone:
        del state.topics[topic.name]
    if _without_missing(state, {one.name for one in listing.objects}) or gone:
        parts = [bytes(part) for part in snapshot.capture(state).parts]
    for topic in state.topics.values():
        for number, partition in enumerate(topic.partitions):
            new = _continuing(objects, topic, number, by_partition.get((topic.id, number), []))
            more += new
            end = max(partition.end, new[-1][0].end if new else 0)
            ends.append((topic.name, number, end if found.mark.clean else _unheard_of(end, later)))
    return ops.Restored(parts, more, ends)


def _unheard_of(end: int, later: int) -> int:
    """Return an offset that was never given out behind this end, nor under so many epochs that came after it.

    Each of those may have gone on from an empty disk, as we do, if its snapshot is damaged now.
    """
    return ((end + (1 << GIVEN_BITS - 1) >> GIVEN_BITS) + 1 + later) << GIVEN_BITS


def _continuing(
    objects: Objects, topic: Topic, number: int, candidates: list[Descriptor]
) -> list[tuple[ops.Stored, int, int]]:
    """Return the objects behind those that a snapshot names: such that as many messages as can be are there.

    What was put under one claim holds the same messages, however often it was put, and whichever of it is read.
    """
    partition = topic.partitions[number]
    at = partition.index.tiered[-1].end if partition.index.tiered else 0
    left = [one for one in candidates if one.first >= at and one.end > partition.start]  # which may lie within one
    left = [one for one in left if one.count == one.end - one.first]
    found: dict[Descriptor, tuple[ops.Stored, int, int]] = {}
    while True:
        chosen = _covering(left)
        unread = [one for one in chosen if one not in found]
        if not unread:
            return [found[one] for one in chosen]
        for one in unread:
            try:
                inside = contents.fetch(objects, one)
            except Damaged as error:
                text = "lost: topic %s, partition %d, offsets %d to %d: %s"
                log.error(text, topic.name, number, one.first, one.end - 1, error)
                left.remove(one)
                continue
            size = objects.size(one.name)
            latest_us = max(group.latest_us for group in inside.groups)
            # What the messages take is not said; events take about so much.
            found[one] = stored(Shipped(one, size, inside.groups[0].rows)), 4 * size, latest_us


def _covering(candidates: list[Descriptor]) -> list[Descriptor]:
    """Return those of the objects, none of which overlap, that hold the most messages; rather of later claims."""
    ordered = sorted(candidates, key=lambda one: (one.end, one.first))
    ends = [one.end for one in ordered]
    best: list[tuple[tuple[int, int, int], list[Descriptor]]] = [((0, 0, 0), [])]  # of the first so many
    for one in ordered:
        (count, epochs, generations), before = best[bisect_right(ends, one.first)]
        held = one.end - one.first
        score = count + held, epochs + held * one.epoch, generations + held * one.generation
        best.append(max(best[-1], (score, [*before, one]), key=lambda found: found[0]))
    return best[-1][1]


def _without_missing(state: State, there: set[str]) -> bool:
    """Forget the objects that a store does not have; say whether there are some.

    The newest snapshot names none of those: it was put before they were deleted. One before it may.
    """
    found = False
    for topic in state.topics.values():
        for number, partition in enumerate(topic.partitions):
            gone = [one for one in partition.index.tiered if one.descriptor.name not in there]
            for one in gone:
                text = "topic %s, partition %d, offsets %d to %d were deleted since: %s"
                log.warning(text, topic.name, number, one.first, one.end - 1, one.descriptor.name)
            if gone:
                partition.index.lose(gone)
                found = True
    return found
