"""What leaves the broker: to whom it may go, and whether it is what was sent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cordwood.drills.broker_model import quiet
from cordwood.drills.broker_model.asked import Disagreement
from cordwood.drills.broker_model.facts import Delivered, Message
from cordwood.drills.broker_model.hands import Consumer, Hand, Lease, Parcel, Place
from cordwood.errors import Conflict, CordwoodError, Unavailable

if TYPE_CHECKING:
    from cordwood.drills.broker_model.model import Model

Got = list[tuple[int, int, int, str, Message]]  # partition, offset, attempts, last error, message


def lend(model: "Model", lsn: int, fact: Delivered) -> None:
    """Messages leave: everybody who waits may be who gets them; in ordered mode only who has the partition."""
    topic = model.world.topics[fact.topic]
    group, log = topic.groups[fact.group], topic.logs[fact.partition]
    hand = model.hands.of(fact.topic, fact.group)
    ordered = model.terms(fact.topic, group)["mode"] == "ordered"
    candidates = [consumer for consumer in hand.waiting if not consumer.closed]
    if ordered:
        for lease in hand.held(fact.partition).values():
            candidates = [consumer for consumer in candidates if consumer.owner in lease.owners]
    if not candidates:
        raise Disagreement(f"{fact} leaves, and nobody who may have it waits")
    content = {}
    for offset in fact.offsets:
        tried = group.tried(fact.partition, offset)
        content[(fact.partition, offset)] = tried.attempts + 1, tried.error, log.messages[offset]
    if any(first <= offset < end for first, end in log.tiered for offset in fact.offsets):
        model.reached.add("delivered from the tier")
    parcel = Parcel(lsn, content, candidates, ordered)
    model.hands.parcels.append(parcel)
    for place in content:
        hand.leases[place] = Lease(parcel, model.clock.monotonic_ms(), candidates)


def join(model: "Model", consumer: Consumer) -> None:
    """Let a consumer wait for messages."""
    hand = model.hands.of(consumer.topic, consumer.group)
    if not consumer.waiting:
        hand.waiting.append(consumer)
    consumer.waiting = True
    if consumer.streams and consumer not in hand.streams:
        hand.streams.append(consumer)


def leave(model: "Model", consumer: Consumer) -> None:
    """A consumer waits no more."""
    consumer.waiting = False
    hand = model.hands.groups.get((consumer.topic, consumer.group))
    if hand is not None:
        hand.waiting = [other for other in hand.waiting if other is not consumer]
        if consumer.closed:
            hand.streams = [other for other in hand.streams if other is not consumer]


def accept(model: "Model", consumer: Consumer, found: Got) -> None:
    """Check what a consumer got."""
    places = [(partition, offset) for partition, offset, *_ in found]
    if consumer.closed or not consumer.waiting:
        raise Disagreement(f"{consumer} does not wait, and got {found}")
    if not 0 < len(places) <= consumer.max_messages or len(set(places)) < len(places):
        raise Disagreement(f"{consumer} got {places}")
    hand = model.hands.groups.get((consumer.topic, consumer.group))
    for partition, offset, *got in found:
        place = (partition, offset)
        parcel = _parcel(model, consumer, place, tuple(got))
        lease = hand.leases.get(place) if hand is not None else None
        if hand is not None and lease is not None and lease.parcel is parcel:
            lease.candidates = [consumer]
            if parcel.ordered:
                _check_alone(consumer, hand, partition)
    if hand is not None and consumer.most is not None:
        for partition in {place[0] for place in places}:
            holds = sum(lease.candidates == [consumer] for lease in hand.held(partition).values())
            model.check(holds <= consumer.most, f"{consumer} holds {holds} of partition {partition}")
    _resolve(model, consumer, places)


def _parcel(model: "Model", consumer: Consumer, place: Place, got: tuple[object, ...]) -> Parcel:
    """Return what a message came with. It may be on its way twice, after a seek; the first one comes first."""
    sent = [parcel for parcel in model.hands.parcels if place in parcel.content and consumer in parcel.candidates]
    right = [parcel for parcel in sent if parcel.content[place] == got]
    if not right:
        raise Disagreement(f"{consumer} got {place} as {got}, where {[p.content[place] for p in sent]} were sent")
    if right[0].lsn >= model.shown:
        raise Disagreement(f"{consumer} got {place} before frame {right[0].lsn} is durable")
    del right[0].content[place]
    return right[0]


def _check_alone(consumer: Consumer, hand: Hand, partition: int) -> None:
    """In ordered mode a partition is with one owner."""
    owners = {owner for lease in hand.held(partition).values() if len(lease.owners) == 1 for owner in lease.owners}
    if owners - {consumer.owner}:
        raise Disagreement(f"{consumer} got of partition {partition}, which {owners} have")


def go_empty(model: "Model", consumer: Consumer) -> None:
    """Check that nothing was there for a poll that is told so."""
    if consumer.closed or not consumer.waiting:
        raise Disagreement(f"{consumer} does not wait, and was told that nothing came")
    if model.clock.monotonic_ms() < consumer.waits_until:
        raise Disagreement(f"{consumer} was sent away before its time")
    hand = model.hands.groups.get((consumer.topic, consumer.group))
    if hand is not None and not consumer.over and consumer.waits_until >= model.troubled_until:
        left = quiet.there(model, hand, consumer) & consumer.saw
        if left:
            raise Disagreement(f"{consumer} was told that nothing came, and {left} are there")
    _resolve(model, consumer, [])


def _resolve(model: "Model", consumer: Consumer, places: list[Place]) -> None:
    """A consumer has what it gets: nothing else that is on its way is for it."""
    consumer.got.append(places)
    leave(model, consumer)
    if not consumer.streams:
        consumer.closed = True
    for parcel in model.hands.parcels:
        parcel.candidates = [other for other in parcel.candidates if other is not consumer]
    hand = model.hands.groups.get((consumer.topic, consumer.group))
    if hand is not None:
        for place, lease in hand.leases.items():
            if place in lease.parcel.content:
                lease.candidates = [other for other in lease.candidates if other is not consumer]


def turn_away(model: "Model", consumer: Consumer, error: CordwoodError) -> None:
    """Check that a consumer was rightly told that nothing more comes."""
    right = model.failure if isinstance(error, Unavailable) else consumer in model.dismissed
    model.check(right and not consumer.closed, f"{consumer} was told {error!r}")
    consumer.closed = True
    leave(model, consumer)


def check_dismissed(model: "Model") -> None:
    """All whose group is gone know it, but for those whose messages, or whose empty answer, are on their way."""
    for consumer in model.dismissed:
        expects = any(consumer in parcel.candidates for parcel in model.hands.parcels)
        told = consumer.closed or consumer.over or expects
        model.check(told, f"{consumer} was not told that its group is gone")


def check_owner(
    model: "Model", topic: str, group: str, partition: int, offsets: Sequence[int], owner: str | None
) -> None:
    """Raise Conflict when another owner holds one of the offsets."""
    hand = model.hands.groups.get((topic, group))
    if owner is None or hand is None:
        return
    for offset in offsets:
        lease = hand.leases.get((partition, offset))
        if lease is not None and owner not in lease.owners:
            raise Conflict("another owner holds it")
        if lease is not None and len(lease.owners) > 1:
            model.unclear = True
