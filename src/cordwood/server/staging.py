"""Atomic over requests: messages are staged by tasks, and one publish makes the chosen ones visible."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from cordwood.auth.right import Right
from cordwood.broker.staging import Published
from cordwood.errors import Refused
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.server import formats
from cordwood.server.desk import ASIDE_BYTES, Desk, Then, as_json
from cordwood.server.door import everything_of
from cordwood.server.formats import JSON
from cordwood.server.making import made_topic, telling
from cordwood.server.need import PRODUCE
from cordwood.server.parameters import Parameters
from cordwood.server.produce import Partition, placed, read_body, topic_of
from cordwood.server.refusals import answering
from cordwood.server.route import Answer, Route, json
from cordwood.server.visit import Visit
from cordwood.wire import json as one
from cordwood.wire.message import Message, Name, Number
from cordwood.wire.message import produce as as_produce
from cordwood.wire.produce import Produce

Task = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Stage(Struct, frozen=True, forbid_unknown_fields=True):
    """Who stages the messages of the body, and for which batch."""

    writer: Name
    batch: Number
    task: Task = 0
    attempt: Task = 0
    sequence: Annotated[Number, Meta(description="how many requests this attempt staged before")] | None = None
    topic: str | None = None
    partition: Partition | None = None


class StagedMessage(Message, frozen=True, forbid_unknown_fields=True):
    """One message to stage, which may say for whom instead of the query."""

    writer: Name | UnsetType = UNSET
    batch: Number | UnsetType = UNSET
    task: Task | UnsetType = UNSET
    attempt: Task | UnsetType = UNSET


class Staged(Struct, frozen=True):
    """How many requests this attempt has staged, and how many messages were in this one."""

    staged: int
    count: int


class Publish(Struct, frozen=True, forbid_unknown_fields=True):
    """The batch to make visible. Without `tasks`, the highest attempt of each staged task."""

    writer: Name
    batch: Number
    tasks: Annotated[list[tuple[Task, Task]], Meta(description="[task, attempt], …")] | None = None


class PublishedRun(Struct, frozen=True):
    """Messages of one partition that became visible."""

    topic: str
    partition: int
    first_offset: int
    count: int


class PublishedBatch(Struct, frozen=True):
    """Where a batch is; `duplicate` when it was published before."""

    results: list[PublishedRun]
    duplicate: bool


_stage = Parameters(Stage)
_message = msgspec.json.Decoder(StagedMessage)
_IN_MESSAGE = ("writer", "batch", "task", "attempt", "sequence")
_publish = Parameters(Publish)


def _check_writer(desk: Desk, visit: Visit | None, writer: str) -> None:
    """Refuse to take part in what others do under this name: all its topics must be theirs who ask."""
    if visit is None or everything_of(visit):
        return
    known = desk.broker.state.writers.get(writer)
    if known is not None:
        topics = {part.topic for parts in known.stages.values() for part in parts}
        for topic in sorted(topics.union(run[0] for run in known.results)):
            visit.allow(topic)


def _read(desk: Desk, kind: str, body: bytes | memoryview) -> tuple[bytes, Produce]:
    """Return what a body says about its stage, as JSON, and its messages. May be called in a thread."""
    if kind is not JSON:
        return b"", read_body(desk, kind, body)
    message = one.decode_as(_message, body, desk.limits)
    said = {name: value for name in _IN_MESSAGE if (value := getattr(message, name)) is not UNSET}
    bare = structs.replace(message, sequence=UNSET)
    return msgspec.json.encode(said), as_produce([bare], desk.clock.now_ms(), desk.limits)


@answering
async def stage(desk: Desk, request: Request) -> Response:
    """Keep messages for a later publish."""
    _stage.check_names(request.query)
    if request.visit is not None and "topic" in request.query:
        request.visit.allow(request.query["topic"])  # before the body is looked at
    kind = formats.taken(request)
    body = request.body
    if len(body) > ASIDE_BYTES:
        said, found = await desk.aside(len(body), _read, desk, kind, body)
    else:
        said, found = _read(desk, kind, body)
    asked = _stage.convert(request.query, said)
    _check_writer(desk, request.visit, asked.writer)
    if (found.producer_id, found.epoch, found.sequence, found.idempotency_keys) != (None, None, None, None):
        raise Refused("staged messages have no producer numbers and no idempotency keys; the batch says it all")
    if found.qos == 0:
        raise Refused("staged messages are on disk before the answer; qos is 1")
    topic = topic_of(asked.topic, found)
    if request.visit is not None:
        request.visit.allow(topic)
    records = placed(found.records, asked.partition)

    def call(then: Then) -> None:
        desk.broker.stage(
            topic,
            records,
            then,
            writer=asked.writer,
            batch=asked.batch,
            task=asked.task,
            attempt=asked.attempt,
            sequence=asked.sequence,
        )

    tell = made_topic(desk, request, topic)
    return await telling(desk.ask(call, lambda staged: as_json(Staged(staged, len(records)))), tell)


def publish(desk: Desk, request: Request) -> Answer:
    """Make what was staged visible, all together."""
    asked = _publish.read(request)
    if request.visit is not None:
        request.visit.allow_somewhere(Right.PRODUCE)  # a writer who staged nothing has no topics to ask about
    _check_writer(desk, request.visit, asked.writer)

    def render(found: Published) -> Response:
        return as_json(PublishedBatch([PublishedRun(*run) for run in found.results], found.duplicate))

    return desk.ask(lambda then: desk.broker.publish(asked.writer, asked.batch, asked.tasks, then), render)


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/stage",
        "Keep messages for a later publish",
        PRODUCE,
        stage,
        {200: json(Staged)},
        _stage,
        refusals=(404, 409, 507),
        messages=StagedMessage,
    ),
    Route(
        "POST",
        "/v1/publish",
        "Make a staged batch visible",
        PRODUCE,
        publish,
        {200: json(PublishedBatch)},
        _publish,
        refusals=(409, 507),
    ),
)
