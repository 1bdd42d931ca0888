"""Topics: listed, made, shown, set, deleted; and the swap of a run of objects for one."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from cordwood.broker.topics import TopicInfo, TopicLine
from cordwood.errors import Conflict, Refused
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.server.desk import Desk, Then, as_json, nothing
from cordwood.server.need import ADMIN, ADMIN_IN_PATH, LISTED, SEEN
from cordwood.server.parameters import Parameters
from cordwood.server.places import Offset
from cordwood.server.refusals import answering
from cordwood.server.route import Answer, Route, json, only_names
from cordwood.server.terms import TopicSettings, about, given


class TopicList(Struct, frozen=True):
    """All topics that may be seen, by name."""

    topics: list[TopicLine]


class NewTopic(TopicSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A topic to make."""

    name: str
    partitions: Annotated[int, about("partitions")] | None = None


class TopicChanges(TopicSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings to change. The number of partitions is fixed: only the one that is there is accepted."""

    partitions: int | UnsetType = UNSET


class Replace(Struct, frozen=True, forbid_unknown_fields=True):
    """The swap of a run of objects for one that holds exactly their messages, and is in the store already.

    Its generation is one above theirs. The old ones stay for an hour, for those who are reading them.
    """

    partition: Offset
    objects: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=1024)]], Meta(min_length=1, max_length=10_000)
    ]
    replacement: Annotated[str, Meta(min_length=1, max_length=1024)]


_new = Parameters(NewTopic, topic="name")
_changes = Parameters(TopicChanges)
_replace = Parameters(Replace)


def index(desk: Desk, request: Request) -> Answer:
    """Answer with all topics that whoever asks may do anything with."""
    only_names(request)
    visit = request.visit

    def render(lines: list[TopicLine]) -> Response:
        return as_json(TopicList([line for line in lines if visit is None or visit.may(None, line.name)]))

    return desk.ask(desk.broker.topics, render)


def create(desk: Desk, request: Request) -> Answer:
    """Make a topic: 201; 200 if the same one is there."""
    asked = _new.read(request)
    settings = {name: value for name, value in given(asked, "name", "partitions").items() if value is not None}

    def call(then: Then) -> None:
        desk.broker.create_topic(asked.name, asked.partitions, settings, then)

    return desk.ask(call, _made)


def _made(result: tuple[bool, TopicInfo]) -> Response:
    new, info = result
    return as_json(info)._replace(status=201 if new else 200)


def show(desk: Desk, request: Request, topic: str) -> Answer:
    """Answer with one topic as it is."""
    only_names(request)
    return desk.ask(lambda then: desk.broker.topic(topic, then))


def change(desk: Desk, request: Request, topic: str) -> Answer:
    """Change settings of a topic."""
    changes = given(_changes.read(request))
    return desk.ask(lambda then: desk.broker.set_topic(topic, changes, then))


def delete(desk: Desk, request: Request, topic: str) -> Answer:
    """Delete a topic with all it has."""
    only_names(request)
    return desk.ask(lambda then: desk.broker.delete_topic(topic, then), nothing)


@answering
async def replace(desk: Desk, request: Request, topic: str) -> Response:
    """Swap a run of objects for one that holds the same messages; answer once that is durable."""
    asked = _replace.read(request)
    info: TopicInfo = await desk.result(lambda then: desk.broker.topic(topic, then))
    if asked.partition >= len(info.partitions):
        raise Refused(f"the topic has partitions 0 to {len(info.partitions) - 1}, not {asked.partition}")
    if desk.running.tiering is None:
        raise Conflict("this broker has no tier, so no object can be replaced")
    await desk.running.tiering.replace(topic, asked.partition, asked.objects, asked.replacement)
    return await desk.ask(lambda then: desk.broker.topic(topic, then))


_SHOWN: dict[int, Any] = {200: json(TopicInfo)}
ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/topics", "All topics", LISTED, index, {200: json(TopicList)}),
    Route(
        "POST",
        "/v1/topics",
        "Make a topic",
        ADMIN,
        create,
        {201: json(TopicInfo), 200: json(TopicInfo)},
        _new,
        refusals=(409, 507),
        audit="topic create",
    ),
    Route("GET", "/v1/topics/{topic}", "One topic", SEEN, show, _SHOWN, refusals=(404,)),
    Route(
        "PATCH",
        "/v1/topics/{topic}",
        "Set a topic",
        ADMIN_IN_PATH,
        change,
        _SHOWN,
        _changes,
        refusals=(404, 409, 507),
        audit="topic set",
    ),
    Route(
        "DELETE",
        "/v1/topics/{topic}",
        "Delete a topic",
        ADMIN_IN_PATH,
        delete,
        {204: {}},
        refusals=(404, 507),
        audit="topic delete",
    ),
    Route(
        "POST",
        "/v1/topics/{topic}/replace",
        "Swap a run of objects for one",
        ADMIN_IN_PATH,
        replace,
        _SHOWN,
        _replace,
        refusals=(404, 409, 507),
        audit="topic replace",
    ),
)
