"""When a message may be delivered, and when it was delivered for the last time."""

from typing import TYPE_CHECKING, Any

from cordwood.drills.broker_model.hands import Hand
from cordwood.drills.broker_model.world import Group, Topic

if TYPE_CHECKING:
    from cordwood.drills.broker_model.model import Model


def why_not(
    model: "Model", topic: Topic, group: Group, terms: dict[str, Any], hand: Hand, partition: int, offset: int
) -> str | None:
    """Return why a message may not be delivered now, None if it may."""
    log = topic.logs[partition]
    if not log.start <= offset < log.end:
        return "there is no such message"
    if offset < group.begun[partition] or offset in group.done[partition]:
        return "it is done"
    if (partition, offset) in hand.leases:
        return "somebody has it"
    tried = group.tried(partition, offset)
    if tried.until > model.now:
        return f"it waits until {tried.until}"
    message = log.messages[offset]
    if message.deliver_at is not None and message.deliver_at > model.now:
        return f"it is not due before {message.deliver_at}"
    if message.expires_at is not None and message.expires_at <= model.now:
        return f"it has expired at {message.expires_at}"
    if exhausted(terms, group, partition, offset):
        return f"it was given up after {tried.attempts} attempts"
    return None


def exhausted(terms: dict[str, Any], group: Group, partition: int, offset: int) -> bool:
    """Say whether a message had its last attempt."""
    return bool(terms["max_attempts"]) and group.tried(partition, offset).attempts >= terms["max_attempts"]
