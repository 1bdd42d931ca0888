"""What a client asked, with `%2F` inside a segment told from the slash between two.

    GET /v1/topics/a%2Fb?from=3&to=x+y HTTP/1.1

    segments   ("v1", "topics", "a/b")       each decoded by itself
    path       "/v1/topics/a%2Fb"            the segments again, with what would part them encoded
    query      {"from": "3", "to": "x y"}    the last of a name wins

Decoding is strict: what is not UTF-8, or no escape, is refused with 400.
"""

import re
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from cordwood.http.refusal import Refusal

SMALL_BYTES = 4 << 10
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ABSOLUTE = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)


class Request:
    """One whole request; a value, nothing here changes, but `visit`, where a handler notes who it is.

    `headers` has lower-case names; a repeated one is joined with ", ". `body` is bytes when it came in one piece,
    else a read-only view. `segments`, `path` and `query` are made when they are first asked for: most hot requests
    ask for one of them. A target that cannot be decoded was refused before anybody sees the request.
    """

    __slots__ = (
        "_path",
        "_query",
        "_segments",
        "body",
        "headers",
        "keep_alive",
        "method",
        "peer",
        "target",
        "version",
        "visit",
    )

    def __init__(
        self,
        method: str,
        target: bytes,
        headers: dict[bytes, bytes],
        body: bytes | memoryview = b"",
        *,
        peer: str = "",
        keep_alive: bool = True,
        version: str = "1.1",
    ):
        self.method: Final = method
        self.target: Final = target
        self.headers: Final = headers
        self.body: Final = body
        self.peer: Final = peer
        self.keep_alive: Final = keep_alive
        self.version: Final = version
        self.visit: Any = None
        self._path: str | None = None
        self._segments: tuple[str, ...] | None = None
        self._query: dict[str, str] | None = None
        if b"%" in target or not target.startswith(b"/") or b"#" in target:
            self._segments, self._query = split_path(target), split_query(target)

    def without_body(self) -> "Request":
        """Return the same without its body, if that is large: an answer that waits must not hold it."""
        if len(self.body) <= SMALL_BYTES:
            return self
        return Request(
            self.method,
            self.target,
            self.headers,
            peer=self.peer,
            keep_alive=self.keep_alive,
            version=self.version,
        )

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path between slashes, each decoded; none for `/`."""
        if self._segments is None:
            self._segments = split_path(self.target)
        return self._segments

    @property
    def path(self) -> str:
        """The path decoded, except that a slash (or a percent sign) inside a segment stays encoded."""
        if self._path is None and b"%" not in self.target and self.target.startswith(b"/"):
            self._path = _decode(self.target.partition(b"?")[0])  # nothing to keep apart: the usual, hot case
        if self._path is None:
            parts = (part.replace("%", "%25").replace("/", "%2F") for part in self.segments)
            self._path = "/" + "/".join(parts)
        return self._path

    @property
    def query(self) -> dict[str, str]:
        """The parameters after `?`, decoded; of a repeated name the last."""
        if self._query is None:
            self._query = split_query(self.target)
        return self._query

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.target!r} from {self.peer}>"


def split_path(target: bytes) -> tuple[str, ...]:
    """Return the segments of a target. Raises Refusal for one that is no path of ours."""
    if b"#" in target:
        raise Refusal(400, "The target has a fragment (#), which belongs to the client alone.")
    if not target.startswith(b"/"):
        if target == b"*":
            return ("*",)
        absolute = _ABSOLUTE.match(target)
        if absolute is None:
            raise Refusal(400, "The target is not a path; it begins with a slash.")
        target = target[absolute.end() :]
    path = target.partition(b"?")[0]
    if path in (b"/", b""):
        return ()
    return tuple([_decode(segment) for segment in path[1:].split(b"/")])


def split_query(target: bytes) -> dict[str, str]:
    """Return the parameters of a target. Raises Refusal for bytes that are not UTF-8."""
    query = target.partition(b"?")[2]
    found = {}
    if query:
        for field in query.split(b"&"):
            name, _, value = field.partition(b"=")
            if field:
                found[_decode(name.replace(b"+", b" "))] = _decode(value.replace(b"+", b" "))
    return found


def _decode(text: bytes) -> str:
    if b"%" in text:
        if _BAD_ESCAPE.search(text):
            raise Refusal(400, "The target has a % that two hexadecimal digits do not follow.")
        text = unquote_to_bytes(text)
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise Refusal(400, "The target is not UTF-8.") from None
