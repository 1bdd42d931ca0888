"""Messages that had their last attempt: to the dead letters, with why they failed, a bounded number at once."""

from collections.abc import Sequence

from cordwood.broker import names, ops
from cordwood.broker.dead import dead_letters
from cordwood.broker.index import Index
from cordwood.broker.ledger import Ledger
from cordwood.broker.state import Group, Topic
from cordwood.broker.topics import Topics
from cordwood.broker.tries import Try
from cordwood.machine.clock import Clock
from cordwood.record import Batch

AT_ONCE = 1_000  # dead letters in one frame
BYTES_AT_ONCE = 8 << 20

Tried = list[tuple[int, int, Try]]  # messages from first to end, and what became of their last attempt


class Burial:
    """Knows where dead letters go."""

    def __init__(self, ledger: Ledger, clock: Clock, topics: Topics):
        self._ledger = ledger
        self._clock = clock
        self._topics = topics

    def of(self, topic: Topic, group: Group, number: int, chunk: Tried) -> tuple[list[ops.Op], Batch | None]:
        """Return the facts that put messages into the dead-letter topic, and their payload."""
        name = names.dead_letters_of(topic.name)
        facts: list[ops.Op] = []
        dead = self._ledger.state.topics.get(name)
        if dead is None:
            made = self._topics.making(name, len(topic.partitions), type(topic.terms)())
            facts.append(made)
        partitions = len(topic.partitions) if dead is None else len(dead.partitions)
        target = number % partitions
        first = 0 if dead is None else dead.partitions[target].end
        index = topic.partitions[number].index
        rows = [
            (place.first, self._ledger.fetch(place), found)
            for start, end, found in chunk
            for place in index.places(start, end)
        ]
        if not rows:
            return facts, None
        payload, size, latest_us = dead_letters(topic.name, number, group.name, rows)
        facts.append(
            ops.Appended(
                name, 0, [ops.Piece(target, first, payload.num_rows, 0, size, latest_us)], self._clock.now_ms()
            )
        )
        return facts, payload


def failures(topic: Topic, group: Group, number: int, tried: Tried) -> list[ops.Op]:
    """Return the facts that say why messages failed."""
    return [
        ops.Failed(topic.name, group.name, number, [(a, b) for a, b, f in tried if f.error == error], 0, error)
        for error in sorted({found.error for _, _, found in tried})
    ]


def chunked(tried: Sequence[tuple[int, int, Try]], index: Index) -> list[Tried]:
    """Return the same in pieces that are neither too many messages nor too many bytes for one frame."""
    chunks: list[Tried] = [[]]
    room, room_bytes = AT_ONCE, BYTES_AT_ONCE
    for first, end, found in tried:
        while first < end:
            stop = min(end, first + room)
            while stop > first + 1 and index.bytes_before(stop) - index.bytes_before(first) > room_bytes:
                stop = first + (stop - first) // 2
            chunks[-1].append((first, stop, found))
            room -= stop - first
            room_bytes -= index.bytes_before(stop) - index.bytes_before(first)
            first = stop
            if room <= 0 or room_bytes <= 0:
                chunks.append([])
                room, room_bytes = AT_ONCE, BYTES_AT_ONCE
    return [chunk for chunk in chunks if chunk]
