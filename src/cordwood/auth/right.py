"""Rights: what may be done, and with which topics.

    grant              covers                                          does not cover
    produce orders     orders, orders-eu, orders/eu, dlq.orders        order, reorders
    consume orders/    orders/eu, dlq.orders/eu                        orders
    consume dlq.       dlq.orders, every dead letter                   orders
    admin   (empty)    everything

Admin of a topic may do all else with it, too. Dead letters belong to the topic they came from: a prefix that ends
within `dlq.`, such as `d`, means topics like `data`, and nobody's dead letters.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

DEAD = "dlq."


class Right(StrEnum):
    """What may be done with a topic."""

    PRODUCE = "produce"
    CONSUME = "consume"
    ADMIN = "admin"

    __hash__ = str.__hash__  # an Enum's own is Python code, and each request asks for a right by it


class Grant(NamedTuple):
    """A right for all topics whose names begin like this; an empty prefix is for all, and for the broker itself."""

    right: Right
    prefix: str

    def __str__(self) -> str:
        return f"{self.right}:{self.prefix or '*'}"


class Access:
    """All that the grants of one token allow together; made once, asked for every request."""

    __slots__ = ("_covered", "everywhere", "somewhere")

    def __init__(self, grants: Iterable[Grant]):
        grants = tuple(grants)
        everything = [grant.prefix for grant in grants if grant.right is Right.ADMIN]
        self._covered: dict[Right | None, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        for right in Right:
            prefixes = {*everything, *(grant.prefix for grant in grants if grant.right is right)}
            self._covered[right] = _two(prefixes)
        self._covered[None] = _two({grant.prefix for grant in grants})
        self.everywhere = frozenset(right for right in Right if "" in self._covered[right][0])
        self.somewhere = frozenset(right for right in Right if self._covered[right][0])

    def may(self, right: Right | None, topic: str) -> bool:
        """Say whether this may be done with a topic; None asks whether anything may."""
        prefixes, dead = self._covered[right]
        while topic.startswith(DEAD):
            if topic.startswith(dead):
                return True
            topic = topic[len(DEAD) :]
        return topic.startswith(prefixes)


def _two(prefixes: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return all prefixes, and those that are meant for dead letters."""
    return tuple(sorted(prefixes)), tuple(sorted(prefix for prefix in prefixes if prefix.startswith(DEAD)))
