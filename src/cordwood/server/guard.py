"""What stands between the table and a route: who comes is asked, who stays is watched, what was done is told."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from cordwood.errors import CordwoodError
from cordwood.http.later import Later
from cordwood.http.refusal import Refusal
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.http.stream import Stream
from cordwood.server.desk import Desk
from cordwood.server.door import Door
from cordwood.server.need import OPEN, Need, Of
from cordwood.server.refusals import refused
from cordwood.server.visit import Visit

Answer = Response | Stream | Later | Awaitable[Response | Stream]
GONE = "the token was revoked, or its time is over"


def guarded(
    desk: Desk, act: Callable[..., Any], need: Need, action: str, names: tuple[str, ...]
) -> Callable[..., Any]:
    """Return a route's act, for those who may. `action` is what the audit calls it, `names` those in its path."""
    bound, door = partial(act, desk), desk.door
    admit, is_open = door.admit, need is OPEN
    in_path, waits, audited = need.of is Of.PATH, asyncio.iscoroutinefunction(act), bool(action)

    def serve(request: Request, *given: str) -> Answer:
        visit = request.visit = admit(request, need, audited)
        if visit is not None and in_path:
            visit.allow(given[0])
        if is_open:
            return bound(request, *given)  # type: ignore[no-any-return]
        if waits:
            return _awaited(door, bound, request, given)
        answer: Answer = bound(request, *given)
        if isinstance(answer, Stream):
            door.stay(visit, answer)
        return answer

    def tell(request: Request, *given: str) -> Answer:
        """Serve, and tell what came of it."""
        try:
            answer = serve(request, *given)
        except CordwoodError as error:
            answer = refused(error)
        visit = request.visit
        assert isinstance(visit, Visit), "whoever changes something is known, or was not let in"
        called = dict(zip(names, given, strict=True))
        if isinstance(answer, Later):
            return door.audit.follow(action, request, visit, called, answer)
        if isinstance(answer, Response | Stream):
            door.audit.done(action, request, visit, called, answer)
            return answer
        return _told(door, action, request, visit, called, answer)

    return tell if audited else serve


async def _awaited(
    door: Door, act: Callable[..., Awaitable[Response | Stream]], request: Request, given: tuple[str, ...]
) -> Response | Stream:
    """Return the answer, if whoever asked may still have it when it is there."""
    answer = await act(request, *given)
    if not door.holds(request.visit):
        if isinstance(answer, Stream):
            answer.close()
        elif answer.unsent is not None:
            answer.unsent()
        raise Refusal(401, GONE)
    if isinstance(answer, Stream):
        door.stay(request.visit, answer)
    return answer


async def _told(
    door: Door,
    action: str,
    request: Request,
    visit: Visit,
    called: dict[str, str],
    answer: Awaitable[Response | Stream],
) -> Response | Stream:
    try:
        found = await answer
    except BaseException as error:
        door.audit.done(action, request, visit, called, error)
        raise
    door.audit.done(action, request, visit, called, found)
    return found
