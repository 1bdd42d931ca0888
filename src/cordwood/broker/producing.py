"""Messages in: which partition, which offset, whether they were here before, whether there is room.

    request ──▶ judged by head ──▶ one frame ──▶ durable ──▶ reply

Single messages are gathered: all that came since the last commit began become one payload, one row each. A payload
holds the messages of one topic, those of one partition next to each other, so that a frame costs by its bytes and not
by the number of partitions it touches.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import structs

from cordwood import partition as partitions
from cordwood.broker import names, ops
from cordwood.broker.buffers import judge_of
from cordwood.broker.counts import Counts
from cordwood.broker.ledger import Ledger, Then
from cordwood.broker.numbered import Run, fresh
from cordwood.broker.state import Key, Topic
from cordwood.broker.terms import TopicTerms
from cordwood.compose import compose
from cordwood.errors import CordwoodError, Limited, NotFound, Refused
from cordwood.machine.clock import Clock
from cordwood.record import Batch, Records, Resting, sizes, summary, times_us
from cordwood.settings import Settings
from cordwood.wire.message import Message, gathered, plain


class Sent(NamedTuple):
    """Where one message is. The offset is null when it was only accepted into memory."""

    topic: str
    partition: int
    offset: int | None
    duplicate: bool = False


class Produced(NamedTuple):
    """Where the messages of a request are: (partition, first offset, count), one for each partition."""

    topic: str
    results: list[tuple[int, int | None, int]]
    messages: int
    duplicates: int = 0
    repeated: frozenset[int] = frozenset()  # partitions whose messages a numbered producer had sent before


class Producing:
    """Takes messages into the log."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        clock: Clock,
        counts: Counts,
        make_topic: Callable[[str, int | None, TopicTerms], Topic],
    ):
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._counts = counts
        self._make_topic = make_topic
        self._turns: dict[str, int] = {}  # topic → whose turn it is, for messages that name no partition
        self._gathered: dict[Topic, list[tuple[Message, Then, int]]] = {}
        self.gathered_bytes = 0
        self.backlog_bytes = 0  # of requests that wait for room

    def forget(self, name: str) -> None:
        """Forget a topic that was deleted."""
        self._turns.pop(name, None)

    def gathers(self, name: str) -> bool:
        """Whether messages for this topic wait to be written."""
        return any(topic.name == name for topic in self._gathered)

    def topic(self, name: str) -> Topic:
        """Return a topic to produce to; make it if that is what the settings say."""
        found = self._ledger.state.topics.get(name)
        if found is not None:
            return found
        if not self._settings.auto_create_topics:
            how = "POST /v1/topics, or cordwood topic create"
            raise NotFound(f"there is no topic {name[:250]!r}; create it first ({how})")
        return self._make_topic(names.check_topic(name), None, TopicTerms())

    # One by one

    def gather(self, name: str, message: Message, then: Then, qos: int, size: int) -> None:
        """Take one message, to be written with the next commit; `then` gets `Sent`, or an error."""
        self._ledger.check_writable()
        self.check_pending(size)
        topic = self.topic(name)
        asked = message.partition
        if isinstance(asked, int) and asked >= len(topic.partitions):
            raise Refused(f"the topic has partitions 0 to {len(topic.partitions) - 1}, not {asked}")
        if qos == 0:
            # It is accepted, and that is all the sender wants to know; so its partition is chosen here.
            place = asked if isinstance(asked, int) else self._place(topic, message)
            message = structs.replace(message, partition=place)
            then(Sent(name, place, None))
        self.gathered_bytes += size
        self._gathered.setdefault(topic, []).append((message, then, qos))

    def _place(self, topic: Topic, message: Message) -> int:
        """Return the partition of one message that names none."""
        count = len(topic.partitions)
        if isinstance(message.key, str):
            return partitions.of_key(message.key.encode(), count)
        if isinstance(message.key_base64, bytes):
            return partitions.of_key(message.key_base64, count)
        turn = self._turns.get(topic.name, 0)
        self._turns[topic.name] = (turn + 1) % count
        return turn % count

    @property
    def waiting(self) -> bool:
        """Whether messages wait to be written."""
        return bool(self._gathered)

    def write_gathered(self) -> None:
        """Write all that was gathered as one frame. Raises `Preparing`, and then all of it still waits."""
        if not self._gathered:
            return
        now = self._clock.now_ms()
        facts: list[ops.Op] = []
        payloads: list[Batch | Resting] = []
        replies: list[tuple[Then, Sent | CordwoodError, int]] = []
        for topic, waiting in self._gathered.items():
            if self._ledger.state.topics.get(topic.name) is not topic:
                gone = NotFound(f"the topic {topic.name!r} was deleted")
                replies += [(then, gone, qos) for _, then, qos in waiting]
                continue
            self._plan(topic, waiting, now, facts, payloads, replies)
        if facts:
            self._ledger.write(facts, payloads)
        size, self.gathered_bytes = self.gathered_bytes, 0
        self._gathered = {}
        for op in facts:
            assert isinstance(op, ops.Appended)
            self._counts.produced(op.topic, sum(p.count for p in op.pieces), sum(p.bytes for p in op.pieces))
        for then, sent, qos in replies:
            if isinstance(sent, Limited):
                self._counts.rejected(sent.reason)
            if qos != 0:
                self._ledger.reply(then, sent, size)
                size = 0
        if size:
            self._ledger.reply(_nobody, None, size)

    def refuse_gathered(self, error: CordwoodError) -> None:
        """Tell everybody whose message was gathered that it is not taken."""
        waiting, self._gathered = self._gathered, {}
        self.gathered_bytes = 0
        for messages in waiting.values():
            for _, then, qos in messages:
                if qos != 0:
                    then(error)
                else:
                    self._counts.rejected("accepted_but_not_written")  # that is what qos 0 means

    def _plan(
        self,
        topic: Topic,
        waiting: Sequence[tuple[Message, Then, int]],
        now: int,
        facts: list[ops.Op],
        payloads: list[Batch | Resting],
        replies: list[tuple[Then, Sent | CordwoodError, int]],
    ) -> None:
        if self._plan_plain(topic, waiting, now, facts, payloads, replies):
            return
        records = gathered([message for message, _, _ in waiting], now)
        assigned = self._assign(topic, records, each=True)
        room = judge_of(topic, self._settings, self._clock.now_ms())
        if room is not None:
            kept = []
            each = sizes(records.batch)
            places = np.full(len(records), assigned, np.int32) if isinstance(assigned, int) else assigned
            for row, (_, then, qos) in enumerate(waiting):
                refusal = room(int(places[row]), 1, int(each[row]))
                if refusal is None:
                    kept.append(row)
                else:
                    replies.append((then, refusal, qos))
            if not kept:
                return
            if len(kept) < len(waiting):
                rows = pa.array(kept)
                waiting = [waiting[row] for row in kept]
                records = Records(records.batch.take(rows))
                assigned = places[kept]
        payload, pieces, order = _grouped(topic, records.batch, assigned)
        facts.append(ops.Appended(topic.name, len(payloads), pieces, now))
        payloads.append(payload)
        name = topic.name
        at = 0
        for piece in pieces:
            for offset in range(piece.first, piece.first + piece.count):
                _, then, qos = waiting[at if order is None else order[at]]
                replies.append((then, Sent(name, piece.partition, offset), qos))
                at += 1

    def _plan_plain(
        self,
        topic: Topic,
        waiting: Sequence[tuple[Message, Then, int]],
        now: int,
        facts: list[ops.Op],
        payloads: list[Batch | Resting],
        replies: list[tuple[Then, Sent | CordwoodError, int]],
    ) -> bool:
        """Do the same for a few messages of keys and values only, all for one partition; False for any other."""
        if (len(waiting) > 1 and len(topic.partitions) > 1) or judge_of(
            topic, self._settings, self._clock.now_ms()
        ) is not None:
            return False
        found = plain([message for message, _, _ in waiting])
        if found is None:
            return False
        values, keys = found
        place = self._place(topic, waiting[0][0]) if len(topic.partitions) > 1 else 0
        first, size = topic.partitions[place].end, sum(map(len, values)) + sum(map(len, keys or ()))
        piece = ops.Piece(place, first, len(values), 0, size, now * 1000)
        facts.append(ops.Appended(topic.name, len(payloads), [piece], now))
        payloads.append(compose(values, keys, now * 1000))
        replies += [(then, Sent(topic.name, place, first + n), qos) for n, (_, then, qos) in enumerate(waiting)]
        return True

    # Many at once

    def produce(
        self,
        name: str,
        records: Records,
        then: Then,
        *,
        number: ops.Numbered | None = None,
        keys: Sequence[str | None] | None = None,
        qos: int = 1,
    ) -> None:
        """Take messages together, all or none; `then` gets `Produced`, or an error."""
        ledger = self._ledger
        ledger.check_writable()
        topic = self.topic(name)
        count = len(records)
        if not count:
            ledger.reply(then, Produced(name, [], 0))
            return
        size = int(records.batch.get_total_buffer_size())
        self.check_pending(size)
        assigned = self._assign(topic, records)
        now = self._clock.now_ms()
        batch = records.batch
        runs: list[Run] = []
        again: list[tuple[int, int | None, int]] = []
        duplicates = 0
        if number is not None:
            batch, assigned, runs, again = fresh(topic, number, records, assigned)
            duplicates = sum(run[2] for run in again)
            if not runs:
                self._counts.duplicates += duplicates
                ledger.reply(then, Produced(name, again, count, count, frozenset(run[0] for run in again)))
                return
        hashes: list[tuple[bytes, int, int]] = []
        known: list[Key] = []
        if keys is not None:
            batch, assigned, hashes, known = _without_repeats(topic, batch, assigned, keys)
            duplicates = len(known)
            if not batch.num_rows:
                self._counts.duplicates += duplicates
                ledger.reply(then, Produced(name, _where(known), count, duplicates))
                return
        room = judge_of(topic, self._settings, self._clock.now_ms())
        if room is not None:
            each = np.full(batch.num_rows, assigned, np.int32) if isinstance(assigned, int) else assigned
            for place, rows in zip(*np.unique(each, return_counts=True), strict=True):
                share = size * int(rows) // batch.num_rows
                refusal = room(int(place), int(rows), share)
                if refusal is not None:
                    self._counts.rejected(refusal.reason)
                    raise refusal
        payload, pieces, order = _grouped(topic, batch, assigned)
        numbered_keys = _numbered_keys(hashes, pieces, order)
        stored = records.resting if records.resting is not None and payload is records.batch else payload
        if number is not None and len(runs) > 1:
            sequences = [run.sequence for run in runs]
            fact: ops.Op = ops.AppendedAcross(name, 0, pieces, now, number.producer, number.epoch, sequences)
        else:
            if number is not None and records.sequences is not None:
                number = structs.replace(number, sequence=runs[0].sequence)
            fact = ops.Appended(name, 0, pieces, now, number, numbered_keys)
        ledger.write([fact], [stored])
        self._counts.duplicates += duplicates
        self._counts.produced(name, batch.num_rows, sum(piece.bytes for piece in pieces))
        if qos == 0:
            ledger.reply(_nobody, None, size)  # it is pending all the same
            then(Produced(name, [(piece.partition, None, piece.count) for piece in pieces], count))
            return
        found: list[tuple[int, int | None, int]] = [(p.partition, p.first, p.count) for p in pieces]
        if again:
            found = sorted([*found, *again], key=lambda run: run[0])
        ledger.reply(then, Produced(name, found, count, duplicates, frozenset(run[0] for run in again)), size)

    def check_pending(self, size: int) -> None:
        """Refuse what is too much beside all that waits for a commit."""
        pending = self._ledger.pending_bytes + self.gathered_bytes + self.backlog_bytes
        if pending and pending + size > self._settings.max_pending_bytes:
            self._counts.rejected("pending_bytes_full")
            raise Limited(
                f"{pending} bytes wait for the disk, at most {self._settings.max_pending_bytes} may",
                "pending_bytes_full",
                100,
            )

    def assign(self, topic: Topic, records: Records) -> npt.NDArray[np.int32]:
        """Return the partition of each message; those that name none go together, each request to the next one."""
        assigned = self._assign(topic, records)
        return np.full(len(records), assigned, np.int32) if isinstance(assigned, int) else assigned

    def _assign(self, topic: Topic, records: Records, *, each: bool = False) -> npt.NDArray[np.int32] | int:
        """Return the partition of each message, or the one number for all of them."""
        count = len(topic.partitions)
        if isinstance(records.partitions, int):
            partitions.check(records.partitions, count)
            return records.partitions
        if records.partitions is None and count == 1:
            return 0
        assigned = partitions.assign(records, count)
        if count > 1:
            free = assigned == partitions.NONE
            if free.any():
                turn = self._turns.get(topic.name, 0)
                many = int(free.sum()) if each else 1
                assigned = assigned.copy()
                assigned[free] = (turn + np.arange(many)) % count if each else turn % count
                self._turns[topic.name] = (turn + many) % count
        return assigned


def _nobody(result: object) -> None:
    """Nobody waits for this; it only counts until it is durable."""


def key_hash(key: str) -> bytes:
    """Return what stands for an idempotency key: as long for every key."""
    return blake2b(key.encode(), digest_size=16).digest()


def _without_repeats(
    topic: Topic, batch: Batch, assigned: npt.NDArray[np.int32] | int, keys: Sequence[str | None]
) -> tuple[Batch, npt.NDArray[np.int32] | int, list[tuple[bytes, int, int]], list[Key]]:
    """Return the rows whose keys are new, their partitions, (hash, row, 0) of each key, and where the others are."""
    rows: list[int] = []
    hashes: list[tuple[bytes, int, int]] = []
    known: list[Key] = []
    seen: set[bytes] = set()
    for row, key in enumerate(keys):
        if key is None:
            rows.append(row)
            continue
        digest = key_hash(key)
        before = topic.keys.get(digest)
        if before is not None and not topic.partitions[before.partition].lost(before.offset):
            known.append(before)
        elif digest in seen:
            known.append(Key(-1, -1, 0))  # earlier in this very request
        else:
            seen.add(digest)
            hashes.append((digest, len(rows), 0))
            rows.append(row)
    if len(rows) == batch.num_rows:
        return batch, assigned, hashes, known
    left = assigned if isinstance(assigned, int) else assigned[rows]
    return batch.take(pa.array(rows, pa.int64())), left, hashes, known


def _numbered_keys(
    hashes: Sequence[tuple[bytes, int, int]], pieces: Sequence[ops.Piece], order: Sequence[int] | None
) -> list[tuple[bytes, int, int]]:
    """Return (hash, partition, offset) for (hash, row): the row is that of the request, not of the payload."""
    if not hashes:
        return []
    places: dict[int, tuple[int, int]] = {}
    at = 0
    for piece in pieces:
        for offset in range(piece.first, piece.first + piece.count):
            places[at if order is None else order[at]] = piece.partition, offset
            at += 1
    return [(digest, *places[row]) for digest, row, _ in hashes]


def _where(known: Sequence[Key]) -> list[tuple[int, int | None, int]]:
    return [(key.partition, key.offset, 1) for key in known if key.partition >= 0]


def _grouped(
    topic: Topic, batch: Batch, assigned: npt.NDArray[np.int32] | int
) -> tuple[Batch, list[ops.Piece], list[int] | None]:
    """Return the payload with each partition's messages together, its pieces, and the rows' order (None: as is)."""
    first = assigned if isinstance(assigned, int) else int(assigned[0])
    if isinstance(assigned, int) or (assigned == first).all():
        size, latest_us = summary(batch)
        return batch, [ops.Piece(first, topic.partitions[first].end, batch.num_rows, 0, size, latest_us)], None
    order = None
    payload = batch
    if (np.diff(assigned) < 0).any():
        order = np.argsort(assigned, kind="stable")
        payload, assigned = batch.take(pa.array(order)), assigned[order]
    pieces = stage_pieces(payload, assigned)
    numbered = [
        ops.Piece(p.partition, topic.partitions[p.partition].end, p.count, p.row, p.bytes, p.latest_us)
        for p in pieces
    ]
    return payload, numbered, None if order is None else order.tolist()


def stage_pieces(payload: Batch, assigned: npt.NDArray[np.int32]) -> list[ops.Piece]:
    """Return the pieces, without offsets, of rows that are in the order of their partitions."""
    numbers, starts, lengths = np.unique(assigned, return_index=True, return_counts=True)
    sizes, times = _cumulative(payload)
    ends = starts + lengths
    totals = sizes[ends] - sizes[starts]
    latest = np.maximum.reduceat(times, starts)
    columns = zip(numbers.tolist(), lengths.tolist(), starts.tolist(), totals.tolist(), latest.tolist(), strict=True)
    return [ops.Piece(number, 0, count, row, size, late) for number, count, row, size, late in columns]


def _cumulative(batch: Batch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    total = np.zeros(batch.num_rows + 1, np.int64)
    np.cumsum(sizes(batch), out=total[1:])
    return total, times_us(batch, "timestamp")
