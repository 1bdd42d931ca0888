"""A producer's connections, sent on and waited for together.

1st, 5th, 9th lane … ─▶ wire 0      2nd, 6th … ─▶ wire 1      3rd … ─▶ wire 2      4th … ─▶ wire 3
"""

import logging
import select
import time
from collections.abc import Callable
from functools import partial

from cordwood.client.bell import Bell
from cordwood.client.endpoint import Endpoint
from cordwood.client.lane import Lane
from cordwood.client.parcel import Parcel
from cordwood.client.reply import Reply
from cordwood.client.retry import Backoff
from cordwood.client.wire import Wire

log = logging.getLogger("cordwood.client")

MOST_WIRES = 4  # the broker answers one request at a time on each; partitions beyond share
_BACKOFF = Backoff(0.1, 5.0)


class Wires:
    """All wires of one producer, and the bell that ends a wait for them."""

    def __init__(self, endpoint: Endpoint, topic: str, producer_id: str, timeout_s: float, bell: Bell):
        self._new = partial(Wire, endpoint, topic, producer_id, timeout_s, _BACKOFF)
        self._wires: list[Wire] = []
        self._of: dict[Lane, Wire] = {}
        self._topic = topic
        self._bell = bell
        self._poll = select.epoll()
        self._poll.register(bell, select.EPOLLIN | select.EPOLLET)
        self._watched: dict[int, Wire] = {}

    def load(self, lane: Lane) -> None:
        """Take notice that a lane has parcels; it has the same wire for ever."""
        wire = self._of.get(lane)
        if wire is None:
            if len(self._wires) < MOST_WIRES:
                self._wires.append(self._new())
            wire = self._of[lane] = min(self._wires, key=lambda found: found.lanes)
            wire.lanes += 1
        wire.loaded.setdefault(lane)

    @property
    def loaded(self) -> list[Lane]:
        """The lanes that have parcels; the work of a turn is with these, and not with all there are."""
        return [lane for wire in self._wires for lane in wire.loaded if lane.queue]

    @property
    def width(self) -> int:
        """How many connections there are."""
        return len(self._wires)

    @property
    def busy(self) -> bool:
        """Whether the broker owes an answer."""
        return any(wire.busy for wire in self._wires)

    def send(self, now: float) -> None:
        """Send what the lanes have ready."""
        for wire in self._wires:
            try:
                wire.send(now)
            except OSError as error:
                self._fail(wire, now, error)

    def next_time(self, until: float) -> float:
        """Return when something is to be done though nothing happens, at the latest `until`."""
        for wire in self._wires:
            if wire.busy:
                until = min(until, wire.deadline)
            for lane in wire.loaded:
                if lane.queue and not lane.in_flight:
                    until = min(until, lane.queue[0].deadline)
                    if not wire.full:  # else an answer comes first
                        until = min(until, max(lane.not_before, wire.not_before))
        return until

    def wait(self, now: float, until: float, answered: Callable[[Lane, Parcel, Reply], None]) -> None:
        """Return when answers came, and were taken, or the bell rang, or it is `until`."""
        self._watch()
        found = self._poll.poll(max(0.0, until - now))
        self._bell.sleeping = False
        now = time.monotonic()
        for fd, _ in found:
            wire = self._watched.get(fd)
            if wire is None:
                continue  # the bell; it is watched by its edge, so it need not be read
            try:
                wire.land(now, answered)
            except OSError as error:
                self._fail(wire, now, error)
        for wire in self._wires:
            if wire.busy and wire.deadline <= now:
                self._fail(wire, now, TimeoutError("no answer in time"))

    def close(self) -> None:
        """Close all connections."""
        for wire in self._wires:
            wire.close()
        self._poll.close()

    def _watch(self) -> None:
        """Watch every connection that is open."""
        for wire in self._wires:
            if wire.connection is not None and wire not in self._watched.values():
                self._poll.register(wire.connection, select.EPOLLIN)
                self._watched[wire.connection.fileno()] = wire

    def _fail(self, wire: Wire, now: float, error: OSError) -> None:
        log.info("a connection for %s broke: %s", self._topic, error)
        for fd in [fd for fd, watched in self._watched.items() if watched is wire]:
            # Before it is closed: where a forked child has it too, closing alone would not end the watch.
            self._poll.unregister(fd)
            del self._watched[fd]
        wire.fail(now)
