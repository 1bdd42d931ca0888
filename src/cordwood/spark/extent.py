"""What a broker has of each partition, what is wanted of it, and what of that is not there. Pure.

    extent      start ├──────┤ hole ├─────────────┤ end
    wanted   ├───────────────────────────────┤
    lost     ├──┤
    ranges      ├─────┤      ├───────────────┤               every offset of a range is a message

A loss is reported here and judged elsewhere: a query fails with it, or goes on and says so.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cordwood.errors import CordwoodError

log = logging.getLogger("cordwood.spark")

Key = tuple[str, int]  # topic and partition


class Extent(NamedTuple):
    """The messages of a partition: offsets from `start` to `end` without the holes; `id` is that of its topic."""

    topic: str
    id: str
    partition: int
    start: int
    end: int
    holes: tuple[tuple[int, int], ...] = ()

    @property
    def key(self) -> Key:
        """The partition as others name it."""
        return self.topic, self.partition


class Range(NamedTuple):
    """Offsets of a partition, each of which is a message."""

    topic: str
    id: str
    partition: int
    start: int
    end: int


class Loss(NamedTuple):
    """Offsets that were asked for and are not there."""

    topic: str
    partition: int
    start: int
    end: int
    why: str

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end} of {self.topic}/{self.partition}: {self.why}"


class DataLost(CordwoodError):
    """Messages that a query counts on are gone, and it may not go on without them."""

    def __init__(self, losses: Sequence[Loss]):
        self.losses = tuple(losses)
        more = f", and {len(losses) - 1} more" if len(losses) > 1 else ""
        super().__init__(
            f"data loss: {losses[0]}{more}. With the option failOnDataLoss=false the query goes on without them"
        )

    def __reduce__(self) -> tuple[type, tuple[tuple[Loss, ...]]]:
        return DataLost, (self.losses,)


def judge(losses: Sequence[Loss], *, fail: bool) -> None:
    """Raise for what is lost, or say so in the log, offsets and all."""
    if losses and fail:
        raise DataLost(losses)
    for loss in losses:
        log.warning("data loss, going on without them: %s", loss)


def cut(
    extents: Iterable[Extent], starts: Mapping[Key, int], ends: Mapping[Key, int]
) -> tuple[list[Range], list[Loss]]:
    """Return the messages between two offsets of each partition, and what of them is not there."""
    ranges: list[Range] = []
    losses: list[Loss] = []
    for extent in extents:
        start, end = starts[extent.key], ends[extent.key]
        if start < min(extent.start, end):
            gone = min(extent.start, end)
            losses.append(Loss(*extent.key, start, gone, "retention took them"))
            start = gone
        if end > max(start, extent.end):
            missing = max(start, extent.end)
            losses.append(Loss(*extent.key, missing, end, f"the partition ends at {extent.end}"))
            end = missing
        elif start > extent.end:
            losses.append(Loss(*extent.key, extent.end, start, f"the partition ends at {extent.end}"))
        ranges += (Range(extent.topic, extent.id, extent.partition, *run) for run in runs(extent, start, end))
    return ranges, losses


def runs(extent: Extent, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield what is left of some offsets without the holes."""
    at = start
    for first, behind in extent.holes:
        if at < min(first, end):
            yield at, min(first, end)
        at = max(at, behind)
    if at < end:
        yield at, end


def messages(extent: Extent, start: int, end: int) -> int:
    """Return how many messages are between two offsets."""
    start = max(start, extent.start)
    return sum(behind - first for first, behind in runs(extent, start, end))


def advance(extent: Extent, start: int, count: int) -> int:
    """Return the offset behind the next `count` messages from `start` on."""
    if not count:
        return start
    for first, end in runs(extent, max(start, extent.start), extent.end):
        if count <= end - first:
            return first + count
        count -= end - first
    return max(start, extent.end)
