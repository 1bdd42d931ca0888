"""Messages and bytes, by time and partition, by key and by size: all counted in one pass of Spark over a topic.

    counted     one row for each step of time in each partition, for each key, and for each size; kept by Spark
    times, keys, sizes     what is read from that

Bytes are those of keys and values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Messages from `time_ms` on, for as long as a bucket is."""

    time_ms: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """What is in a partition, of the offsets from `start` to `end`."""

    partition: int
    start: int
    end: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class KeyStats:
    """What is under one key."""

    key: bytes
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Keys:
    """How many keys there are, messages without one, and the keys with the most messages."""

    distinct: int
    without: int
    top: Sequence[KeyStats]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a message: half of them have no more than `p50`, and so on."""

    p50: float
    p90: float
    p99: float
    max: int


class Step(NamedTuple):
    """What is in one step of time of one partition: its number, counted from 1970, and the times that are in it."""

    step: int
    partition: int
    first_ms: int
    last_ms: int
    messages: int
    bytes: int


_BY_TIME, _BY_KEY, _BY_SIZE = 0b0011, 0b1101, 0b1110  # grouping_id(): a bit is set for each column that is not in it


def counted(rows: "DataFrame", step_ms: int) -> "DataFrame":
    """Return all counts, by one pass: of each step in each partition, of each key, and of each size."""
    from pyspark.sql import functions as F

    size = "cast(coalesce(octet_length(value), 0) as bigint) + coalesce(octet_length(key), 0)"
    columns = ("step", "partition", "key", "size")
    found = rows.selectExpr(
        f"floor(unix_millis(timestamp) / {step_ms}) as step",
        "partition",
        "key",
        f"{size} as size",
        f"{size} as amount",
        "unix_millis(timestamp) as time",
    )
    return found.groupingSets([["step", "partition"], ["key"], ["size"]], *columns).agg(
        F.grouping_id(*columns).alias("kind"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
        F.count("*").alias("messages"),
        F.sum("amount").alias("bytes"),
    )


def times(found: "DataFrame") -> list[Step]:
    """Return the steps of time."""
    chosen = found.where(f"kind = {_BY_TIME}").select("step", "partition", "first", "last", "messages", "bytes")
    return [Step(*row) for row in chosen.collect()]


def keys(found: "DataFrame", top: int) -> Keys:
    """Return how many keys there are, and those with the most messages."""
    from pyspark.sql import functions as F

    chosen = found.where(f"kind = {_BY_KEY}")
    said = chosen.selectExpr("count(key) as distinct", "sum(if(key is null, messages, 0)) as without").first()
    best = chosen.where("key is not null").orderBy(F.desc("messages"), F.desc("bytes"), "key").limit(top)
    assert said is not None, "an aggregate has a row"
    return Keys(
        said["distinct"],
        said["without"] or 0,
        [KeyStats(bytes(one["key"]), one["messages"], one["bytes"]) for one in best.collect()] if top else [],
    )


def sizes(found: "DataFrame") -> Sizes | None:
    """Return the percentiles of sizes, exact, between two messages in proportion; None where there is no message."""
    shares = ", ".join(map(str, SHARES))
    chosen = found.where(f"kind = {_BY_SIZE}").selectExpr(
        f"percentile(size, array({shares}), messages) as shares", "max(size) as most"
    )
    (row,) = chosen.collect()
    if row["most"] is None:
        return None
    p50, p90, p99 = row["shares"]
    return Sizes(p50, p90, p99, row["most"])


def over_time(steps: Iterable[Step], base_ms: int, step_ms: int) -> list[Bucket]:
    """Return steps of `base_ms`, joined to such of `step_ms`; those without a message are left out."""
    found: dict[int, list[int]] = {}
    for one in steps:
        known = found.setdefault(one.step * base_ms // step_ms * step_ms, [0, 0])
        known[0] += one.messages
        known[1] += one.bytes
    return [Bucket(at, *known) for at, known in sorted(found.items())]


def partitions(steps: Iterable[Step], begin: Mapping[int, int], behind: Mapping[int, int]) -> list[PartitionStats]:
    """Return what is in each partition."""
    found = {number: [0, 0] for number in begin}
    for one in steps:
        found[one.partition][0] += one.messages
        found[one.partition][1] += one.bytes
    return [PartitionStats(number, begin[number], behind[number], *known) for number, known in sorted(found.items())]
