"""What must not be left undone after a turn of the broker: somebody waits for it.

    answers       all that is durable is answered
    deliveries    what is durable has left, and who waits waits because nothing is there
    leases        none is out that ran out, or whose consumer went

Where there was no room, the broker tries again a moment later, and only then it is asked again.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cordwood.drills.broker_model.asked import Disagreement
from cordwood.drills.broker_model.hands import Consumer, Hand, Lease, Place
from cordwood.drills.broker_model.retention import Due, check_ended
from cordwood.drills.broker_model.rules import exhausted, why_not
from cordwood.drills.broker_model.world import Group, Topic

if TYPE_CHECKING:
    from cordwood.drills.broker_model.model import Model


def check_quiet(model: "Model", due: Due | None = None) -> None:
    """Raise unless the broker has done all that can be done at this moment. `due` is what it had to end."""
    model.check_answered()
    now = model.clock.monotonic_ms()
    # Without room it tries again a moment later.
    able = now >= model.troubled_until and not model.backlog
    _check_parcels(model, able)
    for hand in model.hands.groups.values():
        for consumer in hand.waiting:
            _check_waiting(model, hand, consumer, now, able)
        if able:
            _check_leases(model, hand, now)
    if able and due is not None:
        check_ended(model, due)
    model.turned = now


def look_around(model: "Model") -> None:
    """Before a turn: note what is there for polls whose wait ends in it. What comes later may come too late."""
    now = model.clock.monotonic_ms()
    for hand in model.hands.groups.values():
        for consumer in hand.waiting:
            ends = not consumer.streams and now >= consumer.waits_until
            consumer.saw = there(model, hand, consumer) if ends and not consumer.over else set()


def _check_waiting(model: "Model", hand: Hand, consumer: Consumer, now: int, able: bool) -> None:
    ends = not consumer.streams and now >= consumer.waits_until
    # Its wait may have ended before the broker tried again what had found no room.
    if able and not consumer.over and (not ends or consumer.waits_until >= model.troubled_until):
        found = there(model, hand, consumer) & consumer.saw if ends else there(model, hand, consumer)
        if found:
            raise Disagreement(f"{consumer} waits, and {found} are there")
    consumer.over = ends
    if consumer.over and model.shown >= model.book.last:
        raise Disagreement(f"{consumer} waits for longer than it wanted")


def _check_leases(model: "Model", hand: Hand, now: int) -> None:
    for place, lease in hand.leases.items():
        if max(lease.deadlines) <= now:
            raise Disagreement(f"the lease of {place} ran out, and it is still with one of {lease.candidates}")
        if all(consumer.left for consumer in lease.candidates):
            raise Disagreement(f"{place} is still with {lease.candidates}")


def _check_parcels(model: "Model", able: bool) -> None:
    """What is durable has left, unless who was to get it has gone; then it has come back."""
    kept = []
    for parcel in model.hands.parcels:
        if parcel.lsn >= model.shown:
            kept.append(parcel)
            continue
        if parcel.content and not any(consumer.closed for consumer in parcel.candidates):
            raise Disagreement(f"{list(parcel.content)} were sent, and nobody got them")
        for hand in model.hands.groups.values():
            out = [place for place in parcel.content if place in hand.leases and hand.leases[place].parcel is parcel]
            if out and able:
                raise Disagreement(f"{out} went to nobody, and are still out")
            if out:
                kept.append(parcel)
    model.hands.parcels = kept


def there(model: "Model", hand: Hand, consumer: Consumer) -> set[Place]:
    """Return what a consumer waits for and could have now; in ordered mode the next of each partition."""
    found: set[Place] = set()
    if any(consumer in parcel.candidates for parcel in model.hands.parcels):
        return found  # something may be on its way to it
    topic = model.world.topics[consumer.topic]
    group = topic.groups[consumer.group]
    terms = model.terms(consumer.topic, group)
    for partition in range(len(topic.logs)):
        # Its messages may be on their way to the broker; its wait may be over before they are asked for again.
        if model.is_away(topic.id, partition, None if consumer.streams else consumer.waits_until):
            continue
        held = hand.held(partition)
        mine = sum(consumer in lease.candidates for lease in held.values())
        if len(held) >= terms["max_in_flight"] or (consumer.most is not None and mine >= consumer.most):
            continue
        ordered = terms["mode"] == "ordered"
        if ordered and _holds_up(model, topic, group, terms, partition, held, consumer):
            continue
        for offset in group.open(partition, topic.logs[partition]):
            if offset in held:
                continue
            why = why_not(model, topic, group, terms, hand, partition, offset)
            given_up = terms["on_exhausted"] != "block" and exhausted(terms, group, partition, offset)
            if why is None or (given_up and why.startswith("it was given up")):
                found.add((partition, offset))
            if ordered and not (why or "").startswith("it has expired"):
                break
    return found


def _holds_up(
    model: "Model",
    topic: Topic,
    group: Group,
    terms: dict[str, Any],
    partition: int,
    held: Mapping[int, Lease],
    consumer: Consumer,
) -> bool:
    """Say whether an ordered partition may be kept from a consumer: another has it, or one of its messages waits."""
    if any(lease.owners != {consumer.owner} for lease in held.values()):
        return True
    log = topic.logs[partition]
    for offset in group.open(partition, log):
        if offset not in held:
            later = log.messages[offset].deliver_at
            if (later is not None and later > model.now) or group.tried(partition, offset).until > model.now:
                return True
            if terms["on_exhausted"] == "block" and exhausted(terms, group, partition, offset):
                return True
    return False
