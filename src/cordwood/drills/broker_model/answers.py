"""Answers of the real broker in the model's words."""

from typing import Any

import msgspec

from cordwood.broker.groups import GroupInfo, GroupLine
from cordwood.broker.reads import SpanInfo
from cordwood.broker.topics import TopicInfo, TopicLine


def plain(answer: Any) -> Any:
    """Return what the model says of the same; what only the broker knows is left out."""
    if isinstance(answer, tuple) and len(answer) == 2:
        return answer[0], plain(answer[1])
    if isinstance(answer, list) and answer and isinstance(answer[0], msgspec.Struct):
        return [plain(one) for one in answer]
    if isinstance(answer, TopicLine):
        return answer.name, answer.partitions, answer.messages
    if isinstance(answer, GroupLine):
        return answer.topic, answer.group, answer.lag
    if isinstance(answer, SpanInfo):
        return answer.partition, answer.start, answer.end
    if not isinstance(answer, msgspec.Struct):
        return answer
    found = msgspec.structs.asdict(answer)
    if isinstance(answer, TopicInfo):
        found["partitions"] = [(p.partition, p.start_offset, p.end_offset) for p in answer.partitions]
    if isinstance(answer, GroupInfo):
        del found["consumers"]
        found["partitions"] = [
            (p.partition, p.floor, p.end_offset, p.lag, p.in_flight, p.retried, _offsets(p.done))
            for p in answer.partitions
        ]
    return found


def _offsets(ranges: list[tuple[int, int]]) -> list[int]:
    return [offset for first, end in ranges for offset in range(first, end)]
