"""Binding, TLS, and stopping: the idle at once, the busy when they are done, the rest by force."""

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from cordwood.http.limits import Limits
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.http.stream import Stream
from tests.conftest import skip_for_want_of
from tests.http.running import HOST, LOOPS, Running, get


@LOOPS
def test_stopping_closes_the_idle_and_lets_requests_under_way_finish(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def run(stream: Stream) -> None:
        await stream.send(b"one")
        await stream.ending.wait()
        await stream.send(b"last")

    async def slow() -> Response:
        begun.set()
        await asyncio.get_running_loop().run_in_executor(None, ended.wait)
        return Response(200, b"slow")

    def handle(request: Request) -> Stream | Response | Awaitable[Response]:
        if request.path == "/stream":
            return Stream(run)
        return slow() if request.path == "/slow" else Response(200, b"idle")

    with Running(handle, new_loop=new_loop) as server, ExitStack() as stack:
        idle, stream, busy, half = (stack.enter_context(server.connect()) for _ in range(4))
        idle.send(get("/"))
        assert idle.reply().body == b"idle"
        half.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert half.reply().status == 100
        stream.send(get("/stream"))
        stream.head()
        assert stream.chunk() == b"one"
        busy.send(get("/slow"))
        assert begun.wait(60)
        stopping = threading.Thread(target=server.stop, args=(60,))
        stopping.start()
        assert idle.ended()
        assert list(stream.chunks()) == [b"last"]
        assert stream.ended()
        with pytest.raises(ConnectionError):
            server.connect()
        half.send(b"ab")
        assert half.reply().headers["connection"] == "close"
        ended.set()
        assert busy.reply()[1:] == (
            {
                "connection": "close",
                "content-type": "application/json",
                "x-content-type-options": "nosniff",
                "cache-control": "no-store",
                "content-length": "4",
            },
            b"slow",
        )
        assert busy.ended()
        stopping.join(60)
        assert not stopping.is_alive()
        assert server.listener.connections == 0


@LOOPS
def test_what_does_not_finish_within_the_grace_time_is_cut(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    ends: list[str] = []

    async def run(stream: Stream) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            ends.append("cleaned up")

    with Running(lambda request: Stream(run), new_loop=new_loop) as server, server.connect() as client:
        client.send(get("/"))
        client.head()
        server.stop(0.05)
        assert ends == ["cleaned up"], "and stop waited for that"
        assert client.ended()
        server.stop()


def test_a_given_socket_is_served() -> None:
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    with Running(sock=sock) as server:
        assert server.port == port
        assert server.works()


@LOOPS
def test_tls_is_spoken_when_a_context_is_given(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    pem = tmp_path / "both.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    if shutil.which("openssl") is None:
        skip_for_want_of("openssl")
    subprocess.run([*make, "-keyout", "k", "-out", "c"], cwd=tmp_path, check=True, capture_output=True)
    pem.write_bytes((tmp_path / "k").read_bytes() + (tmp_path / "c").read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "c"))
    trusting.check_hostname = False
    with (
        Running(ssl_context=context, limits=Limits(max_body_bytes=10), new_loop=new_loop) as server,
        server.connect() as client,
    ):
        client.file.close()
        client.sock = trusting.wrap_socket(client.sock)
        client.file = client.sock.makefile("rb")
        client.send(get("/tls"))
        assert client.reply().json["path"] == "/tls"
        client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 11\r\n\r\n")
        assert client.reply().status == 413
