"""An answer that is sent piece by piece, for as long as both sides want it.

handler returns Stream(run) ──▶ head sent at once ──▶ run(stream): send, send, … ──▶ last chunk
                                                      peer went away: `closed`, and send raises Gone
                                                      server stops:   `ending`; run should return soon
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from cordwood.http.response import Body, Headers

log = logging.getLogger("cordwood.http")

# A peer that reads as fast as we write must not keep the loop from everybody else.
TURN_BYTES = 256 << 10


class Gone(ConnectionError):
    """The peer of a stream went away; what was sent last may not have arrived."""


class Barred(Exception):
    """Whoever opened a stream may not have more of it, or does not take it."""


class Stream:
    """An open-ended answer: `run(stream)` sends its body, and returns when there is no more.

    `closed` is set once nothing more can be sent, for whatever reason; `when_closed` calls at that moment.
    If the peer goes away while `run` waits in `send`, that raises Gone; if it waits elsewhere, `run` is cancelled.
    `ending` is set when the server wants to stop, or when `bar` says that nothing more may be sent.
    """

    def __init__(
        self,
        run: Callable[["Stream"], Awaitable[None]],
        *,
        status: int = 200,
        content_type: str = "application/x-ndjson",
        headers: Headers = (),
    ):
        self.run = run
        self.status = status
        self.content_type = content_type
        self.headers = headers
        self.ending = asyncio.Event()
        self.closed = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._room = asyncio.Event()
        self._room.set()
        self._waiting = 0
        self._barred = False
        self._turn_bytes = 0
        self._transport: asyncio.WriteTransport | None = None
        self.chunked = True

    async def send(self, *pieces: Body) -> None:
        """Hand pieces over together, after waiting while the peer is too far behind. Raises Gone when it went away.

        They are not copied: a buffer that was sent must not be written to again.
        """
        if self._turn_bytes >= TURN_BYTES:
            self._turn_bytes = 0
            await self._wait(asyncio.sleep(0))
        while not self._room.is_set():
            await self._wait(self._room.wait())
        if self.closed.is_set() or self._transport is None:
            raise Gone("the stream is closed")
        if self._barred:
            raise Barred("no more of this may be sent")
        size = sum(map(len, pieces))
        if not size:
            return  # an empty chunk would mean the end
        self._turn_bytes += size
        if self.chunked:
            self._transport.writelines((b"%x\r\n" % size, *pieces, b"\r\n"))
        else:
            self._transport.writelines(pieces)

    async def _wait(self, something: Awaitable[object]) -> None:
        self._waiting += 1
        try:
            await something
        finally:
            self._waiting -= 1

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the stream is closed; at once if it is."""
        if self.closed.is_set():
            callback()
        else:
            self._callbacks.append(callback)

    def bar(self) -> None:
        """Let nothing more be sent: `run` is told to end, and raises Barred if it sends again."""
        self._barred = True
        self.ending.set()
        self._room.set()

    # What follows is for the connection.

    def open(self, transport: asyncio.WriteTransport, *, chunked: bool) -> None:
        """Begin: the head is sent, pieces may follow."""
        assert self._transport is None, "a stream answers one request"
        self._transport = transport
        self.chunked = chunked

    def pause(self) -> None:
        """Make `send` wait."""
        if not self._barred:
            self._room.clear()

    def resume(self) -> None:
        """Let `send` go on."""
        self._room.set()

    def close(self) -> bool:
        """Say that nothing more can be sent; True if that wakes a `send` which will then raise."""
        if not self.closed.is_set():
            self.closed.set()
            self._room.set()
            for callback in self._callbacks:
                try:
                    callback()
                except Exception:  # each owner must hear of it, whatever another's callback does
                    log.exception("a callback of a closed stream failed")
        return self._waiting > 0
