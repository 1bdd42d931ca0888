"""A round of the tier, step by step: what a thread does, what must be durable before it, what becomes true after it.

    delete             objects that nothing is read from, and those of deleted topics, once a snapshot says so
    a snapshot         if a topic is new
    ship               all that is due, one object after the other
    a snapshot         if something was shipped, or the last one is old
    collect            leftovers, now and then

A round is a generator. It yields `DURABLE` and goes on when all that was written is synced, or a call, which may take
long, and goes on with what that returned or raised. Between two steps the broker does what it likes, and the power
may go. A running broker goes through it with threads (`tiering`), a drill by hand.
"""

import logging
from collections.abc import Callable, Generator
from math import inf
from typing import Any, Final, TypeVar

from cordwood.broker.ledger import Ledger
from cordwood.broker.loading import Load, Read
from cordwood.broker.shipping import Shipping
from cordwood.machine.clock import Clock
from cordwood.machine.objects.store import Objects
from cordwood.settings import Settings
from cordwood.tier import leftovers
from cordwood.tier import state as states
from cordwood.tier.catalogue import Catalogue
from cordwood.tier.ship import adopt, ship

log = logging.getLogger("cordwood.tier")

COLLECT_MS = 3_600_000  # how often leftovers are looked for
T = TypeVar("T")


class Durable:
    """Go on when all that was written is synced."""


DURABLE: Final = Durable()
Step = Callable[[], Any] | Durable
Steps = Generator[Step, Any, T]


class Rounds:
    """The rounds of one broker under one claim. `read` reads the journal, from any thread.

    `collects` is false when the journal may have forgotten objects that hold messages: then none is a leftover.
    """

    def __init__(
        self,
        ledger: Ledger,
        shipping: Shipping,
        settings: Settings,
        clock: Clock,
        objects: Objects,
        catalogue: Catalogue,
        read: Read,
        *,
        collects: bool = True,
    ):
        self.closing = False  # nothing more is shipped then
        self.spared: set[str] = set()  # objects that somebody is about to make count
        self.condemned: frozenset[str] = frozenset()  # leftovers that are being deleted
        self._ledger = ledger
        self._shipping = shipping
        self._settings = settings
        self._clock = clock
        self._objects = objects
        self._catalogue = catalogue
        self._read = read
        self.adopted = 0  # objects of which only the answer was lost
        self._uncertain: set[tuple[str, int]] = set()  # partitions of which an object may be there that nobody knows
        self._marked = -1  # the LSN of the last snapshot in the store
        self._marked_at_ms = clock.monotonic_ms()
        self._collect_at_ms: float = self._marked_at_ms if collects else inf

    def round(self, *, everything: bool = False) -> Steps[None]:
        """Do all that is due now; with `everything`, without waiting for enough messages."""
        yield from self._clear(self._shipping.doomed(), self._shipping.graves())
        if self._shipping.unnamed:
            yield from self.put_snapshot()
        shipped = False
        interval_ms = self._settings.tier_interval_s * 1000
        until = self._clock.monotonic_ms() + interval_ms  # then a snapshot is wanted, however much there is to ship
        while not self.closing and (load := self._shipping.next(everything=everything)) is not None:
            yield from self._ship(load)
            shipped = True
            if self._clock.monotonic_ms() >= until:
                break
        now = self._clock.monotonic_ms()
        if shipped or (now - self._marked_at_ms >= interval_ms and self._ledger.end > self._marked):
            yield from self.put_snapshot()
        if now >= self._collect_at_ms:
            self._collect_at_ms = now + COLLECT_MS
            gone = yield from self.collect()
            if gone:
                log.info("%d objects that nothing is read from were deleted", len(gone))

    def put_snapshot(self, *, clean: bool = False) -> Steps[None]:
        """Put what is true now into the store, once it is durable."""
        end = self._ledger.end
        captured = self._ledger.snapshot()
        state = self._ledger.state
        named = {topic.id for topic in state.topics.values()}
        over = state.doomed.keys() | state.graves.keys()
        yield DURABLE
        mark = states.Mark(self._shipping.epoch, end, clean)
        yield lambda: states.put(self._objects, mark, states.encode(captured.parts))
        self._shipping.named, self._shipping.over = named, over
        self._marked, self._marked_at_ms = end, self._clock.monotonic_ms()

    def _clear(self, doomed: list[str], graves: list[tuple[str, str]]) -> Steps[None]:
        """Delete what nothing is read from: the last snapshot in the store says so, too."""
        if doomed:
            yield lambda: leftovers.delete(self._objects, self._catalogue, doomed)
            self._shipping.deleted(doomed)
        for topic, topic_id in graves:
            yield self._burial(topic, topic_id)
            self._shipping.buried(topic, topic_id)

    def _burial(self, topic: str, topic_id: str) -> Step:
        return lambda: leftovers.bury(self._objects, self._catalogue, topic, topic_id)

    def _ship(self, load: Load) -> Steps[None]:
        freight = load.freight
        place = (freight.topic_id, freight.partition)
        if self._settings.sync == "never":
            yield DURABLE  # what is shown may be lost, and what is in the tier never is
        found = None
        if place in self._uncertain:
            found = yield lambda: adopt(self._objects, self._catalogue, freight)
            self.adopted += found is not None
        if found is None:
            self._uncertain.add(place)
            found = yield lambda: ship(self._objects, self._catalogue, freight, load.rows(self._read))
        wanted = self._shipping.stored(found)
        self._uncertain.discard(place)
        if not wanted:
            yield lambda: leftovers.delete(self._objects, self._catalogue, [found.descriptor.name])

    def collect(self) -> Steps[list[str]]:
        """Delete the objects of earlier epochs that nobody reads from; return their names.

        What is to go is decided in one moment: whoever wants one of them then must put it again.
        """
        found = yield lambda: leftovers.before(self._objects, self._shipping.epoch)
        gone = [name for name in self._shipping.unread(found) if name not in self.spared]
        self.condemned = frozenset(gone)
        try:
            for start in range(0, len(gone), leftovers.AT_ONCE):
                yield self._deletion(gone[start : start + leftovers.AT_ONCE])
        finally:
            self.condemned = frozenset()
        return gone

    def _deletion(self, names: list[str]) -> Step:
        return lambda: leftovers.delete(self._objects, self._catalogue, names)
