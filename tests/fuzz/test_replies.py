"""A broker that is none: whatever it answers, the client has an answer, an OSError, or one of our errors."""

import socket
import threading
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordwood.client import connection as wires
from cordwood.client.client import Client
from cordwood.client.connection import Connection
from cordwood.client.leasing import read_batches
from cordwood.client.message import read_only
from cordwood.client.reading import batches
from cordwood.client.reply import Reply, error_of, retry_after_ms
from cordwood.errors import CordwoodError, Unavailable
from cordwood.wire import arrow
from cordwood.wire.run import Run
from tests.fuzz.mutation import mutated, pieces
from tests.fuzz.profile import fuzzed
from tests.fuzz.test_intake import RESTING

BODIES = st.one_of(
    st.binary(max_size=40),
    mutated(b'{"error":"FAILED_PRECONDITION","message":"no","expected":5,"retry_after_ms":7}'),
    st.sampled_from(
        (b"[" * 100_000, b'"\xff"', b'{"message":"\xff"}', b"null", b"[]", b"1e999", b'{"retry_after_ms":1e999}')
    ),
    st.sampled_from(
        (
            b'{"self":1}',
            b'{"message":5,"self":"x"}',
            b'{"message":null,"reason":[1]}',
            b'{"retry_after_ms":' + b"9" * 4000 + b"}",
        )
    ),
)


@fuzzed(100)
@given(st.integers(100, 999), BODIES, st.sampled_from((b"", b"5", b"9" * 5000, b"\xc2\xb2", b"-1", b"abc")))
@example(409, b'{"self":1}', b"")  # found: TypeError
@example(409, b'{"message":"x","args":1,"facts":2,"message ":3}', b"")
@example(429, b"", b"9" * 5000)  # found: ValueError
@example(200, b'"\xff"', b"")  # found: UnicodeDecodeError
@example(500, b"[" * 100_000, b"")  # found: RecursionError
def test_an_answer_is_read_or_stands_for_an_error(status: int, body: bytes, after: bytes) -> None:
    reply = Reply(status, {b"retry-after": after} if after else {}, body)
    error = error_of(reply)
    assert isinstance(error, CordwoodError)
    str(error)
    waits = retry_after_ms(reply)
    assert waits is None or 0 <= waits <= 1 << 53
    with suppress(Unavailable):
        reply.json()


class Pretended:
    """An endpoint whose broker has said all that it will ever say."""

    prefix, tls = "", None

    def __init__(self, said: bytes):
        self.said = said

    def lines(self) -> bytes:
        return b"Host: a\r\n"

    def connect(self, timeout_s: float) -> Any:
        ours, self.theirs = socket.socketpair()
        ours.settimeout(timeout_s)
        self.theirs.sendall(self.said)
        self.theirs.shutdown(socket.SHUT_WR)
        return ours


ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: t\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
)


@fuzzed(100)
@given(mutated(*ANSWERS), st.booleans())
@example(b"HTTP/1.1 \xb2\xb2\xb2 OK\r\n\r\n", False)
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", True)
def test_what_a_connection_receives_is_an_answer_or_an_OSError(said: bytes, streamed: bool) -> None:
    connection = Connection(Pretended(said), 5.0)  # type: ignore[arg-type]
    try:
        if streamed:
            connection._receive_head()
            connection._unread = said
            _, parts = connection.stream("GET", "/v1/read")
            b"".join(map(bytes, parts))
        else:
            connection.receive()
    except OSError:
        pass
    finally:
        connection.close()


@pytest.mark.parametrize("number", [b"1_0", b"+5", b"-5", b" 5 5", b"0x5", b"\xd9\xa3", b"5.0", b""])
def test_a_length_is_digits_or_no_length(number: bytes) -> None:
    for said in (
        b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\n0123456789",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%b\r\nabc\r\n0\r\n\r\n",
    ):
        connection = Connection(Pretended(said % number), 5.0)  # type: ignore[arg-type]
        with pytest.raises(OSError, match="number"):
            connection.receive()
        connection.close()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" * 200,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"T: t\r\n" * 200,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"400\r\n"
        + b"x" * 1024
        + b"\r\n"
        + b"1\r\nx\r\n" * 9000,
    ],
    ids=["interim answers", "trailers", "chunks"],
)
def test_an_answer_without_an_end_is_given_up(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    # Found: interim answers, trailers and chunks were taken for as long as they came.
    monkeypatch.setattr(wires, "MAX_BODY_BYTES", 4096)
    with pytest.raises(ConnectionError, match=r"believed|without an end"):
        _receive_while(said)


def _receive_while(said: bytes) -> Reply:
    ours, theirs = socket.socketpair()
    ours.settimeout(20)

    def speak() -> None:
        with suppress(OSError):  # nobody listens any more, which is what is to be seen
            theirs.sendall(said)
            theirs.shutdown(socket.SHUT_WR)

    speaker = threading.Thread(target=speak)
    endpoint = Pretended(b"")
    endpoint.connect = lambda timeout_s: ours  # type: ignore[method-assign]
    connection = Connection(endpoint, 20)  # type: ignore[arg-type]
    speaker.start()
    try:
        return connection.receive()
    finally:
        connection.close()
        ours.close()
        speaker.join()
        theirs.close()


OUT = b"".join(map(bytes, arrow.pieces([Run(RESTING, 0, 5), Run(RESTING, 1, 9)])))


@fuzzed(100)
@given(mutated(OUT), st.lists(st.integers(0, 4000), max_size=5))
def test_a_stream_is_batches_or_an_error(body: bytes, cuts: list[int]) -> None:
    rows = 0
    with suppress(Unavailable):
        for batch in read_batches(body):
            list(read_only(batch).messages())
    try:
        for batch in batches(iter(pieces(body, cuts))):
            rows += len(list(read_only(batch).messages()))
    except (OSError, Unavailable):
        return
    assert rows >= 0


@fuzzed(25)
@given(st.lists(st.integers(0, 4000), max_size=9))
def test_a_stream_is_the_same_however_it_is_cut(cuts: list[int]) -> None:
    found = pa.Table.from_batches(list(batches(iter(pieces(OUT, cuts)))))
    assert found.column("offset").to_pylist() == [5, 6, 9, 10]


class Saying(Pretended):
    """A broker that answers 200 with this body."""

    def __init__(self, body: bytes):
        super().__init__(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))


CALLS = {
    "topics": lambda client: client.topics(),
    "topic": lambda client: client.topic("t"),
    "groups": lambda client: client.groups(),
    "redrive": lambda client: client.redrive("t", "g"),
    "produce": lambda client: client.produce("t", b"v"),
    "spans": lambda client: client.spans("t"),
    "publish": lambda client: client.publish("w", 1),
    "health": lambda client: client.health(),
}


@pytest.mark.parametrize("call", sorted(CALLS))
def test_an_answer_of_another_shape_is_an_error_of_ours(call: str) -> None:
    for body in (
        b"",
        b"[]",
        b"5",
        b"null",
        b'{"x":1}',
        b'{"topics":5,"redriven":"x","spans":null}',
        b'"abc"',
        b"[" * 9000,
    ):
        with Client("http://127.0.0.1:1", tries=1) as client:
            client._caller._endpoint = Saying(body)  # type: ignore[assignment]
            with suppress(CordwoodError):
                CALLS[call](client)
