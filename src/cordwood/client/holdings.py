"""What a consumer has on lease, and what of it is done. Pure; the consumer guards it with a lock.

    arrive ──▶ queued ──▶ out ──▶ acking ──▶ confirmed
               fetched    with    the application has    the broker has said so,
               ahead      the     acknowledged it        since a lease request began that is still under way
                          application

A message is handed to the application once. After the broker was restarted it has forgotten the leases and may
deliver again what is still here, or what was acknowledged while it was away; so what arrives is compared with all
four. `confirmed` is among them because an answer to a lease may have been under way while the acknowledgement was;
each request that is under way has its own, because the answer to a later one may rightly bring such a message again.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice

from cordwood.client.ranges import Range, Ranges


class Holdings:
    """The offsets of each partition, each in at most one of `queued`, `out`, `acking`."""

    def __init__(self) -> None:
        self.queued: dict[int, Ranges] = {}
        self.out: dict[int, Ranges] = {}
        self.acking: dict[int, Ranges] = {}
        self.confirmed: deque[dict[int, Ranges]] = deque()  # of each request under way, the oldest first

    def asking(self) -> None:
        """A lease request begins: what is confirmed by now, its answer cannot hold."""
        self.confirmed.append({})

    def answered(self) -> None:
        """The oldest request is over: all that its answer brought has arrived."""
        self.confirmed.popleft()

    def arrive(self, partition: int, ranges: Iterable[Range]) -> list[Range]:
        """Take what the oldest request leased; return what of it is new and is now queued."""
        new = Ranges(ranges)
        for first, end in list(new):
            for kind in (self.queued, self.out, self.acking, *islice(self.confirmed, 1)):
                if partition in kind:
                    for known in kind[partition].within(first, end):
                        new.remove(*known)
        _add(self.queued, partition, new)
        return list(new)

    def hand(self, partition: int, ranges: Iterable[Range]) -> list[Range]:
        """Move what is queued to the application; return what of it was still queued."""
        queued = self.queued.get(partition, Ranges())
        moved = [known for first, end in ranges for known in queued.within(first, end)]
        _remove(self.queued, partition, moved)
        _add(self.out, partition, moved)
        return moved

    def ack(self, partition: int, ranges: Iterable[Range]) -> None:
        """The application is done with these."""
        ranges = list(ranges)
        _remove(self.out, partition, ranges)
        _add(self.acking, partition, ranges)

    def confirm(self, partition: int, ranges: Iterable[Range]) -> None:
        """The broker has marked these as done."""
        ranges = list(ranges)
        _remove(self.acking, partition, ranges)
        for confirmed in self.confirmed:
            _add(confirmed, partition, ranges)

    def drop(self, partition: int, ranges: Iterable[Range]) -> None:
        """These are no longer ours: given back, failed, or with another consumer."""
        ranges = list(ranges)
        for kind in (self.queued, self.out, self.acking):
            _remove(kind, partition, ranges)

    def drop_queued(self, partition: int, ranges: Iterable[Range]) -> None:
        """These are no longer ours, as far as the application does not have them."""
        _remove(self.queued, partition, ranges)

    def is_out(self, partition: int, ranges: Iterable[Range]) -> bool:
        """Say whether the application still has some of these."""
        out = self.out.get(partition)
        return out is not None and any(out.within(first, end) for first, end in ranges)

    def held(self) -> dict[int, list[Range]]:
        """Return what is on lease and not done, for each partition."""
        found: dict[int, Ranges] = {}
        for kind in (self.queued, self.out):
            for partition, ranges in kind.items():
                _add(found, partition, ranges)
        return {partition: list(ranges) for partition, ranges in found.items() if ranges}


def _add(kind: dict[int, Ranges], partition: int, ranges: Iterable[Range]) -> None:
    there = kind.setdefault(partition, Ranges())
    for first, end in ranges:
        there.add(first, end)


def _remove(kind: dict[int, Ranges], partition: int, ranges: Iterable[Range]) -> None:
    there = kind.get(partition)
    if there is not None:
        for first, end in ranges:
            there.remove(first, end)
