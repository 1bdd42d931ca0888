"""The bytes of one connection turned into requests; no I/O, no clock.

    phase   from                  to                         what is bounded
    IDLE    the end of a request  the first byte of a head
    HEAD                          the empty line             target, headers, bytes without an end in sight
    BODY                          its last byte              announced length, growth, bytes that bring no body

What comes out is in `ready`, in order; after it `refusal`, if the bytes cannot be understood or are too many.
Nothing is read after a refusal: where the next request would begin is not known any more.

A body of announced length that is not small is received where it stays (`wants`, `received`): to have it pass through
httptools would copy it three times.

llhttp, inside httptools, already refuses: NUL and control characters, bad chunks, both Content-Length and
Transfer-Encoding, two Content-Lengths, folded headers, bare line feeds.
"""

from collections import deque
from collections.abc import Callable

import numpy as np
from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from cordwood.http.limits import Limits
from cordwood.http.occupancy import Occupancy
from cordwood.http.refusal import Refusal, busy
from cordwood.http.request import Request

IDLE, HEAD, BODY = "idle", "head", "body"

METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")}
# A second one of these is an attempt to make two readers of one request see different things.
_ONCE = frozenset({b"host", b"content-type", b"content-encoding", b"authorization", b"expect"})


Screen = Callable[[dict[bytes, bytes], str], None]  # (headers, peer): raises Refusal


class Parser:
    """Requests from bytes: `feed`, then take from `ready`, then look at `refusal`.

    `screen` is asked before a body that is not small is received, and may refuse it.

    `turns` counts changes of phase, so that the owner sees progress without being called for it.
    """

    def __init__(self, limits: Limits, occupancy: Occupancy, screen: Screen | None = None):
        self.ready: deque[Request] = deque()
        self.refusal: Refusal | None = None
        self.phase = IDLE
        self.turns = 0
        self.continue_due = False  # the client waits for `100 Continue` before it sends the body
        self._limits = limits
        self._occupancy = occupancy
        self._screen = screen
        self.peer = ""
        self._http = HttpRequestParser(self)
        self._barren_bytes = 0  # fed since the head began or the body last grew, whole reads only
        self._fruitful = False
        self._reserved_bytes = 0
        self._reset()

    def _reset(self) -> None:
        self._method = ""
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._header_count = 0
        self._head_bytes = 0
        self._keep_alive = True
        self._version = "1.1"
        self._chunked = False
        self._upgrade = False
        self._body: bytes | bytearray = b""
        self._room: memoryview | None = None  # for all of a large body
        self._filled = 0

    @property
    def wants(self) -> memoryview | None:
        """Where the next bytes of the connection belong, None when they are to be fed."""
        if self._room is None or self.phase is not BODY or self.refusal is not None:
            return None
        return self._room[self._filled :]

    def received(self, count: int) -> None:
        """Take notice that so many bytes were put into `wants`."""
        assert self._room is not None
        self._filled += count
        self.continue_due = False
        if self._filled == len(self._room):
            self._http = HttpRequestParser(self)  # the old one waits for a body that it will never see
            self.on_message_complete()

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection."""
        while data and self.refusal is None:
            data = self._feed(data)

    def _feed(self, data: bytes) -> bytes:
        """Take bytes; return those that are to be fed after all."""
        self._fruitful = False
        try:
            self._http.feed_data(data)
            # An endless header or trailer would otherwise be collected by httptools, which has no limit.
            if self.phase is not IDLE and not self._fruitful:
                self._barren_bytes += len(data)
                if self._barren_bytes > self._limits.max_head_bytes:
                    raise Refusal(400, f"The head is larger than {self._limits.max_head_bytes} bytes.")
        except HttpParserUpgrade as upgrade:
            return self._without_upgrade() + data[upgrade.args[0] :]
        except HttpParserCallbackError as error:
            if not isinstance(error.__context__, Refusal):
                raise error.__context__ or error from None  # a fault of ours, not of the bytes
            self.refuse(error.__context__)
        except HttpParserError as error:
            self.refuse(Refusal(400, f"This is not HTTP/1.1: {error}."))
        except Refusal as refusal:
            self.refuse(refusal)
        return b""

    def close(self) -> None:
        """Give back what a body that will not be finished had reserved."""
        self._occupancy.give(self._reserved_bytes)
        self._reserved_bytes = 0

    def refuse(self, refusal: Refusal) -> None:
        """Take nothing more; what was whole before this is still answered."""
        self.refusal = refusal
        self.continue_due = False
        self.close()

    def _without_upgrade(self) -> bytes:
        # We speak nothing but HTTP/1.1, so an offer to upgrade is ignored. llhttp would take the body for the other
        # protocol (Java's client offers h2c with every POST), so the head is read again without the offer.
        del self._headers[b"upgrade"]
        lines = [f"{self._method} ".encode() + self._target + f" HTTP/{self._version}".encode()]
        lines += [name + b": " + value for name, value in self._headers.items()]
        self._http = HttpRequestParser(self)
        return b"\r\n".join(lines) + b"\r\n\r\n"

    # From here on httptools calls, while `feed` runs.

    def on_message_begin(self) -> None:
        self.phase = HEAD
        self.turns += 1
        self._fruitful = True
        self._barren_bytes = 0
        self._reset()

    def on_url(self, piece: bytes) -> None:
        self._target = self._target + piece if self._target else piece
        if len(self._target) > self._limits.max_target_bytes:
            raise Refusal(400, f"The target is longer than {self._limits.max_target_bytes} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + 4  # the colon, a space and the line's end
        self._header_count += 1
        if self._header_count > self._limits.max_headers or self._head_bytes > self._limits.max_head_bytes:
            raise Refusal(
                400, f"More than {self._limits.max_headers} headers, or {self._limits.max_head_bytes} bytes of them."
            )
        if self.phase is BODY:
            return  # a trailer: bounded like a header, and of no use to anyone here
        name, value = name.lower(), value.rstrip()
        if name in self._headers:
            if name in _ONCE:
                raise Refusal(400, f"The header {name.decode('latin-1')} comes twice.")
            value = self._headers[name] + b", " + value
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        http, headers = self._http, self._headers
        self.phase = BODY
        self.turns += 1
        method = METHODS.get(http.get_method())
        if method is None:
            raise Refusal(405, "This method is not known here.", headers=(("Allow", ", ".join(METHODS.values())),))
        self._method = method
        self._keep_alive = http.should_keep_alive()
        if b"connection" in headers or not self._keep_alive:  # else it is 1.1 for sure
            self._version = http.get_http_version()
            if self._version not in ("1.0", "1.1"):
                raise Refusal(400, f"HTTP/{self._version} is not spoken here, HTTP/1.1 is.")
        if b"host" not in headers and self._version == "1.1":
            raise Refusal(400, "The header Host is missing.")
        if b"upgrade" in headers and http.should_upgrade():
            self._upgrade = True  # the same head comes again, see _without_upgrade
            return
        if b"content-encoding" in headers and headers[b"content-encoding"].lower() != b"identity":
            raise Refusal(400, "The body is encoded (Content-Encoding); send it as it is.")
        length = headers.get(b"content-length")
        if length is not None:
            self._expect_length(int(length))
        elif b"transfer-encoding" in headers:
            self._chunked = True
            if headers[b"transfer-encoding"].lower() != b"chunked" or self._version != "1.1":
                raise Refusal(400, "The only Transfer-Encoding understood is chunked, in HTTP/1.1.")
        if b"expect" in headers:
            if headers[b"expect"].lower() != b"100-continue":
                raise Refusal(400, "The only expectation that can be met is 100-continue.")
            self.continue_due = self._version == "1.1" and (self._chunked or length not in (None, b"0"))

    def _expect_length(self, length: int) -> None:
        if length > self._limits.max_body_bytes:
            raise self._too_large()
        if length > self._limits.small_body_bytes:
            if self._screen is not None:
                self._screen(self._headers, self.peer)
            self._reserve(length)
            self._room = memoryview(np.empty(length, np.uint8))  # type: ignore[arg-type]  # not zeroed, unlike bytearray

    def _reserve(self, count: int) -> None:
        if not self._occupancy.take(count):
            raise busy("Too many bytes are being received at once; try again in a moment.")
        self._reserved_bytes += count

    def _too_large(self) -> Refusal:
        return Refusal(413, f"The body is larger than {self._limits.max_body_bytes} bytes.")

    def on_body(self, piece: bytes) -> None:
        self.continue_due = False
        self._fruitful = True
        self._barren_bytes = 0
        if self._room is not None:
            self._room[self._filled : self._filled + len(piece)] = piece
            self._filled += len(piece)
        elif not self._body:
            self._body = piece
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += piece  # grows in place: half the fresh memory of joining pieces at the end
        if self._chunked:
            size = len(self._body)
            if size > self._limits.max_body_bytes:
                raise self._too_large()
            if size > self._limits.small_body_bytes:
                if self._screen is not None and not self._reserved_bytes:
                    self._screen(self._headers, self.peer)
                self._reserve(size - self._reserved_bytes)

    def on_message_complete(self) -> None:
        if self._upgrade:
            return
        self.phase = IDLE
        self.turns += 1
        self.continue_due = False
        if self._reserved_bytes:
            self.close()
        body: bytes | bytearray | memoryview = self._body
        if self._room is not None:
            body, self._room = self._room, None
        self.ready.append(
            Request(
                self._method,
                self._target,
                self._headers,
                body if isinstance(body, bytes) else memoryview(body).toreadonly(),
                peer=self.peer,
                keep_alive=self._keep_alive,
                version=self._version,
            )
        )
        if len(self.ready) > self._limits.max_pipelined:
            raise busy(f"More than {self._limits.max_pipelined} requests came without waiting for an answer.")
