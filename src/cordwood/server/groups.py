"""Groups: listed, shown, set, deleted; sent to another place; their dead letters sent back."""

from typing import Any

from msgspec import Struct

from cordwood.auth.right import Right
from cordwood.broker.groups import GroupInfo, GroupLine
from cordwood.broker.starts import EARLIEST
from cordwood.errors import Refused
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.server.desk import Desk, Then, as_json, nothing
from cordwood.server.need import ADMIN_IN_PATH, CONSUME_IN_PATH, LISTED
from cordwood.server.parameters import Parameters
from cordwood.server.places import Offset, Place, place
from cordwood.server.route import Answer, Route, json, only_names
from cordwood.server.settle import Ranges
from cordwood.server.terms import GroupSettings, given
from cordwood.wire.message import Time


class GroupList(Struct, frozen=True):
    """All groups that may be seen, by topic and name."""

    groups: list[GroupLine]


class GroupChanges(GroupSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings to change; `start` or `timestamp` says where the group begins, if it is made by this."""

    start: Place | None = None
    timestamp: Time | None = None


class Seek(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to go on: `to`, or `timestamp`; in one partition or in all."""

    to: Place | None = None
    timestamp: Time | None = None
    partition: Offset | None = None


class Redrive(Struct, frozen=True, forbid_unknown_fields=True):
    """Dead letters to send back, by their offsets in the dead-letter topic; all of this group's if none are named."""

    ranges: Ranges | None = None
    partition: Offset | None = None


class Redriven(Struct, frozen=True):
    """How many dead letters were sent back."""

    redriven: int


_changes = Parameters(GroupChanges)
_seek = Parameters(Seek)
_redrive = Parameters(Redrive)


def index(desk: Desk, request: Request) -> Answer:
    """Answer with all groups of topics that whoever asks may consume."""
    only_names(request)
    visit = request.visit

    def render(lines: list[GroupLine]) -> Response:
        return as_json(GroupList([line for line in lines if visit is None or visit.may(Right.CONSUME, line.topic)]))

    return desk.ask(desk.broker.groups, render)


def show(desk: Desk, request: Request, topic: str, group: str) -> Answer:
    """Answer with one group as it is."""
    only_names(request)
    return desk.ask(lambda then: desk.broker.group(topic, group, then))


def change(desk: Desk, request: Request, topic: str, group: str) -> Answer:
    """Change settings of a group, or make it."""
    asked = _changes.read(request)
    changes = given(asked, "start", "timestamp")
    start = place(asked.start, asked.timestamp) or EARLIEST
    return desk.ask(lambda then: desk.broker.set_group(topic, group, changes, then, start=start))


def delete(desk: Desk, request: Request, topic: str, group: str) -> Answer:
    """Delete a group."""
    only_names(request)
    return desk.ask(lambda then: desk.broker.delete_group(topic, group, then), nothing)


def seek(desk: Desk, request: Request, topic: str, group: str) -> Answer:
    """Let a group go on from another place."""
    asked = _seek.read(request)
    to = place(asked.to, asked.timestamp, "to")
    if to is None:
        raise Refused("to is missing; it, or timestamp, says where the group goes on")
    return desk.ask(lambda then: desk.broker.seek(topic, group, to, then, partition=asked.partition))


def redrive(desk: Desk, request: Request, topic: str, group: str) -> Answer:
    """Send dead letters back to the topic they came from."""
    asked = _redrive.read(request)
    if request.visit is not None:
        request.visit.allow_also(Right.PRODUCE, topic)  # every group of the topic gets them

    def call(then: Then) -> None:
        desk.broker.redrive(topic, group, then, partition=asked.partition, ranges=asked.ranges)

    return desk.ask(call, lambda count: as_json(Redriven(count)))


_PATH = "/v1/groups/{topic}/{group}"
_SHOWN: dict[int, Any] = {200: json(GroupInfo)}
ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/groups", "All groups", LISTED, index, {200: json(GroupList)}),
    Route("GET", _PATH, "One group", CONSUME_IN_PATH, show, _SHOWN, refusals=(404,)),
    Route(
        "PATCH",
        _PATH,
        "Set a group, or make it",
        CONSUME_IN_PATH,
        change,
        _SHOWN,
        _changes,
        refusals=(404, 409, 507),
        audit="group set",
    ),
    Route(
        "DELETE", _PATH, "Delete a group", ADMIN_IN_PATH, delete, {204: {}}, refusals=(404, 507), audit="group delete"
    ),
    Route(
        "POST",
        _PATH + "/seek",
        "Go on from another place",
        CONSUME_IN_PATH,
        seek,
        _SHOWN,
        _seek,
        refusals=(404, 507),
        audit="group seek",
    ),
    Route(
        "POST",
        _PATH + "/redrive",
        "Send dead letters back",
        CONSUME_IN_PATH,
        redrive,
        {200: json(Redriven)},
        _redrive,
        refusals=(404, 507),
        audit="group redrive",
    ),
)
