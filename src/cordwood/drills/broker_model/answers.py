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
    if isinstance(answer, list) and answer and isinstance(answer[0], SpanInfo):
        return _joined(answer)
    if isinstance(answer, list) and answer and isinstance(answer[0], msgspec.Struct):
        return [plain(one) for one in answer]
    if isinstance(answer, TopicLine):
        return answer.name, answer.partitions, answer.messages
    if isinstance(answer, GroupLine):
        return answer.topic, answer.group, answer.lag
    if not isinstance(answer, msgspec.Struct):
        return answer
    found = msgspec.structs.asdict(answer)
    if isinstance(answer, TopicInfo):
        found["partitions"] = [(p.partition, p.start_offset, p.end_offset) for p in answer.partitions]
    if isinstance(answer, GroupInfo):
        del found["consumers"], found["ack_delay"]  # of this run, and in no journal
        found["partitions"] = [
            (p.partition, p.floor, p.end_offset, p.lag, p.in_flight, p.retried, p.done) for p in answer.partitions
        ]
    return found


def _joined(spans: list[SpanInfo]) -> list[tuple[int, int, int]]:
    """Return spans of which neighbours are one: where messages are is nobody's business, that none is left out is."""
    found: list[tuple[int, int, int]] = []
    for span in spans:
        if found and found[-1][0] == span.partition and found[-1][2] == span.start:
            found[-1] = (*found[-1][:2], span.end)
        else:
            found.append((span.partition, span.start, span.end))
    return found
