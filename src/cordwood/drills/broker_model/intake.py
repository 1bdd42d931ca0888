"""Messages in: what producing, staging and publishing must write, and what they must be answered."""

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cordwood.drills.broker_model import facts as f
from cordwood.drills.broker_model.asked import LATER, Asked, AtOnce, Disagreement, Judge, Plan
from cordwood.drills.broker_model.facts import Fact, Message, Number, Piece
from cordwood.drills.broker_model.world import Log, Topic, grouped
from cordwood.errors import Conflict, Limited, NotFound, Refused

if TYPE_CHECKING:
    from cordwood.drills.broker_model.model import Model

Wanted = Sequence[tuple[int | None, Message]]  # the partition that is asked for, and the message
Assigned = Sequence[tuple[int, Message]]


def produce(
    model: "Model",
    name: str,
    wanted: Wanted,
    number: Number | None = None,
    keys: Sequence[str | None] | None = None,
    qos: int = 1,
    sequences: Sequence[int] | None = None,
) -> Plan:
    topic = yield from _topic(model, name)
    if not wanted:
        return name, [], 0, 0, frozenset()
    _check_partitions(topic, wanted)
    count = len(wanted)
    again: list[tuple[int, int | None, int]] = []
    each: tuple[int, ...] = ()
    if number is not None:
        runs = _runs(wanted, number, sequences)
        places = [
            (place, _repeat(topic.logs[place], number._replace(sequence=first), many)) for place, first, many in runs
        ]
        there = {place: where for place, where in places if where is not None}
        again = [(place, there[place], many) for place, _, many in runs if place in there]
        if again:
            model.reached.add("duplicate numbers")
        if len(again) == len(runs):
            return name, again, count, count, frozenset(there)
        if again:
            model.reached.add("some numbers were there")
        elif len(runs) > 1:
            model.reached.add("numbers over partitions")
        wanted = [one for one in wanted if one[0] not in there]
        new = [first for place, first, _ in runs if place not in there]
        number, each = number._replace(sequence=new[0]), tuple(new) if len(new) > 1 else ()
    repeated = frozenset(place for place, _, _ in again)
    before = sum(many for _, _, many in again)
    rows, known = _without_repeats(topic, keys, len(wanted))
    if known:
        model.reached.add("idempotency repeat")
    if not rows:
        for turn, _ in assignments(model, name, topic, wanted, each=False):
            model.set_turn(name, turn if name in model.turns else None)
        found = [(partition, offset, 1) for partition, offset in known if partition >= 0]
        return name, found, count, len(known), frozenset()
    plans: dict[int | None, list[Fact]] = {}
    for turn, assigned in assignments(model, name, topic, wanted, each=False):
        kept = [assigned[row] for row in rows]
        check_buffered(model, topic, kept)
        numbered = _numbered_keys(topic, kept, [None if keys is None else keys[row] for row in rows])
        plans[turn] = [f.Stored(name, pieces_of(topic, kept), model.now, number, tuple(numbered), each)]
    chosen: list[Fact] = []
    yield _one_of(model, name, plans, chosen)
    stored = chosen[0]
    assert isinstance(stored, f.Stored)
    if qos == 0:
        accepted = [(piece.partition, None, piece.count) for piece in stored.pieces]
        return AtOnce((name, accepted, count, 0, frozenset()))
    new_ones = [(piece.partition, piece.first, piece.count) for piece in stored.pieces]
    results = sorted([*new_ones, *again], key=lambda run: run[0])
    return name, results, count, len(known) + before, repeated


def produce_one(model: "Model", asked: Asked, name: str, message: dict[str, Any]) -> Plan:
    """One message that is gathered: what becomes of it is decided when all that were are written (`gathered`)."""
    topic = yield from _topic(model, name)
    wanted = [(message["partition"], message["message"])]
    _check_partitions(topic, wanted)
    if message["qos"]:
        model.gathered.append((asked, topic, name, message))
        return LATER
    ((turn, ((place, _),)),) = assignments(model, name, topic, wanted, each=True)
    model.set_turn(name, turn)
    model.gathered.append((None, topic, name, {**message, "partition": place}))
    return AtOnce((name, place, None, False))


def stage(
    model: "Model",
    name: str,
    wanted: Wanted,
    writer: str,
    batch: int,
    task: int,
    attempt: int,
    sequence: int | None,
) -> Plan:
    topic = yield from _topic(model, name)
    known = model.world.writers.get(writer)
    if known is not None and batch <= known.last:
        raise Conflict("published already")
    staged = len(known.stages.get((batch, task, attempt), [])) if known is not None else 0
    if sequence is not None and sequence < staged:
        return staged
    if sequence is not None and sequence > staged:
        raise Conflict("a gap")
    _check_partitions(topic, wanted)
    plans: dict[int | None, list[Fact]] = {}
    for turn, assigned in assignments(model, name, topic, wanted, each=False):
        pieces = pieces_of(topic, assigned, staged=True)
        plans[turn] = [f.Staged(name, pieces, model.now, writer, batch, task, attempt)]
    yield _one_of(model, name, plans, [])
    return staged + 1


def publish(model: "Model", writer: str, batch: int, tasks: Sequence[tuple[int, int]] | None) -> Plan:
    known = model.world.writers.get(writer)
    if known is not None and batch == known.last:
        model.reached.add("published again")
        return known.results, True
    if known is not None and batch < known.last:
        raise Conflict("an older batch")
    stages = known.stages if known is not None else {}
    if tasks is None:
        newest = {task: attempt for number, task, attempt in sorted(stages) if number == batch}
        if not newest:
            raise Conflict("nothing is staged")
        tasks = sorted(newest.items())
    if len({task for task, _ in tasks}) < len(tasks):
        raise Refused("a task twice")
    if any((batch, task, attempt) not in stages for task, attempt in tasks):
        raise Conflict("nothing is staged")
    placed = []
    ends: dict[tuple[str, int], int] = {}
    for task, attempt in tasks:
        for part in stages[(batch, task, attempt)]:
            for piece in part.pieces:
                place = (part.topic, piece.partition)
                first = ends.get(place, model.topic(part.topic).logs[piece.partition].end)
                placed.append((*place, first, piece.count))
                ends[place] = first + piece.count
    yield model.exactly([f.Published(writer, batch, tuple(placed), model.now, tuple(tasks))])
    results = model.world.writers[writer].results
    if results:
        model.reached.add("publish")
    return results, False


def _topic(model: "Model", name: str) -> Generator[Judge, None, Topic]:
    """Find a topic to produce to; it is made if the settings say so."""
    if name not in model.world.topics:
        if not model.settings["auto_create_topics"]:
            raise NotFound(name)
        yield model.exactly([f.TopicMade(name, "", model.settings["partitions"], {}, model.now)])
    return model.topic(name)


def _check_partitions(topic: Topic, wanted: Wanted) -> None:
    if any(partition is not None and partition >= len(topic.logs) for partition, _ in wanted):
        raise Refused("no such partition")


# Seen before


def _runs(wanted: Wanted, number: Number, sequences: Sequence[int] | None) -> list[tuple[int, int, int]]:
    """Return (partition, sequence, count) of a request, by partition."""
    places: dict[int, list[int]] = {}
    for row, (partition, _) in enumerate(wanted):
        following = number.sequence + row if sequences is None else sequences[row]
        places.setdefault(partition or 0, []).append(following)
    if sequences is None and len(places) > 1:
        raise Refused("one partition")
    for found in places.values():
        if found != list(range(found[0], found[0] + len(found))):
            raise Refused("a gap within")
    return [(place, found[0], len(found)) for place, found in sorted(places.items())]


def _repeat(log: Log, number: Number, count: int) -> int | None:
    """Return where a request is that was stored before, None if it is the next one, or was lost with a disk."""
    known = log.producers.get(number.producer)
    if known is not None and number.epoch < known.epoch:
        raise Conflict("the epoch is over")
    offsets = known.offsets if known is not None and known.epoch == number.epoch else []
    if number.sequence == len(offsets):
        return None
    if number.sequence + count <= len(offsets):
        lost = log.lost(offsets[number.sequence]) and log.lost(offsets[number.sequence + count - 1])
        return None if lost else offsets[number.sequence]
    raise Conflict("a gap, or an overlap")


def _without_repeats(
    topic: Topic, keys: Sequence[str | None] | None, count: int
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the rows that are new, and where those are that were stored before (-1: earlier in this request)."""
    rows: list[int] = []
    known: list[tuple[int, int]] = []
    seen: set[str] = set()
    for row, key in enumerate(keys if keys is not None else [None] * count):
        if key is not None and key in topic.keys and not topic.logs[topic.keys[key][0]].lost(topic.keys[key][1]):
            known.append(topic.keys[key][:2])
        elif key is not None and key in seen:
            known.append((-1, -1))
        else:
            rows.append(row)
            seen.update([key] if key is not None else [])
    return rows, known


def _numbered_keys(topic: Topic, kept: Assigned, keys: Sequence[str | None]) -> Iterator[tuple[str, int, int]]:
    ends = [log.end for log in topic.logs]
    for (partition, _), key in zip(kept, keys, strict=True):
        if key is not None:
            yield key, partition, ends[partition]
        ends[partition] += 1


# Where to


def partition_of(key: bytes, count: int) -> int:
    """Return FNV-1a-32 of a key, modulo the number of partitions."""
    found = 2166136261
    for byte in key:
        found = ((found ^ byte) * 16777619) & 0xFFFFFFFF
    return found % count


def assignments(
    model: "Model", name: str, topic: Topic, wanted: Wanted, *, each: bool
) -> Iterator[tuple[int | None, Assigned]]:
    """Yield (whose turn it is afterwards, the partition of each message) for each turn that it may be now.

    Those that name no partition go round robin: together, or with `each` one by one.
    """
    count = len(topic.logs)
    known = model.turns.get(name)
    free = any(partition is None and message.key is None for partition, message in wanted)
    for begin in range(count) if known is None and free else [known]:
        turn = begin or 0
        assigned = []
        for partition, message in wanted:
            if partition is None and message.key is not None:
                partition = partition_of(message.key, count)
            if partition is None:
                partition = turn % count
                turn += each
            assigned.append((partition, message))
        yield ((turn if each else turn + 1) % count if free else known), assigned


def pieces_of(topic: Topic, assigned: Assigned, *, staged: bool = False) -> tuple[Piece, ...]:
    """Return the messages of each partition as a piece, from its end on."""
    return tuple(
        Piece(partition, 0 if staged else topic.logs[partition].end, len(messages), tuple(messages))
        for partition, messages in grouped(assigned).items()
    )


def _one_of(model: "Model", name: str, plans: dict[int | None, list[Fact]], chosen: list[Fact]) -> Judge:
    """Return the judge of a frame that goes to the partition whose turn it is; who knows the turn has one plan."""

    def judge(claims: Sequence[Fact]) -> list[Fact]:
        found = list(map(f.claimed, claims))
        for turn, plan in plans.items():
            if list(map(f.claimed, plan)) == found:
                model.set_turn(name, turn)
                chosen[:] = plan
                return plan
        raise Disagreement(f"the broker wrote {found}, where one of {plans} was right")

    return judge


def check_buffered(model: "Model", topic: Topic, added: Assigned, before: Assigned = ()) -> None:
    """Raise Limited if the slowest active group would have too much left to do."""
    terms = {**model.settings, **topic.terms}
    if not terms["max_buffered_messages"]:
        return
    oldest = model.now - terms["hold_max_ms"]
    active = [group for group in topic.groups.values() if group.moved >= oldest]
    for partition in {partition for partition, _ in added}:
        log = topic.logs[partition]
        waiting = len(log.offsets())
        if topic.groups:
            waiting = max((len(group.open(partition, log)) for group in active), default=0)
        new = sum(number == partition for number, _ in [*before, *added])
        if waiting + new > terms["max_buffered_messages"]:
            raise Limited("full", "partition_buffer_full")
