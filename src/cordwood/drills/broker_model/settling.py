"""What consumers say about messages, and dead letters sent back: what must be written and answered."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cordwood.drills.broker_model import facts as f
from cordwood.drills.broker_model import moves
from cordwood.drills.broker_model.asked import Plan
from cordwood.drills.broker_model.deliveries import check_owner
from cordwood.drills.broker_model.facts import Fact, Message, Piece
from cordwood.drills.broker_model.world import DEAD, Group, Topic, grouped
from cordwood.errors import Conflict, Refused

if TYPE_CHECKING:
    from cordwood.drills.broker_model.model import Model

Letters = dict[tuple[int, int], tuple[int, Message]]  # where it is: the partition it goes to, and as what


def ack(model: "Model", topic: str, group: str, partition: int, offsets: Sequence[int], owner: str | None) -> Plan:
    found = _check(model, topic, group, partition, offsets, owner)
    log = model.topic(topic).logs[partition]
    floor, over = found.floor(partition, log), found.done[partition]
    news = tuple(o for o in offsets if o >= floor and o not in over and o == log.passed(o))
    if news:
        done = f.Done(topic, group, partition, news, model.now)
        yield lambda claims: _acked(model, claims, done, offsets)
    return None


def _acked(model: "Model", claims: Sequence[Fact], done: f.Done, offsets: Sequence[int]) -> list[Fact]:
    """Judge the frame of an ack; it may say again what was done before."""
    claim = claims[0]
    more = set(claim.offsets) - set(done.offsets) if isinstance(claim, f.Done) else set()
    model.check(more <= set(offsets), f"{claim}: only {offsets} were acked")
    return model.exactly([done._replace(offsets=(*done.offsets, *more))])(claims)


def nack(
    model: "Model",
    topic: str,
    group: str,
    partition: int,
    offsets: Sequence[int],
    owner: str | None,
    reason: str,
    delay_ms: int | None,
) -> Plan:
    _check(model, topic, group, partition, offsets, owner)
    hand = model.hands.of(topic, group)
    while held := [offset for offset in offsets if (partition, offset) in hand.leases]:
        doomed = {offset: [(reason, delay_ms)] for offset in held}
        yield lambda claims, doomed=doomed: moves.judge(model, claims, doomed)  # type: ignore[misc]
    return None


def extend(
    model: "Model",
    topic: str,
    group: str,
    partition: int,
    offsets: Sequence[int],
    owner: str | None,
    lease_ms: int | None,
) -> Plan:
    found = _check(model, topic, group, partition, offsets, owner)
    hand = model.hands.of(topic, group)
    held = tuple(offset for offset in offsets if (partition, offset) in hand.leases)
    if lease_ms == 0:
        if held and model.terms(topic, found)["mode"] == "ordered":  # what is behind it must follow it
            held = tuple(offset for offset in hand.held(partition) if offset >= min(held))
        if held:
            yield model.exactly([f.GivenBack(topic, group, partition, held)])
        return None
    if len(held) < len(offsets):
        raise Conflict("not held")
    lasts = model.terms(topic, found)["lease_ms"] if lease_ms is None else lease_ms
    for offset in held:
        hand.leases[(partition, offset)].until = model.clock.monotonic_ms() + lasts
    return None


def _check(
    model: "Model", topic: str, group: str, partition: int, offsets: Sequence[int], owner: str | None
) -> Group:
    found = model.group(topic, group)
    logs = model.topic(topic).logs
    if partition >= len(logs):
        raise Refused("no such partition")
    if not offsets or max(offsets) >= logs[partition].end or len(set(offsets)) < len(offsets):
        raise Refused("no such offset, or one twice")
    check_owner(model, topic, group, partition, offsets, owner)
    return found


# Dead letters


def redrive(
    model: "Model",
    topic: str,
    group: str,
    partition: int | None,
    offsets: Sequence[int] | None,
    sent: list[int],
) -> Plan:
    """Send dead letters back, in as many frames as it likes; `sent` keeps the count over a wait for room."""
    if topic.startswith(DEAD):
        model.topic(topic)
        topic = topic.removeprefix(DEAD)
    found = model.group(topic, group)
    dead = model.world.topics.get(DEAD + topic)
    if dead is None:
        return 0
    if offsets is not None and partition is None:
        if len(dead.logs) > 1:
            raise Refused("which partition?")
        partition = 0
    if partition is not None and partition >= len(dead.logs):
        raise Refused("no such partition")
    while waiting := _letters(model, topic, group, found, dead, partition, offsets):
        before = len(found.redriven)
        yield lambda claims, waiting=waiting: _redriven(model, claims, topic, group, waiting)  # type: ignore[misc]
        sent.append(len(found.redriven) - before)
    return sum(sent)


def _letters(
    model: "Model",
    topic: str,
    group: str,
    found: Group,
    dead: Topic,
    partition: int | None,
    offsets: Sequence[int] | None,
) -> Letters:
    """Return this group's dead letters that did not go back yet and are durable."""
    letters: Letters = {}
    for number, log in enumerate(dead.logs):
        if partition not in (None, number):
            continue
        for offset in log.offsets(0, log.shown(model.shown)):
            message = log.messages[offset]
            headers = dict(message.headers)
            mine = (headers.get("cordwood-topic"), headers.get("cordwood-group")) == (topic.encode(), group.encode())
            if mine and (offsets is None or offset in offsets) and (dead.id, number, offset) not in found.redriven:
                own = tuple(header for header in message.headers if not header[0].startswith("cordwood-"))
                target = int(headers["cordwood-partition"]) % len(model.topic(topic).logs)
                letters[(number, offset)] = target, message._replace(headers=own)
    return letters


def _redriven(model: "Model", claims: Sequence[Fact], topic: str, group: str, waiting: Letters) -> list[Fact]:
    """Judge a frame of a redrive: some letters go back, are done for the others, and are remembered, all at once."""
    went = [claim for claim in claims if isinstance(claim, f.Redriven)]
    model.check(len(went) == 1, f"a redrive wrote {claims}")
    places = [(went[0].partition, offset) for offset in went[0].offsets]
    model.check(set(places) <= set(waiting), f"{places} went back, {list(waiting)} were to go")
    world = model.topic(topic)
    back: list[Fact] = []
    done: list[Fact] = []
    for partition, messages in grouped(waiting[place] for place in sorted(places)).items():
        first = world.logs[partition].end
        back.append(f.Stored(topic, (Piece(partition, first, len(messages), tuple(messages)),), model.now))
        there = tuple(range(first, first + len(messages)))
        done += [f.Done(topic, other, partition, there, model.now) for other in world.groups if other != group]
    model.reached.add("redrive")
    return model.exactly([*back, *done, f.Redriven(topic, group, *went[0][2:])])(claims)
