"""Which messages a query can want at all, by its filters on partition, offset and timestamp. Pure.

A filter only narrows what is read; Spark applies all of them to the rows again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from cordwood.spark.extent import Range

_LAST = 1 << 62


@dataclass(frozen=True, slots=True)
class Wanted:
    """Offsets from `start` to `end`, times in microseconds from `since_us` to `until_us`, of these partitions."""

    partitions: frozenset[int] | None = None  # None: all
    start: int = 0
    end: int = _LAST
    since_us: int = -_LAST
    until_us: int = _LAST

    @property
    def timed(self) -> bool:
        """Whether messages can be left out for their time."""
        return self.since_us > -_LAST or self.until_us < _LAST


ALL = Wanted()


def wanted(filters: Iterable[Any]) -> Wanted:
    """Return what is left after these filters, all of which hold; one that says nothing to us changes nothing."""
    found = ALL
    for one in filters:
        kind = type(one).__name__
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) != 1 or not hasattr(one, "value"):
            continue
        if path[0] == "partition":
            found = _partition(found, kind, one.value)
        elif path[0] == "offset":
            low, end = _bounds(kind, one.value)
            found = replace(found, start=max(found.start, low), end=min(found.end, end))
        elif path[0] == "timestamp":
            low, end = _bounds(kind, _us(one.value))
            found = replace(found, since_us=max(found.since_us, low), until_us=min(found.until_us, end))
    return found


def narrow(ranges: Iterable[Range], want: Wanted) -> list[Range]:
    """Return what of these ranges can be wanted, by partition and offset."""
    found = []
    for one in ranges:
        if want.partitions is None or one.partition in want.partitions:
            start, end = max(one.start, want.start), min(one.end, want.end)
            if start < end:
                found.append(one._replace(start=start, end=end))
    return found


def _partition(found: Wanted, kind: str, value: Any) -> Wanted:
    if kind in ("EqualTo", "EqualNullSafe") and type(value) is int:
        chosen = frozenset((value,))
    elif kind == "In" and all(type(one) is int for one in value):
        chosen = frozenset(value)
    else:
        return found
    return replace(found, partitions=chosen if found.partitions is None else found.partitions & chosen)


def _bounds(kind: str, value: Any) -> tuple[int, int]:
    """Return the least that a filter lets through, and what is behind the most."""
    if kind == "In" and value and all(type(one) is int for one in value):
        return min(value), max(value) + 1
    if type(value) is not int:
        return -_LAST, _LAST
    return {
        "EqualTo": (value, value + 1),
        "EqualNullSafe": (value, value + 1),
        "GreaterThan": (value + 1, _LAST),
        "GreaterThanOrEqual": (value, _LAST),
        "LessThan": (-_LAST, value),
        "LessThanOrEqual": (-_LAST, value + 1),
    }.get(kind, (-_LAST, _LAST))


def _us(value: Any) -> Any:
    """Return a time, or several, as microseconds; anything else as it is."""
    if isinstance(value, list | tuple):
        return tuple(map(_us, value))
    if not isinstance(value, datetime) or value.tzinfo is None:
        return value  # a time without a zone would be ours to guess
    return round((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
