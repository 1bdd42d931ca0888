"""What an application gets: messages one by one, or Arrow batches of them; the same delivery underneath.

delivery   one leased batch, and which of its rows the application is done with
Message    one row: numbers and bytes at hand, the rest looked up when asked for
Batch      all rows as Arrow, acknowledged together
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from cordwood.client.bell import Bell
from cordwood.client.ranges import Range, runs
from cordwood.errors import Refused
from cordwood.record import Column


class Delivery:
    """A batch that came from the broker, and what the application has said about its rows.

    `done` and `failed` only grow, by rows or by ranges of rows; the settling thread reads what is new. Messages
    that were only read are on no lease: to acknowledge one is an error.
    """

    __slots__ = ("_left", "_ranges", "batch", "bell", "done", "done_seen", "failed", "failed_seen", "settle")

    def __init__(self, batch: Any, bell: "Bell | Unleased", settle: Callable[[bool], None]):
        self.batch = batch
        self.bell = bell  # of whoever wants to know, asleep or not
        self.settle = settle  # wakes it; called with True, it waits until all is durable
        self.done: list[int | range] = []
        self.done_seen = 0
        self.failed: list[tuple[int | range, str, int | None]] = []
        self.failed_seen = 0
        self._ranges: dict[int, list[Range]] | None = None
        self._left: Iterator[int] | None = None

    def messages(self) -> Iterator["Message"]:
        """Yield the rows that were not yet yielded; a later call goes on where this one was left."""
        if self._left is None:
            self._left = iter(range(self.batch.num_rows))
        return self.rows(self._left)

    def rows(self, numbers: Iterator[int]) -> Iterator["Message"]:
        """Yield the last rows, as many as there are `numbers` for them."""
        first = self.batch.num_rows - length_hint(numbers)
        batch = self.batch.slice(first)
        times = batch.column("timestamp").view(pa.int64()).to_numpy(zero_copy_only=False) // 1000
        return map(
            Message,
            repeat(self),
            numbers,
            _integers(batch.column("partition").to_numpy()),
            batch.column("offset").to_numpy().tolist(),
            _integers(batch.column("attempts").to_numpy()),
            _integers(times),
            _bytes(batch.column("key")),
            _bytes(batch.column("value")),
        )

    def rest(self) -> "Batch":
        """Return the rows that were not yet yielded, as one batch; they count as yielded now."""
        first = 0 if self._left is None else self.batch.num_rows - length_hint(self._left)
        self._left = iter(range(0))
        return Batch(self, first)

    def cell(self, row: int, name: str) -> Any:
        """Return what one row has in a column, None when there is no such column."""
        return self.batch.column(name)[row].as_py() if name in self.batch.schema.names else None

    def ranges(self, rows: Sequence[int | range] | None = None) -> dict[int, list[Range]]:
        """Return the offsets of these rows, or of all, for each partition."""
        whole = range(self.batch.num_rows)
        if rows is None or (len(rows) == 1 and rows[0] == whole):
            if self._ranges is None:
                self._ranges = self._ranges_of(slice(None))
            return self._ranges
        return self._ranges_of(_numbers(rows))

    def _ranges_of(self, chosen: Any) -> dict[int, list[Range]]:
        partitions = self.batch.column("partition").to_numpy()[chosen]
        offsets = self.batch.column("offset").to_numpy()[chosen]
        if not len(partitions):
            return {}
        if (partitions == partitions[0]).all():
            return {int(partitions[0]): runs(offsets)}
        return {int(number): runs(offsets[partitions == number]) for number in np.unique(partitions)}


class Message(msgspec.Struct, gc=False, frozen=True, eq=False):
    """One message. `timestamp` is milliseconds since 1970; a `value` of None is a tombstone.

    `attempts` counts deliveries, this one included; it is 0 when the message was only read.
    """

    delivery: Delivery
    row: int
    partition: int
    offset: int
    attempts: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    def ack(self, wait: bool = False) -> None:
        """Say that it is done; returns at once. With `wait` it returns when that is durable; raises Conflict if it is
        another consumer's now."""
        delivery = self.delivery
        delivery.done.append(self.row)
        if wait or delivery.bell.sleeping:
            delivery.settle(wait)

    def nack(self, reason: str = "", delay_ms: int | None = None) -> None:
        """Say that it failed; it comes again after `delay_ms`, or after the group's backoff."""
        self.delivery.failed.append((self.row, reason, delay_ms))
        self.delivery.settle(False)

    @property
    def text(self) -> str | None:
        """The value as text."""
        return None if self.value is None else self.value.decode()

    def json(self) -> Any:
        """Return the value read as JSON."""
        return None if self.value is None else msgspec.json.decode(self.value)

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers in order; a name may come twice."""
        return self.delivery.cell(self.row, "headers") or []

    def header(self, name: str) -> bytes | None:
        """Return the first header of this name, None when there is none."""
        return next((value for found, value in self.headers if found == name), None)

    @property
    def deliver_at(self) -> int | None:
        """Not to be delivered before; milliseconds."""
        return _ms(self.delivery.cell(self.row, "deliver_at"))

    @property
    def expires_at(self) -> int | None:
        """Not to be delivered after; milliseconds."""
        return _ms(self.delivery.cell(self.row, "expires_at"))

    @property
    def last_error(self) -> str | None:
        """Why the delivery before this one failed."""
        found: str | None = self.delivery.cell(self.row, "last_error")
        return found

    def __repr__(self) -> str:
        return f"<Message {self.partition}:{self.offset} key={self.key!r} value={self.value!r:.60}>"


class Batch:
    """Messages as Arrow, acknowledged together. Columns as in the contract, the same in all batches."""

    __slots__ = ("_delivery", "_first", "record_batch")

    def __init__(self, delivery: Delivery, first: int):
        self._delivery = delivery
        self._first = first
        batch = delivery.batch.slice(first) if first else delivery.batch
        # Why messages failed is in some answers only, and who puts batches together wants one schema.
        self.record_batch = batch.drop_columns(["last_error"]) if "last_error" in batch.schema.names else batch

    def __len__(self) -> int:
        return int(self.record_batch.num_rows)

    def ack(self, wait: bool = False) -> None:
        """Say that all are done; as `Message.ack`."""
        delivery = self._delivery
        delivery.done.append(range(self._first, delivery.batch.num_rows))
        delivery.settle(wait)

    def nack(self, reason: str = "", delay_ms: int | None = None) -> None:
        """Say that all failed; as `Message.nack`."""
        rows = range(self._first, self._delivery.batch.num_rows)
        self._delivery.failed.append((rows, reason, delay_ms))
        self._delivery.settle(False)

    def messages(self) -> Iterator[Message]:
        """Yield the same messages one by one."""
        return self._delivery.rows(iter(range(self._first, self._delivery.batch.num_rows)))


class Unleased:
    """Stands in for the one who wants to know, where nobody does."""

    sleeping = True

    def settle(self, wait: bool) -> None:
        """Raise Refused."""
        raise Refused("this message was read, not leased; there is nothing to acknowledge")


def read_only(batch: Any) -> Delivery:
    """Return a batch as messages that were only read."""
    nobody = Unleased()
    return Delivery(batch, nobody, nobody.settle)


def only(batch: Any, wanted: dict[int, list[Range]]) -> Any:
    """Return those rows of a batch whose offsets are wanted."""
    partitions = batch.column("partition").to_numpy()
    offsets = batch.column("offset").to_numpy()
    chosen = np.zeros(batch.num_rows, bool)
    for number, ranges in wanted.items():
        for first, end in ranges:
            chosen |= (partitions == number) & (offsets >= first) & (offsets < end)
    return batch.filter(pa.array(chosen))


def _numbers(rows: Sequence[int | range]) -> Any:
    """Return rows and ranges of rows as what picks them from an array."""
    if len(rows) == 1 and isinstance(rows[0], range):
        return slice(rows[0].start, rows[0].stop)
    if any(type(row) is range for row in rows):
        return np.concatenate([np.arange(r.start, r.stop) if isinstance(r, range) else [r] for r in rows])
    return np.array(rows, np.int64)


def _integers(numbers: Any) -> Any:
    """Return numbers of Python's own kind; the same one again and again when all are the same, as they often are."""
    if len(numbers) and (numbers == numbers[0]).all():
        return repeat(int(numbers[0]))
    return numbers.tolist()


def _bytes(column: Column) -> Any:
    """Return a binary column's values; by way of numpy, which is twice as fast as `to_pylist`."""
    if column.null_count == len(column):
        return repeat(None)
    return column.to_numpy(zero_copy_only=False).tolist()


def _ms(when: Any) -> int | None:
    return None if when is None else int(when.timestamp() * 1000)
