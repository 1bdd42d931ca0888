"""The state as the parts of a snapshot, and back.

    part      MessagePack array: its number, then its fields; none is larger than about a megabyte
    order     Head · for each topic: Topic, its indexes, objects and holes, producers, keys, readers, groups with
              cursors · writers · what is to be deleted from the store

All but the indexes is encoded when the state is captured, so its size is exact. The indexes are by far the largest;
of them the capture takes only a length, and their bytes are copied in whichever thread draws the parts.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from cordwood.broker import ops
from cordwood.broker.index import COLUMN_BYTES, Tiered
from cordwood.broker.numbers import Numbers
from cordwood.broker.ranges import Ranges
from cordwood.broker.state import Cursor, Group, Key, Reader, StagePart, State, Topic, Writer
from cordwood.broker.terms import GroupTerms, TopicTerms
from cordwood.broker.tries import Tries, Try
from cordwood.errors import OtherVersion
from cordwood.journal.fold import Snapshot
from cordwood.machine.disk import Buffer
from cordwood.tier.descriptor import Descriptor

VERSION = 1
CHUNK = 16_384  # pieces of an index, or other small things, in one part
_OVERHEAD = 600  # most bytes of an index part beside its columns: a name of 244 characters, numbers


class Head(Struct, array_like=True, frozen=True, tag=1):
    version: int


class TopicPart(Struct, array_like=True, frozen=True, tag=2):
    name: str
    id: str
    terms: TopicTerms
    made_ms: int
    starts: list[int]
    ends: list[int]


class IndexPart(Struct, array_like=True, frozen=True, tag=3):
    topic: str
    partition: int
    total_bytes: int
    columns: list[bytes]


class ProducersPart(Struct, array_like=True, frozen=True, tag=4):
    topic: str
    partition: int
    producers: list[tuple[str, int, int, list[tuple[int, int]], int]]


class KeysPart(Struct, array_like=True, frozen=True, tag=5):
    topic: str
    keys: list[tuple[bytes, int, int, int]]


class ReaderPart(Struct, array_like=True, frozen=True, tag=6):
    topic: str
    reader: str
    offsets: list[tuple[int, int]]
    moved_ms: int


class GroupPart(Struct, array_like=True, frozen=True, tag=7):
    topic: str
    group: str
    starts: list[int]
    terms: GroupTerms
    made_ms: int
    moved_ms: int


class CursorPart(Struct, array_like=True, frozen=True, tag=8):
    topic: str
    group: str
    partition: int
    floor: int


class DonePart(Struct, array_like=True, frozen=True, tag=9):
    """Ranges of the cursor named last; `redriven` ones are the group's own."""

    topic: str
    group: str
    partition: int
    redriven: bool
    blocks: list[tuple[bytes, bytes]]


class TriesPart(Struct, array_like=True, frozen=True, tag=10):
    topic: str
    group: str
    partition: int
    tries: list[tuple[int, int, int, int, str]]


class WriterPart(Struct, array_like=True, frozen=True, tag=11):
    writer: str
    last: int
    results: list[tuple[str, int, int, int]]
    used_ms: int


class StagePartPart(Struct, array_like=True, frozen=True, tag=12):
    writer: str
    batch: int
    task: int
    attempt: int
    topic: str
    topic_id: str
    lsn: int
    payload: int
    pieces: list[ops.Piece]
    at: int


class ObjectsPart(Struct, array_like=True, frozen=True, tag=13):
    """Objects of a partition: (first, end, epoch, generation, checksum, bytes, group_rows)."""

    topic: str
    partition: int
    objects: list[tuple[int, int, int, int, int, int, int]]


class HolesPart(Struct, array_like=True, frozen=True, tag=14):
    topic: str
    partition: int
    holes: list[tuple[int, int]]


class DoomedPart(Struct, array_like=True, frozen=True, tag=15):
    """Objects to be deleted: (name, not before); and deleted topics that have some: (topic, id)."""

    doomed: list[tuple[str, int]]
    graves: list[tuple[str, str]]


class StorePart(Struct, array_like=True, frozen=True, tag=16):
    store: str
    epoch: int


Part = (
    Head
    | TopicPart
    | IndexPart
    | ProducersPart
    | KeysPart
    | ReaderPart
    | GroupPart
    | CursorPart
    | DonePart
    | TriesPart
    | WriterPart
    | StagePartPart
    | ObjectsPart
    | HolesPart
    | DoomedPart
    | StorePart
)
_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Part] = msgspec.msgpack.Decoder(Part)
T = TypeVar("T")


def capture(state: State) -> Snapshot:
    """Return the state as it is now, whatever happens to it later."""
    parts: list[bytes | _Pending] = [_encode(Head(VERSION))]
    for topic in state.topics.values():
        _capture_topic(topic, parts)
    for name, writer in state.writers.items():
        parts.append(_encode(WriterPart(name, writer.last, writer.results, writer.used_ms)))
        for (batch, task, attempt), staged in writer.stages.items():
            for part in staged:
                pieces = list(part.pieces)
                parts.append(_encode(StagePartPart(name, batch, task, attempt, *part[:4], pieces, part.at)))
    if state.store:
        parts.append(_encode(StorePart(state.store, state.epoch)))
    for doomed in _chunks(state.doomed.items(), CHUNK // 16):
        parts.append(_encode(DoomedPart(doomed, [])))
    for graves in _chunks(state.graves, CHUNK // 16):
        parts.append(_encode(DoomedPart([], graves)))
    pending = [part for part in parts if isinstance(part, _Pending)]
    most_parts = len(parts) - len(pending) + sum(part.most_parts for part in pending)
    most_bytes = sum(len(part) for part in parts if isinstance(part, bytes))
    return Snapshot(_draw(parts), most_parts, most_bytes + sum(part.most_bytes for part in pending))


class _Pending:
    """An index to be written later: its columns up to a length."""

    __slots__ = ("columns", "length", "partition", "topic", "total_bytes")

    def __init__(self, topic: str, partition: int, captured: tuple[int, int, tuple[Any, ...]]):
        self.topic = topic
        self.partition = partition
        self.length, self.total_bytes, self.columns = captured

    @property
    def most_parts(self) -> int:
        return -(-self.length // CHUNK)

    @property
    def most_bytes(self) -> int:
        return self.length * COLUMN_BYTES + self.most_parts * _OVERHEAD

    def parts(self) -> Iterator[bytes]:
        for at in range(0, self.length, CHUNK):
            columns = [column[at : min(at + CHUNK, self.length)].tobytes() for column in self.columns]
            yield _encode(IndexPart(self.topic, self.partition, self.total_bytes, columns))


def _draw(parts: list["bytes | _Pending"]) -> Iterator[Buffer]:
    for part in parts:
        if isinstance(part, bytes):
            yield part
        else:
            yield from part.parts()


def _capture_topic(topic: Topic, parts: list["bytes | _Pending"]) -> None:
    name = topic.name
    starts, ends = [p.start for p in topic.partitions], [p.end for p in topic.partitions]
    parts.append(_encode(TopicPart(name, topic.id, topic.terms, topic.made_ms, starts, ends)))
    for number, partition in enumerate(topic.partitions):
        if len(partition.index) or partition.index.total_bytes:
            captured = partition.index.captured()
            if captured[0]:
                parts.append(_Pending(name, number, captured))
            else:
                parts.append(_encode(IndexPart(name, number, captured[1], [b""] * len(captured[2]))))
        for objects in _chunks(partition.index.tiered, CHUNK):
            parts.append(_encode(ObjectsPart(name, number, [_flat(one) for one in objects])))
        if partition.holes:
            parts.append(_encode(HolesPart(name, number, partition.holes)))
        for chunk in _chunks(partition.producers.items(), CHUNK // 64):
            found = [(producer, n.epoch, n.next, n.turns, n.used_ms) for producer, n in chunk]
            parts.append(_encode(ProducersPart(name, number, found)))
    for keys in _chunks(topic.keys.items(), CHUNK):
        parts.append(_encode(KeysPart(name, [(key, *where) for key, where in keys])))
    for reader, known in topic.readers.items():
        parts.append(_encode(ReaderPart(name, reader, list(known.offsets.items()), known.moved_ms)))
    for group in topic.groups.values():
        _capture_group(name, group, parts)


def _flat(one: Tiered) -> tuple[int, int, int, int, int, int, int]:
    found = one.descriptor
    return found.first, found.end, found.epoch, found.generation, found.checksum, one.bytes, one.group_rows


def _capture_group(topic: str, group: Group, parts: list["bytes | _Pending"]) -> None:
    name = group.name
    parts.append(_encode(GroupPart(topic, name, group.starts, group.terms, group.made_ms, group.moved_ms)))
    for number, cursor in group.cursors.items():
        parts.append(_encode(CursorPart(topic, name, number, cursor.floor)))
        for blocks in _chunks(cursor.done.blocks(), 64):
            parts.append(_encode(DonePart(topic, name, number, False, blocks)))
        for tries in _chunks(cursor.tries, CHUNK // 4):
            flat = [(start, end, *found) for start, end, found in tries]
            parts.append(_encode(TriesPart(topic, name, number, flat)))
    for number, ranges in group.redriven.items():
        for blocks in _chunks(ranges.blocks(), 64):
            parts.append(_encode(DonePart(topic, name, number, True, blocks)))


def _chunks(things: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(things)
    while chunk := list(islice(iterator, size)):
        yield chunk


def restore(parts: Iterable[Buffer]) -> State:
    """Return the state that was captured. Raises ValueError for parts that are none."""
    state = State()
    tries: dict[int, list[tuple[int, int, Try]]] = {}
    cursors: dict[int, Cursor] = {}
    for data in parts:
        try:
            part = _decoder.decode(data)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"not a part of a snapshot: {error}") from None
        try:
            if getattr(part, "partition", 0) < 0:
                raise LookupError("a partition below 0")  # Python would take it for one counted from the end
            if isinstance(part, TriesPart):  # may come in several parts
                cursor = state.topics[part.topic].groups[part.group].cursors[part.partition]
                cursors[id(cursor)] = cursor
                tries.setdefault(id(cursor), []).extend((s, e, Try(a, u, why)) for s, e, a, u, why in part.tries)
            else:
                _restore_part(state, part)
        except (LookupError, OverflowError, AssertionError) as error:
            raise ValueError(f"a part of a snapshot that does not go with those before it: {error!r}") from None
    try:
        for number, cursor in cursors.items():
            cursor.tries = Tries(tries[number])
    except OverflowError as error:
        raise ValueError(f"not a part of a snapshot: {error}") from None
    return state


def _restore_part(state: State, part: Part) -> None:
    if isinstance(part, Head):
        if part.version != VERSION:
            raise OtherVersion(f"a snapshot of version {part.version}; this Cordwood reads {VERSION}")
    elif isinstance(part, TopicPart):
        topic = Topic(part.name, part.id, len(part.starts), part.terms, part.made_ms)
        for partition, start, end in zip(topic.partitions, part.starts, part.ends, strict=True):
            partition.start, partition.end = start, end
        state.topics[part.name] = topic
    elif isinstance(part, WriterPart):
        writer = state.writers[part.writer] = Writer()
        writer.last, writer.results, writer.used_ms = part.last, part.results, part.used_ms
    elif isinstance(part, StorePart):
        state.store, state.epoch = part.store, part.epoch
    elif isinstance(part, DoomedPart):
        state.doomed.update(part.doomed)
        state.graves.update(dict.fromkeys(part.graves))
    elif isinstance(part, StagePartPart):
        staged = StagePart(part.topic, part.topic_id, part.lsn, part.payload, part.pieces, part.at)
        stages = state.writers[part.writer].stages
        stages.setdefault((part.batch, part.task, part.attempt), []).append(staged)
    else:
        _restore_topic_part(state.topics[part.topic], part)


def _restore_topic_part(topic: Topic, part: Any) -> None:
    if isinstance(part, IndexPart):
        index = topic.partitions[part.partition].index
        index.extend(part.columns)
        index.total_bytes = part.total_bytes
    elif isinstance(part, ObjectsPart):
        index = topic.partitions[part.partition].index
        for first, end, epoch, generation, checksum, size, group_rows in part.objects:
            place = (topic.name, topic.id, part.partition, first, end, epoch, generation, end - first, checksum)
            index.tiered.append(Tiered(Descriptor(*place), size, group_rows))
    elif isinstance(part, HolesPart):
        topic.partitions[part.partition].holes = list(part.holes)
    elif isinstance(part, ProducersPart):
        for name, epoch, following, turns, used_ms in part.producers:
            topic.partitions[part.partition].producers[name] = Numbers(epoch, following, turns, used_ms)
    elif isinstance(part, KeysPart):
        for key, *where in part.keys:
            topic.keys[key] = Key(*where)
    elif isinstance(part, ReaderPart):
        topic.readers[part.reader] = Reader(dict(part.offsets), part.moved_ms)
    elif isinstance(part, GroupPart):
        group = topic.groups[part.group] = Group(part.group, part.starts, part.terms, part.made_ms)
        group.moved_ms = part.moved_ms
    elif isinstance(part, CursorPart):
        topic.groups[part.group].cursors[part.partition] = Cursor(part.floor)
    elif isinstance(part, DonePart):
        group = topic.groups[part.group]
        if part.redriven:
            ranges = group.redriven.setdefault(part.partition, Ranges())
        else:
            ranges = group.cursors[part.partition].done
        for starts, ends in part.blocks:
            ranges.extend(starts, ends)
    else:
        raise AssertionError(f"no place for {part}")
