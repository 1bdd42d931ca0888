"""A place in all partitions that a streaming query reads, as it stands in the query's checkpoint. Pure.

    {"clicks": {"0": 23, "1": 5, "id": "0a1b2c3d4e5f6071"}}

The id tells a topic from another one that was made later under its name: its offsets begin at 0 again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cordwood.errors import Refused
from cordwood.spark.extent import Extent, Key, Loss, Range, cut

ANEW = "the topic was deleted and made again"
DELETED = "the topic was deleted"


@dataclass(frozen=True)
class Position:
    """The offset that is read next in each partition, and the id of each topic."""

    offsets: Mapping[Key, int]
    ids: Mapping[str, str]

    @classmethod
    def of(cls, extents: Iterable[Extent], offsets: Mapping[Key, int]) -> "Position":
        """Return these offsets of these partitions."""
        extents = list(extents)
        return cls({one.key: offsets[one.key] for one in extents}, {one.topic: one.id for one in extents})

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Position":
        """Return what a checkpoint says."""
        try:
            offsets = {
                (topic, _number(number)): _offset(offset)
                for topic, numbers in given.items()
                for number, offset in numbers.items()
                if number != "id"
            }
            ids = {topic: str(numbers.get("id", "")) for topic, numbers in given.items()}
        except (AttributeError, TypeError, ValueError):
            raise Refused(f"the checkpoint has an offset that is not Cordwood's: {str(given)[:200]}") from None
        return cls(offsets, ids)

    def to_json(self) -> dict[str, dict[str, int | str]]:
        """Return it as a checkpoint keeps it, always in the same order: Spark compares the text."""
        found: dict[str, dict[str, int | str]] = {}
        for (topic, number), offset in sorted(self.offsets.items()):
            found.setdefault(topic, {})[str(number)] = offset
        for topic, numbers in found.items():
            numbers["id"] = self.ids[topic]
        return found

    def of_topic(self, topic: str) -> dict[int, int]:
        """Return the offsets of one topic by partition."""
        return {number: offset for (name, number), offset in self.offsets.items() if name == topic}


def _number(text: str) -> int:
    """Return a partition; only as `to_json` writes it, or two spellings of one would be taken for two."""
    if str(int(text)) != text or int(text) < 0:
        raise ValueError(text)
    return int(text)


def _offset(given: object) -> int:
    if type(given) is not int or not 0 <= given < 1 << 63:
        raise ValueError(given)
    return given


def resume(start: Position, extents: Sequence[Extent]) -> tuple[dict[Key, int], list[Loss]]:
    """Return where each partition goes on, and what was lost of those that the query has been in.

    One that the query has not been in yet goes on at 0.
    """
    losses: list[Loss] = []
    starts: dict[Key, int] = {}
    have = {extent.key for extent in extents}
    for (topic, number), offset in sorted(start.offsets.items()):
        if (topic, number) not in have:
            losses.append(Loss(topic, number, offset, offset, DELETED))
    for extent in extents:
        if extent.key not in start.offsets:
            starts[extent.key] = 0
            continue
        offset = start.offsets[extent.key]
        if not _same(start.ids, extent):
            losses.append(Loss(*extent.key, offset, offset, ANEW))
            starts[extent.key] = extent.start
        elif offset > extent.end:
            losses.append(Loss(*extent.key, extent.end, offset, f"the partition ends at {extent.end}"))
            starts[extent.key] = extent.end
        else:
            starts[extent.key] = offset
    return starts, losses


def between(start: Position, end: Position, extents: Sequence[Extent]) -> tuple[list[Range], list[Loss]]:
    """Return the messages of a trigger, and what of them is not there any more."""
    here = {extent.key: extent for extent in extents}
    losses: list[Loss] = []
    found: list[Extent] = []
    starts: dict[Key, int] = {}
    for key, behind in sorted(end.offsets.items()):
        topic = key[0]
        same = start.ids.get(topic, "") == end.ids.get(topic, "")
        offset = start.offsets.get(key, 0) if same else 0
        extent = here.get(key)
        if extent is None or not _same(end.ids, extent):
            if offset < behind:
                losses.append(Loss(*key, offset, behind, DELETED if extent is None else ANEW))
            continue
        if key in start.offsets and not same:
            offset = extent.start  # what the topic of before had was reported when the end was chosen
        if offset <= behind:
            found.append(extent)
            starts[key] = offset
    ranges, more = cut(found, starts, end.offsets)
    return ranges, losses + more


def _same(ids: Mapping[str, str], extent: Extent) -> bool:
    """Say whether this is the topic that was meant; who gave an offset by hand gave no id."""
    return ids.get(extent.topic, "") in ("", extent.id)
