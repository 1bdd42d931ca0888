"""Answers: at once or later, in order, and what happens when a side fails or goes away."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from cordwood.http.exchange import Exchange
from cordwood.http.later import Later, Outcome
from cordwood.http.limits import Limits
from cordwood.http.occupancy import Occupancy
from cordwood.http.refusal import Refusal
from cordwood.http.request import Request
from cordwood.http.response import Response
from tests.http.running import HOST, LOOPS, Running, get, until


@LOOPS
def test_pipelined_requests_are_answered_in_order_however_long_each_takes(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def later(request: Request) -> Response:
        await asyncio.sleep(0.02)
        return Response(200, request.path.encode())

    def handle(request: Request) -> Response | Awaitable[Response]:
        return later(request) if request.path.endswith("slow") else Response(200, request.path.encode())

    paths = ["/1slow", "/2", "/3slow", "/4slow", "/5"]
    with Running(handle, new_loop=new_loop) as server, server.connect() as client:
        client.send(b"".join(get(path) for path in paths))
        client.send(get("/6slow") + get("/7"))
        assert [client.reply().body.decode() for _ in range(7)] == [*paths, "/6slow", "/7"]


def test_much_that_is_pipelined_behind_a_slow_request_waits_and_is_answered() -> None:
    go = threading.Event()

    async def slow(request: Request) -> Response:
        await asyncio.get_running_loop().run_in_executor(None, go.wait)
        return Response(200, b"slow")

    def handle(request: Request) -> Response | Awaitable[Response]:
        return slow(request) if request.path == "/slow" else Response(200, bytes(request.body))

    body = bytes(50_000)
    with Running(handle) as server, server.connect() as client:
        client.send(get("/slow"))
        raw = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 50000\r\n\r\n" + body
        sender = threading.Thread(target=client.send, args=(raw * 200,))
        sender.start()
        go.set()
        assert client.reply().body == b"slow"
        for _ in range(200):
            assert client.reply().body == body
        sender.join()


def test_an_answer_given_at_once_costs_no_task() -> None:
    made: list[object] = []

    def factory(
        loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **names: Any
    ) -> asyncio.Task[Any]:
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **names)

    async def count_tasks() -> None:
        asyncio.get_running_loop().set_task_factory(factory)  # type: ignore[arg-type]

    with Running(lambda request: Response(200, b"x")) as server, server.connect() as client:
        server.call(count_tasks())
        for _ in range(3):
            client.send(get("/"))
            client.reply()
        assert not made


def test_a_future_of_the_handler_is_awaited_without_a_task_and_survives_the_client() -> None:
    futures: list[asyncio.Future[Response]] = []
    given = threading.Semaphore(0)

    def handle(request: Request) -> Awaitable[Response]:
        futures.append(asyncio.get_running_loop().create_future())
        given.release()
        return futures[-1]

    async def resolve() -> int:
        tasks = len(asyncio.all_tasks()) - 1  # without this one
        futures[-1].set_result(Response(200, b"done"))
        return tasks

    with Running(handle) as server:
        with server.connect() as client:
            client.send(get("/"))
            given.acquire()
            assert server.call(resolve()) == 0
            assert client.reply().body == b"done"
            client.send(get("/"))
            given.acquire()
        until(lambda: not server.listener.connections)
        assert not futures[-1].cancelled()
        server.call(resolve())
        assert server.listener.connections == 0


@LOOPS
def test_answers_that_are_given_together_are_written_together_and_in_order(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    waiting: dict[str, Later] = {}

    def handle(request: Request) -> Later:
        waiting[request.path] = Later()
        return waiting[request.path]

    async def give(*paths: str) -> None:
        for path in paths:
            waiting[path].give(Response(200, path.encode()))

    with Running(handle, new_loop=new_loop) as server, server.connect() as client:
        client.send(b"".join(get(f"/{n}") for n in range(6)))
        until(lambda: len(waiting) == 6)
        server.call(give("/2", "/1"))
        server.call(give("/0"))  # now the first three are there, in one piece
        assert [client.reply().body for _ in range(3)] == [b"/0", b"/1", b"/2"]
        server.call(give("/5", "/3", "/4"))
        assert [client.reply().body for _ in range(3)] == [b"/3", b"/4", b"/5"]


def test_a_later_answer_that_is_an_error_is_the_answer_and_the_connection_goes_on() -> None:
    waiting: list[Later] = []

    def handle(request: Request) -> Later:
        waiting.append(Later())
        return waiting[-1]

    async def give(*outcomes: Outcome) -> None:
        for later, outcome in zip(waiting, outcomes, strict=True):
            later.give(outcome)

    with Running(handle) as server, server.connect() as client:
        client.send(get("/") * 3)
        until(lambda: len(waiting) == 3)
        server.call(give(Refusal(409, "no"), RuntimeError("secret"), Response(200, b"yes")))
        replies = [client.reply() for _ in range(3)]
        assert [reply.status for reply in replies] == [409, 500, 200]
        assert b"secret" not in replies[1].body


def test_a_large_answer_among_small_ones_keeps_its_place() -> None:
    waiting: list[Later] = []
    large = bytes(range(256)) * 1000

    def handle(request: Request) -> Later:
        waiting.append(Later())
        return waiting[-1]

    async def give() -> None:
        for n, later in enumerate(waiting):
            later.give(Response(200, large if n == 1 else (b"a", b"b") if n == 3 else b"%d" % n))

    with Running(handle) as server, server.connect() as client:
        client.send(get("/") * 5)
        until(lambda: len(waiting) == 5)
        server.call(give())
        assert [client.reply().body for _ in range(5)] == [b"0", large, b"2", b"ab", b"4"]


def test_a_client_that_went_away_gets_nothing_and_hurts_nobody() -> None:
    waiting: list[Later] = []

    def handle(request: Request) -> Later:
        waiting.append(Later())
        return waiting[-1]

    async def give() -> None:
        for later in waiting:
            later.give(Response(200, b"late"))

    with Running(handle) as server:
        with server.connect() as client:
            client.send(get("/") * 3)
            until(lambda: len(waiting) == 3)
        until(lambda: server.listener.connections == 0)
        server.call(give())
        waiting.clear()
        with server.connect() as client:
            client.send(get("/"))
            until(lambda: len(waiting) == 1)
            server.call(give())
            assert client.reply().body == b"late"


def test_an_answer_that_is_awaited_comes_from_whoever_gives_it() -> None:
    async def both() -> list[object]:
        early, late = Later(), Later()
        early.give(Response(200, b"early"))
        task = asyncio.ensure_future(_awaited(late))
        await asyncio.sleep(0)
        late.give(ValueError("why"))
        return [(await early).body, await task]

    assert asyncio.run(both()) == [b"early", "why"]


async def _awaited(later: Later) -> str:
    try:
        await later
    except ValueError as error:
        return str(error)
    return "nothing"


@pytest.mark.parametrize("kind", ["at once", "later", "cancelled", "no answer"])
def test_a_handler_that_fails_gives_500_and_the_reason_only_to_the_log(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def later() -> Response:
        raise ValueError("the secret")

    async def cancelled() -> Response:
        raise asyncio.CancelledError("the secret")

    def handle(request: Request) -> Awaitable[Response]:
        if kind == "at once":
            raise ValueError("the secret")
        if kind == "no answer":
            return "the secret"  # type: ignore[return-value]
        return later() if kind == "later" else cancelled()

    with caplog.at_level(logging.ERROR, "cordwood.http"), Running(handle) as server, server.connect() as client:
        for _ in range(2):  # the connection goes on
            client.send(get("/"))
            reply = client.reply()
            assert (reply.status, reply.error) == (500, "INTERNAL")
            assert b"secret" not in reply.body
            assert b"Traceback" not in reply.body
    assert len([record for record in caplog.records if record.exc_info]) == 2


def test_a_refusal_raised_by_a_handler_is_its_answer_and_the_connection_goes_on() -> None:
    async def handle(request: Request) -> Response:
        raise Refusal(409, "no", facts={"epoch": 3})

    with Running(handle) as server, server.connect() as client:
        for _ in range(2):
            client.send(get("/"))
            assert client.reply().json == {"error": "FAILED_PRECONDITION", "message": "no", "epoch": 3}


def test_a_coroutine_is_cancelled_when_its_client_goes_away() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def handle(request: Request) -> Response:
        begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return Response()

    with Running(handle) as server:
        with server.connect() as client:
            client.send(get("/"))
            assert begun.wait(60)
        assert cancelled.wait(60)


@pytest.mark.parametrize("behind", [False, True])
def test_an_answer_that_is_made_when_its_client_goes_away_is_undone(*, behind: bool) -> None:
    undone = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        gate, earlier = loop.create_future(), loop.create_future()

        async def answer() -> Response:
            await gate
            return Response(200, b"messages", unsent=lambda: undone.append(True))

        answers = [earlier, answer()] if behind else [answer()]
        exchange = Exchange(lambda _: answers.pop(0), Occupancy(Limits()), lambda: None)
        for _ in range(len(answers)):
            exchange.start(Request("GET", b"/", {}, b""))
        await asyncio.sleep(0)
        gate.set_result(None)
        if behind:  # its answer is there, and waits for the one before
            await asyncio.sleep(0.01)
            exchange.abandon()
        else:  # the answer is made in this turn of the loop, and would be written in the next
            loop.call_soon(exchange.abandon)
        await asyncio.sleep(0.01)

    asyncio.run(run())
    assert undone == [True]


def test_a_large_answer_arrives_whole() -> None:
    body = bytes(range(256)) * 100_000
    with Running(lambda request: Response(200, memoryview(body), "application/octet-stream")) as server:
        assert server.ask(get("/")).body == body


def test_a_peer_is_named() -> None:
    with Running(lambda request: Response(200, request.peer.encode())) as server, server.connect() as client:
        host, port = client.sock.getsockname()
        client.send(get("/"))
        assert client.reply().body.decode() == f"{host}:{port}"


@LOOPS
def test_requests_behind_a_future_are_begun_before_it_is_there_and_answered_in_order(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    waiting: list[tuple[str, asyncio.Future[Response]]] = []
    begun = threading.Event()

    def handle(request: Request) -> Response | Awaitable[Response]:
        if request.path == "/now":
            return Response(200, b"/now")
        future = asyncio.get_running_loop().create_future()
        waiting.append((request.path, future))
        if len(waiting) == 4:
            begun.set()
        return future

    async def settle() -> None:
        for path, future in reversed(waiting):  # the last one first
            future.set_result(Response(200, path.encode()))
            await asyncio.sleep(0.001)

    paths = ["/1", "/2", "/now", "/3", "/4"]
    with Running(handle, new_loop=new_loop) as server, server.connect() as client:
        client.send(b"".join(get(path) for path in paths))
        assert begun.wait(60), "all of them wait together"
        server.call(settle())
        assert [client.reply().body.decode() for _ in paths] == paths


def test_nothing_is_begun_behind_a_request_that_ends_the_connection() -> None:
    begun: list[str] = []

    def handle(request: Request) -> Awaitable[Response]:
        begun.append(request.path)
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.05, future.set_result, Response(200, b"last"))
        return future

    with Running(handle) as server, server.connect() as client:
        client.send(get("/1", b"Connection: close\r\n") + get("/2"))
        assert client.reply().body == b"last"
        assert client.ended()
    assert begun == ["/1"]


@LOOPS
@pytest.mark.parametrize("size", [60_000, 70_000, 1_000_000, 5_000_000])
def test_large_bodies_one_behind_the_other_arrive_as_they_were_sent(
    size: int, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    bodies = [bytes([n]) * (size + n) for n in range(4)]
    raw = b"".join(
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body + get("/between")
        for body in bodies
    )
    with Running(lambda r: Response(200, bytes(r.body)), new_loop=new_loop) as server, server.connect() as client:
        sender = threading.Thread(target=client.send, args=(raw,))
        sender.start()
        for body in bodies:
            assert client.reply().body == body
            assert client.reply().body == b""
        sender.join()


def test_a_client_that_is_too_slow_still_gets_the_answers_it_waits_for() -> None:
    waiting: list[asyncio.Future[Response]] = []

    def handle(request: Request) -> Awaitable[Response]:
        future = asyncio.get_running_loop().create_future()
        waiting.append(future)
        asyncio.get_running_loop().call_later(0.6, future.set_result, Response(200, b"first"))
        return future

    with Running(handle, Limits(head_s=0.2, linger_s=0.2)) as server, server.connect() as client:
        client.send(get("/1") + b"GET /half")
        assert client.reply().body == b"first"
        assert client.reply().status == 408


def test_all_requests_that_were_begun_are_answered_when_the_server_stops() -> None:
    waiting: list[asyncio.Future[Response]] = []

    def handle(request: Request) -> Awaitable[Response]:
        future = asyncio.get_running_loop().create_future()
        waiting.append(future)
        return future

    async def settle() -> None:
        for number, future in enumerate(waiting):
            future.set_result(Response(200, b"%d" % number))

    with Running(handle) as server, server.connect() as client:
        client.send(get("/") * 5)
        until(lambda: len(waiting) == 5)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        server.call(settle())
        assert [client.reply().body for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
        stopping.join()
