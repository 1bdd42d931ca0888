"""How a broker stands at one moment: how fast, how late, how healthy; from what was counted a moment before.

    counted ──▶ the last ten seconds of these ──▶ snapshot

Rates are those of the last second, delays those of the last ten. What is listed is bounded, whatever a broker holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from cordwood.broker.histogram import Histogram
from cordwood.broker.state import Topic
from cordwood.server.desk import Desk

MOST_TOPICS = 500  # in a snapshot, the oldest; so that it costs some milliseconds at most
MOST_GROUPS = 500
MOST_PLACES = 5_000  # partitions of those topics, and of those groups


class Rates(Struct, frozen=True):
    """Messages, and bytes, in a second."""

    produced: float
    produced_bytes: float
    delivered: float
    acked: float


class Spread(Struct, frozen=True):
    """Of how many values, their mean, the one in the middle and the one that a hundredth exceeds."""

    count: int
    mean: float
    p50: float
    p99: float


class LiveTopic(Struct, frozen=True):
    """A topic; `produced` is messages in a second."""

    name: str
    partitions: int
    messages: int
    bytes: int
    produced: float


class LiveGroup(Struct, frozen=True):
    """A group; `delivered` and `acked` are messages in a second."""

    topic: str
    group: str
    lag: int
    in_flight: int
    delivered: float
    acked: float


class Journal(Struct, frozen=True):
    """The journal: `status` is ok, or failed, and then `error` says why nothing more is taken."""

    status: str
    error: str | None
    bytes: int
    pending_bytes: int
    cache_bytes: int


class Tier(Struct, frozen=True):
    """The store of the history: `status` is ok, unavailable `since` then because of `error`, or none."""

    status: str
    since: int | None
    error: str | None
    backlog_bytes: int
    objects_shipped: int
    bytes_shipped: int


class Live(Struct, frozen=True):
    """How things stand. `rates`, `sync_ms` and `group_frames` are null while nothing is known of them.

    `topics` and `groups` are at most 500 each; `topic_count` and `group_count` say how many there are of the topics,
    and of the groups of those that are listed.
    """

    at: int
    started_at: int
    durability: str
    connections: int
    rates: Rates | None
    sync_ms: Spread | None
    group_frames: Spread | None
    journal: Journal
    tier: Tier
    topic_count: int
    group_count: int
    topics: list[LiveTopic]
    groups: list[LiveGroup]


Pair = tuple[str, str]


class Counted(NamedTuple):
    """All counters at one moment."""

    at_ms: int  # monotonic
    produced: int
    produced_bytes: int
    delivered: int
    acked: int
    by_topic: Mapping[str, int]
    delivered_by: Mapping[Pair, int]
    acked_by: Mapping[Pair, int]
    sync: tuple[tuple[int, ...], float]
    frames: tuple[tuple[int, ...], float]


def rate(now: int, before: int, elapsed_ms: int) -> float:
    """Return how much a counter grew in a second; 0 for one that fell, because what it counted was deleted."""
    return max(0, now - before) * 1000 / max(1, elapsed_ms)


def spread(
    bounds: Sequence[float],
    now: tuple[tuple[int, ...], float],
    before: tuple[tuple[int, ...], float],
    scale: float = 1.0,
) -> Spread | None:
    """Return how the values that came between two looks at a histogram (counts and sum) spread; None without any.

    Within its bucket a value may be anywhere, so the two quantiles lie on a line through it; above all bounds they
    are the last.
    """
    fresh = [after - ago for after, ago in zip(now[0], before[0], strict=True)]
    total = sum(fresh)
    if total <= 0:
        return None

    def quantile(part: float) -> float:
        wanted, below = part * total, 0
        for low, high, count in zip((0.0, *bounds), (*bounds, bounds[-1]), fresh, strict=True):
            if count and below + count >= wanted:
                return (low + (high - low) * (wanted - below) / count) * scale
            below += count
        raise AssertionError("all values are in some bucket")

    return Spread(total, max(0.0, now[1] - before[1]) / total * scale, quantile(0.5), quantile(0.99))


def listed(topics: Iterable[Topic]) -> list[Topic]:
    """Return the topics that a snapshot tells of: those that have few enough partitions together, at least one."""
    found: list[Topic] = []
    places = 0
    for topic in islice(topics, MOST_TOPICS):
        places += len(topic.partitions)
        if found and places > MOST_PLACES:
            break
        found.append(topic)
    return found


def counted(desk: Desk, shown: Iterable[Topic]) -> Counted:
    """Return all counters as they are now."""
    counts, running = desk.broker.counts, desk.running
    pairs = list(islice(((topic.name, name) for topic in shown for name in topic.groups), MOST_GROUPS))
    return Counted(
        desk.clock.monotonic_ms(),
        sum(counts.messages.values()),
        sum(counts.bytes.values()),
        sum(counts.delivered.values()),
        sum(counts.acked.values()),
        {topic.name: counts.messages[topic.name] for topic in shown},
        {pair: counts.delivered[pair] for pair in pairs},
        {pair: counts.acked[pair] for pair in pairs},
        _taken(running.sync_seconds),
        _taken(running.group_frames),
    )


def snapshot(desk: Desk, shown: Sequence[Topic], counts: Sequence[Counted]) -> Live:
    """Return how things stand, by what was counted lately, oldest first."""
    broker, running = desk.broker, desk.running
    now, first = counts[-1], counts[0]
    last = counts[-2] if len(counts) > 1 else now
    elapsed_ms = now.at_ms - last.at_ms
    topics = [
        LiveTopic(
            topic.name,
            len(topic.partitions),
            sum(partition.messages for partition in topic.partitions),
            sum(partition.bytes for partition in topic.partitions),
            rate(now.by_topic[topic.name], last.by_topic.get(topic.name, 0), elapsed_ms),
        )
        for topic in shown
    ]
    groups: list[LiveGroup] = []
    places = 0
    for topic in shown:
        for group in topic.groups.values():
            places += len(topic.partitions)
            if len(groups) == MOST_GROUPS or (groups and places > MOST_PLACES):
                break
            pair = (topic.name, group.name)
            groups.append(
                LiveGroup(
                    *pair,
                    sum(group.open(number, p.shown) for number, p in enumerate(topic.partitions)),
                    sum(broker.in_flight(*pair, number) for number in range(len(topic.partitions))),
                    rate(now.delivered_by[pair], last.delivered_by.get(pair, 0), elapsed_ms),
                    rate(now.acked_by[pair], last.acked_by.get(pair, 0), elapsed_ms),
                )
            )
    return Live(
        desk.clock.now_ms(),
        running.started_ms,
        running.durability,
        desk.connections(),
        None
        if last is now
        else Rates(
            rate(now.produced, last.produced, elapsed_ms),
            rate(now.produced_bytes, last.produced_bytes, elapsed_ms),
            rate(now.delivered, last.delivered, elapsed_ms),
            rate(now.acked, last.acked, elapsed_ms),
        ),
        spread(running.sync_seconds.bounds, now.sync, first.sync, 1000),
        spread(running.group_frames.bounds, now.frames, first.frames),
        _journal(desk),
        _tier(desk),
        len(broker.state.topics),
        sum(len(topic.groups) for topic in shown),
        topics,
        groups,
    )


def _journal(desk: Desk) -> Journal:
    broker, failure = desk.broker, desk.broker.failure
    return Journal(
        "ok" if failure is None else "failed",
        None if failure is None else str(failure),
        desk.running.journal_bytes,
        broker.pending_bytes + desk.aside_bytes,
        broker.cached_bytes,
    )


def _tier(desk: Desk) -> Tier:
    running, counts, trouble = desk.running, desk.broker.counts, desk.running.tier_trouble
    if trouble is None and running.tiering is None:
        return Tier("none", None, None, 0, 0, 0)
    return Tier(
        "ok" if trouble is None else "unavailable",
        None if trouble is None else trouble.since_ms,
        None if trouble is None else trouble.error,
        desk.broker.shipping.backlog_bytes,
        counts.objects,
        counts.object_bytes,
    )


def _taken(histogram: Histogram) -> tuple[tuple[int, ...], float]:
    return tuple(histogram.counts), histogram.sum
