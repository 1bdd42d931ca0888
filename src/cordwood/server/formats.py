"""JSON, NDJSON or Arrow: which one a body is, which one an answer should be.

Content-Type    application/json, application/x-www-form-urlencoded (curl -d says so), none    JSON
                application/x-ndjson and its other names                                      NDJSON
                application/vnd.apache.arrow.stream                                           Arrow
Accept          the first of the most wanted that there is; none, or */*: the route's own
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from cordwood.errors import Refused
from cordwood.http.request import Request
from cordwood.wire import arrow, ndjson
from cordwood.wire.run import Run

JSON = "application/json"
NDJSON = ndjson.CONTENT_TYPE
ARROW = arrow.CONTENT_TYPE

_TAKEN = {
    b"application/json": JSON,
    b"text/json": JSON,
    b"text/plain": JSON,
    b"application/x-www-form-urlencoded": JSON,
    b"application/x-ndjson": NDJSON,
    b"application/ndjson": NDJSON,
    b"application/jsonl": NDJSON,
    b"application/x-jsonlines": NDJSON,
    ARROW.encode(): ARROW,
}
_NAMES = {name.decode(): kind for name, kind in _TAKEN.items()}
_OPEN, _CLOSE = b'{"messages":[', b"]}"
_encoder = msgspec.json.Encoder()


def taken(request: Request) -> str:
    """Return the format of a body of messages, or refuse it."""
    if b"content-encoding" in request.headers:
        raise Refused("bodies are taken without Content-Encoding; Arrow batches may be compressed themselves")
    content_type = request.headers.get(b"content-type")
    return JSON if content_type is None else _taken(content_type)


@lru_cache(maxsize=64)
def _taken(content_type: bytes) -> str:
    kind = _TAKEN.get(content_type.partition(b";")[0].strip().lower())
    if kind is None:
        raise Refused(f"messages come as {JSON}, {NDJSON} or {ARROW}, not as {content_type[:80].decode('latin-1')!r}")
    return kind


def wanted(request: Request, *offered: str) -> str:
    """Return the format that the client wants most; the first of those offered when it does not mind."""
    accept = request.headers.get(b"accept")
    return offered[0] if accept is None or accept == b"*/*" else _wanted(accept, offered)


@lru_cache(maxsize=256)
def _wanted(accept: bytes, offered: tuple[str, ...]) -> str:
    best, most = None, 0.0
    for part in accept.decode("latin-1").lower().split(","):
        name, *fields = [field.strip() for field in part.split(";")]
        quality = 1.0
        for field in fields:
            if field.startswith("q="):
                try:
                    quality = float(field[2:])
                except ValueError:
                    quality = 0.0
        kind = offered[0] if name in ("*/*", "application/*") else _NAMES.get(name)
        if kind in offered and quality > most:
            best, most = kind, quality
    if best is None:
        raise Refused(f"this comes as {' or '.join(offered)}, not as {accept[:80].decode('latin-1')!r}")
    return best


def encode(kind: str, run: Run) -> tuple[Any, ...]:
    """Return the bytes of a run within a stream of this format, as pieces; large ones are not copied."""
    return tuple(map(memoryview, arrow.write(run))) if kind == ARROW else (ndjson.write(run),)


def pieces(runs: Sequence[Run]) -> tuple[Any, ...]:
    """Return runs as the pieces of one whole Arrow stream; large ones are not copied."""
    return tuple(map(memoryview, arrow.pieces(runs)))


def whole(kind: str, runs: Sequence[Run]) -> bytes:
    """Return runs as one whole body of this format."""
    assert kind != ARROW, "an Arrow stream is sent in pieces"
    if kind == NDJSON:
        return b"".join(map(ndjson.write, runs))
    return b'{"messages":' + _encoder.encode([row for run in runs for row in ndjson.rows(run)]) + b"}"


def joined(kind: str, parts: Sequence[bytes]) -> bytes:
    """Return bodies of text as one."""
    if kind == NDJSON:
        return b"".join(parts)
    return _OPEN + b",".join(part[len(_OPEN) : -len(_CLOSE)] for part in parts) + _CLOSE
