"""The name of an object says what it holds; so a listing is the catalogue.

    topics/<topic, "/" as %2F>/<topic id>/partition=<n>/<first>-<end>-<epoch>-<generation>-<count>-<checksum>.parquet

    topics/shop%2Forders/0a1b2c3d4e5f6071/partition=3/
        00000000000000001000-00000000000000002000-7-0-1000-9ae0daaf0c5d3a21.parquet

`first` to `end` are the offsets it stands for, written with 20 digits, so that a listing is in their order; `count`
of them are messages, the others are holes. `epoch` is the claim under which it was put, `generation` how often its
messages were put anew. `checksum` is CRC-64/NVME of the object's bytes, 16 hexadecimal digits.

We write one spelling. We read any number of digits, and keep the spelling we read: it is the name to fetch it by.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

ROOT = "topics/"
MAX_TOPIC_CHARACTERS = 240  # the contract's limit
MAX_NUMBER = (1 << 63) - 1  # what the columns of an object, and of every reader, can hold

_PART = r"[A-Za-z0-9._-]+"
_NUMBER = r"0*([0-9]{1,19})"
_NAME = re.compile(
    rf"topics/({_PART}(?:%2F{_PART})*)/({_PART})/partition={_NUMBER}/"
    rf"{_NUMBER}-{_NUMBER}-{_NUMBER}-{_NUMBER}-{_NUMBER}-([0-9a-f]{{16}})\.parquet"
)
_NOT_A_PART = frozenset((".", ".."))


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What an object holds: `count` messages of one partition, with offsets from `first` to `end`."""

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    epoch: int
    generation: int
    count: int
    checksum: int
    spelling: str = field(default="", compare=False, repr=False)  # the name it was read from, if it was

    def __post_init__(self) -> None:
        assert 0 <= self.first < self.end <= MAX_NUMBER, "it stands for some offsets"
        assert 0 <= self.count <= self.end - self.first, "an offset is one message at most"

    @property
    def name(self) -> str:
        """The name of the object in the store."""
        return self.spelling or (
            f"{partition_prefix(self.topic, self.topic_id, self.partition)}{self.first:020}-{self.end:020}"
            f"-{self.epoch}-{self.generation}-{self.count}-{self.checksum:016x}.parquet"
        )


def topic_prefix(topic: str, topic_id: str | None = None) -> str:
    """Return how the names of all objects of a topic begin; without an id, of all topics that ever had this name."""
    escaped = topic.replace("/", "%2F")
    return f"{ROOT}{escaped}/" if topic_id is None else f"{ROOT}{escaped}/{topic_id}/"


def partition_prefix(topic: str, topic_id: str, partition: int) -> str:
    """Return how the names of all objects of a partition begin."""
    return f"{topic_prefix(topic, topic_id)}partition={partition}/"


def parse(name: str) -> Descriptor | None:
    """Return what an object holds, None where the name is not one that we give."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    escaped, topic_id, *digits, checksum = found.groups()
    topic = escaped.replace("%2F", "/")
    if len(topic) > MAX_TOPIC_CHARACTERS or topic_id in _NOT_A_PART or not _NOT_A_PART.isdisjoint(topic.split("/")):
        return None
    partition, first, end, epoch, generation, count = map(int, digits)
    if not (first < end and count <= end - first and max(partition, end, epoch, generation) <= MAX_NUMBER):
        return None
    return Descriptor(topic, topic_id, partition, first, end, epoch, generation, count, int(checksum, 16), name)


class Span(NamedTuple):
    """The offsets from `first` to `end` are read from this object; what else it holds does not count."""

    first: int
    end: int
    descriptor: Descriptor


class Counted(NamedTuple):
    """Spans that do not overlap, in the order of their offsets; and the objects that no offset is read from."""

    spans: list[Span]
    losers: list[Descriptor]


def counting(descriptors: Iterable[Descriptor]) -> Counted:
    """Return which object counts for which offsets, and which objects count for none; all are of one partition.

    For each offset it is the object with the highest (epoch, generation) of those that stand for it:

        epoch 2            ┌──────────────┐
        epoch 1    ┌───────┼──┐  ┌──────┐ │  ┌───┐
        counts     1111111122222222222222222 11111      the one in the middle is a loser

    So an object that sticks out beyond a winner counts for what sticks out, on either side or on both. Of two with
    the same epoch and generation the one that reaches further counts, then the one with more messages, then the one
    with the higher checksum: always the same one, in whatever order they are listed.
    """
    objects = sorted(set(descriptors), key=_first)
    if not objects:
        return Counted([], [])
    assert len({(one.topic_id, one.partition) for one in objects}) == 1, "one partition at a time"
    if all(one.end <= other.first for one, other in pairwise(objects)):
        return Counted([Span(one.first, one.end, one) for one in objects], [])
    spans = _sweep(objects)
    winners = {id(span.descriptor) for span in spans}
    return Counted(spans, [one for one in objects if id(one) not in winners])


def _sweep(objects: Sequence[Descriptor]) -> list[Span]:
    """Go from one beginning or end to the next; whoever is then on top of the heap counts up to there."""
    spans: list[Span] = []
    open_: list[tuple[tuple[int, ...], int]] = []  # those that began, the best on top; some may have ended
    at = objects[0].first
    begun = 0
    while open_ or begun < len(objects):
        if not open_:
            at = max(at, objects[begun].first)
        while begun < len(objects) and objects[begun].first <= at:
            heappush(open_, (_rank(objects[begun]), begun))
            begun += 1
        best = objects[open_[0][1]]
        if best.end <= at:
            heappop(open_)
            continue
        end = min(best.end, objects[begun].first) if begun < len(objects) else best.end
        if spans and spans[-1].descriptor is best and spans[-1].end == at:
            spans[-1] = Span(spans[-1].first, end, best)
        else:
            spans.append(Span(at, end, best))
        at = end
    return spans


def _first(descriptor: Descriptor) -> int:
    return descriptor.first


def _rank(one: Descriptor) -> tuple[int, ...]:
    """Return what is least for the object that counts."""
    return -one.epoch, -one.generation, -one.end, -one.count, -one.checksum


def replaces(run: Sequence[Descriptor], new: Descriptor) -> bool:
    """Say whether `new` may stand in the place of a run of objects, given in the order of their offsets.

    It may when it stands for exactly their offsets, they follow each other without a gap, its generation is one above
    their highest, it counts against each of them, and it has no more messages than they have.
    """
    return (
        len(run) > 0
        and all((one.topic_id, one.partition) == (new.topic_id, new.partition) for one in run)
        and all(one.end == other.first for one, other in pairwise(run))
        and (new.first, new.end) == (run[0].first, run[-1].end)
        and new.generation == 1 + max(one.generation for one in run)
        and new.epoch >= max(one.epoch for one in run)
        and new.count <= sum(one.count for one in run)
    )
