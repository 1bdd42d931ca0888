"""One connection, against a server that sends exactly what it is told."""

import socket
import threading
from collections.abc import Iterator

import pytest

from cordwood.client.connection import Connection
from cordwood.client.endpoint import endpoint


class Scripted:
    """Accepts one connection, reads a request for each answer, and sends the answers as given, piece by piece."""

    def __init__(self, *answers: list[bytes]):
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = endpoint(f"http://127.0.0.1:{self._listener.getsockname()[1]}")
        self.requests: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        peer, _ = self._listener.accept()
        with peer:
            for pieces in self._answers:
                request = peer.recv(65536)
                while b"Content-Length: 3000" in request and len(request) < 3000:
                    request += peer.recv(65536)
                self.requests.append(request)
                for piece in pieces:
                    peer.sendall(piece)

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def scripted(request: pytest.FixtureRequest) -> Iterator[Scripted]:
    """A server for the answers that the test is parametrized with: a list of answers, each a list of pieces."""
    server = Scripted(*request.param)
    yield server
    server.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


def asked(server: Scripted) -> Connection:
    return Connection(server.endpoint, 10)


@pytest.mark.parametrize("scripted", [[[OK]]], indirect=True)
def test_a_request_is_sent_whole_and_its_answer_read(scripted: Scripted) -> None:
    connection = asked(scripted)
    reply = connection.request("POST", "/v1/x", b"body", "text/plain", "application/json")
    assert (reply.status, bytes(reply.body)) == (200, b"hi")
    head, _, body = scripted.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Content-Length: 4" in head
    assert body == b"body"


@pytest.mark.parametrize("scripted", [[[OK[:n], OK[n:]] for n in range(1, len(OK))]], indirect=True)
def test_an_answer_may_come_in_any_pieces(scripted: Scripted) -> None:
    connection = asked(scripted)
    for _ in range(1, len(OK)):
        assert bytes(connection.request("GET", "/").body) == b"hi"


@pytest.mark.parametrize("scripted", [[[OK, OK + OK[:5]], [OK[5:]]]], indirect=True)
def test_answers_to_several_requests_are_kept_apart(scripted: Scripted) -> None:
    connection = asked(scripted)
    connection.send([connection.head("GET", "/", 0)])
    assert bytes(connection.receive().body) == b"hi"
    assert bytes(connection.receive().body) == b"hi"
    connection.send([connection.head("GET", "/", 0)])
    assert bytes(connection.receive().body) == b"hi"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n"


@pytest.mark.parametrize("scripted", [[[CHUNKED], [CHUNKED[:60], CHUNKED[60:]], [OK]]], indirect=True)
def test_chunks_are_joined_or_given_one_by_one(scripted: Scripted) -> None:
    connection = asked(scripted)
    assert connection.request("GET", "/").body == b"abcde"
    reply, pieces = connection.stream("GET", "/")
    assert (reply.status, [bytes(piece) for piece in pieces]) == (200, [b"abc", b"de"])
    assert bytes(connection.request("GET", "/").body) == b"hi", "the trailers were read, too"


@pytest.mark.parametrize(
    "scripted", [[[b"HTTP/1.1 204 No Content\r\n\r\n"], [b"HTTP/1.1 100 Continue\r\n\r\n" + OK]]], indirect=True
)
def test_some_answers_have_no_body_and_some_come_before_the_real_one(scripted: Scripted) -> None:
    connection = asked(scripted)
    assert connection.request("GET", "/").status == 204
    assert connection.request("GET", "/").status == 200


@pytest.mark.parametrize(
    "scripted",
    [
        [[]],
        [[b"HTTP/1.1 200 OK\r\nContent-Le"]],
        [[OK[:-1]]],
        [[b"SSH-2.0-OpenSSH\r\n\r\n"]],
        [[b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nhi"]],
        [[b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhi"]],
        [[b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nhi"]],
        [[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]],
        [[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n"]],
        [[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"]],
        [[b"H" * 70_000]],
    ],
    indirect=True,
)
def test_an_answer_that_is_cut_or_no_answer_is_a_broken_connection(scripted: Scripted) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - any of its kind means the same
        asked(scripted).request("GET", "/")


@pytest.mark.parametrize(
    "scripted", [[[b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"]]], indirect=True
)
def test_a_connection_that_the_broker_closes_is_not_used_again(scripted: Scripted) -> None:
    connection = asked(scripted)
    assert connection.request("GET", "/").ok
    assert connection.closing
    assert connection.stale


@pytest.mark.parametrize("scripted", [[[b""], [OK]]], indirect=True)
def test_whoever_waits_is_woken_by_abort(scripted: Scripted) -> None:
    connection = asked(scripted)
    threading.Timer(0.02, connection.abort).start()
    with pytest.raises(OSError):  # noqa: PT011
        connection.request("GET", "/")


@pytest.mark.parametrize("scripted", [[[OK]]], indirect=True)
def test_a_request_in_very_many_pieces_is_sent(scripted: Scripted) -> None:
    connection = asked(scripted)
    pieces = [connection.head("POST", "/", 3000), *[b"x"] * 3000]
    connection.send(pieces)
    assert connection.receive().ok


@pytest.mark.parametrize("scripted", [[[OK[:-2]], [OK[-2:], OK]]], indirect=True)
def test_the_next_request_may_be_sent_when_an_answer_has_begun(scripted: Scripted) -> None:
    connection = asked(scripted)
    begun = []

    def ask(status: int, length: int) -> None:
        begun.append((status, length))
        connection.send([connection.head("GET", "/second", 0)])

    connection.send([connection.head("GET", "/first", 0)])
    assert bytes(connection.receive(ask).body) == b"hi", "whose rest came only after the second request"
    assert begun == [(200, 2)]
    assert bytes(connection.receive().body) == b"hi"
