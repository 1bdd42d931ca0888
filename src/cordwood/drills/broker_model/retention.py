"""What goes with time: messages by the terms of their topic, and what is only remembered for a while."""

from typing import TYPE_CHECKING, NamedTuple

from cordwood.drills.broker_model.facts import Forgotten
from cordwood.drills.broker_model.world import Topic

if TYPE_CHECKING:
    from cordwood.drills.broker_model.model import Model

KEYS_KEPT_MS = 600_000
LATE_MS = 60_000  # how late what is over may end

Starts = dict[tuple[str, int], int]  # (topic's id, partition) → where it should begin


class Due(NamedTuple):
    """What is over before a turn of the broker: it must have ended afterwards."""

    starts: Starts
    moved: dict[str, list[int]]  # topic's id → when its groups moved
    over: Forgotten


def kept_from(model: "Model", topic: Topic, partition: int) -> int:
    """Return the offset from which on retention keeps a partition: whole appends go, unless somebody holds them."""
    terms = {**model.settings, **topic.terms}
    log = topic.logs[partition]
    start = log.start
    there = [one for one in log.appends if one.end > start]
    if terms["retention_ms"]:
        oldest = model.now - terms["retention_ms"]
        start = max(start, next((one.first for one in there if one.latest >= oldest), log.end))
    if terms["retention_bytes"]:
        left = 0
        within = there[-1].first if there else log.end
        for one in reversed(there):
            left += one.bytes
            if left > terms["retention_bytes"]:
                break
            within = one.first
        start = max(start, within)
    if terms["discard"] == "acked" and topic.groups:
        start = max(start, min(group.floor(partition, log) for group in topic.groups.values()))
    moved_since = model.now - terms["hold_max_ms"]
    held = [group.floor(partition, log) for group in topic.groups.values() if group.moved >= moved_since]
    held += [reader.offsets.get(partition, 0) for reader in topic.readers.values() if reader.moved >= moved_since]
    return max(log.start, min([start, *held]))


def starts(model: "Model") -> Starts:
    """Return where each partition should begin; what is not durable stays."""
    return {
        (topic.id, number): min(kept_from(model, topic, number), log.shown(model.shown))
        for topic in model.world.topics.values()
        for number, log in enumerate(topic.logs)
    }


def over(model: "Model") -> Forgotten:
    """Return up to when producers and writers, keys, and stages were last used that are to be forgotten now."""
    now, settings = model.now, model.settings
    return Forgotten(now - settings["producer_retention_ms"], now - KEYS_KEPT_MS, now - settings["stage_ttl_ms"])


def look_ahead(model: "Model") -> Due | None:
    """Time passed: return what the broker must end in its next turn, None if it was not long enough to ask."""
    passed = model.clock.monotonic_ms() - model.turned
    return Due(starts(model), _moved(model), over(model)) if passed >= LATE_MS else None


def _moved(model: "Model") -> dict[str, list[int]]:
    return {topic.id: [group.moved for group in topic.groups.values()] for topic in model.world.topics.values()}


def check_ended(model: "Model", due: Due) -> None:
    """What was over before this turn has ended."""
    moved = _moved(model)
    for name, topic in model.world.topics.items():
        for number, log in enumerate(topic.logs):
            # A group that moved in this very turn may have held back when retention looked, and not before or after.
            start = due.starts.get((topic.id, number), 0) if due.moved.get(topic.id) == moved[topic.id] else 0
            model.check(start <= log.start, f"{name}/{number} still begins at {log.start}, not at {start}")
            for producer, known in log.producers.items():
                ended = known.used >= due.over.producers_before
                model.check(ended, f"the producer {producer} of {name} is still known")
        old = [key for key, where in topic.keys.items() if where[2] < due.over.keys_before]
        model.check(not old, f"the keys {old} of {name} are still known")
    for name, writer in model.world.writers.items():
        for stage, parts in writer.stages.items():
            fresh = any(part.at >= due.over.stages_before for part in parts)
            model.check(fresh, f"stage {stage} of {name} has not ended")
