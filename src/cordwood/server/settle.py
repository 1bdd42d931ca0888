"""What consumers say about messages they hold: done, could not be done, needed for longer."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from cordwood.errors import Refused
from cordwood.http.later import Later
from cordwood.http.request import Request
from cordwood.server.desk import NO_CONTENT, Desk
from cordwood.server.need import CONSUME
from cordwood.server.parameters import Parameters
from cordwood.server.places import Offset
from cordwood.server.refusals import refused
from cordwood.server.route import Answer, Route
from cordwood.wire.message import Delay

Ranges = Annotated[list[tuple[Offset, Offset]], Meta(description="[first, end), end exclusive")]


class Ack(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages that are done: one offset, or ranges, all or none. Without `owner` nobody asks who holds them."""

    topic: str
    group: str
    partition: Offset
    offset: Offset | None = None
    ranges: Ranges | None = None
    owner: str | None = None


class Nack(Ack, frozen=True, forbid_unknown_fields=True):
    """Messages that could not be done; without `delay_ms` the group's backoff counts."""

    reason: str = ""
    delay_ms: Delay | None = None


class Extend(Ack, frozen=True, forbid_unknown_fields=True):
    """Messages to keep for `lease_ms` from now on; 0 gives them back at once, without counting the attempt."""

    lease_ms: Annotated[int, Meta(ge=0, description="without it, the group's")] | None = None


_ack = Parameters(Ack)
_nack = Parameters(Nack)
_extend = Parameters(Extend)


def ack(desk: Desk, request: Request) -> Answer:
    """Mark messages as done."""
    asked = _ack.read(request)
    answer = Later()
    try:
        desk.broker.ack(asked.topic, asked.group, asked.partition, _ranges(asked), _then(answer), owner=asked.owner)
    finally:
        desk.running.touch()
    return answer


def nack(desk: Desk, request: Request) -> Answer:
    """Say that messages could not be done."""
    asked = _nack.read(request)
    answer = Later()
    try:
        desk.broker.nack(
            asked.topic,
            asked.group,
            asked.partition,
            _ranges(asked),
            _then(answer),
            owner=asked.owner,
            reason=asked.reason,
            delay_ms=asked.delay_ms,
        )
    finally:
        desk.running.touch()
    return answer


def extend(desk: Desk, request: Request) -> Answer:
    """Keep messages for longer."""
    asked = _extend.read(request)
    answer = Later()
    try:
        desk.broker.extend(
            asked.topic,
            asked.group,
            asked.partition,
            _ranges(asked),
            _then(answer),
            owner=asked.owner,
            lease_ms=asked.lease_ms,
        )
    finally:
        desk.running.touch()
    return answer


def _then(answer: Later) -> Any:
    def then(result: Any) -> None:
        answer.give(NO_CONTENT if result is None else refused(result))

    return then


def _ranges(asked: Ack) -> Sequence[tuple[int, int]]:
    if asked.offset is None:
        if asked.ranges is None:
            raise Refused("offset is missing; it, or ranges [[first, end], …], says which messages are meant")
        return asked.ranges
    if asked.ranges is not None:
        raise Refused("only one of offset and ranges is accepted")
    return ((asked.offset, asked.offset + 1),)


ROUTES: tuple[Route, ...] = (
    Route("POST", "/v1/ack", "Mark messages as done", CONSUME, ack, {204: {}}, _ack, refusals=(404, 409, 507)),
    Route(
        "POST",
        "/v1/nack",
        "Say that messages could not be done",
        CONSUME,
        nack,
        {204: {}},
        _nack,
        refusals=(404, 409, 507),
    ),
    Route("POST", "/v1/extend", "Keep messages for longer", CONSUME, extend, {204: {}}, _extend, refusals=(404, 409)),
)
