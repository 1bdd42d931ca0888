"""What a source holds, told before anything is done with it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from cordwood.doors.airunner import TOPIC
from cordwood.doors.record import Aside, Kind, Place, Record, Topic
from cordwood.doors.source import Source

MOST_PLACES = 1_000  # kept of each kind; they are all counted
MOST_ASIDES = 1_000


@dataclass(slots=True)
class TopicTally:
    """What a source has of one topic. Numbers and times are the lowest and the highest; partitions as declared."""

    records: int = 0
    bytes: int = 0
    first: int | None = None
    last: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    partitions: int = 1

    def add(self, record: Record) -> None:
        """Count a record."""
        number, time_ms, partition = record.number, record.time_ms, record.partition
        self.records += 1
        self.bytes += len(record.value)
        if self.first is None or number < self.first:
            self.first = number
        if self.last is None or number > self.last:
            self.last = number
        if time_ms is not None:
            self.first_ms, self.last_ms = _least(self.first_ms, time_ms), _most(self.last_ms, time_ms)
        if partition is not None and partition >= self.partitions:
            self.partitions = partition + 1

    def join(self, other: "TopicTally") -> None:
        """Count what another has counted."""
        self.records += other.records
        self.bytes += other.bytes
        self.first, self.last = _least(self.first, other.first), _most(self.last, other.last)
        self.first_ms, self.last_ms = _least(self.first_ms, other.first_ms), _most(self.last_ms, other.last_ms)
        self.partitions = max(self.partitions, other.partitions)


@dataclass(slots=True)
class Survey:
    """A source, read to its last byte. `asides` are (kind, facts) of what is shown and not imported."""

    source: Source
    formats: Counter[str] = field(default_factory=Counter)
    topics: dict[str, TopicTally] = field(default_factory=dict)
    places: dict[Kind, list[Place]] = field(default_factory=lambda: {kind: [] for kind in Kind})
    place_counts: Counter[Kind] = field(default_factory=Counter)
    asides: list[Aside] = field(default_factory=list)
    aside_counts: Counter[str] = field(default_factory=Counter)

    @property
    def records(self) -> int:
        """How many whole records there are."""
        return sum(self.formats.values())

    @property
    def format(self) -> str:
        """The formats of the records; the door's name where there is none."""
        return ", ".join(sorted(self.formats)) or self.source.door.name


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _most(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def topic_of(record: Record) -> str:
    """Return the topic that a record was in; a format without topics has one."""
    return TOPIC if record.topic is None else record.topic


def survey(source: Source, progress: Callable[[int], None] | None = None) -> Survey:
    """Read every byte of a source and return what is there. Nothing raises; damage is in `places`."""
    found = Survey(source)
    for _, item in source.items():
        if isinstance(item, Record):
            found.formats[item.format] += 1
            found.topics.setdefault(topic_of(item), TopicTally()).add(item)
        elif isinstance(item, Topic):
            tally = found.topics.setdefault(item.name, TopicTally())
            tally.partitions = max(tally.partitions, item.partitions)
        elif isinstance(item, Aside):
            found.aside_counts[item.what] += 1
            if len(found.asides) < MOST_ASIDES:
                found.asides.append(item)
        else:
            found.place_counts[item.kind] += 1
            if len(found.places[item.kind]) < MOST_PLACES:
                found.places[item.kind].append(item)
        if progress is not None:
            progress(item.end - item.position)
    return found
