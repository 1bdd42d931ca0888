"""Archives of outboxes as a table: what workers sent, read from their own disks and without a broker.

    spark.read.format("cordwood").option("archive", "~/.cordwood/outbox").load()

    topic      where it was sent, null where a function delivered it        offset     the event's number
    key        the execution, unless the event had its own                  partition  null; the broker chose it

The path is an outbox's root, a directory of archives, or one file; executors must have it under the same path. A run
has one archive or several, and where power was lost two of them may have the same events: so all of a run are read by
one task, and each event comes once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from cordwood.edge import archive
from cordwood.edge.event import Event
from cordwood.edge.names import ARCHIVE
from cordwood.errors import Damaged, Refused
from cordwood.record import Batch
from cordwood.spark.columns import TYPES
from cordwood.spark.options import ArchiveOptions
from cordwood.spark.settling import settle
from cordwood.spark.store import say_once

BATCH_ROWS = 16_384


class ArchiveReader(DataSourceReader):
    """Plans and reads the archives of a directory, as they are when the query runs."""

    def __init__(self, options: ArchiveOptions, schema: Any):
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return a task for each execution. Refuses a path where no archives can be."""
        return [InputPartition(tuple(map(str, paths))) for paths in found(Path(self._options.path)).values()]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """Yield the events of an execution as Arrow batches."""
        if partition.value is None:  # of a query without tasks Spark makes one
            return
        settle()
        rows = self._rows(partition.value)
        while some := list(islice(rows, BATCH_ROWS)):
            yield _batch(self._schema, some)

    def _rows(self, paths: Sequence[str]) -> Iterator[tuple[str | None, Event]]:
        """Yield each event of these archives once, with its topic."""
        behind: dict[str, int] = defaultdict(int)  # of each run
        for path in paths:
            try:
                one = archive.open_archive(path)
            except FileNotFoundError:
                raise Refused(f"{path} is not here; every executor must have it under the same path") from None
            except Damaged as damage:
                if self._options.fail_on_data_loss:
                    raise
                say_once(f"{path} is passed over: {damage}")
                continue
            run = one.begun.producer
            for event in one.events:
                if event.number >= behind[run]:
                    behind[run] = event.number + 1
                    yield one.begun.topic, event


def found(path: Path) -> dict[str, list[Path]]:
    """Return the archives below a path, by execution, each execution's in the order they were written."""
    path = path.expanduser()
    if path.is_file():
        return {path.name: [path]}
    if not path.is_dir():
        raise Refused(f"archive: {path} is not there; give an outbox's directory, or one archive")
    shelf = path / ARCHIVE
    grouped: dict[str, list[Path]] = defaultdict(list)
    for execution, one in archive.archives_in(shelf if shelf.is_dir() else path):
        grouped[execution].append(one)
    for paths in grouped.values():
        paths.sort(key=lambda one: (len(one.name), one.name))  # .9.wal.zst before .10.wal.zst
    return grouped


def _batch(schema: Any, rows: Sequence[tuple[str | None, Event]]) -> Batch:
    """Return events in Spark's schema."""
    columns: dict[str, Callable[[], list[Any]]] = {
        "topic": lambda: [topic for topic, _ in rows],
        "partition": lambda: [None] * len(rows),
        "offset": lambda: [event.number for _, event in rows],
        "timestamp": lambda: [event.timestamp_ms * 1000 for _, event in rows],
        "key": lambda: [event.key for _, event in rows],
        "value": lambda: [event.value for _, event in rows],
        "headers": lambda: [[{"key": name, "value": value} for name, value in event.headers] for _, event in rows],
    }
    arrays = [pa.array(columns[field.name](), TYPES[field.name]) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
