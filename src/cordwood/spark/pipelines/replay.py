"""Messages of a topic, or its dead letters, chosen by time and SQL, changed if need be, and published again, once.

    cut       offsets of each partition, fixed under the replay's name       in the broker, by the driver
    stage     what SQL makes of them                                         on disk there, by tasks; nobody sees it
    publish   all of it, in one frame                                        by the driver
    forget    the cut

                      found by the same command, run again
    killed before     the cut: the same messages are selected, staged anew, and published
    killed after      the broker knows the writer: nothing is published, and that is said

A replay is known by its name and all that it is asked to do, so the same command is the same replay. The broker knows
that it was published for `producer_retention_ms` (7 days); a cut that was left behind longer ago is refused.

The messages come in the order of the topic: per partition, so per key too. A replay into its own topic ends at its
cut, and never sees what it wrote. SQL that gives something else each time, such as rand(), gives it once: what is
published is what the run made that published it, each task's rows by one attempt of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from json import dumps
from time import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cordwood.client.client import Client
from cordwood.errors import Conflict, Refused
from cordwood.record import Batch
from cordwood.spark import extent
from cordwood.spark.broker import FIRST_TRIES, TIMEOUT_S, TRIES, Broker, reaching
from cordwood.spark.columns import COLUMNS
from cordwood.spark.extent import Extent, judge
from cordwood.spark.options import WriteOptions, write_options
from cordwood.spark.pipelines import cut as cuts
from cordwood.spark.pipelines.cut import Cut
from cordwood.spark.pipelines.progress import Tell, watched
from cordwood.spark.pipelines.selection import applying, as_it_was, selected
from cordwood.spark.table import Place, bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = 0  # a replay is one
_NOBODY = (1 << 31) - 1, 0  # a task that no replay has
_STAGED = "task int, attempt int, parts int, messages bigint"


@dataclass(frozen=True, slots=True)
class Run:
    """Messages of the target that a replay published."""

    partition: int
    first_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of a replay: `state` is "published", "published before" or "dry run".

    `read` are the messages of the cut, `messages` those that were selected and published; `starts` and `ends` are the
    cut, which one that was published before does not tell.
    """

    name: str
    source: str
    target: str
    state: str
    messages: int
    read: int | None
    starts: Mapping[int, int] | None
    ends: Mapping[int, int] | None
    results: Sequence[Run]

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def replay(
    spark: "SparkSession",
    endpoint: str,
    source_topic: str,
    target_topic: str,
    *,
    start: Place = None,
    end: Place = None,
    where: str | None = None,
    select: str | None = None,
    name: str | None = None,
    dry_run: bool = False,
    token: str | None = None,
    ca: str | None = None,
    tell: Tell = lambda line: None,
) -> Replayed:
    """Publish messages of one topic to another exactly once, however often this is called; return what was done.

    `start` and `end` are as for `table`. `where` is an SQL condition and `select` an SQL list that gives `value`, and
    optionally `key`, `headers`, `partition` and `timestamp`; see `selection` for what they can name. Without `select`
    key, value and headers are kept, and the time is that of the replay. A dead letter is published as the message it
    was; its own headers are there for `where` and `select`.
    """
    options = _options(endpoint, token, ca, target_topic)
    with reaching(endpoint), Broker(endpoint, options.token, FIRST_TRIES, ca=options.ca) as broker:
        client = broker.client
        extents = broker.topic(source_topic)
        ids = extents[0].id, broker.topic(target_topic)[0].id
        known = identity(name, (source_topic, target_topic, *ids), (start, end), (where, select))
        before = _published(client, known)
        if before is not None:
            cuts.forget(client, source_topic, known)
            return _over(known, source_topic, target_topic, before, tell)
        cut = _cut(broker, source_topic, known, extents, start, end)
        rows = _rows(spark, options, source_topic, extents, cut)
        found = selected(rows, where, as_it_was(source_topic) if select is None else select)
        _check(options, found)
        if cut.fixed_ms is None and not dry_run:
            cuts.fix(client, source_topic, known, cut)
    tell(
        f"{known}: {cut.offsets} messages to read{'' if cut.fixed_ms is None else ', of a cut that was fixed before'}"
    )
    about = (cut.offsets, cut.starts, cut.ends)
    if dry_run:
        with watched(spark, tell), applying():
            return Replayed(known, source_topic, target_topic, "dry run", found.count(), *about, ())
    try:
        with watched(spark, tell), applying():
            staged = found.mapInArrow(partial(_stage, options, known), _STAGED).collect()
    except Refused:  # the same command would be refused again, and another has a cut of its own
        with Client(endpoint, token=options.token, ca=options.ca, timeout=TIMEOUT_S) as client:
            cuts.forget(client, source_topic, known)
        raise
    tell(f"staged {sum(one.messages for one in staged)} messages")
    with Client(endpoint, token=options.token, ca=options.ca, timeout=TIMEOUT_S, tries=TRIES) as client:
        chosen = sorted((one.task, one.attempt) for one in staged if one.parts)
        runs = _runs(client.publish(known, BATCH, chosen))  # even if there is nothing: it is over then
        messages = sum(run.count for run in runs)
        tell(f"published {messages} messages")
        cuts.forget(client, source_topic, known)
    return Replayed(known, source_topic, target_topic, "published", messages, *about, runs)


def identity(
    name: str | None,
    topics: tuple[str, ...],
    places: tuple[Place, Place],
    sql: tuple[str | None, str | None],
) -> str:
    """Return the name that a replay is known by: the same for the same work, and another for any other."""
    told = [list(topics), [_told(place) for place in places], list(sql)]
    digest = sha256(dumps(told, sort_keys=True).encode()).hexdigest()[:16]
    return f"replay/{name}-{digest}" if name is not None else f"replay/{digest}"


def _told(place: Place) -> Any:
    """Return a place as JSON; times that are the same moment are the same."""
    if isinstance(place, datetime):
        return {"time": round((place if place.tzinfo else place.astimezone()).timestamp() * 1000)}
    if isinstance(place, Mapping):
        return {"offsets": {str(int(number)): int(offset) for number, offset in place.items()}}
    return place


def _options(endpoint: str, token: str | None, ca: str | None, topic: str) -> WriteOptions:
    given = {"endpoint": endpoint, "topic": topic, "token": token, "ca": ca}
    return write_options({name: value for name, value in given.items() if value is not None})


def _published(client: Client, writer: str) -> list[Run] | None:
    """Return what a writer published, None if it did not: choosing what nobody staged, it does not happen now."""
    try:
        return _runs(client.publish(writer, BATCH, [_NOBODY]))
    except Conflict:
        return None


def _runs(said: dict[str, Any]) -> list[Run]:
    return [Run(one["partition"], one["first_offset"], one["count"]) for one in said["results"]]


def _over(name: str, source: str, target: str, runs: list[Run], tell: Tell) -> Replayed:
    messages = sum(run.count for run in runs)
    tell(f"{name} was published before, {messages} messages; nothing is published. Another name is another replay")
    return Replayed(name, source, target, "published before", messages, None, None, None, runs)


def _cut(broker: Broker, topic: str, name: str, extents: Sequence[Extent], start: Place, end: Place) -> Cut:
    """Return the cut that was fixed before, or one that is not fixed yet."""
    found = cuts.find(broker.client, topic, name)
    if found is None:
        starts, ends = bounds(broker, extents, start, end)
        begin = {one.partition: starts[one.key] for one in extents}
        return Cut(begin, {one.partition: ends[one.key] for one in extents})
    assert found.fixed_ms is not None, "it was found"
    kept_ms = int(broker.config()["producer_retention_ms"])
    if time() * 1000 > found.fixed_ms + kept_ms:
        raise Refused(
            f"{name} was begun more than {kept_ms // 3_600_000} hours ago; the broker does not know any more whether"
            f" it was published. Look into the target. Another name is another replay; or delete the readers"
            f" {name}/from and {name}/to of {topic!r}"
        )
    return found


def _rows(
    spark: "SparkSession", options: WriteOptions, topic: str, extents: Sequence[Extent], cut: Cut
) -> "DataFrame":
    """Return the messages of a cut, every one of them, in order. Raises DataLost where retention took some.

    Not `table`: Spark's own reader of Parquet begins with the largest file.
    """
    keyed = [{(topic, number): at for number, at in one.items()} for one in (cut.starts, cut.ends)]
    _, losses = extent.cut(extents, keyed[0], keyed[1])
    judge(losses, fail=True)
    reader = (
        spark.read.format("cordwood")
        .option("endpoint", options.endpoint)
        .option("subscribe", topic)
        .option("columns", ",".join(COLUMNS))
        .option("startingOffsets", dumps({topic: cut.starts}))
        .option("endingOffsets", dumps({topic: cut.ends}))
    )
    for name, value in (("token", options.token), ("ca", options.ca)):
        reader = reader if value is None else reader.option(name, value)
    return reader.load()


def _check(options: WriteOptions, rows: "DataFrame") -> None:
    from cordwood.spark.sink import check_columns

    check_columns(options, rows.schema)


def _stage(options: WriteOptions, writer: str, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Stage the rows of a task, and yield what was staged; nothing where the replay was published meanwhile."""
    from cordwood.spark.sink import stage

    messages = 0

    def counted() -> Iterator[Batch]:
        nonlocal messages
        for batch in batches:
            messages += batch.num_rows
            yield batch

    try:
        found = stage(options, writer, BATCH, counted())
    except Conflict as conflict:
        if conflict.facts.get("batch") != BATCH:
            raise
        return
    numbers = {"task": found.task, "attempt": found.attempt, "parts": found.parts}
    yield pa.RecordBatch.from_arrays(
        [*(pa.array([one], pa.int32()) for one in numbers.values()), pa.array([messages], pa.int64())],
        names=[*numbers, "messages"],
    )
