"""What an import does next: pure, so that what a power cut leaves can be tried out.

    source   r0 r1 r2 r3 r4 r5 r6         records in their order; each goes to one topic
    topic a  0     1  2     3             its index in that topic, counted from the beginning of the source
    mark     next = 2, digest of 0 and 1  what of this source is in topic a; written together with the messages
    batch             [2     3]           bounded; begins where the mark is

The digest is of every record that the mark covers. So a source whose beginning has changed is noticed, whatever the
change.
"""

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from cordwood.doors.record import LAST_MS, Record, text
from cordwood.doors.source import Source
from cordwood.doors.survey import topic_of
from cordwood.errors import OtherVersion

VERSION = 1  # of marks, and of what a digest is over
Target = Callable[[Record], str]
_LENGTHS = struct.Struct("<qqqqq")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is published at once: small enough for one request, large enough that its sync does not count."""

    batch_records: int = 5_000
    batch_bytes: int = 4 << 20  # a larger record is a batch of its own


class Mark(Struct, frozen=True, kw_only=True):
    """How far a source is in a topic. A message of the topic of marks, so its fields are for ever.

    `next` is how many of the source's records for this topic are in it, `digest` is over these. `batch` is the
    writer's number for what was published together with this mark, `run` the import that did it. `named` says that
    the topic was given by name, and is not the source's own.
    """

    source: str
    topic: str
    topic_id: str
    next: int
    digest: str
    batch: int
    run: int
    named: bool
    version: int = VERSION


class _Versioned(Struct):
    """What a mark of any version has."""

    version: int


def mark_from(data: bytes) -> Mark | None:
    """Return a mark from its bytes, None for what is none: anybody may produce to the topic of marks.

    Raises OtherVersion for a mark that this Cordwood does not read.
    """
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version == VERSION:
            return msgspec.json.decode(data, type=Mark)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    raise OtherVersion(f"a mark was written in format {version}; this Cordwood reads format {VERSION}")


class Progress:
    """Counts and digests the records of a source, topic by topic."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._digests: dict[str, Any] = {}

    def add(self, topic: str, record: Record) -> int:
        """Take the next record for a topic and return its index there."""
        index = self._counts.get(topic, 0)
        self._counts[topic] = index + 1
        self._digests.setdefault(topic, hashlib.sha256()).update(identity(record))
        return index

    def at(self, topic: str) -> tuple[int, str]:
        """Return how many records were taken for a topic, and the digest of them."""
        digest = self._digests.get(topic)
        return self._counts.get(topic, 0), digest.hexdigest() if digest is not None else ""


def identity(record: Record) -> bytes:
    """Return what makes a record the same one: all but its headers, because a status may change in place."""
    topic, key = text(topic_of(record)), record.key
    time_ms = -1 if record.time_ms is None else min(record.time_ms, (1 << 63) - 1)
    number = min(record.number, (1 << 63) - 1)
    lengths = _LENGTHS.pack(number, time_ms, len(topic), -1 if key is None else len(key), len(record.value))
    return b"".join((lengths, topic, key or b"", record.value))


def changed(source: Source, marks: Mapping[str, Mark], target: Target) -> Mark | None:
    """Return a mark that does not fit the source any more, None if all do."""
    progress = Progress()
    open_marks = dict(marks)
    for _, item in source.items():
        if not open_marks:
            return None
        if not isinstance(item, Record):
            continue
        topic = target(item)
        index = progress.add(topic, item)
        mark = open_marks.get(topic)
        if mark is not None and index + 1 == mark.next:
            if progress.at(topic)[1] != mark.digest:
                return mark
            del open_marks[topic]
    return next((mark for mark in open_marks.values() if mark.next), None)


@dataclass(slots=True)
class Batch:
    """Records that are published together: by topic, and how far each topic is then."""

    rows: dict[str, list[Record]] = field(default_factory=dict)
    ends: dict[str, tuple[int, str]] = field(default_factory=dict)
    records: int = 0
    bytes: int = 0


def batches(source: Source, marks: Mapping[str, Mark], target: Target, limits: Limits) -> Iterator[Batch]:
    """Yield what the marks do not cover, in the source's order, in bounded batches."""
    progress, batch = Progress(), Batch()
    for _, item in source.items():
        if not isinstance(item, Record):
            continue
        topic = target(item)
        size = _size(item)
        if batch.records and (batch.records >= limits.batch_records or batch.bytes + size > limits.batch_bytes):
            batch.ends = {one: progress.at(one) for one in batch.rows}
            yield batch
            batch = Batch()
        index = progress.add(topic, item)
        mark = marks.get(topic)
        if mark is not None and index < mark.next:
            continue
        batch.rows.setdefault(topic, []).append(item)
        batch.records += 1
        batch.bytes += size
    if batch.records:
        batch.ends = {one: progress.at(one) for one in batch.rows}
        yield batch


def headers(source: str, record: Record) -> list[tuple[str, bytes]]:
    """Return the headers of an imported message: where it comes from, then what its system knew about it."""
    found = [("source", text(source)), ("source-format", text(record.format))]
    if record.topic is not None:
        found.append(("source-topic", text(record.topic)))
    if record.partition is not None:
        found.append(("source-partition", text(record.partition)))
    found.append(("source-offset", text(record.number)))
    if record.time_ms is not None and time_of(record) is None:
        found.append(("source-timestamp", text(record.time_ms)))
    return [*found, *record.headers]


def time_of(record: Record) -> int | None:
    """Return the record's time, None if it has none that a message can have."""
    return record.time_ms if record.time_ms is not None and 0 <= record.time_ms <= LAST_MS else None


def partition_of(record: Record, partitions: int) -> int | None:
    """Return the partition of an imported message; None lets its key choose.

    A partition of the source stays one: its records go to the same partition, in their order.
    """
    if record.partition is not None:
        return record.partition % partitions
    return None if record.key is not None else 0


def _size(record: Record) -> int:
    sizes = 0
    for name, value in record.headers:
        sizes += len(name) + len(value)
    return len(record.value) + len(record.key or b"") + sizes + 256  # and the headers that say where it comes from
