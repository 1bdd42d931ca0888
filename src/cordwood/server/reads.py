"""The log read by offset or time, and where the bytes of a range are. No group is asked, nothing is leased.

    without follow    up to the end as it was when the request came
    with follow       from there on as messages become visible, until the client goes or the topic does

Read in pages; between two of them the loop is free for others.
"""

import asyncio
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct, field

from cordwood.broker.reads import SpanInfo
from cordwood.broker.starts import EARLIEST, Start
from cordwood.broker.topics import TopicInfo
from cordwood.errors import NotFound, Refused
from cordwood.http.request import Request
from cordwood.http.response import Headers, Response
from cordwood.http.stream import Stream
from cordwood.server import formats
from cordwood.server.desk import Desk, as_json
from cordwood.server.formats import ARROW, JSON, NDJSON
from cordwood.server.lease import Leased, encoded
from cordwood.server.need import CONSUME
from cordwood.server.parameters import Parameters
from cordwood.server.places import Offset, Place, place
from cordwood.server.refusals import answering
from cordwood.server.route import Answer, Route, json
from cordwood.wire import arrow
from cordwood.wire.message import Time
from cordwood.wire.ndjson import Row
from cordwood.wire.run import Run

TEXT_PAGE = 1_000  # messages; to make text of them takes a millisecond or two
ARROW_PAGE = 16_384
MOST_JSON = 10_000
JSON_BYTES = 8 << 20
START_HEADER = "Cordwood-Start-Offset"  # where each partition that is read begins; an expired offset is not the one
PLACES = 64  # partitions whose beginning is looked for before the loop is let go; for a time that reads the disk
SHOWN_STARTS = 100  # partitions whose first offset still fits into a header


class Read(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages to read: of one partition, or of all, one after the other."""

    topic: str
    partition: Offset | None = None
    offset: Offset | None = None
    timestamp: Annotated[Time, Meta(description="the first message at or after it")] | None = None
    from_: Annotated[Place, Meta(description="earliest, latest, an offset or a time")] | None = field(
        default=None, name="from"
    )
    limit: Annotated[int, Meta(ge=0, description="in JSON at most 10,000 and 8 MiB, and 100 unless told")] | None = (
        None
    )
    follow: Annotated[bool, Meta(description="go on with what comes")] = False


class Spans(Struct, frozen=True, forbid_unknown_fields=True):
    """A range of offsets, the same in every partition; without `to` up to the end."""

    topic: str
    from_: Offset | None = field(default=None, name="from")
    to: Offset | None = None
    partition: Offset | None = None


class SpanList(Struct, frozen=True):
    """Where the messages of a range are."""

    topic: str
    spans: list[SpanInfo]


_read = Parameters(Read)
_spans = Parameters(Spans)


class Cursor:
    """A place in some partitions of a topic; each page moves it on.

    Pages come from the partitions in turn, each up to its end. With `follow`, `look_again` moves the ends to what is
    visible now.
    """

    def __init__(self, desk: Desk, info: TopicInfo, starts: dict[int, int], limit: int | None, most: int):
        self._desk = desk
        self._broker = desk.broker
        self._info = info
        self._left = limit
        self._most = most
        self._offsets = dict(starts)
        self._ends: dict[int, int] = {}
        self._open: list[int] = []
        self.look_again()

    def look_again(self) -> None:
        """Take notice of what has become visible. Raises NotFound when the topic is gone."""
        topic = self._broker.state.topics.get(self._info.name)
        if topic is None or topic.id != self._info.id:
            raise NotFound(f"the topic {self._info.name!r} was deleted")
        self._ends = {number: topic.partitions[number].shown for number in self._offsets}
        self._open = [number for number, end in self._ends.items() if self._offsets[number] < end]

    @property
    def finished(self) -> bool:
        """Whether as many messages were read as were asked for."""
        return self._left == 0

    async def page(self) -> list[Run]:
        """Return the next messages; none at the end."""
        while self._open and not self.finished:
            number = self._open[0]
            offset, end = self._offsets[number], self._ends[number]
            most = min(self._most, end - offset, self._most if self._left is None else self._left)
            page = partial(self._broker.page, self._info.name, self._info.id, number, offset, most)
            found = await self._desk.here(page)
            self._offsets[number] = found.next_offset
            if found.next_offset >= end or found.next_offset == offset:
                self._open.pop(0)
            if self._left is not None:
                self._left -= sum(run.batch.num_rows for run in found.runs)
            if found.runs:
                return found.runs
        return []


@answering
async def read(desk: Desk, request: Request) -> Response | Stream:
    """Answer with messages from a place on, oldest first."""
    asked = _read.read(request)
    kind = formats.wanted(request, NDJSON, ARROW, JSON)
    start = _start(asked)
    limit = asked.limit
    if kind == JSON:
        if asked.follow:
            raise Refused(f"follow is a stream; it comes as {NDJSON} or {ARROW}")
        limit = 100 if limit is None else limit
        if limit > MOST_JSON:
            raise Refused(f"limit is {MOST_JSON} at most in {JSON}; {NDJSON} has no limit")
    info: TopicInfo = await desk.result(lambda then: desk.broker.topic(asked.topic, then))
    numbers = [found.partition for found in info.partitions]
    if asked.partition is not None:
        if asked.partition not in numbers:
            raise Refused(f"the topic has partitions 0 to {len(numbers) - 1}, not {asked.partition}")
        numbers = [asked.partition]
    starts: dict[int, int] = {}
    for number in numbers:
        starts[number] = await desk.here(partial(desk.broker.place, asked.topic, number, start))
        if not len(starts) % PLACES:
            await asyncio.sleep(0)
    cursor = Cursor(desk, info, starts, limit, ARROW_PAGE if kind == ARROW else TEXT_PAGE)
    headers: Headers = ()
    if len(numbers) <= SHOWN_STARTS:
        headers = ((START_HEADER, ", ".join(map(str, starts.values()))),)
    first = await cursor.page()  # before the status is sent: what cannot be read is an error, no cut stream
    if kind == JSON:
        return Response(200, await encoded(JSON, await _whole(cursor, first)), JSON, headers)

    async def run(stream: Stream) -> None:
        if kind == ARROW:
            await stream.send(arrow.HEAD)
        await _send(stream, kind, cursor, first)
        if asked.follow:
            await _follow(desk, asked.topic, stream, kind, cursor)
        if kind == ARROW:
            await stream.send(arrow.END)

    return Stream(run, content_type=kind, headers=headers)


def _start(asked: Read) -> Start:
    if asked.offset is not None:
        if asked.from_ is not None or asked.timestamp is not None:
            raise Refused("only one of offset, timestamp and from is accepted")
        return Start(offset=asked.offset)
    return place(asked.from_, asked.timestamp, "from") or EARLIEST


async def _whole(cursor: Cursor, page: list[Run]) -> list[Run]:
    """Return all pages, up to what one body may have; who wants more goes on from there."""
    runs: list[Run] = []
    size = 0
    while page:
        runs += page
        size += sum(run.batch.nbytes for run in page)
        if size >= JSON_BYTES:
            break
        await asyncio.sleep(0)
        page = await cursor.page()
    return runs


async def _send(stream: Stream, kind: str, cursor: Cursor, runs: list[Run]) -> None:
    while runs:
        for run in runs:
            await stream.send(*formats.encode(kind, run))
        await asyncio.sleep(0)
        runs = await cursor.page()


async def _follow(desk: Desk, topic: str, stream: Stream, kind: str, cursor: Cursor) -> None:
    """Send what becomes visible, until enough was read, the topic goes, or the server stops."""
    news = asyncio.Event()
    unwatch = desk.broker.watch(topic, news.set)
    ending = asyncio.ensure_future(stream.ending.wait())
    ending.add_done_callback(lambda _: news.set())
    try:
        while not cursor.finished:
            news.clear()
            cursor.look_again()
            await _send(stream, kind, cursor, await cursor.page())
            if stream.ending.is_set():
                return
            if not cursor.finished:
                await news.wait()
    except NotFound:
        return  # whoever asks again is told
    finally:
        unwatch()
        ending.cancel()


def spans(desk: Desk, request: Request) -> Answer:
    """Answer with where the messages of a range are."""
    asked = _spans.read(request)

    def render(found: list[SpanInfo]) -> Response:
        return as_json(SpanList(asked.topic, [span for span in found if asked.partition in (None, span.partition)]))

    return desk.ask(lambda then: desk.broker.spans(asked.topic, asked.from_, asked.to, then), render)


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/v1/read",
        "Read the log",
        CONSUME,
        read,
        {200: {NDJSON: Row, ARROW: bytes, JSON: Leased}},
        _read,
        refusals=(404,),
        headers=(START_HEADER,),
    ),
    Route(
        "GET",
        "/v1/spans",
        "Where the bytes of a range are",
        CONSUME,
        spans,
        {200: json(SpanList)},
        _spans,
        refusals=(404,),
    ),
)
