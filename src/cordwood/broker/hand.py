"""What a group has in its hands of one partition: which messages are out, came back, or wait. Lost in a restart.

    floor                          next                    end
      ├── done, out, ready, delayed, stuck ──┤── never looked at ──┤

Each offset from the floor to `next` is in exactly one of those five. `out` is on lease: `leases` says to whom.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from cordwood.broker.ranges import Ranges


class Lease:
    """A run of offsets that went to one consumer together. Of them `left` are still out."""

    __slots__ = ("consumer", "deadline_ms", "end", "first", "handed", "left", "owner")

    def __init__(self, first: int, end: int, owner: str, consumer: Any, deadline_ms: int, left: int):
        self.first = first
        self.end = end
        self.owner = owner
        self.consumer = consumer
        self.deadline_ms = deadline_ms
        self.left = left
        self.handed = False  # whether it has left for its consumer


class Hand:
    """One partition of a group, while the broker runs."""

    __slots__ = ("_firsts", "_leases", "alarm_ms", "delayed", "next", "out", "ready", "stuck")

    def __init__(self, floor: int):
        self.next = floor
        self.alarm_ms: int | None = None  # when it is looked at for leases that ran out
        self.out = Ranges()
        self.ready = Ranges()
        self.delayed = Ranges()
        self.stuck = Ranges()  # given up, and kept because the group says "block"
        self._firsts: list[int] = []
        self._leases: list[Lease] = []

    def lend(self, first: int, end: int, owner: str, consumer: Any, deadline_ms: int) -> Lease:
        """Note that these offsets, which are in no other hands, are out."""
        lease = Lease(first, end, owner, consumer, deadline_ms, end - first)
        new = self.out.add(first, end)
        assert new == end - first, "an offset is out once"
        at = bisect_left(self._firsts, first)
        self._firsts.insert(at, first)
        self._leases.insert(at, lease)
        return lease

    def leases(self, first: int = 0, end: int = 1 << 62) -> Iterator[Lease]:
        """Yield the leases that overlap [first, end), lowest first."""
        at = max(0, bisect_right(self._firsts, first) - 1)
        while at < len(self._leases) and self._firsts[at] < end:
            if self._leases[at].end > first:
                yield self._leases[at]
            at += 1

    def held(self, first: int, end: int) -> Iterator[tuple[int, int, Lease]]:
        """Yield what is out of [first, end), with its lease."""
        if self.out:
            for lease in self.leases(first, end):
                for start, stop in self.out.within(max(first, lease.first), min(end, lease.end)):
                    yield start, stop, lease

    def finish(self, first: int, end: int) -> None:
        """Take [first, end), which is done, out of whatever hands it is in."""
        for start, stop, lease in list(self.held(first, end)):
            lease.left -= self.out.remove(start, stop)
            if not lease.left:
                self._drop(lease)
        for ranges in (self.ready, self.delayed, self.stuck):
            if ranges:
                ranges.remove(first, end)

    def take_back(self, first: int, end: int) -> list[tuple[int, int]]:
        """End the leases of [first, end) and return what was out; it is in no hands then."""
        back: list[tuple[int, int]] = []
        for lease in list(self.leases(first, end)):
            start, stop = max(first, lease.first), min(end, lease.end)
            pieces = list(self.out.within(start, stop))
            back += pieces
            self.out.remove(start, stop)
            self._drop(lease)
            # What is left of it goes on as a lease of its own: one lease must not span what another one may get.
            for low, high in ((lease.first, start), (stop, lease.end)):
                left = sum(b - a for a, b in self.out.within(low, high)) if low < high else 0
                if left:
                    at = bisect_left(self._firsts, low)
                    self._firsts.insert(at, low)
                    rest = Lease(low, high, lease.owner, lease.consumer, lease.deadline_ms, left)
                    rest.handed = lease.handed
                    self._leases.insert(at, rest)
        return back

    def extend(self, first: int, end: int, deadline_ms: int) -> list[Lease]:
        """Give what is out of [first, end) this deadline; return the leases that have it now."""
        changed = []
        for lease in list(self.leases(first, end)):
            start, stop = max(first, lease.first), min(end, lease.end)
            if (start, stop) != (lease.first, lease.end):
                pieces = self.take_back(start, stop)
                for low, high in pieces:
                    again = self.lend(low, high, lease.owner, lease.consumer, deadline_ms)
                    again.handed = lease.handed
                    changed.append(again)
            else:
                lease.deadline_ms = deadline_ms
                changed.append(lease)
        return changed

    def overdue(self, now_ms: int) -> tuple[list[Lease], int | None]:
        """Return the leases whose time is over, and when the next one's will be."""
        due = [lease for lease in self._leases if lease.deadline_ms <= now_ms]
        later = (lease.deadline_ms for lease in self._leases if lease.deadline_ms > now_ms)
        return due, min(later, default=None)

    def _drop(self, lease: Lease) -> None:
        at = bisect_left(self._firsts, lease.first)
        assert self._leases[at] is lease, "a lease is in its place"
        del self._firsts[at], self._leases[at]
