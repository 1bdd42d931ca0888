"""Errors as answers: whose fault it is decides the status.

Refused     400    NotFound 404    Conflict 409    TooLarge 413        the sender has to change something
Limited     429    with Retry-After; Full 507; any other Unavailable 503    the same request may succeed later
Damaged     503    a person must look
"""

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from cordwood.errors import Conflict, CordwoodError, Full, Limited, NotFound, Refused
from cordwood.http.refusal import CODES
from cordwood.http.response import JSON, Headers, Response
from cordwood.wire.intake import TooLarge

P = ParamSpec("P")
T = TypeVar("T")


class Error(Struct, frozen=True):
    """What went wrong. A conflict has what was expected beside it; a limit has its name, and when to come again."""

    error: Literal[tuple(sorted(set(CODES.values())))]  # type: ignore[valid-type]
    message: str
    reason: str | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET


_encoder = msgspec.json.Encoder()
_STATUSES: tuple[tuple[type[CordwoodError], int], ...] = (
    (NotFound, 404),
    (Conflict, 409),
    (TooLarge, 413),
    (Refused, 400),
    (Limited, 429),
    (Full, 507),
    (CordwoodError, 503),
)


def status(error: CordwoodError) -> int:
    """Return the status that an error is answered with."""
    return next(number for kind, number in _STATUSES if isinstance(error, kind))


def refused(error: CordwoodError, **facts: Any) -> Response:
    """Return an error as the client gets it; `facts` are further fields."""
    headers: Headers = ()
    if isinstance(error, Conflict):
        facts = {**error.facts, **facts}
    elif isinstance(error, Limited):
        facts = {"reason": error.reason, "retry_after_ms": error.retry_after_ms, **facts}
        headers = (("Retry-After", str(-(-error.retry_after_ms // 1000))),)
    number = status(error)
    body = {"error": CODES[number], "message": str(error), **facts}
    return Response(number, _encoder.encode(body), JSON, headers)


def answering(act: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T | Response]]:
    """Return a coroutine function whose errors are answers; for routes that wait. Others may simply raise them.

    A wrapper around the coroutine itself would leave it behind, never awaited, when a client goes before it begins.
    """

    @wraps(act)
    async def answer(*arguments: P.args, **named: P.kwargs) -> T | Response:
        try:
            return await act(*arguments, **named)
        except CordwoodError as error:
            return refused(error)

    return answer
