"""The streaming reader.

    initialOffset                 where a new query begins                      asked once, kept in the checkpoint
    latestOffset(start, limit)    where this trigger ends                       kept in the checkpoint
    partitions(start, end)        its tasks                                     again after a crash: the same
    commit(end)                   the query will not ask for less than this     the named reader moves

All but `read` run in one process beside the driver. It remembers nothing that a plan depends on, except where
`Trigger.AvailableNow` stops.

Spark commits a batch when it plans the one after it, so never the last. But a trigger begins where a finished batch
ended; so the reader moves there, too.
"""

from collections.abc import Iterator, Sequence
from time import monotonic, sleep
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from cordwood.errors import NotFound
from cordwood.spark import filters, pace, places, plan
from cordwood.spark.broker import FIRST_TRIES, TRIES, Broker, reaching
from cordwood.spark.extent import Extent, Key, cut, judge
from cordwood.spark.options import LATEST, Bound, ReadOptions
from cordwood.spark.position import Position, between, resume
from cordwood.spark.source import planned, read_task

TELL_S = 600.0
MOST_IDLE_S = 0.05  # below what a trigger takes, so that hardly anybody waits longer for it


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows topics; those of a pattern that are made later are read from their beginning."""

    def __init__(self, options: ReadOptions, schema: Any):
        self._options = options
        self._schema = schema
        self._target: dict[Key, int] | None = None
        self._asked: Broker | None = None
        self._idle_s = 0.0
        self._told: tuple[Position, float] | None = None  # where the broker knows us to be, and since when

    # On the driver

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins."""
        options = self._options
        with (
            reaching(options.endpoint),
            Broker(options.endpoint, options.token, FIRST_TRIES, ca=options.ca) as broker,
        ):
            extents = broker.extents(options)
            start = options.start or Bound(everywhere=LATEST)
            found = broker.since(places.times(start, "starting", extents))
            position = Position.of(extents, places.begin(start, extents, found, options.late_start))
            self._stand(broker, position)
        return position.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options ask for."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where everything ends now; this query goes no further."""
        self._target = {extent.key: extent.end for extent in self._broker.extents(self._options)}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where a trigger that begins at `start` ends."""
        extents = self._extents()
        begin = Position.from_json(start)
        starts, losses = resume(begin, extents)
        judge(losses, fail=self._options.fail_on_data_loss)
        self._stand(self._broker, begin)
        ends = {extent.key: max(extent.end, starts[extent.key]) for extent in extents}
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limited(extents, starts, ends, limit)
        found = Position.of(extents, ends)
        self._rest(news=found != begin)
        return found.to_json()

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return where everything ends now, so that the query's progress shows how far behind it is."""
        extents = self._broker.extents(self._options)
        return Position.of(extents, {extent.key: extent.end for extent in extents}).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a trigger. Where data is missing, raise or say so, as the options want it."""
        begin, behind = Position.from_json(start), Position.from_json(end)
        broker, options = self._broker, self._options
        ranges, losses = between(begin, behind, broker.known(behind.ids))
        judge(losses, fail=options.fail_on_data_loss)
        return planned(broker, options, ranges, stream=True)

    def commit(self, end: dict[str, Any]) -> None:
        """Move the named reader, if there is one, so that retention may take what is behind it."""
        self._stand(self._broker, Position.from_json(end))

    def stop(self) -> None:
        """Close the connections."""
        if self._asked is not None:
            self._asked.close()

    # On executors

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a task as Arrow batches."""
        return read_task(self._options, self._schema, filters.ALL, partition)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_asked": None, "_told": None}

    @property
    def _broker(self) -> Broker:
        if self._asked is None:
            self._asked = Broker(self._options.endpoint, self._options.token, TRIES, ca=self._options.ca)
        return self._asked

    def _extents(self) -> list[Extent]:
        """Return what there is; with AvailableNow, of what there was when the query began."""
        try:
            found = self._broker.extents(self._options)
        except NotFound:
            found = self._broker.known(self._options.topics)  # one was deleted; what that means is judged later
        if self._target is None:
            return found
        return [one._replace(end=min(one.end, self._target[one.key])) for one in found if one.key in self._target]

    def _rest(self, *, news: bool) -> None:
        """Wait a little where there is no news: Spark asks a hundred times a second, at the broker's cost."""
        self._idle_s = 0.0 if news or self._target is not None else min(MOST_IDLE_S, self._idle_s * 2 + 0.005)
        if self._idle_s:
            sleep(self._idle_s)

    def _limited(
        self, extents: Sequence[Extent], starts: dict[Key, int], ends: dict[Key, int], limit: ReadLimit
    ) -> dict[Key, int]:
        """Return where the trigger ends by Spark's limit and the options' own."""
        rows, size = self._options.max_offsets_per_trigger, self._options.max_bytes_per_trigger
        if isinstance(limit, ReadMaxRows):
            rows = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes
        if rows is not None:
            ends = pace.by_rows(extents, starts, rows)
        if size is not None:
            ranges, _ = cut(extents, {one.key: max(starts[one.key], one.start) for one in extents}, ends)
            spans = plan.locate(ranges, self._broker.held(ranges))
            reached = pace.by_bytes(spans, size) if spans else {}
            ends = {key: min(end, reached.get(key, end)) for key, end in ends.items()}
        return ends

    def _stand(self, broker: Broker, position: Position) -> None:
        """Tell the broker where this query stands in each topic, and from time to time that it still does.

        A reader that is not heard of for long does not hold retention back.
        """
        reader, now = self._options.reader_id, monotonic()
        if reader is None or (self._told is not None and self._told[0] == position and now < self._told[1] + TELL_S):
            return
        self._told = (position, now)
        for topic in position.ids:
            try:
                broker.client.set_reader(topic, reader, position.of_topic(topic))
            except NotFound:
                continue  # it was deleted since
