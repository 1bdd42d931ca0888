"""Messages that are only in the tier: fetched by whoever has threads for it, kept for a while, asked for again.

    fetch(place) ── here ──▶ batch
                 └─ not ───▶ raise Away ──▶ bring(what, then) ──▶ …a thread… ──▶ arrived ──▶ then ──▶ fetch(place)

What arrives is kept at least until everybody who waited for it has been called, however little room there is.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from cordwood.broker.index import Place, Tiered
from cordwood.errors import CordwoodError, Unavailable
from cordwood.record import Batch

MOST_TIMES = 10_000


class Group(NamedTuple):
    """A row group of an object: the messages from `first` to `end`."""

    tiered: Tiered
    first: int
    end: int


class Since(NamedTuple):
    """Which is the first message of an object, from an offset on, at or after a time?"""

    tiered: Tiered
    first: int
    time_us: int


Wanted = Group | Since
Then = Callable[[CordwoodError | None], None]
# Called with what is wanted; `arrived` or `failed` comes later, in the broker's own thread.
Ask = Callable[[Wanted], None]


class Away(Exception):
    """Messages are not here; `bring` what is `wanted`, then ask again."""

    def __init__(self, wanted: Wanted):
        super().__init__(wanted)
        self.wanted = wanted


class History:
    """Row groups that were fetched lately, bounded in bytes, and who waits for others."""

    def __init__(self, most_bytes: int):
        self.ask: Ask | None = None  # whoever runs the broker sets it; without it there is no tier
        self.bytes = 0
        self.fetched_bytes = 0
        self._most_bytes = most_bytes
        self._groups: OrderedDict[Group, Batch] = OrderedDict()
        self._times: OrderedDict[Since, int | None] = OrderedDict()
        self._waiting: dict[Wanted, list[Then]] = {}

    def fetch(self, place: Place) -> Batch:
        """Return the messages of a place in the tier, or raise `Away`."""
        assert place.tiered is not None, "a place in the tier has an object"
        wanted = Group(place.tiered, *place.tiered.group(place.first))
        found = self._groups.get(wanted)
        if found is None:
            raise Away(wanted)
        self._groups.move_to_end(wanted)
        return found.slice(place.row, place.length)

    def since(self, tiered: Tiered, first: int, time_us: int) -> int | None:
        """Return the offset of the first message, from `first` on, at or after a time; None, or raise `Away`."""
        wanted = Since(tiered, first, time_us)
        if wanted not in self._times:
            raise Away(wanted)
        return self._times[wanted]

    def bring(self, wanted: Wanted, then: Then) -> None:
        """Have something fetched; `then` gets None when it is here, or why it could not be."""
        if self.ask is None:
            then(Unavailable("the store is not open, so history cannot be read now"))
            return
        if wanted in self._waiting:
            self._waiting[wanted].append(then)
        else:
            self._waiting[wanted] = [then]
            self.ask(wanted)

    def ahead(self, place: Place) -> None:
        """Have messages fetched that a reader is likely to want next; nobody waits for them."""
        if place.tiered is None or self.ask is None:
            return
        wanted = Group(place.tiered, *place.tiered.group(place.first))
        if wanted not in self._groups and wanted not in self._waiting:
            self._waiting[wanted] = []
            self.ask(wanted)

    def arrived(self, wanted: Wanted, found: Any) -> None:
        """Take what was fetched, and tell those who wait for it."""
        if isinstance(wanted, Group):
            self._groups[wanted] = found
            self.bytes += found.nbytes
            self.fetched_bytes += found.nbytes
        else:
            self._times[wanted] = found
            while len(self._times) > MOST_TIMES:
                self._times.popitem(last=False)
        for then in self._waiting.pop(wanted, ()):
            then(None)
        while self.bytes > self._most_bytes and self._groups:
            _, gone = self._groups.popitem(last=False)
            self.bytes -= gone.nbytes

    def failed(self, wanted: Wanted, error: CordwoodError) -> None:
        """Tell those who wait that it cannot be had now."""
        for then in self._waiting.pop(wanted, ()):
            then(error)
