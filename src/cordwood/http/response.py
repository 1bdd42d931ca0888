"""An answer that is whole, and its bytes.

    HTTP/1.1 200 OK ␍␊ Connection: … ␍␊ Content-Type: … ␍␊ further headers Content-Length: n ␍␊ ␍␊ body
    └─ made once per (status, connection, content type) ─┘

`nosniff` goes with every body: what a message holds must not become a page in somebody's browser. `no-store` goes
with everything but pages and what they are made of.
There is no Date: nobody caches these answers, and the server reads no clock of the day.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

Body = bytes | bytearray | memoryview
Headers = tuple[tuple[str, str], ...]

JSON = "application/json"

# What to say about the connection: nothing when both sides expect it to stay open.
STAYS, CLOSES, STAYS_1_0 = b"", b"Connection: close\r\n", b"Connection: keep-alive\r\n"

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_BODILESS = frozenset({204, 304})
_PAGES = ("text/html", "text/css", "text/javascript", "image/", "font/")
_NO_SNIFFING = (("X-Content-Type-Options", "nosniff"),)
_NO_STORING = (("Cache-Control", "no-store"),)


class Response(NamedTuple):
    """One whole answer. `body` is bytes, a view of single bytes, or several of them; large ones are not copied.

    `unsent` is called if the client left before it could be sent: then what the answer promised must be undone.
    A tuple and not a dataclass, because one is made for every request: it costs a third.
    """

    status: int = 200
    body: Body | tuple[Body, ...] = b""
    content_type: str = JSON
    headers: Headers = ()
    unsent: Callable[[], None] | None = None


def encode_head(response: Response, connection: bytes = STAYS) -> bytes:
    """Return all that comes before the body. Raises ValueError for a header that would break out of its line."""
    status, body, content_type, headers, _ = response
    start = _start(status, content_type, connection)
    if headers:
        start += encode_headers(headers)
    if status in _BODILESS:
        assert not body, f"a {status} has no body"
        return start + b"\r\n"
    length = sum(map(len, body)) if isinstance(body, tuple) else len(body)
    return b"%bContent-Length: %d\r\n\r\n" % (start, length)


def encode_stream_head(
    status: int, content_type: str, headers: Headers, connection: bytes, *, chunked: bool
) -> bytes:
    """Return all that comes before the first piece of a stream."""
    coding = b"Transfer-Encoding: chunked\r\n" if chunked else b""
    return _start(status, content_type, connection) + encode_headers(headers) + coding + b"\r\n"


def encode_headers(headers: Headers) -> bytes:
    """Return the header lines. Raises ValueError for one that would break out of its line."""
    for name, value in headers:
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise ValueError(f"not a header: {name!r}: {value!r}")
    return "".join(f"{name}: {value}\r\n" for name, value in headers).encode("latin-1")


@lru_cache(maxsize=256)
def _start(status: int, content_type: str, connection: bytes) -> bytes:
    line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
    if status in _BODILESS:
        return line + connection
    storing = () if content_type.startswith(_PAGES) else _NO_STORING
    return line + connection + encode_headers((("Content-Type", content_type), *_NO_SNIFFING, *storing))
