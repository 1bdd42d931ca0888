"""What a topic has in it: how much, when, where, under which keys, how large; and how far its groups are.

counting    one pass of Spark over a cut of the topic, taken when this begins
lags        what the broker knows of the groups, about the whole topic and a moment later
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import time
from typing import TYPE_CHECKING, Any

from cordwood.client.client import Client
from cordwood.errors import Refused
from cordwood.spark.broker import FIRST_TRIES, TIMEOUT_S, Broker, reaching
from cordwood.spark.pipelines import buckets, counting, lags
from cordwood.spark.pipelines.counting import Bucket, Keys, PartitionStats, Sizes
from cordwood.spark.pipelines.lags import GroupStats
from cordwood.spark.pipelines.progress import Tell, watched
from cordwood.spark.table import Place, bounds, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_KEYS = 10_000  # that may be asked for


@dataclass(frozen=True, slots=True)
class Stats:
    """All of it. `sizes`, and the first and the last time, are None for a topic without messages."""

    topic: str
    made_ms: int
    messages: int
    bytes: int
    first_ms: int | None
    last_ms: int | None
    bucket_ms: int
    over_time: Sequence[Bucket]
    partitions: Sequence[PartitionStats]
    keys: Keys
    sizes: Sizes | None
    groups: Sequence[GroupStats]

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON; a key is text under `key`, other bytes are in `key_base64`."""
        found = asdict(self)
        found["keys"]["top"] = [_json_key(one) for one in found["keys"]["top"]]
        return found


def stats(
    spark: "SparkSession",
    endpoint: str,
    topic: str,
    *,
    start: Place = None,
    end: Place = None,
    bucket: str = "auto",
    top_keys: int = 20,
    token: str | None = None,
    ca: str | None = None,
    tell: Tell = lambda line: None,
) -> Stats:
    """Return what is in a topic between two places, and how far its groups are.

    `start` and `end` are as for `table`; `bucket` is the length of a step in time, such as "15m" or "1h".
    """
    asked_ms = buckets.parse(bucket)
    if not 0 <= top_keys <= MOST_KEYS:
        raise Refused(f"top_keys is a number from 0 to {MOST_KEYS}, not {top_keys}")
    with reaching(endpoint), Broker(endpoint, token, FIRST_TRIES, ca=ca) as broker:
        extents = broker.topic(topic)
        starts, ends = bounds(broker, extents, start, end)
        begin = {one.partition: starts[one.key] for one in extents}
        behind = {one.partition: ends[one.key] for one in extents}
        about = lags.about(broker.client, topic, begin, behind)
    base_ms = asked_ms or buckets.step_ms(*about)
    buckets.check(base_ms, *about)
    tell(f"{sum(behind[number] - at for number, at in begin.items())} messages to look at")
    rows = table(
        spark,
        endpoint,
        topic,
        columns=("partition", "timestamp", "key", "value"),
        start=begin,
        end=behind,
        token=token,
        ca=ca,
    )
    counted = counting.counted(rows, base_ms).persist()
    try:
        with watched(spark, tell):
            steps = counting.times(counted)
            keys = counting.keys(counted, top_keys)
            sizes = counting.sizes(counted)
    finally:
        counted.unpersist()
    first_ms = min((one.first_ms for one in steps), default=None)
    last_ms = max((one.last_ms for one in steps), default=None)
    step_ms = base_ms
    if first_ms is not None and last_ms is not None:
        if asked_ms is None:  # the times of some may lie far from those of the first and the last
            step_ms = max(base_ms, buckets.step_ms(first_ms, last_ms))
        buckets.check(step_ms, first_ms, last_ms)
    tell("asking for the groups")
    with reaching(endpoint), Client(endpoint, token=token, ca=ca, timeout=TIMEOUT_S, tries=FIRST_TRIES) as client:
        groups = list(lags.groups(client, topic))
    return Stats(
        topic,
        int(time() * 1000),
        sum(one.messages for one in steps),
        sum(one.bytes for one in steps),
        first_ms,
        last_ms,
        step_ms,
        counting.over_time(steps, base_ms, step_ms),
        counting.partitions(steps, begin, behind),
        keys,
        sizes,
        groups,
    )


def _json_key(one: dict[str, Any]) -> dict[str, Any]:
    key = one.pop("key")
    try:
        return {"key": key.decode(), **one}
    except UnicodeDecodeError:
        return {"key_base64": b64encode(key).decode(), **one}
