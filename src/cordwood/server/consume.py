"""A stream of messages on lease, for as long as the consumer stays.

    broker ──runs──▶ sink ──▶ encode, send (waits while the reader is slow) ──▶ more ──▶ broker

The stream asks for more only when what it has is on its way. When it ends, for whatever reason, all it holds goes
back. It ends when the topic or the group is deleted, when the broker fails or stops: whoever connects again is told.
"""

import asyncio
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from cordwood.broker.starts import EARLIEST
from cordwood.errors import CordwoodError, Preparing
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.http.stream import Stream
from cordwood.server import formats
from cordwood.server.desk import Desk
from cordwood.server.formats import ARROW, NDJSON
from cordwood.server.lease import OWNER_HEADER, Owner, owner_of
from cordwood.server.making import made_group
from cordwood.server.need import CONSUME
from cordwood.server.parameters import Parameters
from cordwood.server.places import Place, place
from cordwood.server.refusals import answering
from cordwood.server.route import Route
from cordwood.server.terms import LeaseMs
from cordwood.wire import arrow
from cordwood.wire.message import Time
from cordwood.wire.ndjson import Row
from cordwood.wire.run import Run

PREPARING_S = 0.01  # until the next segment is looked for again
MOST_PREPARING_S = 10.0


class Consume(Struct, frozen=True, forbid_unknown_fields=True):
    """A stream to open. `max_in_flight` bounds what it holds of a partition; the group's bounds all together."""

    topic: str
    group: str
    owner: Owner | None = None
    start: Annotated[Place, Meta(description="of a new group")] | None = None
    timestamp: Annotated[Time, Meta(description="start, as a time")] | None = None
    lease_ms: LeaseMs | None = None
    max_in_flight: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None


_consume = Parameters(Consume)


class Tap:
    """Where the broker's deliveries wait for the stream; at most one does."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._came: list[Run] | None = None
        self._over = False
        self._waiter: asyncio.Future[None] | None = None

    def pour(self, result: list[Run] | CordwoodError) -> None:
        """Take a delivery, or the end."""
        if isinstance(result, CordwoodError):
            self.end()
        else:
            assert self._came is None, "the next delivery comes when it is asked for"
            self._came = result
            self._wake()

    def end(self) -> None:
        """Let nothing more come."""
        self._over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> list[Run] | None:
        """Return the next delivery; None at the end."""
        while self._came is None and not self._over:
            self._waiter = self._loop.create_future()
            await self._waiter
        came, self._came = self._came, None
        return None if self._over else came


@answering
async def consume(desk: Desk, request: Request) -> Response | Stream:
    """Answer with messages as they come."""
    asked = _consume.read(request)
    kind = formats.wanted(request, NDJSON, ARROW)
    owner = owner_of(desk, asked.owner)
    start = place(asked.start, asked.timestamp) or EARLIEST
    headers = ((OWNER_HEADER, owner),)
    if request.method == "HEAD":  # to look is not to join
        await desk.result(lambda then: desk.broker.topic(asked.topic, then))
        return Response(200, b"", kind, headers)
    tell = made_group(desk, request, asked.topic, asked.group)
    tap = Tap(desk.loop)
    tries = int(MOST_PREPARING_S / PREPARING_S)
    join = partial(
        desk.broker.consume,
        asked.topic,
        asked.group,
        tap.pour,
        owner=owner,
        start=start,
        lease_ms=asked.lease_ms,
        max_in_flight=asked.max_in_flight,
    )
    while True:
        try:
            more, close = await desk.here(join)
            break
        except Preparing:
            tries -= 1
            if not tries:
                raise
            await asyncio.sleep(PREPARING_S)
        finally:
            desk.running.touch()

    def closed() -> None:
        close()
        desk.running.touch()

    try:
        await desk.result(desk.broker.settled)  # where the group begins is durable before any answer
    except BaseException:
        closed()
        raise
    finally:
        if tell is not None:
            tell()

    async def run(stream: Stream) -> None:
        ending = asyncio.ensure_future(stream.ending.wait())
        ending.add_done_callback(lambda _: tap.end())
        try:
            if kind == ARROW:
                await stream.send(arrow.HEAD)
            while (runs := await tap.next()) is not None:
                for piece in runs:
                    await stream.send(*formats.encode(kind, piece))
                more()
                desk.running.touch()
            if kind == ARROW:
                await stream.send(arrow.END)
        finally:
            ending.cancel()

    stream = Stream(run, content_type=kind, headers=headers)
    stream.when_closed(closed)
    return stream


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/v1/consume",
        "A stream of messages on lease",
        CONSUME,
        consume,
        {200: {NDJSON: Row, ARROW: bytes}},
        _consume,
        refusals=(404, 409, 507),
        headers=(OWNER_HEADER,),
    ),
)
