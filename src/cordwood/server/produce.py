"""Messages in: one as JSON, many as NDJSON or Arrow; a request is one append, all of it or nothing.

    one small message, not numbered    ──▶ gathered with others into the next commit          the hot way
    any other request                  ──▶ a batch of its own; a large body is read in a thread

The query says what the body does not: `partition` holds for messages that name none; a topic or a number that is in
both must be the same in both.
"""

from functools import lru_cache
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from cordwood.broker.ops import Numbered
from cordwood.broker.producing import Produced, Sent
from cordwood.errors import CordwoodError, Refused
from cordwood.http.later import Later
from cordwood.http.request import Request, split_query
from cordwood.http.response import Response
from cordwood.record import Records
from cordwood.server import formats
from cordwood.server.desk import ASIDE_BYTES, Desk, Then, as_json
from cordwood.server.formats import JSON, NDJSON
from cordwood.server.making import made_topic, telling
from cordwood.server.need import PRODUCE
from cordwood.server.parameters import Parameters
from cordwood.server.refusals import answering, refused
from cordwood.server.route import Answer, Route
from cordwood.wire import arrow, ndjson
from cordwood.wire import json as one
from cordwood.wire.message import Message, Name, Number, Qos
from cordwood.wire.message import produce as as_produce
from cordwood.wire.produce import Produce

T = TypeVar("T")

SMALL_BYTES = 64 << 10  # a larger message gets a batch of its own: to gather it would make others wait
SEQUENCE_DIGITS = 18  # so many fit into a number whatever they are
ARROW_ASIDE_BYTES = 8 << 20  # native code reads this much in a millisecond

Partition = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Query(Struct, frozen=True, forbid_unknown_fields=True):
    """What the query may say about messages."""

    topic: str | None = None
    partition: Partition | None = None
    qos: Annotated[Qos, Meta(description="0: answered before it is on disk")] | None = None
    producer_id: Name | None = None
    epoch: Number | None = None
    sequence: Annotated[Number, Meta(description="of the first message")] | None = None
    idempotency_key: Annotated[Name, Meta(description="for one message in JSON")] | None = None


class Stored(Struct, frozen=True, omit_defaults=True):
    """Where one message is; `offset` is null when it is only in memory."""

    topic: str
    partition: int
    offset: int | None
    durability: str
    duplicate: bool = False


class StoredRun(Struct, frozen=True, omit_defaults=True):
    """Messages of one partition, next to each other; `duplicate`: these were stored before, and others were not."""

    partition: int
    first_offset: int | None
    count: int
    duplicate: bool = False


class StoredMany(Struct, frozen=True, omit_defaults=True):
    """Where the messages of a request are, one run for each partition, in the order given.

    `duplicates` were stored before; those with idempotency keys are not in `results`. `duplicate`: the whole numbered
    request was.
    """

    count: int
    durability: str
    results: list[StoredRun]
    duplicates: int = 0
    duplicate: bool = False


NO_TOPIC = "topic is missing; name it in the query or in the message"

_query = Parameters(Query)


def _asked(target: bytes) -> tuple[Query, bool]:
    """Return what a target's query says, and whether nothing in it tells a repeat from a new message.

    Producers send the same one again and again, but for the sequence, which most put last.
    """
    same, _, sequence = target.rpartition(b"&sequence=")
    if same and sequence.isdigit() and len(sequence) <= SEQUENCE_DIGITS and b"sequence" not in same:
        asked, _ = _repeated(same)
        return structs.replace(asked, sequence=int(sequence)), False
    return _repeated(target)


@lru_cache(maxsize=4096)
def _repeated(target: bytes) -> tuple[Query, bool]:
    asked = _query.convert(split_query(target))
    return (
        asked,
        asked.producer_id is None and asked.idempotency_key is None and asked.sequence is asked.epoch is None,
    )


def produce(desk: Desk, request: Request) -> Answer:
    """Append messages, and answer where they are once they are durable."""
    asked, plain = _asked(request.target)
    visit = request.visit
    if visit is not None and asked.topic is not None:
        visit.allow(asked.topic)  # before the body is looked at
    kind = formats.taken(request)
    body = request.body
    if kind is JSON and len(body) <= SMALL_BYTES:
        message = one.decode(body, desk.limits)
        if (
            plain
            and message.producer_id is UNSET
            and message.idempotency_key is UNSET
            and message.sequence is UNSET
            and message.epoch is UNSET
        ):
            return _gather(desk, request, asked, message, len(body))
        found = as_produce([message], desk.clock.now_ms(), desk.limits)
        return _append(desk, request, asked, found, alone=True)
    if len(body) > (ARROW_ASIDE_BYTES if kind is formats.ARROW else ASIDE_BYTES):
        return _append_large(desk, request, asked, kind, body)
    return _append(desk, request, asked, read_body(desk, kind, body), alone=kind is JSON)


def _gather(desk: Desk, request: Request, asked: Query, message: Message, size: int) -> Answer:
    """Have one message written with the next commit."""
    visit = request.visit
    topic = _agreed("topic", asked.topic, message.topic)
    if not topic:
        raise Refused(NO_TOPIC)
    if visit is not None and topic is not asked.topic:  # that was allowed before
        visit.allow(topic)
    if asked.partition is not None and not isinstance(message.partition, int):
        message = structs.replace(message, partition=asked.partition)
    qos = _agreed("qos", asked.qos, message.qos)
    answer = Later()
    durability = "memory" if qos == 0 else desk.running.durability
    tell = made_topic(desk, request, topic)

    def then(sent: Any) -> None:
        if isinstance(sent, Sent):
            # A topic's name needs no escapes. msgspec would take three times as long.
            offset = "null" if sent.offset is None else sent.offset
            place = f'"topic":"{sent.topic}","partition":{sent.partition},"offset":{offset}'
            answer.give(Response(200, f'{{{place},"durability":"{durability}"}}'.encode()))
        else:
            answer.give(refused(sent))

    try:
        desk.broker.produce_one(topic, message, then, qos=0 if qos == 0 else 1, size=size)
    except CordwoodError:
        if tell is not None:
            tell()  # the message was refused when the topic was made already
        raise
    finally:
        desk.running.touch()
    return telling(answer, tell)


@answering
async def _append_large(desk: Desk, request: Request, asked: Query, kind: str, body: bytes | memoryview) -> Response:
    found = await desk.aside(len(body), read_body, desk, kind, body)
    return await _append(desk, request, asked, found, alone=kind is JSON)


def read_body(desk: Desk, kind: str, body: bytes | memoryview) -> Produce:
    """Return the messages of a body; raise Refused, or TooLarge. May be called in a thread."""
    reader = one.read if kind is JSON else ndjson.read if kind is NDJSON else arrow.read
    return reader(body, desk.clock.now_ms(), desk.limits)


def _append(desk: Desk, request: Request, asked: Query, found: Produce, *, alone: bool) -> Later:
    """Have messages written as a batch of their own."""
    visit = request.visit
    topic = topic_of(asked.topic, found)
    if visit is not None and topic is not asked.topic:
        visit.allow(topic)
    records = placed(found.records, asked.partition)
    number = _number(asked, found, records)
    keys = found.idempotency_keys
    if asked.idempotency_key is not None:
        if not alone:
            raise Refused("idempotency_key in the query is for one message in JSON; else each message has its own")
        keys = [_agreed("idempotency_key", asked.idempotency_key, keys[0] if keys else None)]
    if number is not None and keys is not None:
        raise Refused("a request has producer numbers or idempotency keys, not both")
    qos = 0 if _agreed("qos", asked.qos, found.qos) == 0 else 1
    durability = "memory" if qos == 0 else desk.running.durability

    def render(produced: Produced) -> Response:
        if alone:
            partition, offset, _ = produced.results[0]
            return as_json(Stored(topic, partition, offset, durability, produced.duplicates > 0))
        all_again = 0 < produced.duplicates == produced.messages
        if all_again and number is None:
            return as_json(StoredMany(produced.messages, durability, [], produced.duplicates))
        some_again = frozenset() if all_again else produced.repeated
        results = [StoredRun(*run, run[0] in some_again) for run in produced.results]
        return as_json(StoredMany(produced.messages, durability, results, produced.duplicates, all_again))

    def call(then: Then) -> None:
        desk.broker.produce(topic, records, then, number=number, keys=keys, qos=qos)

    tell = made_topic(desk, request, topic)
    return telling(desk.ask(call, render), tell)


def topic_of(asked: str | None, found: Produce) -> str:
    """Return the topic that the query or the messages name, or refuse."""
    topic = _agreed("topic", asked, found.topic)
    if not topic:
        raise Refused(NO_TOPIC)
    return topic


def placed(records: Records, partition: int | None) -> Records:
    """Return the records with a partition for those that name none."""
    if partition is None:
        return records
    asked = records.partitions
    found = partition if asked is None or isinstance(asked, int) else asked.fill_null(partition)
    return Records(records.batch, found, records.resting, records.sequences)


def _number(asked: Query, found: Produce, records: Records) -> Numbered | None:
    """Return the number of a request that has one; refuse half of one."""
    producer = _agreed("producer_id", asked.producer_id, found.producer_id)
    epoch = _agreed("epoch", asked.epoch, found.epoch)
    sequence = _agreed("sequence", asked.sequence, found.sequence)
    if producer is None and epoch is None and sequence is None and records.sequences is None:
        return None
    if records.sequences is not None:
        if sequence is not None:
            raise Refused("the column 'sequence' numbers every message; leave the parameter out")
        sequence = 0
    if not producer or sequence is None:
        raise Refused("a numbered request has a producer_id and a sequence, and an epoch unless that is 0")
    asked_for = records.partitions
    if asked_for is None or (not isinstance(asked_for, int) and asked_for.null_count):
        raise Refused("a numbered request needs its partition, in the query or in every message")
    return Numbered(producer, epoch or 0, sequence)


def _agreed(name: str, asked: T | None, found: T | UnsetType | None) -> T | None:
    """Return what the query or the body says; refuse two different things."""
    if found is UNSET or found is None:
        return asked
    if asked is not None and asked != found:
        raise Refused(f"{name} is {asked!r} in the query and {found!r} in the body")
    return found


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/produce",
        "Append messages, all or none",
        PRODUCE,
        produce,
        {200: {JSON: (Stored, StoredMany)}},
        _query,
        refusals=(404, 409, 507),
        messages=Message,
    ),
)
