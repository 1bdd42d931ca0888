"""All routes of the broker, and what turns requests into their answers."""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from cordwood.broker.running import Running
from cordwood.errors import CordwoodError
from cordwood.http.exchange import Handle
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.machine.clock import Clock, SystemClock
from cordwood.server import (
    about,
    consume,
    dashboard,
    groups,
    lease,
    live,
    openapi,
    page,
    produce,
    readers,
    reads,
    settle,
    staging,
    topics,
)
from cordwood.server.desk import Desk
from cordwood.server.door import Door, token_file
from cordwood.server.need import OPEN
from cordwood.server.page_headers import page_headers
from cordwood.server.refusals import refused
from cordwood.server.route import Answer, Route, Table, json, only_names

# The page brings all it shows; nothing is fetched, and nothing in it runs.
_ALONE = page_headers("default-src 'none'; style-src 'unsafe-inline'")


@cache
def _description() -> bytes:
    return msgspec.json.encode(openapi.document(ROUTES))


@cache
def _page() -> bytes:
    return page.written(openapi.document(ROUTES)).encode()


def show_description(desk: Desk, request: Request) -> Response:
    """Describe every route, for programs."""
    only_names(request)
    return Response(200, _description())


def show_page(desk: Desk, request: Request) -> Response:
    """Describe every route, for people."""
    only_names(request)
    return Response(200, _page(), "text/html; charset=utf-8", _ALONE)


ROUTES: tuple[Route, ...] = (
    *produce.ROUTES,
    *lease.ROUTES,
    *consume.ROUTES,
    *settle.ROUTES,
    *reads.ROUTES,
    *topics.ROUTES,
    *groups.ROUTES,
    *staging.ROUTES,
    *readers.ROUTES,
    *about.ROUTES,
    *live.ROUTES,
    *dashboard.ROUTES,
    Route("GET", "/v1/openapi.json", "This, for programs", OPEN, show_description, {200: json(dict[str, Any])}),
    Route("GET", "/docs", "This, for people", OPEN, show_page, {200: {"text/html": str}}),
)


def open_door(running: Running, clock: Clock | None = None) -> Door:
    """Return the door of a running broker. Raises Refused for a file of tokens that cannot be read."""
    file = token_file(running.settings, memory=running.memory)
    return Door(running.settings, file, clock or SystemClock(), running.broker.counts)


def handler(
    running: Running,
    *,
    connections: Callable[[], int] = lambda: 0,
    clock: Clock | None = None,
    door: Door | None = None,
) -> Handle:
    """Return what answers requests to a running broker. Call it on the broker's loop.

    `connections` says how many clients there are, for the metrics; the listener is made after this. Without a `door`
    it is the one that the broker's settings say.
    """
    door = door or open_door(running, clock)
    table = Table(ROUTES, Desk(running, clock or SystemClock(), connections, door))
    hot = table.hot

    def handle(request: Request) -> Answer:
        act = hot.get((request.method, request.target.partition(b"?")[0])) or table.find(request)
        try:
            return act(request)
        except CordwoodError as error:
            return refused(error)

    return handle
