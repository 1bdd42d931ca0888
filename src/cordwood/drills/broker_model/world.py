"""All that is true once some facts are: as plain as it can be said.

A log is a dict from offsets to messages. A group has, for each partition, where it began, the set of offsets it has
done, and a dict of what is known of those it was given. Nothing is a range, nothing is kept in two places.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cordwood.drills.broker_model import facts as f
from cordwood.drills.broker_model.facts import Fact, Message

DEAD = "dlq."


class Try(NamedTuple):
    """Deliveries so far, not before when, and why the last one failed."""

    attempts: int = 0
    until: int = 0
    error: str = ""


@dataclass(slots=True)
class Producer:
    """A numbered producer in one partition: where each sequence of its epoch is."""

    epoch: int
    offsets: list[int] = field(default_factory=list)
    used: int = 0


class Append(NamedTuple):
    """Messages that came together, or are kept together: retention takes all of them or none."""

    first: int
    end: int
    bytes: int
    latest: int


@dataclass(slots=True)
class Log:
    """A partition. Its offsets are dense, but for what went with a lost disk: a hole."""

    start: int = 0
    end: int = 0
    messages: dict[int, Message] = field(default_factory=dict)  # lowest first; those below the start, too
    lsns: dict[int, int] = field(default_factory=dict)  # the frame that made a message visible
    appends: list[Append] = field(default_factory=list)  # oldest first
    producers: dict[str, Producer] = field(default_factory=dict)
    tiered: list[tuple[int, int]] = field(default_factory=list)  # what is kept together elsewhere, oldest first
    holes: list[tuple[int, int]] = field(default_factory=list)  # offsets that went with a lost disk, (first, end)

    def append(self, lsn: int, messages: Iterable[Message]) -> None:
        first, came = self.end, list(messages)
        for message in came:
            self.messages[self.end] = message
            self.lsns[self.end] = lsn
            self.end += 1
        size, latest = sum(message.bytes for message in came), max(message.timestamp for message in came)
        self.appends.append(Append(first, self.end, size, latest))

    def lost(self, offset: int) -> bool:
        """Whether an offset is in a hole."""
        return any(first <= offset < end for first, end in self.holes)

    def offsets(self, first: int = 0, end: int | None = None) -> list[int]:
        """Return the offsets from `first` to `end` that have messages, lowest first."""
        first, end = max(self.start, first), self.end if end is None else end
        if not self.holes:
            return list(range(first, end))
        found = list(self.messages)
        return found[bisect_left(found, first) : bisect_left(found, end)]

    def shown(self, lsn: int) -> int:
        """Return the end of what frames below `lsn` made visible."""
        return next((offset for offset in self.offsets() if self.lsns[offset] >= lsn), self.end)

    def passed(self, offset: int) -> int:
        """Return an offset, or the end of the hole it is in."""
        return next((end for first, end in self.holes if first <= offset < end), offset)


@dataclass(slots=True)
class Group:
    """A group, with one of everything for each partition."""

    terms: dict[str, Any]
    made: int
    moved: int
    begun: list[int]  # everything below is done
    done: list[set[int]]
    tries: list[dict[int, Try]]
    redriven: set[tuple[str, int, int]] = field(
        default_factory=set
    )  # (id of the dead-letter topic, partition, offset)

    def open(self, partition: int, log: Log) -> list[int]:
        """Return the offsets that are not done, lowest first."""
        done = self.done[partition]
        return [offset for offset in log.offsets(self.begun[partition]) if offset not in done]

    def floor(self, partition: int, log: Log) -> int:
        floor = log.passed(self.begun[partition])
        while floor in self.done[partition]:
            floor = log.passed(floor + 1)
        return floor

    def over(self, partition: int, log: Log) -> list[tuple[int, int]]:
        """Return what is done above the floor, or never was, as ranges."""
        floor = self.floor(partition, log)
        parts = [(offset, offset + 1) for offset in self.done[partition] if offset >= floor]
        parts += [hole for hole in log.holes if hole[0] >= floor]
        ranges: list[tuple[int, int]] = []
        for first, end in sorted(parts):
            if ranges and ranges[-1][1] >= first:
                ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
            else:
                ranges.append((first, end))
        return ranges

    def tried(self, partition: int, offset: int) -> Try:
        return self.tries[partition].get(offset, Try())


@dataclass(slots=True)
class Reader:
    offsets: dict[int, int]
    moved: int


@dataclass(slots=True)
class Topic:
    id: str
    terms: dict[str, Any]
    made: int
    logs: list[Log]
    groups: dict[str, Group] = field(default_factory=dict)
    readers: dict[str, Reader] = field(default_factory=dict)
    keys: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # key → partition, offset, since when


class Stage(NamedTuple):
    """One staged request."""

    topic: str
    topic_id: str
    pieces: tuple[f.Piece, ...]
    at: int


@dataclass(slots=True)
class Writer:
    last: int = -1
    results: list[tuple[str, int, int, int]] = field(default_factory=list)
    stages: dict[tuple[int, int, int], list[Stage]] = field(default_factory=dict)
    used: int = 0


class World:
    """What some facts add up to."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.writers: dict[str, Writer] = {}
        self.deleted: dict[str, Topic] = {}  # by id: what a lost disk brings back

    def apply(self, lsn: int, fact: Fact) -> None:
        """Make one fact true."""
        getattr(self, f"_{type(fact).__name__}")(lsn, fact)

    def group(self, fact: Any) -> Group:
        return self.topics[fact.topic].groups[fact.group]

    def visible_between(self, first: int, end: int) -> set[str]:
        """Return the topics with messages that frames from `first` to `end` made visible."""
        return {
            name
            for name, topic in self.topics.items()
            if any(first <= lsn < end for log in topic.logs for lsn in log.lsns.values())
        }

    # Topics

    def _TopicMade(self, lsn: int, fact: f.TopicMade) -> None:
        self.topics[fact.topic] = Topic(fact.id, fact.terms, fact.at, [Log() for _ in range(fact.partitions)])

    def _TopicSet(self, lsn: int, fact: f.TopicSet) -> None:
        self.topics[fact.topic].terms = fact.terms

    def _TopicDeleted(self, lsn: int, fact: f.TopicDeleted) -> None:
        gone = self.topics.pop(fact.topic)
        self.deleted[gone.id] = gone
        for writer in self.writers.values():
            left = {key: [s for s in stages if s.topic_id != gone.id] for key, stages in writer.stages.items()}
            writer.stages = {key: stages for key, stages in left.items() if stages}

    def _Trimmed(self, lsn: int, fact: f.Trimmed) -> None:
        topic = self.topics[fact.topic]
        log = topic.logs[fact.partition]
        log.start = fact.start
        log.holes = [hole for hole in log.holes if hole[1] > fact.start]
        for group in topic.groups.values():
            group.begun[fact.partition] = max(group.begun[fact.partition], fact.start)

    # Messages

    def _Stored(self, lsn: int, fact: f.Stored) -> None:
        topic = self.topics[fact.topic]
        for piece in fact.pieces:
            topic.logs[piece.partition].append(lsn, piece.messages)
        if fact.number is not None:
            each = fact.sequences or (fact.number.sequence,)
            for piece, sequence in zip(fact.pieces, each, strict=True):
                producers = topic.logs[piece.partition].producers
                known = producers.get(fact.number.producer)
                if known is None or known.epoch < fact.number.epoch:
                    known = producers[fact.number.producer] = Producer(fact.number.epoch)
                known.offsets[sequence : sequence + piece.count] = range(piece.first, piece.first + piece.count)
                known.used = fact.at
        for key, partition, offset in fact.keys:
            topic.keys[key] = (partition, offset, fact.at)

    def _Staged(self, lsn: int, fact: f.Staged) -> None:
        writer = self.writers.setdefault(fact.writer, Writer())
        stage = Stage(fact.topic, self.topics[fact.topic].id, fact.pieces, fact.at)
        writer.stages.setdefault((fact.batch, fact.task, fact.attempt), []).append(stage)
        writer.used = fact.at

    def _Published(self, lsn: int, fact: f.Published) -> None:
        writer = self.writers.setdefault(fact.writer, Writer())
        counts: dict[tuple[str, int], list[int]] = {}
        for task, attempt in fact.chosen:
            for stage in writer.stages.get((fact.batch, task, attempt), ()):
                for piece in stage.pieces:
                    log = self.topics[stage.topic].logs[piece.partition]
                    counts.setdefault((stage.topic, piece.partition), [log.end, 0])[1] += piece.count
                    log.append(lsn, piece.messages)
        writer.last, writer.used = fact.batch, fact.at
        writer.results = [(topic, number, first, count) for (topic, number), (first, count) in sorted(counts.items())]
        writer.stages = {key: stages for key, stages in writer.stages.items() if key[0] > fact.batch}

    def _Forgotten(self, lsn: int, fact: f.Forgotten) -> None:
        for topic in self.topics.values():
            topic.keys = {key: where for key, where in topic.keys.items() if where[2] >= fact.keys_before}
            for log in topic.logs:
                log.producers = {
                    n: known for n, known in log.producers.items() if known.used >= fact.producers_before
                }
        for writer in self.writers.values():
            writer.stages = {
                key: stages
                for key, stages in writer.stages.items()
                if any(stage.at >= fact.stages_before for stage in stages)
            }
        self.writers = {
            name: writer
            for name, writer in self.writers.items()
            if writer.stages or writer.used >= fact.producers_before
        }

    # Groups

    def _GroupMade(self, lsn: int, fact: f.GroupMade) -> None:
        count = len(fact.starts)
        self.topics[fact.topic].groups[fact.group] = Group(
            fact.terms, fact.at, fact.at, list(fact.starts), [set() for _ in range(count)], [{} for _ in range(count)]
        )

    def _GroupSet(self, lsn: int, fact: f.GroupSet) -> None:
        self.group(fact).terms = fact.terms

    def _GroupDeleted(self, lsn: int, fact: f.GroupDeleted) -> None:
        del self.topics[fact.topic].groups[fact.group]

    def _Sought(self, lsn: int, fact: f.Sought) -> None:
        group = self.group(fact)
        for partition, offset in fact.to:
            group.begun[partition] = offset
            group.done[partition] = set()
            group.tries[partition] = {}
        group.moved = fact.at

    def _Delivered(self, lsn: int, fact: f.Delivered) -> None:
        group = self.group(fact)
        for offset in fact.offsets:
            before = group.tried(fact.partition, offset)
            group.tries[fact.partition][offset] = Try(before.attempts + 1, 0, before.error)
        group.moved = fact.at

    def _GivenBack(self, lsn: int, fact: f.GivenBack) -> None:
        group = self.group(fact)
        for offset in fact.offsets:
            before = group.tried(fact.partition, offset)
            group.tries[fact.partition][offset] = before._replace(attempts=max(0, before.attempts - 1))

    def _Failed(self, lsn: int, fact: f.Failed) -> None:
        group = self.group(fact)
        for offset in fact.offsets:
            attempts = group.tried(fact.partition, offset).attempts
            group.tries[fact.partition][offset] = Try(attempts, fact.until, fact.error)

    def _Done(self, lsn: int, fact: f.Done) -> None:
        group = self.group(fact)
        group.done[fact.partition].update(fact.offsets)
        group.moved = fact.at

    def _Redriven(self, lsn: int, fact: f.Redriven) -> None:
        dead = self.topics[DEAD + fact.topic].id
        self.group(fact).redriven.update((dead, fact.partition, offset) for offset in fact.offsets)

    # Readers

    def _ReaderPut(self, lsn: int, fact: f.ReaderPut) -> None:
        known = self.topics[fact.topic].readers.setdefault(fact.reader, Reader({}, fact.at))
        known.offsets.update(fact.offsets)
        known.moved = fact.at

    def _ReaderDeleted(self, lsn: int, fact: f.ReaderDeleted) -> None:
        del self.topics[fact.topic].readers[fact.reader]

    # What is kept elsewhere

    def _Tiered(self, lsn: int, fact: f.Tiered) -> None:
        log = self.topics[fact.topic].logs[fact.partition]
        within = [one for one in log.appends if one.end > max(fact.first, log.start) and one.first < fact.end]
        size, latest = sum(one.bytes for one in within), max(one.latest for one in within)
        at = log.appends.index(within[0])
        log.appends[at : at + len(within)] = [Append(within[0].first, fact.end, size, latest)]
        log.tiered.append((fact.first, fact.end))

    def _Restored(self, lsn: int, fact: f.Restored) -> None:
        known = deepcopy(fact.world)
        self.topics, self.writers = known.topics, known.writers
        for topic in self.topics.values():
            for log in topic.logs:
                log.lsns = dict.fromkeys(log.messages, lsn)

    def _Noted(self, lsn: int, fact: f.Noted) -> None:
        pass


class Book:
    """Every frame that was written, so that the world after any number of them can be told."""

    def __init__(self) -> None:
        self.frames: list[list[Fact]] = []  # by LSN; a mark is an empty one
        self.last = 0  # the LSN behind the last frame that says something

    @property
    def end(self) -> int:
        return len(self.frames)

    def add(self, frame: list[Fact]) -> None:
        self.frames.append(frame)
        if frame:
            self.last = self.end

    def world(self, end: int) -> World:
        """Return the world after the frames below `end`."""
        world = World()
        for lsn, frame in enumerate(self.frames[:end]):
            for fact in frame:
                world.apply(lsn, fact)
        return world

    def cut(self, end: int) -> None:
        """Forget the frames from `end` on: they did not survive."""
        del self.frames[end:]
        self.last = next((lsn + 1 for lsn in reversed(range(self.end)) if self.frames[lsn]), 0)


def grouped(assigned: Iterable[tuple[int, Message]]) -> dict[int, list[Message]]:
    """Return the messages of each partition, in the order given, lowest partition first."""
    found: dict[int, list[Message]] = defaultdict(list)
    for partition, message in assigned:
        found[partition].append(message)
    return dict(sorted(found.items()))
