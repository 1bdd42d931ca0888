"""What a store knows of a broker whose disk is gone: topics, groups, floors, producers, and history.

    the newest snapshot        what was true when it was put
    objects that continue it   shipped after that, under the same claim or a later one

All that was acknowledged after the last snapshot and not shipped is lost with the journal; nobody can say how much it
was. So each partition goes on far above: no offset that was given out is ever given out again. What lies between is a
hole, and shown as one.
"""

import logging

from cordwood.broker import ops, snapshot
from cordwood.broker.shipping import stored
from cordwood.broker.state import Partition, Topic
from cordwood.errors import Damaged
from cordwood.machine.objects.store import Objects
from cordwood.tier import contents, leftovers
from cordwood.tier import state as states
from cordwood.tier.catalogue import Catalogue
from cordwood.tier.descriptor import Descriptor, counting
from cordwood.tier.ship import Shipped

log = logging.getLogger("cordwood.broker")

GIVEN_BITS = 40  # offsets are skipped up to a multiple of this power of two: more than a partition takes in a week


def restored(objects: Objects, catalogue: Catalogue) -> ops.Restored | None:
    """Return what a store knows, None where it knows nothing. Takes a while."""
    found = states.newest(objects)
    if found is None:
        return None
    state = snapshot.restore(found.parts)
    listing = leftovers.listed(objects, catalogue)
    by_partition: dict[tuple[str, int], list[Descriptor]] = {}
    for one in listing.objects:
        if one.epoch >= found.mark.epoch:
            by_partition.setdefault((one.topic_id, one.partition), []).append(one)
    more: list[tuple[ops.Stored, int, int]] = []
    ends: list[tuple[str, int, int]] = []
    parts = found.parts
    gone = [topic for topic in state.topics.values() if (topic.name, topic.id) in listing.tombstones]
    if gone:
        for topic in gone:
            del state.topics[topic.name]
        parts = [bytes(part) for part in snapshot.capture(state).parts]
    for topic in state.topics.values():
        for number, partition in enumerate(topic.partitions):
            new = _continuing(objects, topic, number, by_partition.get((topic.id, number), []))
            more += new
            end = max(partition.end, new[-1][0].end if new else 0)
            if not found.mark.clean:
                end = (end >> GIVEN_BITS) + 1 << GIVEN_BITS
            ends.append((topic.name, number, end))
    return ops.Restored(parts, more, ends)


def _continuing(
    objects: Objects, topic: Topic, number: int, candidates: list[Descriptor]
) -> list[tuple[ops.Stored, int, int]]:
    """Return the objects behind those that a snapshot names."""
    partition = topic.partitions[number]
    at = _tiered_end(partition)
    found: list[tuple[ops.Stored, int, int]] = []
    for first, end, one in counting(candidates).spans:
        if first < at or (first, end) != (one.first, one.end) or one.count != end - first:
            continue
        try:
            inside = contents.fetch(objects, one)
        except Damaged as error:
            log.error("lost: topic %s, partition %d, offsets %d to %d: %s", topic.name, number, first, end - 1, error)
            continue
        size = objects.size(one.name)
        fact = stored(Shipped(one, size, inside.groups[0].rows))
        latest_us = max(group.latest_us for group in inside.groups)
        found.append((fact, 4 * size, latest_us))  # what the messages take is not said; events take about so much
        at = end
    return found


def _tiered_end(partition: Partition) -> int:
    return partition.index.tiered[-1].end if partition.index.tiered else partition.start
