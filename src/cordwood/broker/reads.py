"""The log read by offset or time, independent of groups; named readers; and where a range's bytes are."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from cordwood.broker import names, ops, starts
from cordwood.broker.history import Away
from cordwood.broker.index import Tiered
from cordwood.broker.ledger import Ledger, Then
from cordwood.broker.starts import Start
from cordwood.broker.state import Partition, Reader, Topic
from cordwood.broker.topics import Topics
from cordwood.errors import NotFound, Refused
from cordwood.machine.clock import Clock
from cordwood.record import sizes
from cordwood.wire.run import Run, coalesce

MOST_READERS = 10_000  # of one topic
GROUPS_AHEAD = 3  # the one that is being sent, and one more for each thread that fetches


class Page(NamedTuple):
    """Messages in order, and the offset behind them."""

    runs: list[Run]
    next_offset: int


class ReaderInfo(Struct, frozen=True):
    """A named reader: where it stands in each partition, and how far that is from the end."""

    topic: str
    reader: str
    moved_at: int
    lag: int
    offsets: dict[str, int]


class SpanInfo(Struct, frozen=True, omit_defaults=True):
    """Where messages are: `source` is "broker" for what is read through it, or "object", or "hole" for none at all.

    `bytes` are those of keys, values and headers. An object may hold more than the span; it has `object_bytes`.
    """

    partition: int
    start: int
    end: int
    source: str
    bytes: int
    object: str | None = None
    object_bytes: int = 0


class Reads:
    """Reads what is durable."""

    def __init__(self, ledger: Ledger, clock: Clock, topics: Topics):
        self._ledger = ledger
        self._clock = clock
        self._topics = topics
        self._watchers: dict[str, set[Callable[[], None]]] = {}

    def place(self, topic_name: str, number: int, start: Start) -> int:
        """Return the offset that a place means, among the messages that are visible."""
        partition = self._partition(self._topics.find(topic_name), number)
        return starts.resolve(self._ledger, partition, start, partition.shown)

    def page(self, topic_name: str, topic_id: str, number: int, offset: int, most: int, most_bytes: int) -> Page:
        """Return durable messages from `offset` on, oldest first; one at least, if there is one.

        Raises `Away` when the first of them is in the tier and not here.
        """
        topic = self._topics.find(topic_name)
        if topic.id != topic_id:
            raise NotFound(f"the topic {topic_name!r} was deleted, and another one made")
        partition = self._partition(topic, number)
        offset = max(offset, partition.start)
        end = min(partition.shown, offset + most)
        self._look_ahead(partition, offset)
        runs: list[Run] = []
        for place in partition.index.places(offset, end):
            try:
                batch = self._ledger.fetch(place)
            except Away:
                if not runs:
                    raise
                return Page(coalesce(runs), place.first)
            size = batch.nbytes
            if size > most_bytes:
                ends = np.cumsum(sizes(batch))
                rows = int(np.searchsorted(ends, most_bytes, side="right"))
                rows = rows if runs else max(1, rows)
                if rows:
                    runs.append(Run(batch.slice(0, rows), number, place.first))
                return Page(coalesce(runs), place.first + rows)
            runs.append(Run(batch, number, place.first))
            most_bytes -= size
        if not runs and offset < end:  # a hole, which may be wide
            following = next(partition.index.places(end, partition.shown), None)
            end = partition.shown if following is None else following.first
        return Page(coalesce(runs), max(offset, end))

    def _look_ahead(self, partition: Partition, offset: int) -> None:
        """Have the next row groups fetched while those before them are on their way to the reader."""
        for _ in range(GROUPS_AHEAD):
            place = next(partition.index.places(offset, partition.shown), None)
            if place is None or place.tiered is None:
                return
            self._ledger.history.ahead(place)
            offset = place.tiered.group(place.first)[1]

    def watch(self, topic: str, call: Callable[[], None]) -> Callable[[], None]:
        """Have `call` called whenever a topic got visible messages, or went; what is returned ends that."""
        self._watchers.setdefault(topic, set()).add(call)

        def end() -> None:
            watchers = self._watchers.get(topic)
            if watchers is not None:
                watchers.discard(call)
                if not watchers:
                    del self._watchers[topic]

        return end

    def notify(self, topics: set[str]) -> None:
        """Call everybody who watches one of these topics."""
        for topic in topics & self._watchers.keys():
            for call in tuple(self._watchers[topic]):
                call()

    def spans(self, topic_name: str, first: int | None, end: int | None, then: Then) -> None:
        """`then` gets SpanInfo of every range between two offsets of each partition."""
        topic = self._topics.find(topic_name)
        found: list[SpanInfo] = []
        for number, partition in enumerate(topic.partitions):
            low = max(partition.start, first or 0)
            high = partition.end if end is None else min(end, partition.end)
            found += _spans(number, partition, low, high)
        self._ledger.show(then, found)

    # Named readers

    def put(self, topic_name: str, name: str, offsets: dict[int, int], then: Then) -> None:
        """Note where a named reader stands; `then` gets ReaderInfo."""
        topic = self._topics.find(topic_name)
        names.check_group(name, "reader")
        if name not in topic.readers and len(topic.readers) >= MOST_READERS:
            raise Refused(f"the topic {topic_name!r} has {MOST_READERS} readers already")
        for number, offset in offsets.items():
            if not 0 <= offset <= self._partition(topic, number).end:
                raise Refused(f"partition {number} has no offset {offset} yet")
        op = ops.ReaderPut(topic_name, name, sorted(offsets.items()), self._clock.now_ms())
        self._ledger.write([op], reserve=True)
        self._ledger.reply(then, self._describe(topic, name, topic.readers[name]))

    def get(self, topic_name: str, name: str, then: Then) -> None:
        """`then` gets ReaderInfo."""
        topic, reader = self._reader(topic_name, name)
        self._ledger.show(then, self._describe(topic, name, reader))

    def delete(self, topic_name: str, name: str, then: Then) -> None:
        """Forget a named reader."""
        self._reader(topic_name, name)
        self._ledger.write([ops.ReaderDeleted(topic_name, name)], reserve=True)
        self._ledger.reply(then, None)

    def _reader(self, topic_name: str, name: str) -> tuple[Topic, Reader]:
        topic = self._topics.find(topic_name)
        found = topic.readers.get(name)
        if found is None:
            raise NotFound(f"the topic {topic_name!r} has no reader {name[:250]!r}")
        return topic, found

    def _partition(self, topic: Topic, number: int) -> Partition:
        if not 0 <= number < len(topic.partitions):
            raise Refused(f"the topic has partitions 0 to {len(topic.partitions) - 1}, not {number}")
        return topic.partitions[number]

    def _describe(self, topic: Topic, name: str, reader: Reader) -> ReaderInfo:
        lag = 0
        for number, partition in enumerate(topic.partitions):
            at = max(partition.start, reader.offsets.get(number, 0))
            lag += max(0, partition.end - at - partition.missing(at, partition.end))
        offsets = {str(number): offset for number, offset in sorted(reader.offsets.items())}
        return ReaderInfo(topic.name, name, reader.moved_ms, lag, offsets)


def _spans(number: int, partition: Partition, low: int, high: int) -> Iterator[SpanInfo]:
    """Yield where the offsets from `low` to `high` are, without a gap."""
    index = partition.index
    ranges: list[tuple[int, int, Tiered | None]] = [(one.first, one.end, one) for one in index.tiered]
    ranges += [(first, end, None) for first, end in partition.holes]
    at = low
    for first, end, tiered in sorted(ranges, key=lambda found: found[0]):
        first, end = max(first, low), min(end, high)
        if first >= end:
            continue
        if at < first:
            yield _span(number, partition, at, first)
        if tiered is None:
            yield SpanInfo(number, first, end, "hole", 0)
        else:
            size = index.bytes_before(end) - index.bytes_before(first)
            yield SpanInfo(number, first, end, "object", size, tiered.descriptor.name, tiered.bytes)
        at = end
    if at < high:
        yield _span(number, partition, at, high)


def _span(number: int, partition: Partition, first: int, end: int) -> SpanInfo:
    size = partition.index.bytes_before(end) - partition.index.bytes_before(first)
    return SpanInfo(number, first, end, "broker", size)
