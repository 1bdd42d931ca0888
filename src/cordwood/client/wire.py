"""The way from lanes to the broker: one connection, requests in order, answers in the same order.

    lanes ──▶ send … send ──▶ broker         at most WINDOW under way
          ◀── land … land ◀──

All requests are on one wire, so the broker sees those of a lane in the order of their numbers.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from cordwood.client.connection import Connection
from cordwood.client.endpoint import Endpoint
from cordwood.client.lane import Lane
from cordwood.client.reply import Reply
from cordwood.client.retry import Backoff
from cordwood.client.shipment import Shipment

WINDOW = 8  # requests under way: the broker holds the next ones while a sync runs
WINDOW_BYTES = 16 << 20
ARROW = "application/vnd.apache.arrow.stream"


class Wire:
    """Carries the parcels of all lanes. After a failure it waits, and connects again when it is next used."""

    def __init__(self, endpoint: Endpoint, topic: str, producer_id: str, timeout_s: float, backoff: Backoff):
        self.loaded: dict[Lane, None] = {}  # the lanes that have parcels, whoever's turn it is first
        self.not_before = 0.0
        self.connection: Connection | None = None
        self._endpoint = endpoint
        self._target = f"/v1/produce?topic={quote(topic, safe='')}&producer_id={quote(producer_id, safe='')}"
        self._timeout_s = timeout_s
        self._backoff = backoff
        self._under_way: deque[Shipment] = deque()
        self._bytes = 0
        self._since = 0.0  # when the broker was last heard of, or had nothing to answer
        self._failures = 0

    @property
    def under_way(self) -> int:
        """How many requests are."""
        return len(self._under_way)

    @property
    def full(self) -> bool:
        """Whether as much is under way as may be."""
        return len(self._under_way) >= WINDOW or self._bytes >= WINDOW_BYTES

    @property
    def deadline(self) -> float:
        """When the next answer is overdue."""
        return self._since + self._timeout_s

    def send(self, now: float) -> None:
        """Send what the lanes have ready. Raises OSError, after which `fail` it."""
        if now < self.not_before:
            return
        for lane in [lane for lane in self.loaded if not lane.queue]:
            del self.loaded[lane]
        chosen = self._choose([lane for lane in self.loaded if lane.not_before <= now])
        if not chosen:
            return
        if not self._under_way:
            self._since = now
        self._under_way += chosen
        if self.connection is None:
            self.connection = Connection(self._endpoint, self._timeout_s)
        connection = self.connection
        pieces: list[Any] = []
        for shipment in chosen:
            pieces.append(connection.head("POST", self._target + shipment.numbers, shipment.size, ARROW))
            pieces += shipment.pieces
        connection.send(pieces)

    def _choose(self, lanes: list[Lane]) -> list[Shipment]:
        """Put the lanes' next parcels under way, each lane's in turn, as far as the window goes."""
        chosen: list[Shipment] = []
        while lanes:
            going = []
            for lane in lanes:
                parcel = lane.next()
                if parcel is None:
                    continue
                if not chosen or not chosen[-1].takes(lane, parcel):
                    if chosen and not chosen[-1].size:
                        self._bytes += chosen[-1].encode()
                    if len(self._under_way) + len(chosen) >= WINDOW or self._bytes >= WINDOW_BYTES:
                        break
                    chosen.append(Shipment(lane, parcel))
                lane.sent(parcel)
                going.append(lane)
            if going and len(going) < len(lanes):  # it is the others' turn next
                for lane in going:
                    del self.loaded[lane]
                    self.loaded[lane] = None
            lanes = going
        if chosen and not chosen[-1].size:
            self._bytes += chosen[-1].encode()
        return chosen

    def land(self, now: float, answered: Callable[[Shipment, Reply], None]) -> None:
        """Receive the answers that are there. Raises OSError, after which `fail` it."""
        connection = self.connection
        assert connection is not None, "who has sent is connected"
        while True:
            if not self._under_way:
                raise ConnectionError(
                    "the broker closed it while nothing was under way, or answered what nobody asked"
                )
            reply = connection.receive()
            shipment = self._under_way.popleft()
            self._bytes -= shipment.size
            self._since = now
            self._failures = 0
            answered(shipment, reply)
            if connection.closing:
                raise ConnectionError("the broker closes the connection")
            if not connection.ready:
                return

    def fail(self, now: float) -> None:
        """Give the connection up: whatever was under way may or may not have arrived."""
        self.close()
        lost = bool(self._under_way)
        for lane in self.loaded:  # what is under way is in its lane until it is settled
            lane.lost()
        self._under_way.clear()
        self._bytes = 0
        if lost:
            self._failures += 1
            self.not_before = now + self._backoff.wait_s(self._failures, random.random)

    def close(self) -> None:
        """Close the connection; the next `send` makes a new one."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
