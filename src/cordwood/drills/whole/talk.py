"""HTTP over a pretended connection: requests out, replies in their order; bytes as a real client sends them."""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from httptools import HttpParserCallbackError, HttpResponseParser

from cordwood.client.reply import Reply
from cordwood.sim.loop import SimLoop
from cordwood.sim.network import Network, Wire

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
TIMEOUT_US = 3_000_000

Got = Callable[[Reply | None], None]  # None: nobody knows what became of it


class Talk:
    """One connection. Requests may be sent behind each other; when it breaks, all that wait are told None."""

    def __init__(self, network: Network, name: str, loop: SimLoop):
        self.open = True
        self._loop = loop
        self._waiting: deque[tuple[Got, Callable[[bytes], None] | None, Any]] = deque()
        self._parser = HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._wire: Wire = network.connect(name, loop, self._receive, self._lost)

    def request(
        self,
        method: str,
        target: str,
        got: Got,
        *,
        body: bytes = b"",
        kind: str = JSON,
        accept: str = JSON,
        piece: Callable[[bytes], None] | None = None,
    ) -> None:
        """Send a request; `got` is called once. With `piece` the body is a stream, handed over as it comes."""
        head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n"
        if body:
            head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        timer = None if piece is not None else self._loop.after_us(TIMEOUT_US, self._overdue)
        self._waiting.append((got, piece, timer))
        self._wire.send(head.encode() + b"\r\n" + body)

    def close(self) -> None:
        """Give up whatever is under way."""
        if self.open:
            self._wire.close()
            self._lost("closed")

    def _overdue(self) -> None:
        self.close()

    def _lost(self, reason: str) -> None:
        self.open = False
        waiting, self._waiting = self._waiting, deque()
        for got, _, timer in waiting:
            if timer is not None:
                timer.cancel()
            got(None)

    def _receive(self, data: bytes) -> None:
        if not self.open:
            return
        try:
            self._parser.feed_data(data)
        except HttpParserCallbackError as error:
            raise error.__context__ or error from None  # what a client found wrong with what came

    # What the parser tells

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        piece = self._waiting[0][1] if self._waiting else None
        if piece is not None and self._parser.get_status_code() == 200:
            piece(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        reply = Reply(self._parser.get_status_code(), self._headers, b"".join(self._body))
        self._headers, self._body = {}, []
        if not self._waiting:
            return  # it was given up while this came
        got, _, timer = self._waiting.popleft()
        if timer is not None:
            timer.cancel()
        got(reply)


class Caller:
    """A client that asks one thing after the other, over connections that it makes again when they break."""

    def __init__(self, network: Network, name: str, loop: SimLoop, random: Random):
        self.name = name
        self.random = random
        self._network = network
        self._loop = loop
        self._talk: Talk | None = None

    async def ask(
        self, method: str, target: str, *, body: bytes = b"", kind: str = JSON, accept: str = JSON
    ) -> Reply | None:
        """Return the reply, or None when nobody knows whether it was done."""
        future = self._loop.create_future()
        if self._talk is None or not self._talk.open or self.random.random() < 0.02:
            self.hang_up()
            self._talk = Talk(self._network, self.name, self._loop)
        self._talk.request(method, target, future.set_result, body=body, kind=kind, accept=accept)
        reply: Reply | None = await future
        return reply

    async def listen(self, target: str, accept: str, piece: Callable[[bytes], None]) -> Reply | None:
        """Receive a stream until it ends; return the reply to it if it was none, and None when it broke."""
        future = self._loop.create_future()
        self.hang_up()
        self._talk = Talk(self._network, self.name, self._loop)
        self._talk.request("GET", target, future.set_result, accept=accept, piece=piece)
        reply: Reply | None = await future
        return reply

    def hang_up(self) -> None:
        """Close the connection."""
        if self._talk is not None:
            self._talk.close()
            self._talk = None

    def sleep_ms(self, duration_ms: float) -> "asyncio.Future[None]":
        """Let time pass."""
        future = self._loop.create_future()
        self._loop.after_us(int(duration_ms * 1000), future.set_result, None)
        return future
