"""What clients say over HTTP: the same requests however the bytes arrive, or one refusal."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordwood.errors import Refused
from cordwood.http.limits import Limits
from cordwood.http.occupancy import Occupancy
from cordwood.http.parser import Parser
from cordwood.http.refusal import Refusal
from cordwood.http.request import Request
from cordwood.server.consume import Consume
from cordwood.server.groups import Redrive, Seek
from cordwood.server.lease import Lease
from cordwood.server.parameters import Parameters
from cordwood.server.produce import Query
from cordwood.server.readers import Stand
from cordwood.server.reads import Read, Spans
from cordwood.server.settle import Ack, Extend, Nack
from cordwood.server.staging import Publish, Stage
from cordwood.server.terms import GroupSettings, TopicSettings
from cordwood.server.topics import Replace
from tests.fuzz.mutation import mutated, pieces
from tests.fuzz.profile import fuzzed

LIMITS = Limits(
    max_body_bytes=1 << 16,
    small_body_bytes=64,
    max_receiving_bytes=1 << 17,
    max_head_bytes=4096,
    max_target_bytes=512,
)
HEAD = b"POST /v1/produce?topic=a%2Fb HTTP/1.1\r\nHost: a\r\n"
REQUESTS = (
    HEAD + b"Content-Length: 5\r\n\r\nhello",
    HEAD + b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n" + b"x" * 100,
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n64\r\n" + b"y" * 100 + b"\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
    b"GET /v1/read?topic=t&offset=1 HTTP/1.0\r\nA: b\r\nA: c\r\n\r\n",
    b"DELETE /v1/topics/a%2Fb HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
)
Seen = tuple[list[tuple[Any, ...]], int | None]


def parsed(parts: list[bytes]) -> Seen:
    """Return the requests that a connection reads from these pieces, and the status of its refusal."""
    occupancy = Occupancy(LIMITS)
    parser = Parser(LIMITS, occupancy)
    for part in parts:
        while part:
            room = parser.wants
            if room is None:
                parser.feed(part)
                break
            count = min(len(room), len(part))
            room[:count] = part[:count]
            parser.received(count)
            part = part[count:]
    found = [
        (one.method, one.target, tuple(one.headers.items()), bytes(one.body), one.version, one.keep_alive)
        for one in parser.ready
    ]
    parser.close()
    assert occupancy.receiving_bytes == 0, "what was reserved is given back"
    return found, None if parser.refusal is None else parser.refusal.status


@fuzzed(100)
@given(
    st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=3).map(b"".join),
    st.lists(st.integers(0, 2000), max_size=6),
)
def test_requests_are_the_same_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    whole = parsed([data])
    assert parsed(pieces(data, cuts)) == whole
    assert parsed([data[n : n + 1] for n in range(len(data))]) == whole


@fuzzed(100)
@given(
    mutated(*REQUESTS, *(one + other for one in REQUESTS for other in REQUESTS[:3])),
    st.lists(st.integers(0, 2000), max_size=4),
)
def test_changed_requests_are_read_or_refused_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    whole = parsed([data])
    assert parsed(pieces(data, cuts)) == whole


@fuzzed(40)
@given(st.binary(max_size=300), st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_a_chunked_body_is_the_body(body: bytes, sizes: list[int]) -> None:
    chunks, at, turn = [], 0, 0
    while at < len(body):
        piece = body[at : at + sizes[turn % len(sizes)]]
        chunks.append(b"%x\r\n%b\r\n" % (len(piece), piece))
        at, turn = at + len(piece), turn + 1
    data = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\n\r\n"
    requests, refusal = parsed([data])
    assert refusal is None
    assert requests[0][3] == body


def test_many_offers_to_upgrade_are_read_or_refused() -> None:
    # Found: each was read inside the one before, until Python had no stack left.
    found, refusal = parsed([REQUESTS[4] * 2000])
    assert len(found) + (refusal is not None) > 0
    assert refusal in (None, 400, 429)


@fuzzed(120)
@given(
    st.binary(max_size=60)
    | st.text(max_size=40).map(lambda text: ("/" + text).encode("utf-8", "surrogatepass"))
    | mutated(b"/v1/topics/a%2Fb?from=3&to=x+y&a=%C3%A9")
)
@example(b"http://")
@example(b"//")
@example(b"/%2e%2e/%00?%00=%00")
def test_a_target_is_segments_and_a_query_or_refused(target: bytes) -> None:
    try:
        request = Request("GET", target, {})
        assert all(isinstance(one, str) for one in request.segments)
        assert isinstance(request.query, dict)
        assert Request("GET", request.path.encode(), {}).segments == request.segments or not request.path.isascii()
    except Refusal as refusal:
        found = refusal.status
    else:
        found = 400
    assert found == 400


KINDS = (
    *(Query, Consume, Lease, Ack, Nack, Extend, Read, Spans),
    *(Seek, Redrive, Stage, Publish, Stand, Replace, TopicSettings, GroupSettings),
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        (
            "0",
            "-1",
            "1e9",
            "1e999",
            "NaN",
            "null",
            "true",
            "[[0,5]]",
            "[[5,0]]",
            "[[0]]",
            "{}",
            "[",
            "[" * 5000,
            "9" * 30,
        )
    ),
    st.sampled_from(("9" * 5000, "0x10", "1_000", " 5", "٣", "\ud800", "\0", '{"0":' * 3000, '"\\ud800"')),
)
BODIES = st.one_of(
    st.just(b""),
    st.binary(max_size=20),
    mutated(
        b'{"topic":"t","group":"g","partition":0,"ranges":[[0,5],[7,9]]}', b'{"writer":"w","batch":1,"tasks":[[0,1]]}'
    ),
    st.sampled_from((b"[" * 100_000, b'{"a":' * 50_000, b"null", b"[]", b'"\xff"', b'{"topic":"\xff"}', b"1" * 5000)),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_parameters_are_read_or_refused(kind: Any) -> None:
    reader = Parameters(kind)
    names = st.sampled_from((*reader.names, "x")) if reader.names else st.just("x")

    @fuzzed(15)
    @given(st.dictionaries(names, TEXTS, max_size=5), BODIES)
    def tried(query: dict[str, str], body: bytes) -> None:
        for ask in (lambda: reader.convert(query, body), lambda: reader._read_body(body)):
            try:
                assert isinstance(ask(), kind)
            except Refused as error:
                str(error).encode("utf-8", "backslashreplace")

    tried()
