"""Who is connected to one listener, and how many bytes of bodies they are sending."""

import asyncio
from typing import TYPE_CHECKING

from cordwood.http.limits import Limits

if TYPE_CHECKING:
    from cordwood.http.connection import Connection

# Connections over the limit that may stay a moment to read their 503; any more are cut without a word.
TURNED_AWAY = 64
RECEIVE_BYTES = 64 << 10  # read at once, where it is not a large body


class Occupancy:
    """Counts what the connections of one listener share.

    Always true: `receiving_bytes` is the sum of what `take` allowed and `give` has not returned.
    """

    def __init__(self, limits: Limits) -> None:
        self.connections: set[Connection] = set()
        self.handshaking = 0  # accepted, and not yet a connection
        self.receiving_bytes = 0
        self.stopping = False
        self.send_s = limits.send_s
        # One for all connections: a loop reads into it and has it taken from it before it reads for another one.
        self.buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.empty = asyncio.Event()
        self.empty.set()
        self._limits = limits

    @property
    def full(self) -> bool:
        """True when the one that entered last is one too many."""
        return len(self.connections) > self._limits.max_connections

    @property
    def crowded(self) -> bool:
        """True when there is not even room to say that it is full."""
        return len(self.connections) + self.handshaking > self._limits.max_connections + TURNED_AWAY

    def enter(self, connection: "Connection") -> None:
        """Count a connection, until it leaves."""
        self.connections.add(connection)
        self.empty.clear()

    def leave(self, connection: "Connection") -> None:
        """Forget a connection that has ended, with all that ran for it."""
        self.connections.discard(connection)
        if not self.connections:
            self.empty.set()

    def take(self, count: int) -> bool:
        """Reserve room for `count` bytes of a body; False, and nothing reserved, when there is none."""
        if self.receiving_bytes + count > self._limits.max_receiving_bytes:
            return False
        self.receiving_bytes += count
        return True

    def give(self, count: int) -> None:
        """Return room that was taken."""
        self.receiving_bytes -= count
        assert self.receiving_bytes >= 0, "more was given back than was taken"
