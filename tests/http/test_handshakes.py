"""Over TLS the same limits hold, and a connection counts before it has shaken hands."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace

import pytest

from cordwood.http.occupancy import TURNED_AWAY
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.http.stream import Stream
from tests.certificates import Pair, make_pair
from tests.http.running import LIMITS, LOOPS, POST, Client, Running, get, until

NewLoop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("tls"))


def connect(server: Running, pair: Pair) -> Client:
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    return Client(pair.trusting().wrap_socket(plain, server_hostname="localhost"))


def silent(server: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


@LOOPS
def test_requests_are_answered(pair: Pair, new_loop: NewLoop) -> None:
    with Running(ssl_context=pair.serving(), new_loop=new_loop) as server, connect(server, pair) as client:
        for n in range(3):
            client.send(get(f"/{n}"))
            assert client.reply().json["path"] == f"/{n}"
        assert server.listener.handshaking == 0
        assert server.listener.connections == 1


@LOOPS
def test_a_handshake_that_does_not_end_is_ended(pair: Pair, new_loop: NewLoop) -> None:
    limits = replace(LIMITS, head_s=0.2)
    with Running(ssl_context=pair.serving(), limits=limits, new_loop=new_loop) as server:
        with silent(server) as nothing, silent(server) as half:
            half.send(b"\x16\x03\x01\x02\x00")  # the head of a record, and nothing of it
            until(lambda: server.listener.handshaking == 2)
            for sock in (nothing, half):
                with contextlib.suppress(ConnectionError):
                    while sock.recv(100):
                        pass
        until(lambda: server.listener.handshaking == 0)
        with connect(server, pair) as client:
            client.send(get("/"))
            assert client.reply().status == 200


@LOOPS
def test_what_is_no_handshake_is_closed_at_once(pair: Pair, new_loop: NewLoop) -> None:
    with Running(ssl_context=pair.serving(), new_loop=new_loop) as server:
        for sent in (get("/"), b"\x16\x03\x01\xff\xff" + bytes(70_000), b"\x80\x80\x01\x03\x01", b"\n"):
            with silent(server) as sock, contextlib.suppress(ConnectionError):
                sock.sendall(sent)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1000):
                    pass
        for _ in range(20):
            silent(server).close()
        until(lambda: server.listener.handshaking == 0)
        with connect(server, pair) as client:
            client.send(get("/"))
            assert client.reply().status == 200


def test_those_that_have_not_shaken_hands_count(pair: Pair) -> None:
    limits = replace(LIMITS, max_connections=3, head_s=60)
    with Running(ssl_context=pair.serving(), limits=limits) as server, contextlib.ExitStack() as stack:
        most = limits.max_connections + TURNED_AWAY + 1
        waiting = [stack.enter_context(silent(server)) for _ in range(most)]
        until(lambda: server.listener.handshaking == most)
        with silent(server) as late:
            with contextlib.suppress(ConnectionError):
                assert late.recv(1) == b"", "closed without a word"
            assert server.listener.handshaking == most
        for sock in waiting:
            sock.close()
        until(lambda: server.listener.handshaking == 0)
        with connect(server, pair) as client:
            client.send(get("/"))
            assert client.reply().status == 200


def test_one_connection_too_many_is_told_so(pair: Pair) -> None:
    limits = replace(LIMITS, max_connections=1)
    with Running(ssl_context=pair.serving(), limits=limits) as server, connect(server, pair) as first:
        first.send(get("/"))
        assert first.reply().status == 200
        with connect(server, pair) as second:
            assert second.reply().error == "UNAVAILABLE"
            assert second.ended()
        first.send(get("/"))
        assert first.reply().status == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHo", 408),
        (POST + b"Content-Length: 3\r\n\r\na", 408),
        (POST + b"Content-Length: 1001\r\n\r\n", 413),
        (b"nonsense\r\n\r\n", 400),
    ],
)
def test_slow_large_and_malformed_requests_are_refused(pair: Pair, sent: bytes, status: int) -> None:
    limits = replace(LIMITS, head_s=0.3, body_s=0.3)
    with Running(ssl_context=pair.serving(), limits=limits) as server, connect(server, pair) as client:
        client.send(sent)
        assert client.reply().status == status
        assert client.ended()
        until(lambda: server.listener.connections == 0)


def test_a_reader_that_does_not_read_is_cut(pair: Pair) -> None:
    def large(request: Request) -> Response:
        return Response(200, bytes(50_000_000), "text/plain")

    limits = replace(LIMITS, send_s=0.3)
    with Running(large, ssl_context=pair.serving(), limits=limits) as server, connect(server, pair) as client:
        client.send(get("/"))
        until(lambda: server.listener.connections == 1)
        until(lambda: server.listener.connections == 0)


def test_a_stream_is_sent_and_its_end_is_noticed(pair: Pair) -> None:
    closed = []

    async def run(stream: Stream) -> None:
        stream.when_closed(lambda: closed.append(True))
        await stream.send(b"one")
        await stream.closed.wait()

    with Running(lambda request: Stream(run), ssl_context=pair.serving()) as server:
        with connect(server, pair) as client:
            client.send(get("/"))
            client.head()
            assert client.chunk() == b"one"
        until(lambda: bool(closed))
        until(lambda: server.listener.connections == 0)


def test_stopping_breaks_off_handshakes(pair: Pair) -> None:
    with Running(ssl_context=pair.serving(), limits=replace(LIMITS, head_s=60)) as server, silent(server) as sock:
        until(lambda: server.listener.handshaking == 1)
        server.stop(0)
        with contextlib.suppress(ConnectionError):
            assert sock.recv(1) == b""
        until(lambda: server.listener.handshaking == 0)


def test_old_protocols_are_not_spoken(pair: Pair) -> None:
    from cordwood.server.tls import Certificate

    with Running(ssl_context=Certificate(pair.cert, pair.key).context) as server:
        old = pair.trusting()
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with silent(server) as sock, pytest.raises((ssl.SSLError, ConnectionError)):
            old.wrap_socket(sock, server_hostname="localhost")
        with connect(server, pair) as client:
            assert client.sock.version() in ("TLSv1.2", "TLSv1.3")  # type: ignore[attr-defined]


@LOOPS
def test_large_answers_arrive_whole_and_in_order(pair: Pair, new_loop: NewLoop) -> None:
    body = bytes(range(256)) * 8_000

    def large(request: Request) -> Response:
        pieces = (body[:1_000_000], memoryview(body)[1_000_000:]) if request.path == "/pieces" else body
        return Response(200, b"small" if request.path == "/small" else pieces, "text/plain")

    with Running(large, ssl_context=pair.serving(), new_loop=new_loop) as server, connect(server, pair) as client:
        client.send(get("/a") + get("/small") + get("/pieces") + get("/b", method="HEAD") + get("/small"))
        assert client.reply().body == body
        assert client.reply().body == b"small"
        assert client.reply().body == body
        assert client.reply(of_head=True).headers["content-length"] == str(len(body))
        assert client.reply().body == b"small"
