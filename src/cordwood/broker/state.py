"""All that the broker knows and a restart must not forget, as a fold of the journal.

    state ── apply(lsn, ops) ──▶ state        the same for a frame just appended and for one read at a start

    State
    ├── topics    name → Topic
    │   ├── partitions   start, end, holes, index of pieces and objects, producers
    │   ├── groups       name → Group: a Cursor for each partition (floor, done, tries), dead letters sent back
    │   ├── readers      name → offsets
    │   └── keys         idempotency key → where its message is
    ├── writers   name → Writer: last published batch, staged batches
    ├── store     which one it belongs to
    ├── doomed    objects that nothing is read from, to be deleted from the store
    └── graves    deleted topics that have objects in the store

Nothing but `apply` changes it. No message's bytes are here, only their places.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from cordwood.broker import names, ops
from cordwood.broker.index import Index, Tiered
from cordwood.broker.numbers import Numbers
from cordwood.broker.ranges import Ranges
from cordwood.broker.terms import GroupTerms, TopicTerms
from cordwood.broker.tries import Tries, Try
from cordwood.tier.descriptor import Descriptor

MOST_KEYS = 100_000  # idempotency keys of a topic: 4 MB in every snapshot

log = logging.getLogger("cordwood.broker")


class Key(NamedTuple):
    """Where the message with an idempotency key is, and since when."""

    partition: int
    offset: int
    at: int


class StagePart(NamedTuple):
    """One staged request: its place and its pieces."""

    topic: str
    topic_id: str
    lsn: int
    payload: int
    pieces: Sequence[ops.Piece]
    at: int


class Partition:
    """One log of a topic: offsets from `start` to `end`.

    `shown` is how far the log is durable: what readers may see. It is not part of the fold; the ledger moves it.
    `holes` are offsets that were lost with a journal, before the tier had them; no message is there.
    """

    __slots__ = ("end", "holes", "index", "producers", "shown", "start")

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.shown = 0
        self.holes: list[tuple[int, int]] = []
        self.index = Index()
        self.producers: dict[str, Numbers] = {}

    @property
    def bytes(self) -> int:
        """The bytes of keys, values and headers that it holds."""
        return self.index.total_bytes - self.index.bytes_before(self.start)

    @property
    def messages(self) -> int:
        """How many messages it holds."""
        return self.end - self.start - self.missing(self.start, self.end)

    @property
    def tiered(self) -> int:
        """The offset below which everything is in the tier."""
        return max(self.start, self.index.tiered[-1].end) if self.index.tiered else self.start

    def lost(self, offset: int | None) -> bool:
        """Whether this offset is in a hole."""
        return offset is not None and any(first <= offset < end for first, end in self.holes)

    def missing(self, first: int, end: int) -> int:
        """Return how many of these offsets are in holes."""
        return sum(max(0, min(end, stop) - max(first, start)) for start, stop in self.holes)


class Cursor:
    """How far a group is in one partition: everything below `floor` is done, and the ranges of `done` above it."""

    __slots__ = ("done", "floor", "tries")

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.done = Ranges()
        self.tries = Tries()

    def add_done(self, first: int, end: int) -> None:
        """Mark [first, end) as done; what then lies below the floor is forgotten."""
        if end <= self.floor:
            return
        if first > self.floor:
            self.done.add(first, end)
            return
        self.floor = end
        while (lowest := self.done.first) is not None and lowest[0] <= self.floor:
            self.done.remove(*lowest)
            self.floor = max(self.floor, lowest[1])
        self.tries.drop_below(self.floor)

    def open(self, end: int) -> int:
        """Return how many messages below `end` are not done."""
        return max(0, end - self.floor) - self.done.total


class Group:
    """Consumers that share the work. A partition that nobody touched yet has no cursor, only its start."""

    __slots__ = ("cursors", "made_ms", "moved_ms", "name", "redriven", "starts", "terms")

    def __init__(self, name: str, starts: list[int], terms: GroupTerms, at: int):
        self.name = name
        self.starts = starts
        self.terms = terms
        self.made_ms = self.moved_ms = at
        self.cursors: dict[int, Cursor] = {}
        self.redriven: dict[int, Ranges] = {}  # dead letters that were sent back, in the dead-letter topic's offsets

    def cursor(self, partition: int) -> Cursor:
        """Return the cursor of a partition, to be changed."""
        found = self.cursors.get(partition)
        if found is None:
            found = self.cursors[partition] = Cursor(self.starts[partition])
        return found

    def floor(self, partition: int) -> int:
        found = self.cursors.get(partition)
        return self.starts[partition] if found is None else found.floor

    def open(self, partition: int, end: int) -> int:
        """Return how many messages of a partition below `end` are not done."""
        found = self.cursors.get(partition)
        return max(0, end - self.starts[partition]) if found is None else found.open(end)


class Reader:
    """A named reader: where it stands, and since when."""

    __slots__ = ("moved_ms", "offsets")

    def __init__(self, offsets: dict[int, int], moved_ms: int):
        self.offsets = offsets
        self.moved_ms = moved_ms


class Topic:
    """A topic; `id` is new at each creation."""

    __slots__ = ("groups", "id", "keys", "made_ms", "name", "partitions", "readers", "terms")

    def __init__(self, name: str, topic_id: str, partitions: int, terms: TopicTerms, at: int):
        self.name = name
        self.id = topic_id
        self.terms = terms
        self.made_ms = at
        self.partitions = [Partition() for _ in range(partitions)]
        self.groups: dict[str, Group] = {}
        self.readers: dict[str, Reader] = {}
        self.keys: dict[bytes, Key] = {}


class Writer:
    """Who publishes batches: the last one, what became of it, and what is staged for the next."""

    __slots__ = ("last", "results", "stages", "used_ms")

    def __init__(self) -> None:
        self.last = -1
        self.results: list[tuple[str, int, int, int]] = []  # (topic, partition, first offset, count)
        self.stages: dict[tuple[int, int, int], list[StagePart]] = {}  # (batch, task, attempt)
        self.used_ms = 0


class State:
    """What the frames applied so far add up to."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.writers: dict[str, Writer] = {}
        self.lost: list[tuple[int, int]] = []  # LSNs that an operator gave up
        self.store = ""  # the store that it belongs to, and under which claim it was last
        self.epoch = 0
        self.doomed: dict[str, int] = {}  # name → not to be deleted before, in ms
        self.graves: dict[tuple[str, str], None] = {}  # (topic, id)
        self._apply: dict[type, Callable[[int, Any], None]] = {
            ops.TopicMade: self._topic_made,
            ops.TopicSet: self._topic_set,
            ops.TopicDeleted: self._topic_deleted,
            ops.Appended: self._appended,
            ops.AppendedAcross: self._appended_across,
            ops.Staged: self._staged,
            ops.Published: self._published,
            ops.Forgotten: self._forgotten,
            ops.Trimmed: self._trimmed,
            ops.GroupMade: self._group_made,
            ops.GroupSet: self._group_set,
            ops.GroupDeleted: self._group_deleted,
            ops.Sought: self._sought,
            ops.Delivered: self._delivered,
            ops.GivenBack: self._given_back,
            ops.Failed: self._failed,
            ops.Done: self._done,
            ops.Redriven: self._redriven,
            ops.ReaderPut: self._reader_put,
            ops.ReaderDeleted: self._reader_deleted,
            ops.Stored: self._stored,
            ops.ObjectsDeleted: self._objects_deleted,
            ops.TopicBuried: self._topic_buried,
            ops.Restored: self._restored,
            ops.StoreClaimed: self._store_claimed,
        }

    def apply(self, lsn: int, facts: Iterable[ops.Op]) -> None:
        """Take a frame into the state."""
        for op in facts:
            try:
                self._apply[type(op)](lsn, op)
            except KeyError as error:
                if not self.lost:
                    raise
                log.warning("LSN %d speaks of %s, which was lost: %s", lsn, error, type(op).__name__)

    def lose(self, first: int, end: int) -> list[tuple[str, int, int, int]]:
        """Forget what frames held that an operator gave up; return (topic, partition, first offset, end) of it."""
        self.lost.append((first, end))
        gone = []
        for topic in self.topics.values():
            for number, partition in enumerate(topic.partitions):
                gone += [(topic.name, number, low, high) for low, high in partition.index.cut_lsns(first, end)]
        for writer in self.writers.values():
            for key, parts in list(writer.stages.items()):
                if any(first <= part.lsn < end for part in parts):
                    del writer.stages[key]  # a part of it would be worse than nothing
        return gone

    @property
    def has_objects(self) -> bool:
        """Whether messages are in a tier."""
        return any(partition.index.tiered for topic in self.topics.values() for partition in topic.partitions)

    def lowest_lsn(self) -> int | None:
        """Return the LSN of the oldest frame that holds a message or a staged batch, None if none does."""
        found = [p.index.lowest_lsn() for t in self.topics.values() for p in t.partitions]
        found += [part.lsn for w in self.writers.values() for parts in w.stages.values() for part in parts]
        return min((lsn for lsn in found if lsn is not None), default=None)

    # Topics

    def _topic_made(self, lsn: int, op: ops.TopicMade) -> None:
        assert op.topic not in self.topics, "a topic is made once"
        self.topics[op.topic] = Topic(op.topic, op.id, op.partitions, op.terms, op.at)

    def _topic_set(self, lsn: int, op: ops.TopicSet) -> None:
        self.topics[op.topic].terms = op.terms

    def _topic_deleted(self, lsn: int, op: ops.TopicDeleted) -> None:
        gone = self.topics.pop(op.topic)
        if any(partition.index.tiered for partition in gone.partitions):
            self.graves[(gone.name, gone.id)] = None
        for writer in self.writers.values():
            for key, parts in list(writer.stages.items()):
                writer.stages[key] = [part for part in parts if part.topic_id != gone.id]
                if not writer.stages[key]:
                    del writer.stages[key]  # nothing is staged: what a snapshot says, too
        source = self.topics.get(op.topic.removeprefix(names.DEAD)) if op.topic.startswith(names.DEAD) else None
        if source is not None:
            for group in source.groups.values():
                group.redriven.clear()  # the next dead letters begin at 0 again

    def _trimmed(self, lsn: int, op: ops.Trimmed) -> None:
        topic = self.topics[op.topic]
        partition = topic.partitions[op.partition]
        assert partition.start <= op.start <= partition.end, "the start moves forward, up to the end"
        partition.start = op.start
        for one in partition.index.trim(op.start):
            self.doomed[one.descriptor.name] = 0
        partition.holes = [hole for hole in partition.holes if hole[1] > op.start]
        for group in topic.groups.values():
            if group.floor(op.partition) < op.start:
                group.cursor(op.partition).add_done(0, op.start)

    # Messages

    def _append(self, lsn: int, op: ops.Appended | ops.AppendedAcross) -> Topic:
        topic = self.topics[op.topic]
        for piece in op.pieces:
            partition = topic.partitions[piece.partition]
            first, count = piece.first, piece.count
            assert first >= partition.end, "an offset is given once"
            partition.index.append(first, count, lsn, op.payload, piece.row, piece.bytes, piece.latest_us)
            partition.end = first + count
        return topic

    def _appended_across(self, lsn: int, op: ops.AppendedAcross) -> None:
        topic = self._append(lsn, op)
        for piece, sequence in zip(op.pieces, op.sequences, strict=True):
            _number(topic, piece, op.producer, op.epoch, sequence, op.at)

    def _appended(self, lsn: int, op: ops.Appended) -> None:
        topic = self._append(lsn, op)
        if op.number is not None:
            (piece,) = op.pieces
            _number(topic, piece, op.number.producer, op.number.epoch, op.number.sequence, op.at)
        for key, partition_number, offset in op.key_hashes:
            topic.keys.pop(key, None)  # so that the newest are last
            topic.keys[key] = Key(partition_number, offset, op.at)
        while len(topic.keys) > MOST_KEYS:
            del topic.keys[next(iter(topic.keys))]

    def _staged(self, lsn: int, op: ops.Staged) -> None:
        writer = self.writers.setdefault(op.writer, Writer())
        part = StagePart(op.topic, self.topics[op.topic].id, lsn, op.payload, op.pieces, op.at)
        writer.stages.setdefault((op.batch, op.task, op.attempt), []).append(part)
        writer.used_ms = op.at

    def _published(self, lsn: int, op: ops.Published) -> None:
        writer = self.writers.setdefault(op.writer, Writer())
        counts: dict[tuple[str, int], list[int]] = {}
        for placed in op.placed:
            piece = placed.piece
            partition = self.topics[placed.topic].partitions[piece.partition]
            assert piece.first >= partition.end, "an offset is given once"
            if not any(first <= placed.lsn < end for first, end in self.lost):
                partition.index.append(
                    piece.first, piece.count, placed.lsn, placed.payload, piece.row, piece.bytes, piece.latest_us
                )
            partition.end = piece.first + piece.count
            counts.setdefault((placed.topic, piece.partition), [piece.first, 0])[1] += piece.count
        writer.results = [(topic, number, first, count) for (topic, number), (first, count) in sorted(counts.items())]
        writer.last = op.batch
        writer.used_ms = op.at
        for key in [key for key in writer.stages if key[0] <= op.batch]:
            del writer.stages[key]

    def _forgotten(self, lsn: int, op: ops.Forgotten) -> None:
        for topic in self.topics.values():
            for partition in topic.partitions:
                for name in [n for n, found in partition.producers.items() if found.used_ms < op.producers_before]:
                    del partition.producers[name]
            for key in [k for k, found in topic.keys.items() if found.at < op.keys_before]:
                del topic.keys[key]
        for name, writer in list(self.writers.items()):
            for stage, parts in list(writer.stages.items()):
                if not parts or max(part.at for part in parts) < op.stages_before:
                    del writer.stages[stage]
            if not writer.stages and writer.used_ms < op.producers_before:
                del self.writers[name]

    # Groups

    def _group_made(self, lsn: int, op: ops.GroupMade) -> None:
        groups = self.topics[op.topic].groups
        assert op.group not in groups, "a group is made once"
        groups[op.group] = Group(op.group, list(op.starts), op.terms, op.at)
        for number, partition in enumerate(self.topics[op.topic].partitions):
            _pass_holes(groups[op.group], number, partition)

    def _group(self, op: Any) -> Group:
        return self.topics[op.topic].groups[op.group]

    def _group_set(self, lsn: int, op: ops.GroupSet) -> None:
        self._group(op).terms = op.terms

    def _group_deleted(self, lsn: int, op: ops.GroupDeleted) -> None:
        del self.topics[op.topic].groups[op.group]

    def _sought(self, lsn: int, op: ops.Sought) -> None:
        group = self._group(op)
        for number, offset in op.to:
            group.cursors[number] = Cursor(offset)
            _pass_holes(group, number, self.topics[op.topic].partitions[number])
        group.moved_ms = op.at

    def _delivered(self, lsn: int, op: ops.Delivered) -> None:
        group = self._group(op)
        tries = group.cursor(op.partition).tries
        for first, end in op.ranges:
            tries.change(first, end, _one_more)
        group.moved_ms = op.at

    def _given_back(self, lsn: int, op: ops.GivenBack) -> None:
        tries = self._group(op).cursor(op.partition).tries
        for first, end in op.ranges:
            tries.change(first, end, _one_less)

    def _failed(self, lsn: int, op: ops.Failed) -> None:
        tries = self._group(op).cursor(op.partition).tries
        for first, end in op.ranges:
            tries.change(first, end, lambda found: Try(found.attempts, op.until_ms, op.error))

    def _done(self, lsn: int, op: ops.Done) -> None:
        group = self._group(op)
        cursor = group.cursor(op.partition)
        for first, end in op.ranges:
            cursor.add_done(first, end)
        group.moved_ms = op.at

    def _redriven(self, lsn: int, op: ops.Redriven) -> None:
        sent = self._group(op).redriven.setdefault(op.partition, Ranges())
        for first, end in op.ranges:
            sent.add(first, end)

    def _reader_put(self, lsn: int, op: ops.ReaderPut) -> None:
        readers = self.topics[op.topic].readers
        known = readers.setdefault(op.reader, Reader({}, op.at))
        known.offsets.update(op.offsets)
        known.moved_ms = op.at

    def _reader_deleted(self, lsn: int, op: ops.ReaderDeleted) -> None:
        del self.topics[op.topic].readers[op.reader]

    # The tier

    def _stored(self, lsn: int, op: ops.Stored) -> None:
        topic = self.topics[op.topic]
        assert topic.id == op.topic_id, "an object belongs to a topic, not to its name"
        for one in topic.partitions[op.partition].index.put(tiered(op)):
            self.doomed[one.descriptor.name] = op.keep_until_ms

    def _store_claimed(self, lsn: int, op: ops.StoreClaimed) -> None:
        self.store, self.epoch = op.store, op.epoch

    def _objects_deleted(self, lsn: int, op: ops.ObjectsDeleted) -> None:
        for name in op.names:
            self.doomed.pop(name, None)

    def _topic_buried(self, lsn: int, op: ops.TopicBuried) -> None:
        self.graves.pop((op.topic, op.topic_id), None)

    def _restored(self, lsn: int, op: ops.Restored) -> None:
        from cordwood.broker import snapshot  # which knows this module

        found = snapshot.restore(op.parts)
        self.topics, self.writers, self.doomed, self.graves = found.topics, found.writers, found.doomed, found.graves
        for writer in self.writers.values():
            writer.stages.clear()  # they were in the lost journal
        for topic in self.topics.values():
            for partition in topic.partitions:
                partition.index.only_tiered()
        for fact, size, latest_us in op.objects:
            self.topics[fact.topic].partitions[fact.partition].index.bring(tiered(fact), size, latest_us)
        for name, number, end in op.ends:
            topic = self.topics[name]
            partition = topic.partitions[number]
            partition.end = max(end, partition.tiered)
            partition.holes = _gaps(partition)
            for group in topic.groups.values():
                _pass_holes(group, number, partition)


def tiered(fact: ops.Stored) -> Tiered:
    """Return the object that a fact speaks of."""
    place = (fact.topic, fact.topic_id, fact.partition, fact.first, fact.end, fact.epoch, fact.generation)
    return Tiered(Descriptor(*place, fact.end - fact.first, fact.checksum), fact.bytes, fact.group_rows)


def _gaps(partition: Partition) -> list[tuple[int, int]]:
    """Return the offsets that are in no object."""
    ends = [(one.first, one.end) for one in partition.index.tiered]
    gaps = []
    at = partition.start
    for first, end in [*ends, (partition.end, partition.end)]:
        if at < first:
            gaps.append((at, first))
        at = max(at, end)
    return gaps


def _pass_holes(group: Group, number: int, partition: Partition) -> None:
    """Have a group be done with what no message is in."""
    for first, end in partition.holes:
        if end > group.floor(number):
            group.cursor(number).add_done(first, end)


def _one_more(found: Try) -> Try:
    return Try(found.attempts + 1, 0, found.error)


def _one_less(found: Try) -> Try:
    return Try(max(0, found.attempts - 1), found.until_ms, found.error)


def _number(topic: Topic, piece: ops.Piece, producer: str, epoch: int, sequence: int, at: int) -> None:
    """Note that a producer's messages, from this number on, are where the piece is."""
    producers = topic.partitions[piece.partition].producers
    before = producers.get(producer)
    if before is None or epoch > before.epoch:
        before = producers[producer] = Numbers(epoch)
    before.stored(sequence, piece.first, piece.count, at)
