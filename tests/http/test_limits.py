"""More than allowed, or slower: refused, and the server lives."""

import ast
from dataclasses import fields, replace
from pathlib import Path

import pytest

import cordwood.http.refusal
from cordwood.http.limits import Limits
from cordwood.http.refusal import CODES
from cordwood.http.response import Response
from tests.http.running import HOST, LIMITS, POST, Running, refused, until


def test_a_body_larger_than_the_limit_is_refused_before_it_is_read() -> None:
    raw = POST + b"Content-Length: 1001\r\n\r\n"  # and not one byte of it
    assert refused(raw) == (413, "PAYLOAD_TOO_LARGE")


def test_a_client_that_expects_to_continue_is_refused_instead() -> None:
    raw = POST + b"Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n"
    assert refused(raw) == (413, "PAYLOAD_TOO_LARGE")


def test_a_body_of_exactly_the_limit_is_taken() -> None:
    raw = POST + b"Content-Length: 1000\r\n\r\n" + bytes(1000)
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + bytes(1000) + b"\r\n0\r\n\r\n"
    with Running(limits=LIMITS) as server:
        assert server.ask(raw).status == 200
        assert server.ask(chunked).status == 200


def test_a_chunked_body_that_grows_over_the_limit_is_refused() -> None:
    raw = POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"64\r\n" + bytes(100) + b"\r\n"
    raw += (b"64\r\n" + bytes(100) + b"\r\n") * 10
    assert refused(raw) == (413, "PAYLOAD_TOO_LARGE")


def test_a_client_that_goes_on_sending_still_reads_why_it_was_refused() -> None:
    with Running(limits=replace(LIMITS, linger_s=30)) as server, server.connect() as client:
        client.send(POST + b"Content-Length: 9000000\r\n\r\n")
        client.send(bytes(9_000_000))
        assert client.reply().status == 413


@pytest.mark.parametrize(
    "limits",
    [
        replace(LIMITS, max_headers=3),
        replace(LIMITS, max_head_bytes=40, max_target_bytes=20),
    ],
    ids=["count", "bytes"],
)
def test_more_headers_than_the_limit_are_refused(limits: Limits) -> None:
    raw = b"GET / HTTP/1.1\r\n" + HOST + b"A: 0123456789\r\nB: 0123456789\r\nC: 0123456789\r\n\r\n"
    with Running(limits=limits) as server:
        assert server.ask(raw).status == 400
        assert server.ask(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n").status == 200


def test_a_header_without_end_is_refused() -> None:
    limits = replace(LIMITS, max_head_bytes=10_000)
    with Running(limits=limits) as server, server.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nA: ")
        sent = 0
        try:
            while sent < 100_000_000:
                client.send(b"a" * 5_000)
                sent += 5_000
                client.sock.settimeout(0.001)
                try:
                    client.sock.recv(1)
                    break
                except TimeoutError:
                    client.sock.settimeout(60)
        except ConnectionError:
            pass
        assert sent < 100_000_000
        assert server.works()


def test_a_trailer_without_end_is_refused() -> None:
    limits = replace(LIMITS, max_head_bytes=10_000, linger_s=30)
    with Running(limits=limits) as server, server.connect() as client:
        client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nT: ")
        for _ in range(100):
            client.send(b"a" * 5_000)
        assert client.reply().status == 400
        assert server.works()


def test_a_target_longer_than_the_limit_is_refused() -> None:
    limits = replace(LIMITS, max_target_bytes=50)
    assert refused(b"GET /" + b"a" * 50 + b" HTTP/1.1\r\n" + HOST + b"\r\n", limits) == (400, "INVALID_ARGUMENT")


def test_more_pipelined_requests_than_the_limit_are_answered_up_to_it_and_refused_then() -> None:
    limits = replace(LIMITS, max_pipelined=3)
    with Running(limits=limits) as server, server.connect() as client:
        client.send(b"".join(b"GET /%d HTTP/1.1\r\n" % n + HOST + b"\r\n" for n in range(5)))
        assert [client.reply().json["path"] for _ in range(4)] == ["/0", "/1", "/2", "/3"]
        assert client.reply().error == "RESOURCE_EXHAUSTED"
        assert client.ended()
        assert server.works()


@pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\nHo"])
def test_a_head_that_takes_too_long_is_refused_with_408(sent: bytes) -> None:
    assert refused(sent, replace(LIMITS, head_s=0.1)) == (408, "UNAVAILABLE")


@pytest.mark.parametrize("coding", [b"Content-Length: 3\r\n\r\na", b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n"])
def test_a_body_that_takes_too_long_is_refused_with_408(coding: bytes) -> None:
    assert refused(POST + coding, replace(LIMITS, body_s=0.1)) == (408, "UNAVAILABLE")


def test_bytes_now_and_then_do_not_prolong_the_time_for_a_head() -> None:
    with Running(limits=replace(LIMITS, head_s=0.3)) as server, server.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nA: ")
        client.sock.settimeout(0.02)
        for _ in range(3000):
            client.send(b"a")
            try:
                assert client.sock.recv(12) == b"HTTP/1.1 408"
                break
            except TimeoutError:
                pass
        else:
            pytest.fail("it may go on for ever")


def test_an_idle_connection_is_closed_without_a_word() -> None:
    with Running(limits=replace(LIMITS, idle_s=0.1, head_s=0.1)) as server:
        with server.connect() as silent:
            assert silent.ended()
        with server.connect() as client:
            client.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            assert client.reply().status == 200
            assert client.ended()


def test_a_client_that_does_not_read_its_answer_is_cut() -> None:
    limits = replace(LIMITS, send_s=0.2)
    with Running(lambda request: Response(200, bytes(64 << 20)), limits) as server, server.connect() as client:
        client.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        until(lambda: server.listener.connections == 1)
        until(lambda: not server.listener.connections)
        with pytest.raises((ConnectionError, AssertionError)):
            assert len(client.reply().body) == 64 << 20


def test_one_connection_too_many_gets_503_and_room_is_made_when_one_leaves() -> None:
    with Running(limits=replace(LIMITS, max_connections=2)) as server:
        with server.connect() as first, server.connect() as second:
            for client in (first, second):
                client.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                assert client.reply().status == 200
            with server.connect() as third:
                third.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                assert third.reply().error == "UNAVAILABLE"
                assert third.ended()
        until(lambda: not server.listener.connections)
        assert server.works()


def test_more_bytes_at_once_than_the_limit_are_refused_with_429_and_given_back() -> None:
    limits = replace(LIMITS, small_body_bytes=10, max_receiving_bytes=1500)
    head = POST + b"Content-Length: %d\r\n\r\n"
    with Running(limits=limits) as server:
        with server.connect() as first:
            first.send(head % 1000 + b"a")
            until(lambda: server.listener.receiving_bytes == 1000)
            reply = server.ask(head % 501)
            assert reply.error == "RESOURCE_EXHAUSTED"
            assert reply.json["reason"] == "pending_bytes_full"
            assert reply.json["retry_after_ms"] > 0
            assert int(reply.headers["retry-after"]) > 0
            growing = POST + b"Transfer-Encoding: chunked\r\n\r\n1f5\r\n" + bytes(501)
            assert server.ask(growing).error == "RESOURCE_EXHAUSTED"
            with server.connect() as second:
                second.send(head % 500)
                until(lambda: server.listener.receiving_bytes == 1500)
                assert server.ask(head % 10 + bytes(10)).status == 200, "a small one always fits"
            until(lambda: server.listener.receiving_bytes == 1000)
            assert server.ask(head % 500 + bytes(500)).status == 200
            first.send(bytes(999))
            assert first.reply().status == 200
        with server.connect() as leaver:
            leaver.send(head % 1000)
            until(lambda: server.listener.receiving_bytes == 1000)
        until(lambda: not server.listener.receiving_bytes)
        assert server.works()


def test_every_refusal_has_a_code_and_every_limit_a_reason() -> None:
    source = Path(cordwood.http.refusal.__file__).parent
    for path in source.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refusal":
                status = node.args[0]
                assert not isinstance(status, ast.Constant) or status.value in CODES, f"{path.name}:{node.lineno}"
    for field in fields(Limits):
        assert f"`{field.name}`" in (Limits.__doc__ or ""), field.name
