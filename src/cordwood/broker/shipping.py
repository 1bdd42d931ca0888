"""What goes from the journal into the tier, when, and what becomes true then. No thread, no store.

    due      a partition has messages for a whole object, or some that have waited for `tier_interval_s`
    load     whole pieces of one partition, neighbours without a gap, all of them durable
    stored   the fact that they are in an object; from then on they are read from there, and their segments may go

A topic is shipped only when a snapshot in the store names it: an object whose topic nobody knows would be lost with
the journal. The interval stretches with the number of partitions that have something, so that there are not too
many objects.
"""

from collections.abc import Iterator

from cordwood.broker import ops
from cordwood.broker.counts import Counts
from cordwood.broker.index import Tiered
from cordwood.broker.ledger import Ledger
from cordwood.broker.loading import Load
from cordwood.broker.state import Partition, Topic
from cordwood.machine.clock import Clock
from cordwood.machine.objects.store import PART_BYTES
from cordwood.settings import Settings
from cordwood.tier.descriptor import Descriptor
from cordwood.tier.ship import Freight, Shipped

OBJECTS_PER_S = 10  # at most, on the average
DELETED_AT_ONCE = 1000


class Shipping:
    """Chooses what is shipped. `epoch` is that of the claim, 0 while there is none."""

    def __init__(self, ledger: Ledger, settings: Settings, clock: Clock, counts: Counts):
        self.epoch = 0
        self.named: set[str] = set()  # topic ids that a snapshot in the store has
        self.over: set[str | tuple[str, str]] = set()  # objects and topics to be deleted, as the last one there says
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._counts = counts
        self._since: dict[tuple[str, int], int] = {}  # when a partition's next message was first seen here

    @property
    def backlog_bytes(self) -> int:
        """What is in the journal and not yet in the tier."""
        return sum(partition.index.untiered_bytes for _, _, partition in self._untiered())

    @property
    def unnamed(self) -> bool:
        """Whether there is a topic that no snapshot in the store has."""
        return any(topic.id not in self.named for topic in self._ledger.state.topics.values())

    def next(self, *, everything: bool = False) -> Load | None:
        """Return what is due now, the partition that waits the longest first; with `everything`, without waiting."""
        now = self._clock.monotonic_ms()
        waiting: dict[tuple[str, int], tuple[int, Topic, int, int]] = {}
        for topic, number, partition in self._untiered():
            size = _durable_bytes(partition)
            if size and topic.id in self.named and has_folder(topic.name):
                since = self._since.get((topic.id, number), now)
                waiting[(topic.id, number)] = since, topic, number, size
        self._since = {place: found[0] for place, found in waiting.items()}
        interval_ms = max(self._settings.tier_interval_s * 1000, len(waiting) * 1000 // OBJECTS_PER_S)
        for since, topic, number, size in sorted(waiting.values(), key=lambda found: (found[0], -found[3])):
            if everything or size >= self._settings.tier_object_bytes or now - since >= interval_ms:
                del self._since[(topic.id, number)]
                return self._load(topic, number)
        return None

    def _untiered(self) -> Iterator[tuple[Topic, int, Partition]]:
        """Yield the partitions that have messages in the journal alone; the ledger forgets those that have none."""
        for name, number in list(self._ledger.untiered):
            topic = self._ledger.state.topics.get(name)
            there = topic is not None and number < len(topic.partitions)
            if topic is None or not there or topic.partitions[number].index.journal_first is None:
                del self._ledger.untiered[(name, number)]
            else:
                yield topic, number, topic.partitions[number]

    def _load(self, topic: Topic, number: int) -> Load:
        partition = topic.partitions[number]
        found = partition.index.untiered(self._settings.tier_object_bytes)
        assert found is not None, "there is something"
        first, end = found
        freight = Freight(topic.name, topic.id, number, first, min(end, partition.shown), self.epoch)
        return Load(freight, partition.index.view(), self._ledger.cache)

    def stored(self, shipped: Shipped) -> bool:
        """Note that messages are in an object; say whether anybody still wants them."""
        found = shipped.descriptor
        topic = self._ledger.state.topics.get(found.topic)
        if topic is None or topic.id != found.topic_id or topic.partitions[found.partition].start >= found.end:
            return False
        self._ledger.write([stored(shipped)], reserve=True)
        self._counts.objects += 1
        self._counts.object_bytes += shipped.bytes
        return True

    # What goes from the store

    def doomed(self) -> list[str]:
        """Return objects that may be deleted now: on an empty disk the store would say so, too."""
        now = self._clock.now_ms()
        doomed = self._ledger.state.doomed.items()
        found = [name for name, keep_until_ms in doomed if keep_until_ms <= now and name in self.over]
        return found[:DELETED_AT_ONCE]

    def graves(self) -> list[tuple[str, str]]:
        """Return deleted topics whose objects may be deleted now."""
        return [grave for grave in self._ledger.state.graves if grave in self.over]

    def deleted(self, names: list[str]) -> None:
        """Note that objects are gone."""
        self._ledger.write([ops.ObjectsDeleted(names)], reserve=True)

    def buried(self, topic: str, topic_id: str) -> None:
        """Note that a deleted topic has no objects any more."""
        self._ledger.write([ops.TopicBuried(topic, topic_id)], reserve=True)

    def reads(self, tiered: Tiered) -> bool:
        """Say whether messages are read from an object."""
        found = tiered.descriptor
        topic = self._ledger.state.topics.get(found.topic)
        return (
            topic is not None
            and topic.id == found.topic_id
            and tiered in topic.partitions[found.partition].index.tiered
        )

    def unread(self, found: list[Descriptor]) -> list[str]:
        """Return the names of those objects that nothing is read from, and nothing would be after a crash.

        What is to be deleted is deleted in due time: that a topic is gone may not be durable yet.
        """
        known, graves = self.known(), {topic_id for _, topic_id in self._ledger.state.graves}
        return [one.name for one in found if one.name not in known and one.topic_id not in graves]

    def known(self) -> set[str]:
        """Return the names of all objects that are read from, or that are to be deleted in due time."""
        state = self._ledger.state
        names = {
            one.descriptor.name
            for topic in state.topics.values()
            for partition in topic.partitions
            for one in partition.index.tiered
        }
        return names | state.doomed.keys()


def stored(shipped: Shipped, keep_until_ms: int = 0) -> ops.Stored:
    """Return the fact that an object is in the store."""
    found = shipped.descriptor
    return ops.Stored(
        found.topic,
        found.topic_id,
        found.partition,
        found.first,
        found.end,
        found.epoch,
        found.generation,
        found.checksum,
        shipped.bytes,
        shipped.group_rows,
        keep_until_ms,
    )


def has_folder(topic: str) -> bool:
    """Say whether a store takes this name, with its "/" as %2F; a topic that has none stays in the journal."""
    return len(topic.replace("/", "%2F")) <= PART_BYTES


def _durable_bytes(partition: Partition) -> int:
    """Return how much of a partition is durable and not in the tier."""
    first = partition.index.journal_first
    if first is None or first >= partition.shown:
        return 0
    return partition.index.bytes_before(partition.shown) - partition.index.bytes_before(first) or 1
