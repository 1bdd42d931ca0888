"""The socket that a server listens on, from start to stop.

start ──▶ accepting ──▶ stop(grace_s) ──▶ nothing new; idle ones closed; streams told to end
                                      ──▶ all have finished, or grace_s is over: the rest is cut
"""

import asyncio
import logging
import socket
import ssl as tls

from cordwood.http.connection import Connection
from cordwood.http.exchange import Handle
from cordwood.http.limits import Limits
from cordwood.http.occupancy import Occupancy

log = logging.getLogger("cordwood.http")

TICK_S = 1.0  # how late a time limit may be noticed, at most
CUT_S = 5.0  # for handlers that were cancelled to clean up behind themselves

# A peer whose machine vanished is noticed after 60 + 4 × 15 s, also when there is nothing to send to it.
_KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 120_000),
)


class Listener:
    """Serves `handle` on host and port (0: a free one), or on a bound socket that it is given and then owns."""

    def __init__(
        self,
        handle: Handle,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        sock: socket.socket | None = None,
        ssl: tls.SSLContext | None = None,
        limits: Limits | None = None,
    ):
        self._handle = handle
        self._host = host
        self._port = port
        self._sock = sock
        self._ssl = ssl
        self._limits = limits or Limits()
        self._occupancy = Occupancy(self._limits)
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        times = (self._limits.head_s, self._limits.body_s, self._limits.idle_s, self._limits.send_s)
        self._tick_s = min(TICK_S, *(time_s / 4 for time_s in times), self._limits.linger_s / 4)

    async def start(self) -> None:
        """Accept connections from here on. Raises OSError when the address cannot be had."""
        assert self._server is None, "a listener starts once"
        loop = asyncio.get_running_loop()
        handshake_s = self._limits.head_s if self._ssl else None
        if self._sock is not None:
            self._server = await loop.create_server(
                self._connection,
                sock=self._sock,
                ssl=self._ssl,
                ssl_handshake_timeout=handshake_s,
                backlog=self._limits.backlog,
            )
        else:
            self._server = await loop.create_server(
                self._connection,
                self._host,
                self._port,
                ssl=self._ssl,
                ssl_handshake_timeout=handshake_s,
                backlog=self._limits.backlog,
            )
        for listening in self._server.sockets:
            if listening.family in (socket.AF_INET, socket.AF_INET6):
                for level, option, value in _KEEP_ALIVE:  # those that are accepted inherit it
                    listening.setsockopt(level, option, value)
        self._tick()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The hosts and ports that it listens on."""
        assert self._server is not None, "start it first"
        names = (listening.getsockname() for listening in self._server.sockets)
        return [(name[0], name[1]) for name in names if isinstance(name, tuple)]

    @property
    def port(self) -> int:
        """The first port that it listens on."""
        return self.addresses[0][1]

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._occupancy.connections)

    @property
    def receiving_bytes(self) -> int:
        """How many bytes of large bodies are reserved by requests on their way in."""
        return self._occupancy.receiving_bytes

    async def stop(self, grace_s: float = 10.0) -> None:
        """Return when every connection has ended: finished within `grace_s`, or cut then. May be called again."""
        self._occupancy.stopping = True
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._occupancy.connections):
            connection.finish()
        if not await self._emptied(grace_s):
            log.warning("%d connections did not finish within %g s and are cut", self.connections, grace_s)
            for connection in tuple(self._occupancy.connections):
                connection.cut()
            if not await self._emptied(CUT_S):
                log.error("%d handlers do not end though they were cancelled", self.connections)
        if self._timer is not None:
            self._timer.cancel()

    async def _emptied(self, within_s: float) -> bool:
        await asyncio.sleep(0)  # what was closed just now has left after one turn of the loop
        if not self._occupancy.connections:
            return True
        try:
            await asyncio.wait_for(self._occupancy.empty.wait(), within_s)
        except TimeoutError:
            return False
        return True

    def _connection(self) -> Connection:
        return Connection(self._handle, self._limits, self._occupancy)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._tick_s, self._tick)
        now = loop.time()
        for connection in tuple(self._occupancy.connections):
            connection.tick(now)
