"""The witness: what clients sent, were told and saw, judged against what Cordwood promises. Pure.

    promise                                                    rule
    an acknowledged write is there, once, at its offset        acknowledged
    a write that was refused is nowhere                        refused
    a write that nobody heard about is there at most once      once
    nothing is read that nobody sent                           sent
    offsets have no gap, a producer's writes stay in order     dense, order
    no offset has two contents, whoever looks, and when        one content
    what was shown once stays                                  stays
    a group gets everything, until it says done, then not      group

A history is what the clients noted, in the order in which they noted it. A reading is one look at the whole log: by
offset through the broker, or at the objects of the tier. `told` says how many acknowledgements had come before it
began: those must be in it, later ones may be.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

SHOWN = 5  # of each rule; the rest is counted


class Write(NamedTuple):
    """One message, as its producer knows it."""

    producer: str
    number: int


class Place(NamedTuple):
    """Where a message is."""

    partition: int
    offset: int


class Seen(NamedTuple):
    """A message that was read; `write` is None if its bytes are not what any producer sends."""

    place: Place
    write: Write | None


class Delivered(NamedTuple):
    """A message that a group got."""

    place: Place
    write: Write | None
    attempts: int


class Done(NamedTuple):
    """An ack that was answered with 204."""

    place: Place


class Unsure(NamedTuple):
    """An ack that nobody answered."""

    place: Place


class Restarted(NamedTuple):
    """The broker was ended and started again: whatever was on lease comes again."""


Event = Delivered | Done | Unsure | Restarted


@dataclass(slots=True)
class Reading:
    """All of the log, partition after partition; `starts` is where a partition begins, 0 if it is not there."""

    reader: str
    told: int
    seen: list[Seen]
    starts: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Group:
    """What one group got and said. `drained`: at the end it was given all there was.

    `counted`: every delivery counts as an attempt, because none was given back.
    """

    name: str
    events: list[Event] = field(default_factory=list)
    drained: bool = False
    counted: bool = True


@dataclass(slots=True)
class History:
    """What the clients of one drill noted. Threads append; only who judges reads all of it."""

    sent: set[Write] = field(default_factory=set)
    acknowledged: list[tuple[Write, Place]] = field(default_factory=list)
    refused: set[Write] = field(default_factory=set)
    readings: list[Reading] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


def judge(history: History) -> list[str]:
    """Return what breaks a promise, each as one line; nothing if all is well."""
    found: list[str] = []
    for rule in (_acknowledged, _sent, _refused, _dense, _order, _once, _content, _stays, _groups):
        broken = list(rule(history))
        found += broken[:SHOWN]
        if len(broken) > SHOWN:
            found.append(f"… and {len(broken) - SHOWN} more of this kind")
    return found


def _acknowledged(history: History) -> Iterator[str]:
    """An acknowledged write has one place, and every later reading has it there."""
    places: dict[Write, Place] = {}
    for write, place in history.acknowledged:
        if places.setdefault(write, place) != place:
            yield f"acknowledged: {_name(write)} was acknowledged at {_at(places[write])} and at {_at(place)}"
    for reading in history.readings:
        held = {seen.place: seen.write for seen in reading.seen}
        for write, place in history.acknowledged[: reading.told]:
            if place.offset < reading.starts.get(place.partition, 0):
                continue  # retention took it, and says so
            if place not in held:
                yield f"acknowledged: {reading.reader} lacks {_name(write)}, acknowledged at {_at(place)}"
            elif held[place] != write:
                there = _name(held[place])
                yield f"acknowledged: {reading.reader} has {there} at {_at(place)}, where {_name(write)} was put"


def _sent(history: History) -> Iterator[str]:
    """Whatever is read or delivered was sent, byte for byte."""
    for who, place, write in _sightings(history):
        if write is None:
            yield f"sent: {who} has bytes at {_at(place)} that no producer sent"
        elif write not in history.sent:
            yield f"sent: {who} has {_name(write)} at {_at(place)}, which nobody sent"


def _refused(history: History) -> Iterator[str]:
    """An error means: not there."""
    for who, place, write in _sightings(history):
        if write in history.refused:
            yield f"refused: {who} has {_name(write)} at {_at(place)}, although it was answered with an error"


def _dense(history: History) -> Iterator[str]:
    """In a reading the offsets of a partition rise by one from its beginning on."""
    for reading in history.readings:
        expected: dict[int, int] = defaultdict(int, reading.starts)
        for partition, offset in (seen.place for seen in reading.seen):
            if offset != expected[partition]:
                where = f"{_at(Place(partition, offset))} where offset {expected[partition]} should be"
                yield f"dense: {reading.reader} has {where}"
            expected[partition] = offset + 1


def _order(history: History) -> Iterator[str]:
    """In a partition one producer's writes stand in the order in which it sent them."""
    for reading in history.readings:
        last: dict[tuple[int, str], int] = {}
        for place, write in reading.seen:
            if write is None:
                continue
            before = last.get((place.partition, write.producer), -1)
            if write.number < before:
                yield f"order: {reading.reader} has {_name(write)} at {_at(place)}, behind number {before}"
            last[(place.partition, write.producer)] = write.number


def _once(history: History) -> Iterator[str]:
    """A reading has no write twice."""
    for reading in history.readings:
        first: dict[Write, Place] = {}
        for place, write in reading.seen:
            if write is not None and first.setdefault(write, place) != place:
                yield f"once: {reading.reader} has {_name(write)} at {_at(first[write])} and at {_at(place)}"


def _content(history: History) -> Iterator[str]:
    """A place holds the same write for everybody, at any time."""
    holds: dict[Place, tuple[str, Write | None]] = {}
    told = (("a producer", place, write) for write, place in history.acknowledged)
    for who, place, write in (*told, *_sightings(history)):
        other, before = holds.setdefault(place, (who, write))
        if before != write:
            yield f"one content: {_at(place)} is {_name(before)} to {other} and {_name(write)} to {who}"


def _stays(history: History) -> Iterator[str]:
    """What one reading had, each later one has, unless retention took it."""
    shown: dict[Place, str] = {}
    for reading in history.readings:
        held = {seen.place for seen in reading.seen}
        for place, who in shown.items():
            if place not in held and place.offset >= reading.starts.get(place.partition, 0):
                yield f"stays: {_at(place)} was shown to {who}, and {reading.reader} lacks it"
        for place in held:
            shown.setdefault(place, reading.reader)


def _groups(history: History) -> Iterator[str]:
    for group in history.groups:
        yield from _group(group, dict(history.acknowledged))


def _group(group: Group, acknowledged: dict[Write, Place]) -> Iterator[str]:
    """Attempts rise, what is done stays done, and in the end everything else was delivered again."""
    attempts: dict[Place, int] = {}
    done: set[Place] = set()
    unsure: set[Place] = set()
    ever: set[Place] = set()
    since: set[Place] = set()  # delivered since the last start
    closed: set[Place] = set()  # done, or perhaps, when it was started last
    for event in group.events:
        if isinstance(event, Delivered):
            before = attempts.get(event.place, 0)
            if event.attempts <= before if group.counted else event.attempts < before:
                yield f"group: {group.name} got {_at(event.place)} as attempt {event.attempts} after attempt {before}"
            if event.place in done:
                yield f"group: {group.name} got {_at(event.place)} again, although it was done"
            attempts[event.place] = event.attempts
            ever.add(event.place)
            since.add(event.place)
        elif isinstance(event, Done):
            done.add(event.place)
        elif isinstance(event, Unsure):
            unsure.add(event.place)
        else:
            since.clear()
            closed = done | unsure
    if group.drained:
        for write, place in acknowledged.items():
            if place not in ever:
                yield f"group: {group.name} never got {_name(write)}, acknowledged at {_at(place)}"
            elif place not in since and place not in closed:
                yield f"group: {group.name} did not get {_at(place)} again, although it was not done"


def _sightings(history: History) -> Iterator[tuple[str, Place, Write | None]]:
    for reading in history.readings:
        yield from ((reading.reader, seen.place, seen.write) for seen in reading.seen)
    for group in history.groups:
        yield from ((group.name, e.place, e.write) for e in group.events if isinstance(e, Delivered))


def _name(write: Write | None) -> str:
    return "foreign bytes" if write is None else f"{write.producer}:{write.number}"


def _at(place: Place) -> str:
    return f"{place.partition}/{place.offset}"
