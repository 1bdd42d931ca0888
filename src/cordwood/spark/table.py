"""A whole topic as one DataFrame: history by Spark's own Parquet reader, the rest by our source.

    partition 0   ├─ object ─┤─ object ─┤─ object ─┤───── hot ─────┤
    partition 1   ├───── object ─────┤───── hot ─────┤
                  native Parquet                      format("cordwood")

It is one cut: what is in it is decided when `table` is called, and the same rows come however often it is read and
wherever they have moved meanwhile. Retention ends that, and so does compaction, an hour after it swapped an object.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from json import dumps
from typing import TYPE_CHECKING, NamedTuple

from cordwood.client.endpoint import authority
from cordwood.errors import Refused
from cordwood.spark import places, plan
from cordwood.spark.broker import FIRST_TRIES, Broker, reaching
from cordwood.spark.columns import COLUMNS, DEFAULT_COLUMNS, ddl
from cordwood.spark.extent import Extent, Key, cut
from cordwood.spark.options import EARLIEST, LATEST, Bound
from cordwood.spark.plan import Span
from cordwood.spark.store import is_directory, literally, say_once, store_of
from cordwood.tier.descriptor import Descriptor, parse, topic_prefix

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Place = str | int | datetime | Mapping[int, int] | None

_AT_REST = "offset bigint, timestamp timestamp, key binary, value binary, headers map<string, binary>, partition int"
_SCHEMES = {"s3": "s3a", "gs": "gs"}  # as Hadoop calls them; Azure's needs an account that the URL does not name


def table(
    spark: "SparkSession",
    endpoint: str,
    topic: str,
    *,
    columns: Sequence[str] | None = None,
    start: Place = None,
    end: Place = None,
    token: str | None = None,
    ca: str | None = None,
) -> "DataFrame":
    """Return the messages of a topic, from `start` to `end`, as they are now.

    Either may be "earliest" or "latest", an offset that counts in each partition, a dict with one for each, or a
    datetime: the first message at or after it. What retention took, or is not there yet, is not in it. `columns` are
    those of `format("cordwood")`; `headers` only if named.
    """
    names = tuple(DEFAULT_COLUMNS if columns is None else columns)
    strange = [name for name in names if name not in COLUMNS]
    if strange or not names:
        raise Refused(f"there is no column {strange[:1]!r}. Known are: {', '.join(COLUMNS)}")
    with reaching(endpoint), Broker(endpoint, token, FIRST_TRIES, ca=ca) as broker:
        extents = broker.topic(topic)
        starts, ends = bounds(broker, extents, start, end)
        ranges, losses = cut(extents, starts, ends)
        assert not losses, "the cut is within what is there"
        spans = plan.locate(ranges, broker.held(ranges))
        root = None
        if any(span.object is not None for span in spans):
            root = _root(spark, store_of(broker.config()))
    history, hot = part(spans) if root is not None else ([], list(spans))
    branches = []
    if root is not None:
        folder = f"{root}/{topic_prefix(topic, extents[0].id)}"
        branches = [_native(spark, root, folder, layer, topic, names) for layer in layers(history)]
    if hot or not branches:
        branches.append(_hot(spark, endpoint, token, ca, topic, names, extents, hot, ends))
    return reduce(lambda one, other: one.union(other), branches)


class Piece(NamedTuple):
    """An object that is read natively, and which of its offsets count."""

    descriptor: Descriptor
    start: int
    end: int

    @property
    def whole(self) -> bool:
        """Whether all of them do."""
        return (self.start, self.end) == (self.descriptor.first, self.descriptor.end)


def part(spans: Iterable[Span]) -> tuple[list[Piece], list[Span]]:
    """Return what can be read natively, and the rest: of each partition all from the first span without an object on.

    So the rest of a partition is one range, which our source can be asked for.
    """
    history: list[Piece] = []
    hot: list[Span] = []
    begun: set[int] = set()
    for span in spans:
        descriptor = None if span.object is None else parse(span.object)
        if descriptor is None or span.partition in begun:
            begun.add(span.partition)
            hot.append(span)
            continue
        last = history[-1] if history else None
        if last is not None and last.descriptor == descriptor and last.end == span.start:
            history[-1] = last._replace(end=span.end)
        else:
            history.append(Piece(descriptor, span.start, span.end))
    return history, hot


def layers(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Return the pieces in groups that can be read together: first the whole ones, which need no filter.

    A group with parts of objects is filtered by what counts in each; so no object in it may have messages that count
    in another one. There is rarely more than one such group: objects overlap only after a change of owner.
    """
    whole: list[Piece] = []
    groups: list[list[Piece]] = []
    for piece in pieces:
        if piece.whole:
            whole.append(piece)
            continue
        for group in groups:
            if not any(_mix(piece, other) or _mix(other, piece) for other in group):
                group.append(piece)
                break
        else:
            groups.append([piece])
    return [group for group in (whole, *groups) if group]


def _mix(piece: Piece, other: Piece) -> bool:
    """Say whether one object has messages that count in another."""
    mine, theirs = piece.descriptor, other.descriptor
    if mine.partition != theirs.partition or mine == theirs:
        return False
    return mine.first < other.end and other.start < mine.end


def bounds(
    broker: Broker, extents: Sequence[Extent], start: Place, end: Place
) -> tuple[dict[Key, int], dict[Key, int]]:
    """Return where each partition begins and ends between two places, as it is now, within what is there."""
    first, last = _bound(start, EARLIEST, extents), _bound(end, LATEST, extents)
    starts = places.begin(first, extents, broker.since(places.times(first, "starting", extents)), "latest")
    ends = places.finish(last, extents, broker.since(places.times(last, "ending", extents)))
    starts = {extent.key: max(extent.start, starts[extent.key]) for extent in extents}
    ends = {extent.key: max(starts[extent.key], min(extent.end, ends[extent.key])) for extent in extents}
    return starts, ends


def _bound(place: Place, default: int, extents: Sequence[Extent]) -> Bound:
    words = {None: default, "earliest": EARLIEST, "latest": LATEST}
    if place is None or isinstance(place, str):
        if place not in words:
            raise Refused(f"{place!r} is no place; it is earliest, latest, an offset, a dict of them or a datetime")
        return Bound(everywhere=words[place])
    topic = extents[0].topic
    if isinstance(place, datetime):
        moment = place if place.tzinfo is not None else place.astimezone()
        since = (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
        return Bound(time_ms=max(0, int(since * 1000)))
    if isinstance(place, int):
        return Bound(offsets={topic: {extent.partition: place for extent in extents}})
    given = {int(number): int(offset) for number, offset in place.items()}
    rest = {extent.partition: default for extent in extents if extent.partition not in given}
    return Bound(offsets={topic: given | rest})


def _root(spark: "SparkSession", store: str | None) -> str | None:
    """Return the store as Spark names it, None where Spark cannot read it; that is said once."""
    if store is None:
        say_once("the broker does not say where its history is; it is read through the broker")
        return None
    if is_directory(store):
        if os.path.isdir(store):
            return f"file://{store}"
        say_once(f"{store} cannot be read on this computer; our source reads history instead")
        return None
    scheme, _, rest = store.partition("://")
    name = _SCHEMES.get(scheme, scheme)
    try:
        context = spark.sparkContext
        files = context._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
        files.getFileSystemClass(name, context._jsc.hadoopConfiguration())
    except Exception as error:  # whatever Hadoop, the gateway, or a session without a JVM says
        say_once(f"Spark cannot read {scheme}:// by itself ({type(error).__name__}); our source reads it instead")
        return None
    return f"{name}://{rest.rstrip('/')}"


def _native(
    spark: "SparkSession", root: str, folder: str, pieces: Sequence[Piece], topic: str, names: Sequence[str]
) -> "DataFrame":
    """Return what Spark's own reader makes of some objects."""
    # In SQL: each expression that is put together by calls is a question to the JVM.
    paths = [literally(f"{root}/{piece.descriptor.name}") for piece in pieces]
    frame = spark.read.schema(_AT_REST).option("basePath", folder).parquet(*paths)
    if not all(piece.whole for piece in pieces):
        counts = [
            f"partition = {piece.descriptor.partition} AND offset >= {piece.start} AND offset < {piece.end}"
            for piece in pieces
        ]
        frame = frame.where(" OR ".join(f"({one})" for one in counts))
    found = {
        "topic": f"'{topic}' AS topic",  # a name has no quotes
        "headers": "CAST(map_entries(headers) AS array<struct<key:string,value:binary>>) AS headers",
    }
    return frame.selectExpr(*(found.get(name, name) for name in names))


def _hot(
    spark: "SparkSession",
    endpoint: str,
    token: str | None,
    ca: str | None,
    topic: str,
    names: Sequence[str],
    extents: Sequence[Extent],
    hot: Sequence[Span],
    ends: Mapping[Key, int],
) -> "DataFrame":
    """Return what our source makes of the rest: of each partition all from its first span on."""
    starts: dict[int, int] = {}
    for span in hot:
        starts.setdefault(span.partition, span.start)
    first = {str(one.partition): starts.get(one.partition, ends[one.key]) for one in extents}
    behind = {str(one.partition): ends[one.key] for one in extents}
    reader = (
        spark.read.format("cordwood")
        .schema(ddl(names))
        .option("endpoint", endpoint)
        .option("subscribe", topic)
        .option("columns", ",".join(names))
        .option("startingOffsets", dumps({topic: first}))
        .option("endingOffsets", dumps({topic: behind}))
        .option("minPartitions", str(max(1, min(_cores(spark), sum(span.bytes for span in hot) // plan.LEAST_BYTES))))
    )
    for name, value in (("token", token), ("ca", None if ca is None else authority(ca))):
        reader = reader if value is None else reader.option(name, value)
    return reader.load()


def _cores(spark: "SparkSession") -> int:
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # a session without a context of its own
        return 1
