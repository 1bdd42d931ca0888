"""Clients that leave, and bodies that wait: the broker goes on, and what was accepted stays."""

import asyncio
import threading
from typing import Any

import pytest

from cordwood.errors import Limited
from cordwood.http.request import Request
from cordwood.machine.clock import SystemClock
from cordwood.server.desk import Desk
from cordwood.server.routes import handler, open_door
from tests.server.serving import Serving

LARGE = b'{"value":"%s"}\n' % (b"x" * 1000) * 1000
NDJSON = {b"content-type": b"application/x-ndjson"}


@pytest.mark.parametrize(
    ("target", "headers", "body"),
    [
        (b"/v1/produce?topic=clicks", NDJSON, LARGE),
        (b"/v1/stage?topic=clicks&writer=w&batch=0", NDJSON, LARGE),
        (b"/v1/produce?topic=clicks", {}, b'{"value":"a"}'),
        (b"/v1/ack?topic=clicks&group=mailer&partition=0&offset=0", {}, b""),
        (b"/v1/topics", {}, b'{"name":"other"}'),
        (b"/v1/read?topic=clicks", {}, b""),
    ],
)
def test_whoever_leaves_before_the_answer_leaves_a_broker_that_goes_on(
    server: Serving, target: bytes, headers: dict[bytes, bytes], body: bytes
) -> None:
    server.topic()
    server.produce("a")
    server.lease()

    async def scene() -> None:
        handle = handler(server.running)
        method = "GET" if b"read" in target else "POST"
        for turns in range(20):  # to be cancelled in every state it may be in
            waiting: Any = asyncio.ensure_future(handle(Request(method, target, headers, body)))  # type: ignore[arg-type]
            for _ in range(turns):
                await asyncio.sleep(0.0005 if turns > 10 else 0)
            waiting.cancel()

    server.call(scene())
    assert server.post("/v1/produce", {"topic": "clicks", "value": "z"}).status == 200
    assert server.values()[-1] == "z"
    assert server.get("/v1/healthz").status == 200


def test_bodies_that_wait_to_be_read_are_bounded(server: Serving) -> None:
    go_on = threading.Event()

    async def scene() -> None:
        desk = Desk(server.running, SystemClock(), lambda: 0, open_door(server.running))
        most = server.settings.max_pending_bytes
        waiting = asyncio.ensure_future(desk.aside(most - 1, go_on.wait))
        await asyncio.sleep(0)
        with pytest.raises(Limited) as refused:
            await desk.aside(2, go_on.wait)
        assert refused.value.reason == "pending_bytes_full"
        go_on.set()
        assert await waiting
        assert await desk.aside(most + 1, go_on.wait), "one that is alone is always read"
        assert desk.aside_bytes == 0

    server.call(scene())
