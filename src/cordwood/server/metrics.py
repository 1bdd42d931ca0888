"""What happens, as Prometheus reads it: text format 0.0.4.

    # HELP cordwood_messages_acked_total Messages marked as done.
    # TYPE cordwood_messages_acked_total counter
    cordwood_messages_acked_total{topic="clicks",group="mailer"} 3

Counters begin at 0 when the broker starts. Those of a topic go when it is deleted.
"""

import os
from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

from cordwood import __version__
from cordwood.broker.histogram import Histogram
from cordwood.server.desk import Desk

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, object], ...]


class Sample(NamedTuple):
    """One number; `suffix` is for the parts of a histogram."""

    labels: Labels
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """Numbers of one name."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


# name → the counter of `counts` that it shows, and its help; all have the labels topic and group
_BY_GROUP = {
    "messages_delivered": ("delivered", "Deliveries to consumers."),
    "messages_redelivered": ("redelivered", "Deliveries after the first of a message."),
    "messages_acked": ("acked", "Messages marked as done by a consumer."),
    "messages_nacked": ("nacked", "Messages that a consumer could not do."),
    "leases_expired": ("leases_expired", "Deliveries whose lease ran out."),
    "messages_expired": ("messages_expired", "Messages that were over before they were delivered."),
    "dead_letters": ("dead_letters", "Messages given up and moved to the dead letters."),
    "messages_dropped": ("dropped", "Messages given up and dropped."),
    "messages_redriven": ("redriven", "Dead letters sent back."),
}


def text(desk: Desk) -> bytes:
    """Return all metrics."""
    return "".join(map(written, families(desk))).encode()


def families(desk: Desk) -> Iterable[Family]:
    """Return everything that is measured."""
    running, broker, counts = desk.running, desk.broker, desk.broker.counts
    yield _counter("messages_produced", "Messages appended.", _by_topic(counts.messages))
    yield _counter("bytes_produced", "Bytes of keys, values and headers appended.", _by_topic(counts.bytes))
    for name, (field, help_) in _BY_GROUP.items():
        counted: Mapping[tuple[str, str], int] = getattr(counts, field)
        samples = [Sample((("topic", t), ("group", g)), value) for (t, g), value in sorted(counted.items())]
        yield _counter(name, help_, samples)
    rejected = [Sample((("reason", reason),), value) for reason, value in sorted(counts.rejections.items())]
    yield _counter("rejected", "Requests refused because of a limit, or at the door.", rejected)
    yield _counter("duplicates", "Messages not stored again.", [Sample((), counts.duplicates)])

    lag, in_flight = [], []
    for topic in broker.state.topics.values():
        for group in topic.groups.values():
            for number, partition in enumerate(topic.partitions):
                labels = (("topic", topic.name), ("group", group.name), ("partition", number))
                lag.append(Sample(labels, group.open(number, partition.shown)))
                in_flight.append(Sample(labels, broker.in_flight(topic.name, group.name, number)))
    yield Family("cordwood_lag", "gauge", "Messages that a group has not done.", lag)
    yield Family("cordwood_in_flight", "gauge", "Messages on lease.", in_flight)
    yield _gauge("topics", "Topics.", len(broker.state.topics))
    yield _gauge("connections", "Connected clients.", desk.connections())
    yield _gauge("journal_bytes", "Bytes of the journal.", running.journal_bytes)
    yield _gauge("torn_bytes", "Bytes of a torn write that the start cut off.", running.torn_bytes)
    yield _gauge("pending_bytes", "Bytes accepted and not yet durable.", broker.pending_bytes + desk.aside_bytes)
    yield _gauge("cache_bytes", "Bytes of the newest messages held in memory.", broker.cached_bytes)
    yield _gauge("writable", "1 while the broker takes messages, 0 after a failure.", int(broker.failure is None))
    yield _gauge("start_time_seconds", "When the broker started, since 1970.", running.started_ms / 1000)
    if running.tiering is not None or running.tier_trouble is not None:
        yield from _tier(desk)
    yield Family("process_resident_memory_bytes", "gauge", "Resident memory.", [Sample((), _resident_bytes())])
    yield Family("cordwood_info", "gauge", "The version.", [Sample((("version", __version__),), 1)])
    yield _histogram("sync_seconds", "Time of a group commit, until it is synced.", {(): running.sync_seconds})
    yield _histogram("group_frames", "Frames in a group commit.", {(): running.group_frames})
    delays: dict[Labels, Histogram] = {
        (("topic", t), ("group", g)): found for (t, g), found in sorted(counts.delays.items())
    }
    yield _histogram("ack_delay_seconds", "Time from a message's timestamp to its ack.", delays)


def _tier(desk: Desk) -> Iterable[Family]:
    counts, history, running = desk.broker.counts, desk.broker.history, desk.running
    yield _counter("objects_shipped", "Objects put into the tier.", [Sample((), counts.objects)])
    yield _counter("object_bytes_shipped", "Bytes of these objects.", [Sample((), counts.object_bytes)])
    yield _counter("tier_failures", "Rounds of shipping that the store ended.", [Sample((), running.tier_failures)])
    yield _counter("tier_fetched_bytes", "Bytes of messages read from the tier.", [Sample((), history.fetched_bytes)])
    yield _gauge(
        "tier_backlog_bytes", "Bytes in the journal that are not in the tier.", desk.broker.shipping.backlog_bytes
    )
    yield _gauge("tier_available", "1 while the store can be used.", int(running.tier_trouble is None))
    yield _gauge("tier_cache_bytes", "Bytes of old messages held in memory.", history.bytes)
    if running.tiering is not None:
        yield _gauge("epoch", "The number of this broker's claim to the store.", running.tiering.claim.epoch)


def written(family: Family) -> str:
    """Return a family in the text format."""
    lines = [f"# HELP {family.name} {_escaped(family.help)}", f"# TYPE {family.name} {family.kind}"]
    for labels, value, suffix in family.samples:
        pairs = ",".join(f'{name}="{_quoted(str(label))}"' for name, label in labels)
        lines.append(
            f"{family.name}{suffix}{{{pairs}}} {_number(value)}"
            if pairs
            else f"{family.name}{suffix} {_number(value)}"
        )
    return "\n".join(lines) + "\n"


def _counter(name: str, help_: str, samples: Iterable[Sample]) -> Family:
    return Family(f"cordwood_{name}_total", "counter", help_, samples)


def _gauge(name: str, help_: str, value: float) -> Family:
    return Family(f"cordwood_{name}", "gauge", help_, [Sample((), value)])


def _by_topic(counted: Mapping[str, int]) -> list[Sample]:
    return [Sample((("topic", topic),), value) for topic, value in sorted(counted.items())]


def _histogram(name: str, help_: str, histograms: Mapping[Labels, Histogram]) -> Family:
    samples = []
    for labels, histogram in histograms.items():
        total = 0
        for bound, count in zip((*histogram.bounds, inf), tuple(histogram.counts), strict=True):
            total += count
            samples.append(Sample((*labels, ("le", _number(bound))), total, "_bucket"))
        samples.append(Sample(labels, histogram.sum, "_sum"))
        samples.append(Sample(labels, total, "_count"))  # not `count`: a thread may add a value meanwhile
    return Family(f"cordwood_{name}", "histogram", help_, samples)


def _number(value: float) -> str:
    if value == inf:
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):  # there is no /proc outside Linux
        return 0
