"""Reading a stream as it comes, piece by piece."""

import json
import socket
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from tests.http.running import Client
from tests.server.serving import Serving


class Open:
    """A stream of lines that is open for the length of a `with`."""

    def __init__(self, server: Serving, path: str, headers: dict[str, str] | None = None, **query: Any):
        self._client = Client(socket.create_connection(("127.0.0.1", server.port), timeout=60))
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self._client.send(f"GET {path}?{urlencode(query)} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
        self.status, self.headers = self._client.head()
        self._rest = b""

    def __enter__(self) -> "Open":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._client.close()

    def line(self) -> Any:
        """Return the next line's value, waiting for it."""
        while b"\n" not in self._rest:
            piece = self._client.chunk()
            assert piece, "the stream ended"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def rest(self) -> bytes:
        """Return all that comes until the stream ends, as it should."""
        return self._rest + b"".join(self._client.chunks())
