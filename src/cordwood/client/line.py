"""A producer's way to the broker, sent on and waited for: its wire, and the bell that ends a wait for it.

All partitions share one wire. With four of them the broker had twice the work for the same messages: smaller
requests, and more commits.
"""

import logging
import select
import time
from collections.abc import Callable

from cordwood.client.bell import Bell
from cordwood.client.endpoint import Endpoint
from cordwood.client.lane import Lane
from cordwood.client.reply import Reply
from cordwood.client.retry import Backoff
from cordwood.client.shipment import Shipment
from cordwood.client.wire import Wire

log = logging.getLogger("cordwood.client")

_BACKOFF = Backoff(0.1, 5.0)


class Line:
    """The wire of one producer, made new when it breaks."""

    def __init__(self, endpoint: Endpoint, topic: str, producer_id: str, timeout_s: float, bell: Bell):
        self._wire = Wire(endpoint, topic, producer_id, timeout_s, _BACKOFF)
        self._topic = topic
        self._bell = bell
        self._poll = select.epoll()
        self._poll.register(bell, select.EPOLLIN | select.EPOLLET)
        self._watched: int | None = None

    def load(self, lane: Lane) -> None:
        """Take notice that a lane has parcels."""
        self._wire.loaded.setdefault(lane)

    @property
    def loaded(self) -> list[Lane]:
        """The lanes that have parcels; the work of a turn is with these, and not with all there are."""
        return [lane for lane in self._wire.loaded if lane.queue]

    @property
    def under_way(self) -> int:
        """How many requests are."""
        return self._wire.under_way

    def send(self, now: float) -> None:
        """Send what the lanes have ready."""
        try:
            self._wire.send(now)
        except OSError as error:
            self._fail(now, error)

    def next_time(self, until: float) -> float:
        """Return when something is to be done though nothing happens, at the latest `until`."""
        wire = self._wire
        if wire.under_way:
            until = min(until, wire.deadline)
        for lane in wire.loaded:
            if lane.queue and not lane.in_flight:
                until = min(until, lane.queue[0].deadline)
                if not wire.full:  # else an answer comes first
                    until = min(until, max(lane.not_before, wire.not_before))
        return until

    def wait(self, now: float, until: float, answered: Callable[[Shipment, Reply], None]) -> None:
        """Return when answers came, and were taken, or the bell rang, or it is `until`."""
        wire = self._wire
        if wire.connection is not None and self._watched is None:
            self._poll.register(wire.connection, select.EPOLLIN)
            self._watched = wire.connection.fileno()
        found = self._poll.poll(max(0.0, until - now))
        self._bell.sleeping = False
        now = time.monotonic()
        if any(fd == self._watched for fd, _ in found):  # the bell is watched by its edge, so it need not be read
            try:
                wire.land(now, answered)
            except OSError as error:
                self._fail(now, error)
        if wire.under_way and wire.deadline <= now:
            self._fail(now, TimeoutError("no answer in time"))

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()
        self._poll.close()

    def _fail(self, now: float, error: OSError) -> None:
        log.info("the connection for %s broke: %s", self._topic, error)
        if self._watched is not None:
            # Before it is closed: where a forked child has it too, closing alone would not end the watch.
            self._poll.unregister(self._watched)
            self._watched = None
        self._wire.fail(now)
