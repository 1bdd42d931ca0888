"""Where to begin and where to end, as offsets of each partition. Pure: times have been looked up before."""

from collections.abc import Mapping, Sequence

from cordwood.errors import Refused
from cordwood.spark.extent import Extent, Key
from cordwood.spark.options import EARLIEST, LATEST, Bound, PerPartition


def begin(bound: Bound, extents: Sequence[Extent], found: Mapping[Key, int], late_start: str) -> dict[Key, int]:
    """Return the offset that each partition begins at.

    `found` has, for a bound that is a time, the first offset at or after it; behind the last message where there is
    none. What that means `late_start` says.
    """
    if bound.time_ms is not None or bound.times_ms is not None:
        for extent in extents:
            if found[extent.key] >= extent.end and late_start == "error":
                raise Refused(
                    f"no message of {extent.topic}/{extent.partition} is as late as the starting time; with"
                    " startingOffsetsByTimestampStrategy=latest such a partition begins at its end"
                )
        return {extent.key: min(extent.end, found[extent.key]) for extent in extents}
    return _offsets("startingOffsets", bound, extents)


def finish(bound: Bound, extents: Sequence[Extent], found: Mapping[Key, int]) -> dict[Key, int]:
    """Return the offset that each partition ends at, exclusive. A time behind the last message is the end."""
    if bound.time_ms is not None or bound.times_ms is not None:
        return {extent.key: min(extent.end, found[extent.key]) for extent in extents}
    return _offsets("endingOffsets", bound, extents)


def times(bound: Bound | None, which: str, extents: Sequence[Extent]) -> dict[Key, int]:
    """Return the times that have to be looked up for a bound, in milliseconds."""
    if bound is None:
        return {}
    if bound.time_ms is not None:
        return {extent.key: bound.time_ms for extent in extents}
    if bound.times_ms is None:
        return {}
    _check_all(f"{which}OffsetsByTimestamp", bound.times_ms, extents)
    return {extent.key: bound.times_ms[extent.topic][extent.partition] for extent in extents}


def _offsets(name: str, bound: Bound, extents: Sequence[Extent]) -> dict[Key, int]:
    if bound.offsets is None:
        return {extent.key: extent.start if bound.everywhere == EARLIEST else extent.end for extent in extents}
    _check_all(name, bound.offsets, extents)
    places = {}
    for extent in extents:
        asked = bound.offsets[extent.topic][extent.partition]
        places[extent.key] = {EARLIEST: extent.start, LATEST: extent.end}.get(asked, asked)
    return places


def _check_all(name: str, given: PerPartition, extents: Sequence[Extent]) -> None:
    """Refuse numbers that are not for exactly the partitions that are read."""
    wanted = {extent.key for extent in extents}
    have = {(topic, partition) for topic, numbers in given.items() for partition in numbers}
    if have != wanted:
        (topic, partition) = min(wanted ^ have)
        said = "lacks" if (topic, partition) in wanted else "has"
        raise Refused(
            f"{name} {said} partition {partition} of {topic!r}; it has a number for each partition that is read,"
            " where -2 is earliest and -1 is latest"
        )
