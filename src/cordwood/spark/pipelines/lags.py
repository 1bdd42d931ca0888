"""How far the groups of a topic are, as the broker knows it.

lag           messages that a group has not done
oldest_ms     how long ago the first of them came
delay         how long the others took from their time to their ack, since the broker was started
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Any

from cordwood.client.client import Client
from cordwood.errors import NotFound
from cordwood.record import times_us

MOST_LOOKED_AT = 1_000  # messages that are read only for their time
SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class LagStats:
    """What a group has not done in a partition, and how old the oldest of that is; None where that is not known."""

    partition: int
    floor: int
    end: int
    lag: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True)
class Delay:
    """How long messages took from their time to their ack: `counts` are of those up to each bound, and of the rest.

    The percentiles are bounds: so many messages took no longer. None is "longer than all bounds".
    """

    messages: int
    mean_ms: float
    p50_ms: int | None
    p90_ms: int | None
    p99_ms: int | None
    bounds_ms: Sequence[int]
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class GroupStats:
    """How far a group is. `delay` is None where the broker has not seen an ack since it was started."""

    group: str
    lag: int
    in_flight: int
    oldest_ms: int | None
    delay: Delay | None
    partitions: Sequence[LagStats]


def about(client: Client, topic: str, begin: Mapping[int, int], behind: Mapping[int, int]) -> tuple[int, int]:
    """Return about when the first and the last of these messages are from: what those at the ends say."""
    ends = [
        (number, at)
        for number, first in begin.items()
        if first < behind[number]
        for at in (first, behind[number] - 1)
    ]
    found = [_time_of(client, topic, number, at) for number, at in ends[:MOST_LOOKED_AT]]
    known = [moment for moment in found if moment is not None]
    return min(known, default=0), max(known, default=0)


def _time_of(client: Client, topic: str, partition: int, offset: int) -> int | None:
    """Return the time of a message, or of the next that is there."""
    for batch in client.read_batches(topic, partition, offset=offset, limit=1):
        return int(times_us(batch, "timestamp")[0]) // 1000
    return None


def groups(client: Client, topic: str) -> Iterator[GroupStats]:
    """Yield how far each group of a topic is."""
    left = MOST_LOOKED_AT
    for name in client.topic(topic)["groups"]:
        try:
            found = client.group(topic, name)
        except NotFound:
            continue  # it was deleted since
        lags = []
        for one in found["partitions"]:
            oldest = None
            if one["lag"] and left:
                left -= 1
                moment = _time_of(client, topic, one["partition"], one["floor"])
                oldest = None if moment is None else max(0, int(time() * 1000) - moment)
            lags.append(LagStats(one["partition"], one["floor"], one["end_offset"], one["lag"], oldest))
        oldest = max((one.oldest_ms for one in lags if one.oldest_ms is not None), default=None)
        yield GroupStats(name, found["lag"], found["in_flight"], oldest, delay(found.get("ack_delay")), lags)


def delay(said: Mapping[str, Any] | None) -> Delay | None:
    """Return what a broker says of a group's acks, None if there were none."""
    if said is None or not said["count"]:
        return None
    limits, counts = said["bounds_ms"], said["counts"]
    p50, p90, p99 = (_bound(limits, counts, share) for share in SHARES)
    return Delay(said["count"], said["sum_ms"] / said["count"], p50, p90, p99, limits, counts)


def _bound(limits: Sequence[int], counts: Sequence[int], share: float) -> int | None:
    """Return the lowest bound that this share of the messages does not exceed."""
    total, found = sum(counts), 0
    for limit, count in zip(limits, counts, strict=False):  # there is one count more, of those above all bounds
        found += count
        if found >= share * total:
            return limit
    return None
