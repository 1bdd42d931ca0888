"""The sinks: rows staged by tasks, and published all together.

    write   on executors   stage under (writer, batch, task, attempt)      on disk, and nobody sees it
    commit  on the driver  publish the attempts that Spark chose           all become visible, in one frame

                     writer                                     batch
    batch query      a name that nobody had before              0
    streaming query  Spark's id of the query, or `writerId`     Spark's number of the batch

An attempt is a random number: a task that runs twice, two runs of a query, a zombie of either, never add to each
other's stage. What is not chosen is never seen, and goes with the next publish or after the broker's `stage_ttl_ms`.

A batch of a streaming query that was published before, because the driver died before Spark noted it, is told by
the broker: staging it again is a conflict that names it, publishing it again changes nothing.
"""

import logging
import secrets
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from cordwood.client.client import Client
from cordwood.errors import Conflict, Refused
from cordwood.record import Batch
from cordwood.spark.broker import FIRST_TRIES, TIMEOUT_S, TRIES
from cordwood.spark.columns import mapped
from cordwood.spark.options import WriteOptions
from cordwood.spark.settling import settle

log = logging.getLogger("cordwood.spark")

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # Spark's, and in none of its documents
# One request: well below what the broker takes (100,000 messages, 32 MiB), and worth its sync.
STAGE_ROWS, STAGE_BYTES = 50_000, 8 << 20

_TEXT = ("binary", "string")
_PAIRS = tuple(f"array<struct<key:string,value:{kind}>>" for kind in _TEXT)
ACCEPTED = {
    "value": _TEXT,
    "key": _TEXT,
    "headers": (*_PAIRS, *(f"map<string,{kind}>" for kind in _TEXT)),
    "partition": ("int", "bigint", "smallint", "tinyint"),
    "timestamp": ("timestamp", "timestamp_ntz"),
    "topic": ("string",),
}
IGNORED = ("offset",)  # so that what was read can be written as it is; a log numbers its own


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What an attempt of a task staged: `parts` requests. `over` where the batch had been published before."""

    writer: str
    task: int
    attempt: int
    parts: int
    over: bool = False


def batch_writer(options: WriteOptions, schema: StructType, *, overwrite: bool) -> "BatchWriter":
    """Return what writes a batch query's rows, or refuse rows that are no messages."""
    if overwrite:
        raise Refused("a log is appended to, never overwritten; use mode('append')")
    check_columns(options, schema)
    if options.topic is not None:
        with _client(options, FIRST_TRIES) as client:
            client.topic(options.topic)  # before any work is done for a topic that is not there
    return BatchWriter(options)


def stream_writer(options: WriteOptions, schema: StructType) -> "StreamWriter":
    """Return what writes a streaming query's rows, or refuse rows that are no messages."""
    check_columns(options, schema)
    return StreamWriter(options)


def check_columns(options: WriteOptions, schema: StructType) -> None:
    """Refuse rows that are no messages, naming the column."""
    kinds = {one.name: one.dataType.simpleString() for one in schema.fields}
    for name, kind in kinds.items():
        if name in IGNORED:
            continue
        if name not in ACCEPTED:
            raise Refused(f"the sink takes no column {name!r}. Known are: {', '.join(ACCEPTED)}")
        if kind.split(" collate ")[0] not in ACCEPTED[name]:
            hint = "; to_json(struct(…)) makes text of columns" if name == "value" else ""
            raise Refused(f"column {name!r} is {kind}, not {' or '.join(ACCEPTED[name])}{hint}")
    if "value" not in kinds:
        raise Refused("the sink needs a column 'value', binary or string; to_json(struct(…)) makes one of columns")
    if options.topic is None and "topic" not in kinds:
        raise Refused("where to? Give the option 'topic', or a column 'topic'")


class BatchWriter(DataSourceArrowWriter):
    """Appends the rows of a query, all or none."""

    BATCH = 0

    def __init__(self, options: WriteOptions):
        self._options = options
        self._writer = f"spark-batch-{uuid.uuid4()}"

    def write(self, iterator: Iterator[Batch]) -> Staged:
        """Stage the rows of a task."""
        return stage(self._options, self._writer, self.BATCH, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible."""
        chosen = [one for one in messages if isinstance(one, Staged)]
        publish(self._options, self._writer, self.BATCH, chosen)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop what was staged, if it was not published.

        Spark calls this also when a publish took effect and its answer was lost. So we do not say "drop" but "publish
        nothing", which only one of the two can be.
        """
        with _client(self._options) as client:
            said = client.publish(self._writer, self.BATCH, [])
        if said["duplicate"] and said["results"]:
            log.warning("the rows of %s were published, though Spark calls the write failed", self._writer)


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of each batch of a streaming query exactly once."""

    def __init__(self, options: WriteOptions):
        self._options = options

    def write(self, iterator: Iterator[Batch]) -> Staged:
        """Stage the rows of a task, unless this batch was published before."""
        query, number = _property(QUERY_ID), _property(BATCH_ID)
        if number is None:
            raise Refused(f"this Spark does not tell its tasks the number of the batch ({BATCH_ID})")
        writer = self._options.writer_id or query
        if writer is None:
            raise Refused(f"this Spark does not tell its tasks the query's id ({QUERY_ID}); give the option writerId")
        try:
            return stage(self._options, writer, int(number), iterator)
        except Conflict as conflict:
            if "batch" not in conflict.facts:
                raise
            if conflict.facts["batch"] != int(number):
                raise Conflict(
                    f"writer {writer!r} is beyond batch {number}: {conflict}. A query with a new checkpoint counts"
                    " from 0 again, and needs a writerId of its own",
                    **conflict.facts,
                ) from None
        return Staged(writer, _task(), 0, 0, over=True)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Make the rows of a batch visible; again changes nothing."""
        chosen = [one for one in messages if isinstance(one, Staged)]
        for writer in {one.writer for one in chosen}:
            publish(self._options, writer, batchId, chosen)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Leave everything as it is.

        Spark calls this also when a publish took effect and its answer was lost; and to close the batch here would
        lose it, because Spark will come with it again. What was staged goes with the next publish.
        """
        staged = sum(isinstance(one, Staged) for one in messages)
        log.info("batch %d was not finished; what %d tasks staged stays unseen until it comes again", batchId, staged)


def stage(options: WriteOptions, writer: str, batch: int, rows: Iterator[Batch]) -> Staged:
    """Stage rows under an attempt that nobody had before. Raises Conflict for a batch that was published."""
    settle()
    task, attempt = _task(), secrets.randbits(31)
    parts = 0
    with _client(options) as client:
        for topic, table in _requests(options, rows):
            client.stage(topic, table, writer=writer, batch=batch, task=task, attempt=attempt, sequence=parts)
            parts += 1
    return Staged(writer, task, attempt, parts)


def publish(options: WriteOptions, writer: str, batch: int, staged: Sequence[Staged]) -> None:
    """Publish what these attempts staged; nothing is said to the broker where that is nothing."""
    chosen = [(one.task, one.attempt) for one in staged if one.parts]
    if not chosen and not any(one.over for one in staged):
        return
    with _client(options) as client:
        said = client.publish(writer, batch, chosen)
    if said["duplicate"]:
        log.info("batch %d of %s was published before", batch, writer)


def _requests(options: WriteOptions, rows: Iterator[Batch]) -> Iterator[tuple[str, Any]]:
    """Yield topics and tables of a good size to stage."""
    waiting: list[Batch] = []
    count = size = 0
    for whole in rows:
        for batch in _pieces(_messages(whole)):
            if waiting and (count + batch.num_rows > STAGE_ROWS or size + batch.nbytes > STAGE_BYTES):
                yield from _by_topic(options, waiting)
                waiting, count, size = [], 0, 0
            waiting.append(batch)
            count, size = count + batch.num_rows, size + batch.nbytes
    if waiting:
        yield from _by_topic(options, waiting)


def _pieces(batch: Batch) -> Iterator[Batch]:
    """Yield a batch in pieces that fit into a request; a message that does not is for the broker to refuse."""
    if batch.num_rows > 1 and (batch.num_rows > STAGE_ROWS or batch.nbytes > STAGE_BYTES):
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))
    elif batch.num_rows:
        yield batch


def _messages(batch: Batch) -> Batch:
    """Return the columns of messages, as the broker takes them, and the topic."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in ("key", "value"):
            columns[name] = column.cast(pa.binary())
        elif name == "headers":
            columns[name] = column if pa.types.is_map(column.type) else mapped(column)
        elif name == "partition":
            columns[name] = column.cast(pa.int32())
        elif name not in IGNORED:
            columns[name] = column
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _by_topic(options: WriteOptions, batches: list[Batch]) -> Iterator[tuple[str, Any]]:
    """Yield the messages of each topic; the option counts before the column."""
    table = pa.Table.from_batches(batches)
    if "topic" not in table.schema.names:
        assert options.topic is not None
        yield options.topic, _whole(table)
        return
    topics = table.column("topic")
    table = table.drop_columns(["topic"])
    if options.topic is not None:
        yield options.topic, _whole(table)
        return
    if topics.null_count:
        raise Refused("a row has no topic: the column is null, and there is no option 'topic'")
    for topic in sorted(pc.unique(topics).to_pylist()):
        yield topic, _whole(table.filter(pc.equal(topics, topic)))


def _whole(table: Any) -> Any:
    """Return a table as one batch: the broker can store that as it came."""
    return table.combine_chunks().to_batches()[0]


def _client(options: WriteOptions, tries: int = TRIES) -> Client:
    return Client(options.endpoint, token=options.token, ca=options.ca, timeout=TIMEOUT_S, tries=tries)


def _task() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)
