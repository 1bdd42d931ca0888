"""From ranges to tasks: where the bytes are, and who reads which of them. Pure: the same input gives the same plan.

ranges   what is to be read            ├──────────────────────────────┤ ├──────┤
held     where the broker has it       ├─ object ─┤─ object ─┤─ broker ┤─ ...
spans    a range where it is held      ├──────────┤──────────┤─────────┤ ├──────┤
tasks    spans cut into even shares    ├──────┤──────┤──────┤──────┤─────┤──────┤
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cordwood.spark.extent import Key, Range

# What a task reads, about, of keys, values and headers: a second of work, so that no core waits long for another.
TASK_BYTES = 64 << 20
# To start a task costs as much as reading this.
LEAST_BYTES = 1 << 20
ROW_BYTES = 32  # what a message costs beside its bytes
SNAP = 20  # a cut that is nearer to a span's end than a 20th of a task is made there


class Held(NamedTuple):
    """Where a partition's messages are: in an object of `object_bytes`, or with the broker."""

    partition: int
    start: int
    end: int
    bytes: int
    object: str | None = None
    object_bytes: int = 0


class Span(NamedTuple):
    """A run of messages of one partition in one place; sent to an executor as it is.

    `bytes` are about those of keys, values and headers. Where `object` is None the broker is asked.
    """

    topic: str
    id: str
    partition: int
    start: int
    end: int
    bytes: int = 0
    object: str | None = None
    object_bytes: int = 0

    @property
    def rows(self) -> int:
        """How many messages it is."""
        return self.end - self.start


Task = tuple[Span, ...]


def locate(ranges: Iterable[Range], held: Mapping[Key, Sequence[Held]]) -> list[Span]:
    """Return the same messages as spans; what is held nowhere that we know of is asked of the broker.

    `held` is in the order of offsets, and may overlap: then the one that begins later counts from there on.
    """
    spans: list[Span] = []
    for wanted in ranges:
        pieces = held.get((wanted.topic, wanted.partition), ())
        starts = [piece.start for piece in pieces]
        at = wanted.start
        while at < wanted.end:
            number = bisect_right(starts, at)
            following = starts[number] if number < len(starts) else wanted.end
            piece = pieces[number - 1] if number else None
            if piece is not None and at < piece.end:
                end = min(wanted.end, piece.end, following)
                size = piece.bytes * (end - at) // (piece.end - piece.start)
                spans.append(_span(wanted, at, end, size, piece))
            else:
                end = min(wanted.end, following)
                spans.append(_span(wanted, at, end, 0, None))
            at = end
    return spans


def tasks(
    spans: Sequence[Span], cores: int, *, stream: bool, least: int | None = None, most_rows: int | None = None
) -> list[Task]:
    """Return the spans shared out: `least` tasks at least, and none with more than `most_rows` messages.

    A batch has as many as it has `TASK_BYTES`, and one for each core. A stream, where each trigger pays for each
    task, has one for each core at most. Neither has more than it has `LEAST_BYTES`, unless asked to.
    """
    weight = sum(map(_weight, spans))
    count = min(cores, -(-weight // LEAST_BYTES))
    if not stream:
        count = max(count, -(-weight // TASK_BYTES))
    shared = divide(spans, max(count, least or 1))
    return shared if most_rows is None else [part for task in shared for part in _by_rows(task, most_rows)]


def divide(spans: Sequence[Span], count: int) -> list[Task]:
    """Return the spans in order, in `count` shares of about the same bytes; fewer where messages are too few."""
    total = sum(map(_weight, spans))
    shares: dict[int, list[Span]] = defaultdict(list)
    position = 0
    for span in spans:
        weight = _weight(span)
        share = position * count // total
        at = span.start
        while at < span.end:
            # All in units of 1/count: the next cut is at (share + 1) * total, this span from position * count on.
            into = (share + 1) * total - position * count
            if into * SNAP < total and at == span.start:
                cut = at
            elif (weight * count - into) * SNAP < total:
                cut = span.end
            else:
                cut = span.start + span.rows * into // (weight * count)
            if at < cut:
                shares[share].append(_part(span, at, cut))
                at = cut
            share += 1
        position += weight
    return [tuple(shares[number]) for number in sorted(shares)]


def by_topic(held: Mapping[str, Iterable[Held]]) -> dict[Key, list[Held]]:
    """Return what is held, by partition, in the order of offsets."""
    found: dict[Key, list[Held]] = defaultdict(list)
    for topic, pieces in held.items():
        for piece in sorted(pieces):
            found[topic, piece.partition].append(piece)
    return dict(found)


def _weight(span: Span) -> int:
    return span.bytes + ROW_BYTES * span.rows


def _span(wanted: Range, start: int, end: int, size: int, piece: Held | None) -> Span:
    where = (None, 0) if piece is None else (piece.object, piece.object_bytes)
    return Span(wanted.topic, wanted.id, wanted.partition, start, end, size, *where)


def _part(span: Span, start: int, end: int) -> Span:
    return span._replace(start=start, end=end, bytes=span.bytes * (end - start) // span.rows)


def _by_rows(task: Task, most: int) -> list[Task]:
    """Return a task as tasks of at most so many messages, as even as can be."""
    rows = sum(span.rows for span in task)
    if rows <= most:
        return [task]
    count = -(-rows // most)
    parts: list[list[Span]] = [[] for _ in range(count)]
    position = 0
    for span in task:
        at = span.start
        while at < span.end:
            number = position * count // rows
            room = -(-(number + 1) * rows // count) - position
            end = min(span.end, at + room)
            parts[number].append(_part(span, at, end))
            position += end - at
            at = end
    return [tuple(part) for part in parts]
