"""What happens now, once a second, as server-sent events.

    nobody looks      no timer, nothing is counted
    somebody looks    timer ──▶ count ──▶ one snapshot, encoded once ──▶ every looker

A looker that reads slowly misses snapshots: none is kept for it. Who shows a token that is not for every topic is
sent a narrower one, with what it may see.
"""

import asyncio
from collections import deque
from functools import partial

import msgspec

from cordwood.auth.right import Right
from cordwood.errors import Limited
from cordwood.http.request import Request
from cordwood.http.stream import Stream
from cordwood.server.desk import Desk
from cordwood.server.need import LISTED
from cordwood.server.route import Route, only_names
from cordwood.server.snapshot import Counted, Live, counted, listed, snapshot
from cordwood.server.visit import Visit

EVENTS = "text/event-stream"
BEAT_S = 1.0
KEPT = 11  # counts, so that ten seconds lie between the first and the last
MOST_LOOKERS = 64


def narrowed(live: Live | None, visit: Visit | None) -> Live:
    """Return what of a snapshot somebody may see: topics with any right, groups with the right to consume."""
    assert live is not None, "somebody looks, so there is one"
    assert visit is not None, "whoever may not see all is known"
    topics = [topic for topic in live.topics if visit.may(None, topic.name)]
    groups = [group for group in live.groups if visit.may(Right.CONSUME, group.topic)]
    return msgspec.structs.replace(
        live, topics=topics, groups=groups, topic_count=len(topics), group_count=len(groups)
    )


def _event(live: Live) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(live)


class Pulse:
    """Snapshots of one broker for everybody who looks: one a second while somebody does, none while nobody does."""

    def __init__(self, desk: Desk):
        self._desk = desk
        self._waiting: set[asyncio.Event] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._counts: deque[Counted] = deque(maxlen=KEPT)
        self._live: Live | None = None
        self._event = b""

    @property
    def lookers(self) -> int:
        """How many there are."""
        return len(self._waiting)

    @property
    def beats(self) -> bool:
        """Whether snapshots are made."""
        return self._timer is not None

    async def show(self, stream: Stream, visit: Visit | None) -> None:
        """Send a snapshot at once, and then each, until the looker goes or the server stops."""
        news = asyncio.Event()
        wide = visit is None or visit.may_everywhere(Right.CONSUME)
        if not self._waiting:
            self._counts.clear()
            self._beat()
        self._waiting.add(news)
        ending = asyncio.ensure_future(stream.ending.wait())
        ending.add_done_callback(lambda _: news.set())
        try:
            while not stream.ending.is_set():
                news.clear()
                await stream.send(self._event if wide else _event(narrowed(self._live, visit)))
                await news.wait()
        finally:
            ending.cancel()
            self._waiting.discard(news)
            if not self._waiting and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _beat(self) -> None:
        self._timer = self._desk.loop.call_later(BEAT_S, self._beat)
        shown = listed(self._desk.broker.state.topics.values())
        self._counts.append(counted(self._desk, shown))
        self._live = snapshot(self._desk, shown, self._counts)
        self._event = _event(self._live)
        for news in self._waiting:
            news.set()


_pulses: dict[Desk, Pulse] = {}  # of the brokers in this process that somebody looks at


async def _look(desk: Desk, stream: Stream, visit: Visit | None) -> None:
    found = _pulses.setdefault(desk, Pulse(desk))
    try:
        await found.show(stream, visit)
    finally:
        if not found.lookers:
            _pulses.pop(desk, None)


def live(desk: Desk, request: Request) -> Stream:
    """Answer with a snapshot a second, until the client goes."""
    only_names(request)
    found = _pulses.get(desk)
    if found is not None and found.lookers >= MOST_LOOKERS:
        raise Limited(f"{MOST_LOOKERS} clients look already; close one of them", "lookers_full", 10_000)
    return Stream(partial(_look, desk, visit=request.visit), content_type=EVENTS)


ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/live", "What happens now, once a second", LISTED, live, {200: {EVENTS: Live}}),
)
