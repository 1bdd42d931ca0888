"""Answers piece by piece: the head first, backpressure, and hearing that the peer is gone."""

import asyncio
import threading
from collections.abc import Callable, Iterable

import pytest

from cordwood.http.connection import Connection
from cordwood.http.limits import Limits
from cordwood.http.occupancy import Occupancy
from cordwood.http.request import Request
from cordwood.http.stream import Gone, Stream
from tests.http.running import LOOPS, Running, get, until


@LOOPS
def test_a_stream_sends_its_head_before_its_first_piece(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    go = threading.Event()

    async def run(stream: Stream) -> None:
        await asyncio.get_running_loop().run_in_executor(None, go.wait)
        for piece in (b"one", b"", b"two"):
            await stream.send(piece)

    with Running(lambda request: Stream(run), new_loop=new_loop) as server, server.connect() as client:
        client.send(get("/") + get("/"))
        status, headers = client.head()
        assert (status, headers["content-type"]) == (200, "application/x-ndjson")
        go.set()
        assert list(client.chunks()) == [b"one", b"two"]
        assert client.reply().body == b"onetwo"  # on the same connection


def test_a_stream_to_http_1_0_ends_with_the_connection() -> None:
    async def run(stream: Stream) -> None:
        await stream.send(b"one")
        await stream.send(b"two")

    with Running(lambda request: Stream(run)) as server, server.connect() as client:
        client.send(get("/", b"Connection: keep-alive\r\n", version="1.0"))
        _, headers = client.head()
        assert "transfer-encoding" not in headers
        assert client.file.read() == b"onetwo"


def test_head_of_a_stream_does_not_run_it() -> None:
    ran: list[Stream] = []
    streams: list[Stream] = []

    async def run(stream: Stream) -> None:
        ran.append(stream)

    def handle(request: Request) -> Stream:
        streams.append(Stream(run))
        return streams[-1]

    with Running(handle) as server, server.connect() as client:
        for _ in range(2):  # the connection goes on
            client.send(get("/", method="HEAD"))
            assert client.reply(of_head=True).status == 200
    assert [stream.closed.is_set() for stream in streams] == [True, True]
    assert not ran


@LOOPS
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_a_stream_waits_for_a_peer_that_does_not_read(
    new_loop: Callable[[], asyncio.AbstractEventLoop], version: str
) -> None:
    sent = 0
    total, piece = 64 << 20, bytes(32 << 10)

    async def run(stream: Stream) -> None:
        nonlocal sent
        while sent < total:
            await stream.send(piece)
            sent += len(piece)

    with Running(lambda request: Stream(run), new_loop=new_loop) as server, server.connect() as client:
        client.send(get("/", version=version))
        seen = -1
        while sent != seen or sent == 0:  # until it stands still
            seen = sent
            assert not threading.Event().wait(0.2)
        assert sent < total, "64 MiB do not fit into the buffers of a socket"
        client.head()
        rest = client.chunks() if version == "1.1" else iter(lambda: client.file.read(1 << 20), b"")
        assert sum(len(part) for part in rest) == total


@LOOPS
@pytest.mark.parametrize("where", ["sending", "elsewhere"])
def test_a_stream_hears_at_once_that_its_peer_went_away(
    new_loop: Callable[[], asyncio.AbstractEventLoop], where: str
) -> None:
    told: list[str] = []
    over = threading.Event()

    async def run(stream: Stream) -> None:
        stream.when_closed(lambda: told.append("closed"))
        try:
            await stream.send(b"first")
            while where == "sending":
                await stream.send(bytes(100_000))
            await asyncio.sleep(3600)
        except (Gone, asyncio.CancelledError) as error:
            told.append(type(error).__name__)
            assert stream.closed.is_set()
            with pytest.raises(Gone):
                await stream.send(b"more")
            raise
        finally:
            over.set()

    with Running(lambda request: Stream(run), new_loop=new_loop) as server:
        with server.connect() as client:
            client.send(get("/"))
            client.head()
            assert client.chunk() == b"first"
        assert over.wait(60)
        until(lambda: not server.listener.connections)
        assert server.call(asyncio.sleep(0)) is None
    assert told == ["closed", "Gone" if where == "sending" else "CancelledError"]


def test_each_callback_of_a_closed_stream_is_called_once_whatever_another_does() -> None:
    async def run(stream: Stream) -> None: ...

    async def scenario() -> list[str]:
        stream, told = Stream(run), list[str]()
        stream.when_closed(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
        stream.when_closed(lambda: told.append("before"))
        stream.close()
        stream.close()
        stream.when_closed(lambda: told.append("after"))
        return told

    assert asyncio.run(scenario()) == ["before", "after"]


def test_a_stream_that_fails_is_cut_short_so_that_its_client_can_tell() -> None:
    async def run(stream: Stream) -> None:
        await stream.send(b"one")
        raise ValueError("the secret")

    with Running(lambda request: Stream(run)) as server, server.connect() as client:
        client.send(get("/"))
        client.head()
        assert client.chunk() == b"one"
        assert client.file.read() == b"", "no last chunk, no traceback"


def test_a_stream_that_comes_too_late_is_closed() -> None:
    streams: list[Stream] = []
    begun, go = threading.Event(), threading.Event()

    async def run(stream: Stream) -> None:
        raise AssertionError("nobody is there")

    async def late(request: Request) -> Stream:
        begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            streams.append(Stream(run))
            go.set()
        return streams[0]

    with Running(late) as server:
        with server.connect() as client:
            client.send(get("/"))
            assert begun.wait(60)
        assert go.wait(60)
        until(lambda: not server.listener.connections)
        assert streams[0].closed.is_set()


def test_a_stream_whose_head_is_already_too_much_for_the_reader_waits() -> None:
    sent = []

    async def run(stream: Stream) -> None:
        await stream.send(b"piece")
        sent.append("piece")

    class Full(asyncio.Transport):
        """A transport that can take no more after the first write."""

        def write(self, data: bytes | bytearray | memoryview) -> None:
            connection.pause_writing()

        def writelines(self, pieces: Iterable[bytes | bytearray | memoryview]) -> None: ...

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

        def get_write_buffer_size(self) -> int:
            return 1

    async def scenario() -> None:
        nonlocal connection
        limits = Limits()
        connection = Connection(lambda request: Stream(run), limits, Occupancy(limits))
        connection.connection_made(Full())
        asked = get("/")
        connection.get_buffer(-1)[: len(asked)] = asked
        connection.buffer_updated(len(asked))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not sent
        connection.resume_writing()
        for _ in range(5):
            await asyncio.sleep(0)
        assert sent

    connection: Connection
    asyncio.run(scenario())
