"""How much a partition still takes: a topic's `max_buffered_messages` and `max_buffered_bytes`.

What counts is what the slowest group that moved lately has not done; without any group, all that is there.
"""

from collections.abc import Callable, Sequence

from cordwood.broker.state import Group, Topic
from cordwood.broker.terms import value_of
from cordwood.errors import Limited
from cordwood.settings import Settings

RETRY_MS = 1_000

Judge = Callable[
    [int, int, int], Limited | None
]  # of a partition, messages and bytes more: why not, None if they fit


def judge_of(topic: Topic, settings: Settings, now_ms: int) -> Judge | None:
    """Return a judge of how much each partition still takes, None when there is no limit at all."""
    most = value_of(topic.terms, "max_buffered_messages", settings)
    most_bytes = value_of(topic.terms, "max_buffered_bytes", settings)
    if not most and not most_bytes:
        return None
    oldest = now_ms - value_of(topic.terms, "hold_max_ms", settings)
    active = [group for group in topic.groups.values() if group.moved_ms >= oldest]
    taken: dict[int, tuple[int, int]] = {}

    def judge(number: int, count: int, size: int) -> Limited | None:
        if number not in taken:
            taken[number] = _buffered(topic, number, active)
        messages, held = taken[number]
        if most and messages + count > most:
            text = f"partition {number} of {topic.name} has {messages} messages that are not done, at most {most}"
            return Limited(text, "partition_buffer_full", RETRY_MS)
        if most_bytes and held + size > most_bytes:
            text = f"partition {number} of {topic.name} has {held} bytes that are not done, at most {most_bytes}"
            return Limited(text, "partition_buffer_bytes_full", RETRY_MS)
        taken[number] = messages + count, held + size
        return None

    return judge


def _buffered(topic: Topic, number: int, active: Sequence[Group]) -> tuple[int, int]:
    """Return what the slowest active group has not done of a partition: messages and bytes."""
    partition = topic.partitions[number]
    if not topic.groups:
        return partition.messages, partition.bytes
    most = most_bytes = 0
    for group in active:
        waiting = group.open(number, partition.end)
        floor = group.floor(number)
        above = partition.index.total_bytes - partition.index.bytes_before(floor)
        share = waiting / (partition.end - floor) if partition.end > floor else 0.0
        most, most_bytes = max(most, waiting), max(most_bytes, int(above * share))
    return most, most_bytes
