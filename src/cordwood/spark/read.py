"""What an executor does: read the spans of a task, from the store or from the broker, as batches for Spark.

    span with an object    the store, a row group at a time        what the store does not give is asked of the broker
    any other              the broker, an Arrow stream

Every span is read whole: each offset that it promises comes exactly once, in order, or is a loss that is raised or,
where the query allows it, said in the log.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cordwood.errors import NotFound, Unavailable
from cordwood.machine.objects.store import Objects
from cordwood.record import Batch, times_us
from cordwood.spark.broker import Broker
from cordwood.spark.columns import shape
from cordwood.spark.extent import Loss, judge
from cordwood.spark.filters import Wanted
from cordwood.spark.plan import Span, Task
from cordwood.spark.position import ANEW, DELETED
from cordwood.spark.store import opened, say_once
from cordwood.tier import contents, reading
from cordwood.tier import rows as tier
from cordwood.tier.descriptor import Descriptor, parse
from cordwood.tier.parquet import COLUMNS

# A batch costs Spark some 50 µs, however small; from some thousand rows on that is nothing.
SMALL_ROWS, SMALL_BYTES = 4_096, 2 << 20
JOINED_ROWS, JOINED_BYTES = 16_384, 8 << 20


class Rows(NamedTuple):
    """Messages with neighbouring offsets from `first` on; none where a filter leaves them out."""

    first: int
    end: int
    batch: Batch | None


class TaskReader:
    """Reads tasks of one query."""

    def __init__(self, broker: Broker, store: str | None, schema: Any, want: Wanted, *, fail_on_data_loss: bool):
        self._broker = broker
        self._store = store
        self._schema = schema
        self._want = want
        self._columns = [name for name in COLUMNS if name in schema.names or (name == "timestamp" and want.timed)]
        self._fail = fail_on_data_loss
        self._same: dict[str, str | None] = {}  # topic → its id as the broker says it now

    def read(self, task: Task) -> Iterator[Batch]:
        """Yield the messages of a task, all batches in the same schema, of a good size."""
        return cut(ahead(joined(batch for span in task for batch in self._span(span))))

    def _span(self, span: Span) -> Iterator[Batch]:
        at = span.start
        for rows in self._rows(span):
            if rows.first != at:
                self._lost(span, at, rows.first, "they are not there any more")
            if rows.batch is not None:
                offsets = pa.array(np.arange(rows.first, rows.end, dtype=np.int64))
                yield shape(self._schema, span.topic, span.partition, offsets, rows.batch)
            at = rows.end
        if at < span.end:
            self._lost(span, at, span.end, "they are not there any more")

    def _rows(self, span: Span) -> Iterator[Rows]:
        """Yield what there is of a span, in order, wherever it is by now."""
        at = span.start
        objects = opened(self._store) if span.object is not None and self._store is not None else None
        descriptor = parse(span.object) if span.object is not None else None
        if objects is not None and descriptor is not None:
            try:
                for rows in self._from_object(objects, descriptor, span):
                    yield rows
                    at = rows.end
            except NotFound:
                pass  # swapped for a larger one since the query was planned, or expired: the broker knows
            except Unavailable as error:
                say_once(f"history is read through the broker: {error}")
        if at < span.end:
            yield from self._from_broker(span, at)

    def _from_object(self, objects: Objects, descriptor: Descriptor, span: Span) -> Iterator[Rows]:
        """Yield what an object has of a span; whole row groups that the query does not want are passed over."""
        want = self._want
        found = contents.fetch(objects, descriptor, span.object_bytes or None)
        if not want.timed:
            for rows in reading.read(objects, descriptor, found, span.start, span.end, self._columns):
                yield from _dense(rows, want)
            return
        for group in found.groups_for(span.start, span.end):
            first, end = max(group.first, span.start), min(group.end, span.end)
            if group.end - group.first == group.rows and not _meets(want, group.earliest_us, group.latest_us):
                yield Rows(first, end, None)
                continue
            for rows in reading.read(objects, descriptor, found, first, end, self._columns):
                yield from _dense(rows, want)

    def _from_broker(self, span: Span, at: int) -> Iterator[Rows]:
        now = self._id(span.topic)
        if now != span.id:
            self._lost(span, at, span.end, DELETED if now is None else ANEW)
            yield Rows(span.end, span.end, None)
            return
        client = self._broker.client
        for batch in client.read_batches(span.topic, span.partition, offset=at, limit=span.end - at):
            for first, run in tier.Rows(batch.column("offset").to_numpy(), batch).runs():
                if first < span.end:  # else retention took some, and so many follow
                    kept = run.slice(0, span.end - first)
                    yield Rows(first, first + kept.num_rows, _timed(kept, self._want))

    def _id(self, topic: str) -> str | None:
        if topic not in self._same:
            try:
                self._same[topic] = str(self._broker.client.topic(topic)["id"])
            except NotFound:
                self._same[topic] = None
        return self._same[topic]

    def _lost(self, span: Span, start: int, end: int, why: str) -> None:
        if start < end:
            judge([Loss(span.topic, span.partition, start, end, why)], fail=self._fail)


def _dense(rows: tier.Rows, want: Wanted) -> Iterator[Rows]:
    for first, batch in rows.runs():
        yield Rows(first, first + batch.num_rows, _timed(batch, want))


def _timed(batch: Batch, want: Wanted) -> Batch | None:
    """Return a batch, None where the query wants none of its times."""
    if want.timed and batch.num_rows:
        times = times_us(batch, "timestamp")
        if not _meets(want, int(times.min()), int(times.max())):
            return None
    return batch


def _meets(want: Wanted, earliest_us: int, latest_us: int) -> bool:
    return latest_us >= want.since_us and earliest_us < want.until_us


def joined(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the same rows in fewer batches, where small ones follow each other; all are in one schema."""
    waiting: list[Batch] = []
    rows = size = 0
    for batch in batches:
        assert not waiting or batch.schema.equals(waiting[0].schema), "Spark looks at the first only"
        more = batch.nbytes
        if waiting and (batch.num_rows >= SMALL_ROWS or more >= SMALL_BYTES or size + more > JOINED_BYTES):
            yield _join(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + more
        if rows >= JOINED_ROWS or size >= SMALL_BYTES or batch.num_rows >= SMALL_ROWS:
            yield _join(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _join(waiting)


def ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the same; each is made, in another thread, while the one before it is on its way to Spark."""
    with ThreadPoolExecutor(1, "cordwood-read") as other:
        following = other.submit(next, batches, None)
        while (batch := following.result()) is not None:
            following = other.submit(next, batches, None)
            yield batch


def cut(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the same rows in batches that are not too large: Spark takes one while we write the next."""
    for batch in batches:
        for first in range(0, batch.num_rows, JOINED_ROWS):
            yield batch.slice(first, JOINED_ROWS)


def _join(batches: list[Batch]) -> Batch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
