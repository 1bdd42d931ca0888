"""The data source `cordwood`: what Spark finds, and its batch reader.

    spark.read.format("cordwood").option("endpoint", …).option("subscribe", "clicks").load()

Spark makes these objects on the driver and sends them to its workers; none of them holds a connection.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from cordwood.errors import Refused
from cordwood.spark import filters, places, plan
from cordwood.spark.columns import arrow_schema, ddl
from cordwood.spark.extent import Range, cut, judge
from cordwood.spark.options import (
    EARLIEST,
    LATEST,
    Bound,
    ReadOptions,
    archive_options,
    check_batch,
    check_stream,
    read_options,
)
from cordwood.spark.options import write_options as _write_options
from cordwood.spark.settling import settle

if TYPE_CHECKING:
    from cordwood.spark.broker import Broker

_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


class CordwoodSource(DataSource):
    """Topics of a broker as tables."""

    @classmethod
    def name(cls) -> str:
        """The name that follows `format`."""
        return "cordwood"

    def schema(self) -> str:
        """Return the columns that the options ask for; wrong options are refused here, when a query is written."""
        options = archive_options(self.options) or read_options(self.options)
        return ddl(options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what plans and reads a batch query."""
        archives = archive_options(self.options)
        if archives is not None:
            from cordwood.spark.archives import ArchiveReader

            return ArchiveReader(archives, to_arrow(schema))
        options = read_options(self.options)
        check_batch(options)
        # A reader that takes filters fails the query unless `spark.sql.python.filterPushdown.enabled` is set. Only
        # then does Spark ask in a process of this module.
        kind = FilteringReader if _PUSHING in sys.modules else BatchReader
        return kind(options, to_arrow(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what plans and reads a streaming query."""
        from cordwood.spark.stream import StreamReader

        if archive_options(self.options) is not None:
            raise Refused("archives are read by batch queries; nothing is added to them while they are read")
        options = read_options(self.options)
        check_stream(options)
        return StreamReader(options, to_arrow(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what writes a batch query's rows."""
        from cordwood.spark.sink import batch_writer

        return batch_writer(_write_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return what writes a streaming query's rows."""
        from cordwood.spark.sink import stream_writer

        return stream_writer(_write_options(self.options), schema)


class BatchReader(DataSourceReader):
    """Plans one cut of the topics when the query runs, and reads it."""

    def __init__(self, options: ReadOptions, schema: Any):
        self._options = options
        self._schema = schema
        self._want = filters.ALL

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks. Where data is missing, raise or say so, as the options want it."""
        from cordwood.spark.broker import FIRST_TRIES, Broker, reaching

        options = self._options
        settle()
        with (
            reaching(options.endpoint),
            Broker(options.endpoint, options.token, FIRST_TRIES, ca=options.ca) as broker,
        ):
            return planned(broker, options, self._narrow(broker, self._ranges(broker)), stream=False)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a task as Arrow batches."""
        return read_task(self._options, self._schema, self._want, partition)

    def _ranges(self, broker: "Broker") -> list[Range]:
        options = self._options
        extents = broker.extents(options)
        start, end = options.start or Bound(everywhere=EARLIEST), options.end or Bound(everywhere=LATEST)
        starts = places.begin(
            start, extents, broker.since(places.times(start, "starting", extents)), options.late_start
        )
        ends = places.finish(end, extents, broker.since(places.times(end, "ending", extents)))
        ends = {key: max(behind, starts[key]) if end.offsets is None else behind for key, behind in ends.items()}
        ranges, losses = cut(extents, starts, ends)
        judge(losses, fail=options.fail_on_data_loss)
        return ranges

    def _narrow(self, broker: "Broker", ranges: list[Range]) -> list[Range]:
        """Return what of the ranges can be wanted. All before the first message since a time is earlier than that."""
        ranges = filters.narrow(ranges, self._want)
        if not ranges or self._want.since_us <= 0:
            return ranges
        firsts = broker.since({(one.topic, one.partition): self._want.since_us // 1000 for one in ranges})
        found = [one._replace(start=max(one.start, firsts[one.topic, one.partition])) for one in ranges]
        return [one for one in found if one.start < one.end]


class FilteringReader(BatchReader):
    """Reads only what filters on partition, offset and timestamp let through, for a Spark that tells them."""

    def pushFilters(self, filters_: list[Filter]) -> Iterable[Filter]:
        """Take notice of the filters, and leave all of them to Spark as well."""
        self._want = filters.wanted(filters_)
        return filters_


def to_arrow(schema: StructType) -> Any:
    """Return the Arrow schema of what Spark asks for."""
    return arrow_schema([(one.name, one.dataType.simpleString(), one.nullable) for one in schema.fields])


def planned(broker: "Broker", options: ReadOptions, ranges: Sequence[Range], *, stream: bool) -> list[InputPartition]:
    """Return the tasks that read these ranges, each with the store that its objects are in."""
    from cordwood.spark.store import store_of

    spans = plan.locate(ranges, broker.held(ranges))
    tiered = any(span.object is not None for span in spans)
    store = store_of(broker.config()) if tiered else None
    shared = plan.tasks(
        spans,
        os.cpu_count() or 1,
        stream=stream,
        least=options.min_partitions,
        most_rows=options.max_records_per_partition,
    )
    return [InputPartition((task, store)) for task in shared]


def read_task(options: ReadOptions, schema: Any, want: filters.Wanted, partition: InputPartition) -> Iterator[Any]:
    """Yield the rows of a task; of a query without tasks Spark makes one that is None."""
    if partition.value is None:
        return
    from cordwood.spark.broker import Broker, reaching
    from cordwood.spark.read import TaskReader

    settle()
    task, store = partition.value
    with reaching(options.endpoint), Broker(options.endpoint, options.token, ca=options.ca) as broker:
        reader = TaskReader(broker, store, schema, want, fail_on_data_loss=options.fail_on_data_loss)
        yield from reader.read(task)
