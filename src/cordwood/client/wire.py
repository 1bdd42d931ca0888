"""The way from lanes to the broker: one connection, requests in order, answers in the same order.

    lanes 0, 4, 8 ──▶ send … send ──▶ broker         at most WINDOW under way
                  ◀── land … land ◀──

A lane has all its requests on one wire, so the broker sees them in the order of their numbers.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from cordwood.client.connection import Connection
from cordwood.client.endpoint import Endpoint
from cordwood.client.lane import Lane
from cordwood.client.parcel import Parcel
from cordwood.client.reply import Reply
from cordwood.client.retry import Backoff

WINDOW = 8  # requests under way: the broker holds the next ones while a sync runs
WINDOW_BYTES = 16 << 20
ARROW = "application/vnd.apache.arrow.stream"


class Wire:
    """Carries the parcels of some lanes. After a failure it waits, and connects again when it is next used."""

    def __init__(self, endpoint: Endpoint, topic: str, producer_id: str, timeout_s: float, backoff: Backoff):
        self.lanes = 0  # how many lanes have it
        self.loaded: dict[Lane, None] = {}  # those of them that have parcels, whoever's turn it is first
        self.not_before = 0.0
        self.connection: Connection | None = None
        self._endpoint = endpoint
        self._target = f"/v1/produce?topic={quote(topic, safe='')}&producer_id={quote(producer_id, safe='')}"
        self._timeout_s = timeout_s
        self._backoff = backoff
        self._under_way: deque[tuple[Lane, Parcel]] = deque()
        self._bytes = 0
        self._since = 0.0  # when the broker was last heard of, or had nothing to answer
        self._failures = 0

    @property
    def busy(self) -> bool:
        """Whether the broker owes an answer."""
        return bool(self._under_way)

    @property
    def full(self) -> bool:
        """Whether as much is under way as may be."""
        return len(self._under_way) >= WINDOW or self._bytes >= WINDOW_BYTES

    @property
    def deadline(self) -> float:
        """When the next answer is overdue."""
        return self._since + self._timeout_s

    def send(self, now: float) -> bool:
        """Send what the lanes have ready; return whether anything was. Raises OSError, after which `fail` it."""
        if now < self.not_before:
            return False
        chosen: list[tuple[Lane, Parcel]] = []
        for lane in tuple(self.loaded):
            if self.full:
                break
            if not lane.queue:
                del self.loaded[lane]
            elif lane.not_before <= now:
                self._choose(lane, chosen)
        if not chosen:
            return False
        if len(chosen) == len(self._under_way):
            self._since = now
        if self.connection is None:
            self.connection = Connection(self._endpoint, self._timeout_s)
        connection = self.connection
        pieces: list[Any] = []
        for _, parcel in chosen:
            numbers = f"&partition={parcel.partition}&epoch={parcel.epoch}&sequence={parcel.sequence}"
            pieces.append(connection.head("POST", self._target + numbers, parcel.size, ARROW))
            pieces += parcel.pieces
        connection.send(pieces)
        return True

    def _choose(self, lane: Lane, chosen: list[tuple[Lane, Parcel]]) -> None:
        """Put a lane's next parcels under way, as far as the window goes; then it is the others' turn."""
        before = len(chosen)
        while not self.full and (parcel := lane.next()) is not None:
            parcel.encode()
            self._bytes += parcel.size
            self._under_way.append((lane, parcel))
            chosen.append((lane, parcel))
        if len(chosen) > before:
            del self.loaded[lane]
            self.loaded[lane] = None

    def land(self, now: float, answered: Callable[[Lane, Parcel, Reply], None]) -> None:
        """Receive the answers that are there. Raises OSError, after which `fail` it."""
        connection = self.connection
        assert connection is not None, "who has sent is connected"
        while True:
            if not self._under_way:
                raise ConnectionError(
                    "the broker closed it while nothing was under way, or answered what nobody asked"
                )
            reply = connection.receive()
            lane, parcel = self._under_way.popleft()
            self._bytes -= parcel.size
            self._since = now
            self._failures = 0
            answered(lane, parcel, reply)
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
