"""What is not HTTP: refused, and the server lives."""

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.http.request import Request
from cordwood.http.response import Response
from tests.http.running import HOST, LIMITS, POST, Running, refused, until

MALFORMED = {
    "content length and chunked": POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
    "chunked and content length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
    "two content lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "a signed content length": POST + b"Content-Length: +3\r\n\r\nabc",
    "an endless content length": POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "a bad chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc",
    "an endless chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n",
    "a chunk longer than it says": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
    "two codings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "an unknown coding": POST + b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an encoded body": POST + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\na",
    "an unknown expectation": POST + b"Expect: miracles\r\nContent-Length: 1\r\n\r\n",
    "a bad method": b"FETCH / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method in lower case": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in a header": b"GET / HTTP/1.1\r\nHost: a\r\nA: b\0c\r\n\r\n",
    "NUL in a name": b"GET / HTTP/1.1\r\nHost: a\r\nA\0: b\r\n\r\n",
    "NUL in the target": b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
    "bare line feeds": b"GET / HTTP/1.1\nHost: a\n\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "two authorizations": b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: b\r\nAuthorization: c\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2 by name": b"GET / HTTP/2.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
    "a fragment": b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(100),
    "garbage": bytes(range(255, 128, -1)),
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed_is_refused_with_400_and_closed(raw: bytes) -> None:
    assert refused(raw) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("method", [b"TRACE /", b"CONNECT a:1", b"PROPFIND /"])
def test_a_method_that_is_known_but_not_here_is_refused_with_405(method: bytes) -> None:
    assert refused(method + b" HTTP/1.1\r\nHost: a\r\n\r\n") == (405, "METHOD_NOT_ALLOWED")


def test_a_malformed_request_is_refused_after_those_before_it_are_answered() -> None:
    with Running(limits=LIMITS) as server, server.connect() as client:
        client.send(b"GET /1 HTTP/1.1\r\n" + HOST + b"\r\nrubbish\r\n\r\n")
        assert client.reply().json["path"] == "/1"
        assert client.reply().status == 400
        assert client.ended()


def test_identity_is_no_encoding() -> None:
    raw = POST + b"Content-Encoding: identity\r\nContent-Length: 1\r\n\r\na"
    with Running(limits=LIMITS) as server:
        assert server.ask(raw).json["body"] == "a"


# Whole requests, their parts, and bytes: mixed, so that the fuzz gets further than the first line.
PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(list(MALFORMED.values())),
    st.sampled_from(
        [b"GET / HTTP/1.1\r\n", HOST, b"\r\n", b"\r\n\r\n", b"Content-Length: 3\r\n", b"abc", b"0\r\n\r\n"]
    ),
    st.sampled_from(
        [b"POST /%2F?a=%ff HTTP/1.1\r\n", b"Transfer-Encoding: chunked\r\n", b"2\r\nab\r\n", b"HEAD * HTTP/1.0\r\n"]
    ),
    st.sampled_from(
        [b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n"]
    ),
)


def test_any_bytes_give_an_answer_or_a_close_and_the_next_connection_works() -> None:
    def handle(request: Request) -> Response:
        return Response(200, b"%d" % len(request.body) + request.path.encode())

    with Running(handle, LIMITS) as server:

        @settings(max_examples=300)
        @given(st.lists(PIECES, max_size=12))
        def fuzz(pieces: list[bytes]) -> None:
            with server.connect() as client:
                try:
                    for piece in pieces:
                        client.send(piece)
                    client.sock.shutdown(socket.SHUT_WR)
                    answers = client.file.read()  # to the end, which comes
                except TimeoutError:
                    raise
                except OSError:  # also "not connected": it was reset before it was shut down
                    answers = b""
                assert answers == b"" or answers.startswith(b"HTTP/1.1 ")
                assert b"Traceback" not in answers
                assert b" 500 " not in answers
            assert server.works()

        fuzz()
        until(lambda: not server.listener.connections)
        assert server.listener.receiving_bytes == 0
