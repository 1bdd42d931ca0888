"""The socket that a server listens on, from start to stop.

start ──▶ accepting ──▶ stop(grace_s) ──▶ nothing new; idle ones closed; streams told to end
                                      ──▶ all have finished, or grace_s is over: the rest is cut
"""

import asyncio
import logging
import os
import socket
import ssl as tls
from collections.abc import Iterable
from typing import Any

from cordwood.http.connection import Connection
from cordwood.http.exchange import Handle
from cordwood.http.handshakes import Handshakes
from cordwood.http.limits import Limits
from cordwood.http.occupancy import Occupancy
from cordwood.http.parser import Screen

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
        screen: Screen | None = None,
    ):
        self._handle = handle
        self._host = host
        self._port = port
        self._sock = sock
        self._ssl = ssl
        self._screen = screen
        self._limits = limits or Limits()
        self._occupancy = Occupancy(self._limits)
        self._server: asyncio.Server | None = None
        self._handshakes: Handshakes | None = None  # instead of a server, where TLS is spoken
        self._timer: asyncio.TimerHandle | None = None
        times = (self._limits.head_s, self._limits.body_s, self._limits.idle_s, self._limits.send_s)
        self._tick_s = min(TICK_S, *(time_s / 4 for time_s in times), self._limits.linger_s / 4)

    async def start(self) -> None:
        """Accept connections from here on. Raises OSError when the address cannot be had."""
        assert self._server is None and self._handshakes is None, "a listener starts once"
        if self._ssl is not None:
            sockets = [self._sock] if self._sock is not None else await _bound(self._host, self._port)
            _keep_alive(sockets)
            self._handshakes = Handshakes(sockets, self._ssl, self._connection, self._limits, self._occupancy)
            self._handshakes.start()
            self._tick()
            return
        loop = asyncio.get_running_loop()
        backlog = self._limits.backlog
        if self._sock is not None:
            self._server = await loop.create_server(self._connection, sock=self._sock, backlog=backlog)
        else:
            self._server = await loop.create_server(self._connection, self._host, self._port, backlog=backlog)
        _keep_alive(self._server.sockets)
        self._tick()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The hosts and ports that it listens on."""
        accepting = self._handshakes or self._server
        assert accepting is not None, "start it first"
        names = (listening.getsockname() for listening in accepting.sockets)
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
    def handshaking(self) -> int:
        """How many were accepted and have not shaken hands yet."""
        return self._occupancy.handshaking

    @property
    def receiving_bytes(self) -> int:
        """How many bytes of large bodies are reserved by requests on their way in."""
        return self._occupancy.receiving_bytes

    async def stop(self, grace_s: float = 10.0) -> None:
        """Return when every connection has ended: finished within `grace_s`, or cut then. May be called again."""
        self._occupancy.stopping = True
        accepting = self._handshakes or self._server
        if accepting is None:
            return
        accepting.close()
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
        return Connection(self._handle, self._limits, self._occupancy, self._screen)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._tick_s, self._tick)
        now = loop.time()
        for connection in tuple(self._occupancy.connections):
            connection.tick(now)


def _keep_alive(sockets: Iterable[Any]) -> None:
    for listening in sockets:
        if listening.family in (socket.AF_INET, socket.AF_INET6):
            for level, option, value in _KEEP_ALIVE:  # those that are accepted inherit it
                listening.setsockopt(level, option, value)


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address that a host has, as the event loop's own server would. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                sock.bind(address)
            except OSError as error:
                raise OSError(
                    error.errno, f"cannot listen on {address[:2]!r}: {os.strerror(error.errno or 0)}"
                ) from None
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets
