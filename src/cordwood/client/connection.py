"""One HTTP/1.1 connection on a plain blocking socket: requests out, answers in, in the same order.

    send, send, send ──▶      several requests may be under way
    ◀── receive, receive      answers come in the order of the requests

Everything that goes wrong on the way is one OSError, after which the connection is closed and of no more use: what
was under way may or may not have arrived. A raw socket makes twice the requests of http.client (DESIGN 3).
"""

import select
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from cordwood.client.endpoint import Endpoint
from cordwood.client.reply import Reply

READ_BYTES = 64 << 10
MAX_HEAD_BYTES = 64 << 10
MAX_BODY_BYTES = 1 << 30  # an answer that claims more is not believed
MAX_INTERIM = 100  # answers before the answer
MAX_TRAILERS = 100
_DIGITS = {10: frozenset(b"0123456789"), 16: frozenset(b"0123456789abcdefABCDEF")}
_MAX_PIECES = 1024  # what one sendmsg takes (IOV_MAX)


class Connection:
    """Sends requests and receives their answers. Not for two threads at once, except `abort`."""

    def __init__(self, endpoint: Endpoint, timeout_s: float = 30.0):
        self._prefix = endpoint.prefix.encode()
        self._lines = endpoint.lines()
        self._sock = endpoint.connect(timeout_s)
        self._plain = endpoint.tls is None
        self._timeout_s = timeout_s
        self._unread = b""
        self.closing = False  # the broker said that it closes after the last answer

    def fileno(self) -> int:
        """The descriptor to poll on."""
        return int(self._sock.fileno())

    @property
    def ready(self) -> bool:
        """Whether something was received that is not yet read; then polling would wait in vain."""
        return bool(self._unread) or (not self._plain and bool(self._sock.pending()))

    @property
    def stale(self) -> bool:
        """Whether the broker closed it while nobody looked, so that the next request would be lost."""
        if self.closing or self._sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLIN | select.POLLHUP)
        return bool(poll.poll(0)) and self._plain

    def head(self, method: str, target: str, length: int, content_type: str = "", accept: str = "") -> bytes:
        """Return the head of a request whose body has `length` bytes."""
        kind = f"Content-Type: {content_type}\r\n".encode() if content_type else b""
        wanted = f"Accept: {accept}\r\n".encode() if accept else b""
        first = b"%b %b%b HTTP/1.1\r\n" % (method.encode(), self._prefix, target.encode())
        return b"%b%b%b%bContent-Length: %d\r\n\r\n" % (first, self._lines, kind, wanted, length)

    def send(self, pieces: Sequence[Any]) -> None:
        """Hand over one or more whole requests, given as pieces, without copying them."""
        if not self._plain:
            for piece in pieces:
                self._sock.sendall(piece)
            return
        views = [memoryview(piece).cast("B") for piece in pieces]
        total = sum(map(len, views))
        at = 0
        while True:
            sent = self._sock.sendmsg(views[at : at + _MAX_PIECES])
            total -= sent
            if not total:
                return
            while sent >= len(views[at]):
                sent -= len(views[at])
                at += 1
            views[at] = views[at][sent:]

    def request(
        self, method: str, target: str, body: Any = b"", content_type: str = "", accept: str = "", wait_s: float = 0
    ) -> Reply:
        """Return the answer to one request; `wait_s` is how much longer than usual it may take."""
        self._sock.settimeout(self._timeout_s + wait_s)
        self.send((self.head(method, target, memoryview(body).nbytes, content_type, accept), body))
        return self.receive()

    def receive(self, begun: Callable[[int, int], None] | None = None) -> Reply:
        """Return the next answer, whole. `begun` is called with its status and length before the body is read.

        That is the moment to send the next request: the broker works on it while this answer is on its way.
        """
        status, headers = self._receive_head()
        length = headers.get(b"content-length")
        if begun is not None:
            begun(status, 0 if length is None else _number(length, 10))
        if status == 204 or status == 304 or length == b"0":
            return Reply(status, headers, b"")
        if length is not None:
            return Reply(status, headers, self._exactly(_number(length, 10)))
        return Reply(status, headers, _joined(self._pieces(headers)))

    def stream(self, method: str, target: str, accept: str = "") -> tuple[Reply, Iterator[bytes]]:
        """Return an answer's head, and its body piece by piece as it comes; read it all, or close the connection."""
        self.send((self.head(method, target, 0, "", accept),))
        status, headers = self._receive_head()
        if status == 204:
            return Reply(status, headers, b""), iter(())
        length = headers.get(b"content-length")
        pieces = self._pieces(headers) if length is None else iter((self._exactly(_number(length, 10)),))
        if status >= 400:
            return Reply(status, headers, _joined(pieces)), iter(())
        return Reply(status, headers, b""), pieces

    def half_close(self) -> None:
        """Say that no request follows; what the broker has already answered can still be read."""
        if self._plain:
            self._sock.shutdown(socket.SHUT_WR)
        else:
            self.abort()

    def abort(self) -> None:
        """End it from any thread: whoever waits in `send` or `receive` gets an OSError."""
        with suppress(OSError):  # it is closed already, which is what was wanted
            self._sock.shutdown(socket.SHUT_RDWR)

    def limit(self, timeout_s: float | None) -> None:
        """Let every later wait for the other side take at most `timeout_s`; None: as long as it lives."""
        self._sock.settimeout(timeout_s)

    def close(self) -> None:
        """Close the socket; may be called again."""
        self._sock.close()

    def _receive_head(self) -> tuple[int, dict[bytes, bytes]]:
        for _ in range(MAX_INTERIM):
            while (end := self._unread.find(b"\r\n\r\n")) < 0:
                if len(self._unread) > MAX_HEAD_BYTES:
                    raise ConnectionError("the answer's head does not end")
                self._unread += self._more()
            first, *lines = self._unread[:end].split(b"\r\n")
            self._unread = self._unread[end + 4 :]
            if not first.startswith(b"HTTP/1.") or not first[9:12].isdigit():
                raise ConnectionError(f"no HTTP answer: {first[:40]!r}")
            headers = {}
            for line in lines:
                name, _, value = line.partition(b":")
                headers[name.strip().lower()] = value.strip()
            if headers.get(b"connection", b"").lower() == b"close":
                self.closing = True
            status = int(first[9:12])
            if status >= 200:  # else an interim answer; the real one follows
                return status, headers
        raise ConnectionError("interim answers without an end")

    def _exactly(self, length: int) -> Any:
        if length > MAX_BODY_BYTES:
            raise ConnectionError(f"an answer of {length} bytes is not believed")
        if length <= len(self._unread):
            body, self._unread = self._unread[:length], self._unread[length:]
            return body
        buffer = pa.allocate_buffer(length)  # Arrow's pool keeps its pages; fresh ones from the kernel cost ~1 ns/B
        view = memoryview(buffer).cast("B")
        at = len(self._unread)
        view[:at] = self._unread
        self._unread = b""
        while at < length:
            count = self._sock.recv_into(view[at:])
            if not count:
                raise ConnectionError("the broker closed the connection in the middle of an answer")
            at += count
        return buffer

    def _pieces(self, headers: dict[bytes, bytes]) -> Iterator[bytes]:
        if headers.get(b"transfer-encoding", b"").lower() != b"chunked":
            self.closing = True  # the body ends with the connection
            if self._unread:
                yield self._unread
                self._unread = b""
            while piece := self._sock.recv(READ_BYTES):
                yield piece
            return
        while True:
            size = _number(self._line().partition(b";")[0].rstrip(), 16)
            if size > MAX_BODY_BYTES:
                raise ConnectionError(f"a chunk of {size} bytes is not believed")
            if not size:
                for _ in range(MAX_TRAILERS):
                    if not self._line():
                        return
                raise ConnectionError("trailers without an end")
            piece = self._exactly(size)
            if self._line():
                raise ConnectionError("a chunk is longer than it said")
            yield piece

    def _line(self) -> bytes:
        while (end := self._unread.find(b"\r\n")) < 0:
            if len(self._unread) > MAX_HEAD_BYTES:
                raise ConnectionError("a line of the answer does not end")
            self._unread += self._more()
        line, self._unread = self._unread[:end], self._unread[end + 2 :]
        return line

    def _more(self) -> bytes:
        piece: bytes = self._sock.recv(READ_BYTES)
        if not piece:
            raise ConnectionError("the broker closed the connection")
        return piece


def _joined(pieces: Iterator[Any]) -> bytes:
    """Return a body that came in pieces; more than is believed is an error."""
    found, size = [], 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise ConnectionError(f"an answer of more than {MAX_BODY_BYTES} bytes is not believed")
        found.append(piece)
    return b"".join(found)


def _number(text: bytes, base: int) -> int:
    # Not what `int` takes: a sign, an underscore or a space would be read by nobody else.
    if not text or len(text) > 18 or not _DIGITS[base].issuperset(text):
        raise ConnectionError(f"the answer has {text[:20]!r} where a number should be")
    return int(text, base)
