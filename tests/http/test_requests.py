"""What a request says, and how it may be said."""

import json

import pytest

from cordwood.http.limits import Limits
from cordwood.http.occupancy import Occupancy
from cordwood.http.parser import Parser
from cordwood.http.refusal import Refusal
from cordwood.http.request import Request
from cordwood.http.response import Response
from tests.http.running import Running

HOST = b"Host: a\r\n"


def parsed(*pieces: bytes) -> Parser:
    limits = Limits()
    parser = Parser(limits, Occupancy(limits))
    for piece in pieces:
        parser.feed(piece)
    return parser


def test_an_encoded_slash_stays_inside_its_segment() -> None:
    request = Request("GET", b"/v1/topics/a%2Fb/c%20d?x=1", {})
    assert request.segments == ("v1", "topics", "a/b", "c d")
    assert request.path == "/v1/topics/a%2Fb/c d"
    assert Request("GET", b"/v1/topics//x/?y=/z", {}).path == "/v1/topics//x/"
    assert Request("GET", b"http://h/a?b", {}).path == "/a"


def test_the_root_has_no_segments_and_an_empty_one_is_kept() -> None:
    assert Request("GET", b"/", {}).segments == ()
    assert Request("GET", b"/?a=1", {}).segments == ()
    assert Request("GET", b"/a//b/", {}).segments == ("a", "", "b", "")


def test_the_last_of_a_repeated_parameter_wins() -> None:
    assert Request("GET", b"/?a=1&b=x+y%26&a=2&c&&d=", {}).query == {"a": "2", "b": "x y&", "c": "", "d": ""}


@pytest.mark.parametrize("target", [b"/%ff", b"/?a=%ff", b"/%f", b"/?a=%zz", b"a", b"/#x", b"ftp://h/"])
def test_a_target_that_cannot_be_decoded_is_refused_with_400(target: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        Request("GET", target, {})
    assert refused.value.status == 400


def test_a_target_that_cannot_be_decoded_never_reaches_the_handler() -> None:
    called = []

    def handle(request: Request) -> Response:
        called.append(request)
        return Response()

    with Running(handle) as server:
        assert server.ask(b"GET /a?b=%ff HTTP/1.1\r\n" + HOST + b"\r\n").error == "INVALID_ARGUMENT"
    assert not called


def test_an_absolute_target_means_its_path() -> None:
    request = Request("GET", b"http://host:1/a/b?c=d", {})
    assert (request.segments, request.query) == (("a", "b"), {"c": "d"})


def test_header_names_are_lower_case_and_repeated_ones_are_joined() -> None:
    parser = parsed(b"GET / HTTP/1.1\r\nHOST: a\r\nX-A: 1  \r\nx-a: 2\r\nEmpty:\r\n\r\n")
    assert parser.ready[0].headers == {b"host": b"a", b"x-a": b"1, 2", b"empty": b""}


def test_a_body_in_one_piece_is_bytes_and_one_in_several_is_a_view() -> None:
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 6\r\n\r\n"
    assert parsed(head + b"abcdef").ready[0].body == b"abcdef"
    assert isinstance(parsed(head + b"abcdef").ready[0].body, bytes)
    several = parsed(head, b"ab", b"cd", b"ef").ready[0].body
    assert isinstance(several, memoryview)
    assert several.readonly
    assert bytes(several) == b"abcdef"


def test_a_request_is_understood_wherever_its_bytes_are_cut() -> None:
    raw = (
        b"POST /a%2Fb?c=d HTTP/1.1\r\n"
        + HOST
        + b"X-Y: zed\r\nContent-Length: 5\r\n\r\nhello"
        + (
            b"PUT /second HTTP/1.1\r\n"
            + HOST
            + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: u\r\n\r\n"
        )
    )
    for cut in range(1, len(raw)):
        first, second = parsed(raw[:cut], raw[cut:]).ready
        assert (first.segments, first.query, bytes(first.body)) == (("a/b",), {"c": "d"}, b"hello")
        assert first.headers == {b"host": b"a", b"x-y": b"zed", b"content-length": b"5"}
        assert (second.method, second.path, bytes(second.body)) == ("PUT", "/second", b"abcde")
    one_by_one = parsed(*(raw[i : i + 1] for i in range(len(raw)))).ready
    assert [bytes(request.body) for request in one_by_one] == [b"hello", b"abcde"]


def test_a_trailer_is_not_taken_for_a_header() -> None:
    raw = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: x\r\n\r\n"
    assert b"authorization" not in parsed(raw).ready[0].headers


def test_an_offer_to_upgrade_is_ignored_and_the_body_is_read() -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"
    raw = b"POST /1 HTTP/1.1\r\n" + HOST + offer + b"Content-Length: 5\r\n\r\nhello"
    with Running() as server, server.connect() as client:
        client.send(raw + b"GET /2 HTTP/1.1\r\n" + HOST + b"\r\n")
        assert client.reply().json["body"] == "hello"
        assert client.reply().json["path"] == "/2"


def test_head_is_answered_without_a_body_and_the_connection_goes_on() -> None:
    with Running() as server, server.connect() as client:
        client.send(b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\nGET /next HTTP/1.1\r\n" + HOST + b"\r\n")
        assert int(client.reply(of_head=True).headers["content-length"]) > 0
        assert client.reply().json["path"] == "/next"


def test_the_client_is_told_to_continue_before_it_sends_the_body() -> None:
    with Running() as server, server.connect() as client:
        client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert client.reply().status == 100
        client.send(b"abc")
        assert client.reply().json["body"] == "abc"


def test_a_client_that_did_not_wait_to_be_told_is_not_told() -> None:
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    assert parsed(head).continue_due
    assert not parsed(head + b"a").continue_due
    with Running() as server:
        assert server.ask(head + b"abc").status == 200


def test_http_1_0_closes_unless_asked_to_stay() -> None:
    with Running() as server, server.connect() as client:
        client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert client.reply().headers["connection"] == "keep-alive"
        client.send(b"GET / HTTP/1.0\r\n\r\n")
        assert client.reply().headers["connection"] == "close"
        assert client.ended()


def test_connection_close_is_obeyed() -> None:
    with Running() as server, server.connect() as client:
        client.send(b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        assert client.reply().headers["connection"] == "close"
        assert client.ended()


def test_a_response_cannot_be_broken_out_of() -> None:
    def handle(request: Request) -> Response:
        return Response(200, b"", headers=(("X-Name", "a\r\nSet-Cookie: b"),))

    with Running(handle) as server:
        reply = server.ask(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert reply.status == 500
    assert "set-cookie" not in reply.headers
    assert json.loads(reply.body)["error"] == "INTERNAL"


def test_a_204_has_neither_body_nor_length() -> None:
    with Running(lambda request: Response(204)) as server:
        reply = server.ask(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert reply.status == 204
    assert "content-length" not in reply.headers
    assert "content-type" not in reply.headers
