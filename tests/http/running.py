"""A server on a thread, and a client that sends what it is told, well formed or not."""

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

import pytest
import uvloop

from cordwood.http.exchange import Handle
from cordwood.http.limits import Limits
from cordwood.http.listener import Listener
from cordwood.http.request import Request
from cordwood.http.response import Response

LOOPS = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
HOST = b"Host: a\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
LIMITS = Limits(max_body_bytes=1000, linger_s=0.2)


def get(path: str, *headers: bytes, version: str = "1.1", method: str = "GET") -> bytes:
    """Return the bytes of a request without a body."""
    return f"{method} {path} HTTP/{version}\r\n".encode() + HOST + b"".join(headers) + b"\r\n"


def echo(request: Request) -> Response:
    """Answer with what was understood."""
    seen = {
        "method": request.method,
        "path": request.path,
        "segments": request.segments,
        "query": request.query,
        "headers": {name.decode(): value.decode("latin-1") for name, value in request.headers.items()},
        "body": bytes(request.body).decode("latin-1"),
    }
    return Response(200, json.dumps(seen).encode())


def until(fact: Callable[[], bool]) -> None:
    """Return when `fact` is true; what never becomes true fails by the test's own time limit."""
    while not fact():
        time.sleep(0.001)


class Running:
    """A server for the length of a `with`; `new_loop` makes the loop that it runs on."""

    def __init__(
        self,
        handle: Handle = echo,
        limits: Limits | None = None,
        *,
        ssl_context: ssl.SSLContext | None = None,
        sock: socket.socket | None = None,
        new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    ):
        self._make = lambda: Listener(handle, limits=limits, ssl=ssl_context, sock=sock)
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "Running":
        self._thread.start()
        self.listener = self.call(self._start())
        self.port = self.listener.port
        return self

    async def _start(self) -> Listener:
        listener = self._make()
        await listener.start()
        return listener

    def call(self, coroutine):  # type: ignore[no-untyped-def]
        """Run a coroutine on the server's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def stop(self, grace_s: float = 10.0) -> None:
        self.call(self.listener.stop(grace_s))

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop(0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def connect(self) -> "Client":
        return Client(socket.create_connection(("127.0.0.1", self.port), timeout=60))

    def ask(self, raw: bytes) -> "Reply":
        """Send bytes on a fresh connection and return the first answer."""
        with self.connect() as client:
            client.send(raw)
            return client.reply()

    def works(self) -> bool:
        return self.ask(b"GET /works HTTP/1.1\r\nHost: a\r\n\r\n").status == 200


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):  # type: ignore[no-untyped-def]
        return json.loads(self.body)

    @property
    def error(self) -> str:
        found = self.json
        assert set(found) >= {"error", "message"}, found
        return str(found["error"])


class Client:
    """A raw socket and a reader of answers."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        self.file = sock.makefile("rb")

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def head(self) -> tuple[int, dict[str, str]]:
        """Read one status line and its headers."""
        line = self.file.readline()
        assert line.endswith(b"\r\n"), f"no answer, but {line!r}"
        headers = {}
        while (field := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = field.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return int(line.split()[1]), headers

    def reply(self, *, of_head: bool = False) -> Reply:
        """Read one whole answer."""
        status, headers = self.head()
        if of_head or status in (100, 204, 304):
            return Reply(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Reply(status, headers, b"".join(self.chunks()))
        return Reply(status, headers, self.file.read(int(headers["content-length"])))

    def chunk(self) -> bytes:
        size = int(self.file.readline(), 16)
        piece = self.file.read(size)
        assert self.file.read(2) == b"\r\n"
        return piece

    def chunks(self):  # type: ignore[no-untyped-def]
        while piece := self.chunk():
            yield piece

    def ended(self) -> bool:
        """True when the server closed; waits for it."""
        try:
            return self.file.read(1) == b""
        except ConnectionError:
            return True


def refused(raw: bytes, limits: Limits = LIMITS) -> tuple[int, str]:
    """Send bytes; return the status and the code, after seeing that it closes and that the server lives."""
    with Running(limits=limits) as server, server.connect() as client:
        client.send(raw)
        reply = client.reply()
        assert reply.headers["connection"] == "close"
        assert client.ended()
        assert server.works()
        return reply.status, reply.error
