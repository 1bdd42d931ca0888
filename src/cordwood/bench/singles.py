"""Callers who each have one request under way, over bare sockets: what is measured is the server, not a client.

    caller     ──request──▶ server ──reply──▶ count, next request

A reply rule looks at the bytes received so far and says whether a whole reply is there: True, or False to wait. It
raises Refused for a reply that is not the one wanted.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import cast

from cordwood.bench.load import Clock, Load
from cordwood.bench.loop import event_loop

Rule = Callable[[bytes], bool]


class Refused(Exception):
    """The server said no; the text is its reply."""


def resp_reply(data: bytes) -> bool:
    """Return whether this is a whole bulk string of Redis."""
    if not data.startswith(b"$"):
        raise Refused(data.decode(errors="replace"))
    return data.endswith(b"\r\n") and data.count(b"\r\n") == 2


def http_reply(data: bytes) -> bool:
    """Return whether this is a whole 200 with a Content-Length."""
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return False
    if not data.startswith(b"HTTP/1.1 200 "):
        raise Refused(data.decode(errors="replace"))
    field = data[:head].lower().find(b"\r\ncontent-length:")
    if field < 0:
        raise Refused("a reply without Content-Length")
    length = int(data[field + 17 : head].split(b"\r\n", 1)[0])
    return len(data) - head - 4 >= length


def run(port: int, requests: Sequence[bytes], rule: Rule, load: Load, callers: int) -> Clock:
    """Call for as long as the load says, and return the clock with the number of replies."""
    with event_loop() as runner:
        return runner.run(_run(port, requests, rule, load, callers))


async def _run(port: int, requests: Sequence[bytes], rule: Rule, load: Load, callers: int) -> Clock:
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(lambda: _Caller(rule), "127.0.0.1", port) for _ in range(callers)]
    clock = Clock(load)
    for place, (_, caller) in enumerate(made):
        caller.call(requests[place % len(requests) :: callers] or requests, clock)
    await asyncio.gather(*(caller.done for _, caller in made))
    for transport, _ in made:
        transport.close()
    return clock


class _Caller(asyncio.Protocol):
    def __init__(self, rule: Rule):
        self._rule = rule
        self._received = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def call(self, requests: Sequence[bytes], clock: Clock) -> None:
        self._requests, self._clock, self._next = requests, clock, 0
        self._send()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is one in all but its name

    def data_received(self, data: bytes) -> None:
        self._received = data = self._received + data if self._received else data
        try:
            if not self._rule(data):
                return
        except Refused as error:
            self.done.set_exception(error)
            return
        self._received = b""
        if self._clock.goes_on(1):
            self._send()
        else:
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionResetError("the server closed the connection"))

    def _send(self) -> None:
        self._transport.write(self._requests[self._next])
        self._next = (self._next + 1) % len(self._requests)


def times(port: int, requests: Sequence[bytes], rule: Rule, count: int) -> list[float]:
    """Return the seconds of each of `count` requests of one caller, who blocks."""
    found = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(count):
            request = requests[place % len(requests)]
            began = perf_counter()
            connection.sendall(request)
            data = connection.recv(65536)
            while not rule(data):
                more = connection.recv(65536)
                if not more:
                    raise ConnectionResetError("the server closed the connection")
                data += more
            found.append(perf_counter() - began)
    return found
