"""One client: its requests are answered in the order they came.

    waits for           at most                  then
    a head, a body      head_s, body_s           408, close
    the next request    idle_s                   close
    the reader          send_s without a byte    cut
    a handler           no limit here            it has its own

Every wait is a deadline that the listener's tick compares; no timer is made per request. While as much is under way
as may be (see `exchange`), what comes behind it is held, unread.

An end of file is taken for going away: a consumer that was killed looks the same as one that only stopped
sending, and its leases matter more.
"""

import asyncio
from math import inf
from typing import cast

from cordwood.http.exchange import Exchange, Handle
from cordwood.http.limits import Limits
from cordwood.http.occupancy import Occupancy
from cordwood.http.parser import HEAD, IDLE, Parser, Screen
from cordwood.http.refusal import Refusal
from cordwood.http.response import CLOSES, encode_head

HELD_BYTES = 64 << 10  # enough to go on reading, and so to notice the end, behind a client that pipelines a little


class Connection(asyncio.BufferedProtocol):
    """Reads requests, has them answered in order, and ends when either side wants it or time is up."""

    def __init__(self, handle: Handle, limits: Limits, occupancy: Occupancy, screen: Screen | None = None):
        self._limits = limits
        self._occupancy = occupancy
        self._loop = asyncio.get_running_loop()
        self._parser = Parser(limits, occupancy, screen)
        self._exchange = Exchange(handle, occupancy, self._ended)
        self._turns = 0  # of the parser, when the deadline was last set
        self._deadline = self._loop.time() + limits.head_s
        self._held = bytearray()
        self._reading = True
        self._writable = True
        self._unsent_bytes = 0  # when last looked at, while the reader is slow
        self._last = False  # the last answer was given; whatever comes is thrown away
        self._lost = False

    # The event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._exchange.transport = cast(asyncio.Transport, transport)
        self._occupancy.enter(self)
        if self._occupancy.crowded or self._occupancy.stopping:
            self._last = True
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        peer = transport.get_extra_info("peername")
        self._parser.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "local"
        if self._occupancy.full:
            self._refuse(Refusal(503, f"All {self._limits.max_connections} connections are taken; try again later."))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go: a large body to where it stays, all else through what everybody shares."""
        return self._parser.wants or self._occupancy.buffer

    def buffer_updated(self, count: int) -> None:
        if self._last:
            return
        if self._parser.wants is not None:
            self._parser.received(count)
            if self._parser.ready and not self._exchange.full:
                self._serve()
            return
        data = bytes(self._occupancy.buffer[:count])
        if self._writable and not self._exchange.full:
            self._parser.feed(data)
            self._serve()
        else:
            self._held += data
            if self._reading and len(self._held) > HELD_BYTES:
                self._reading = False
                self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._exchange.abandon()
        self._close()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._last = self._lost = True
        self._exchange.abandon()
        self._parser.close()
        if not self._exchange.runs_ours:
            self._occupancy.leave(self)

    def pause_writing(self) -> None:
        self._writable = False
        if self._exchange.stream is not None:
            self._exchange.stream.pause()
        else:
            self._watch_the_reader()

    def resume_writing(self) -> None:
        self._writable = True
        if self._exchange.stream is not None:
            self._exchange.stream.resume()
        elif not self._last:
            self._turns = -1  # the time for the next request begins only now
            self._serve()

    # The listener calls.

    def tick(self, now: float) -> None:
        """Close or cut the connection if it waited too long for the client."""
        if now < self._deadline:
            return
        if self._last or not self._writable:
            unsent_bytes = self._transport.get_write_buffer_size()
            if 0 < unsent_bytes < self._unsent_bytes:  # slow, but reading
                self._watch_the_reader()
            else:
                self._transport.abort()
        elif self._parser.phase is IDLE:
            self._close()
        else:
            part = "head" if self._parser.phase is HEAD else "body"
            refusal = Refusal(408, f"The {part} of the request took too long to arrive.")
            if self._exchange.idle:
                self._refuse(refusal)
            else:  # the answers before it come first
                self._parser.refuse(refusal)
                self._deadline = inf

    def finish(self) -> None:
        """End soon: at once when idle, else with the answer to the request under way."""
        if self._exchange.stream is not None:
            self._exchange.stream.ending.set()
        elif self._exchange.idle and (self._last or self._parser.phase is IDLE):
            self._close()

    def cut(self) -> None:
        """End now, whatever is under way."""
        self._transport.abort()

    # Answering.

    def _serve(self) -> None:
        """Answer all that can be answered now, then set the time for what is awaited next."""
        parser, exchange = self._parser, self._exchange
        ready = parser.ready
        while True:
            while ready and self._writable and not exchange.full:
                exchange.start(ready.popleft())
                if exchange.idle and not exchange.stays:
                    self._close()
                    return
            if exchange.full:
                self._deadline = inf
                return
            if not self._writable:
                return
            if parser.refusal is not None:
                if exchange.idle:
                    self._refuse(parser.refusal)
                else:
                    self._deadline = inf  # the answers before it come first
                return
            if not self._held:
                break
            held, self._held = bytes(self._held), bytearray()
            parser.feed(held)
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()
        if parser.continue_due and exchange.idle:
            parser.continue_due = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if parser.phase is IDLE and not exchange.idle:
            self._turns, self._deadline = -1, inf
        elif parser.turns != self._turns:
            self._turns = parser.turns
            phase, limits = parser.phase, self._limits
            wait_s = limits.idle_s if phase is IDLE else limits.head_s if phase is HEAD else limits.body_s
            self._deadline = self._loop.time() + wait_s

    def _ended(self) -> None:
        """What was under way is over."""
        if self._lost:
            self._occupancy.leave(self)
        elif self._last:
            return
        elif not self._exchange.stays:
            self._close()
        else:
            self._turns = -1
            if not self._writable:
                self._watch_the_reader()  # until now it was a stream's, which may be as slow as it likes
            self._serve()

    # Ending.

    def _refuse(self, refusal: Refusal) -> None:
        """Answer with an error and take nothing more.

        The connection stays a moment, reading: to close with bytes unread would reset it, and the client might
        never see why.
        """
        response = refusal.response()
        assert not isinstance(response.body, tuple), "a refusal is short"
        self._transport.write(b"".join((encode_head(response, CLOSES), response.body)))
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._last = True
        self._parser.close()
        self._deadline = self._loop.time() + self._limits.linger_s

    def _close(self) -> None:
        """Close after what was written is sent."""
        self._last = True
        self._watch_the_reader()
        self._transport.close()

    def _watch_the_reader(self) -> None:
        self._unsent_bytes = self._transport.get_write_buffer_size()
        self._deadline = self._loop.time() + self._limits.send_s
