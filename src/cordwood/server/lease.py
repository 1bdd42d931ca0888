"""One batch of messages on lease, waited for if there is none."""

import asyncio
import re
from typing import Annotated, Any

from msgspec import Meta, Struct

from cordwood.broker.starts import EARLIEST
from cordwood.errors import CordwoodError, Refused
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.server import formats
from cordwood.server.desk import Desk
from cordwood.server.formats import ARROW, JSON, NDJSON
from cordwood.server.making import made_group
from cordwood.server.need import CONSUME
from cordwood.server.parameters import Parameters
from cordwood.server.places import Place, place
from cordwood.server.refusals import answering
from cordwood.server.route import Route
from cordwood.server.terms import LeaseMs
from cordwood.wire.message import Time
from cordwood.wire.ndjson import Row
from cordwood.wire.run import Run

OWNER_HEADER = "Cordwood-Owner"  # says who holds the messages, also to those who did not choose a name
MOST_WAIT_MS = 60_000  # proxies give up on an answer after about a minute
MOST_MESSAGES = 100_000
MOST_BYTES = 64 << 20
TEXT_ROWS = 1_000  # of text that are encoded at once, in a millisecond or two

_OWNER = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?")  # it comes back in a header

Owner = Annotated[str, Meta(description="who holds the messages; without it, a new name", max_length=256)]


class Lease(Struct, frozen=True, forbid_unknown_fields=True):
    """A batch to lease; it waits up to `wait_ms` for the first message."""

    topic: str
    group: str
    owner: Owner | None = None
    start: Annotated[Place, Meta(description="of a new group")] | None = None
    timestamp: Annotated[Time, Meta(description="start, as a time")] | None = None
    max_messages: Annotated[int, Meta(ge=1, le=MOST_MESSAGES)] = 100
    max_bytes: Annotated[int, Meta(ge=1, le=MOST_BYTES)] = 8 << 20
    wait_ms: Annotated[int, Meta(ge=0, le=MOST_WAIT_MS)] = 0
    lease_ms: LeaseMs | None = None


class Leased(Struct, frozen=True):
    """Messages on lease."""

    messages: list[Row]


_lease = Parameters(Lease)


def owner_of(desk: Desk, asked: str | None) -> str:
    """Return the owner that was named, or a new name."""
    if asked is None:
        return desk.new_owner()
    if not _OWNER.fullmatch(asked):
        raise Refused("owner is 1 to 256 printable ASCII characters, without a space at either end")
    return asked


@answering
async def lease(desk: Desk, request: Request) -> Response:
    """Answer with one batch; 204 when none came in time."""
    asked = _lease.read(request)
    kind = formats.wanted(request, JSON, NDJSON, ARROW)
    owner = owner_of(desk, asked.owner)
    start = place(asked.start, asked.timestamp) or EARLIEST
    tell = made_group(desk, request, asked.topic, asked.group)
    came: asyncio.Future[Any] = desk.loop.create_future()

    def then(result: list[Run] | CordwoodError) -> None:
        if not came.done():
            came.set_result(result)

    try:
        leave = desk.broker.lease(
            asked.topic,
            asked.group,
            then,
            owner=owner,
            start=start,
            max_messages=asked.max_messages,
            max_bytes=asked.max_bytes,
            wait_ms=asked.wait_ms,
            lease_ms=asked.lease_ms,
        )
    finally:
        desk.running.touch()
    headers = ((OWNER_HEADER, owner),)

    def undo() -> None:
        leave()
        desk.running.touch()

    try:
        result = await came
        if isinstance(result, CordwoodError):
            raise result
        if not result:
            return Response(204, headers=headers)
        return Response(200, await encoded(kind, result), kind, headers, undo)
    except asyncio.CancelledError:  # the client left: whatever was leased for it comes back, and does not count
        undo()
        raise
    finally:
        if tell is not None:
            tell()


async def encoded(kind: str, runs: list[Run]) -> Any:
    """Return runs as one body; the loop is let go while there is much text to make."""
    if kind == ARROW:
        return formats.pieces(runs)
    if sum(run.batch.num_rows for run in runs) <= TEXT_ROWS:
        return formats.whole(kind, runs)
    parts = []
    for run in runs:
        for first in range(0, run.batch.num_rows, TEXT_ROWS):
            parts.append(formats.whole(kind, [cut(run, first, first + TEXT_ROWS)]))
            await asyncio.sleep(0)
    return formats.joined(kind, parts)


def cut(run: Run, first: int, end: int) -> Run:
    """Return some rows of a run."""
    end = min(end, run.batch.num_rows)
    if first == 0 and end == run.batch.num_rows:
        return run
    return Run(
        run.batch.slice(first, end - first),
        run.partition,
        run.first_offset + first,
        run.attempts if isinstance(run.attempts, int) else run.attempts[first:end],
        None if run.last_errors is None else run.last_errors[first:end],
    )


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/lease",
        "Lease one batch of messages",
        CONSUME,
        lease,
        {200: {JSON: Leased, NDJSON: Row, ARROW: bytes}, 204: {}},
        _lease,
        refusals=(404, 409, 507),
        headers=(OWNER_HEADER,),
    ),
)
