"""Replies over bare sockets: whole, not yet whole, or refused."""

import pytest

from cordwood.bench.singles import Refused, http_reply, resp_reply

HTTP = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 5\r\n\r\nhello"
RESP = b"$15\r\n1700000000000-0\r\n"


@pytest.mark.parametrize(("rule", "reply"), [(http_reply, HTTP), (resp_reply, RESP)])
def test_a_reply_is_whole_at_its_last_byte_and_not_before(rule, reply) -> None:
    assert [rule(reply[:end]) for end in range(1, len(reply) + 1)] == [False] * (len(reply) - 1) + [True]


@pytest.mark.parametrize(
    ("rule", "reply"),
    [
        (http_reply, b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"),
        (http_reply, b"HTTP/1.1 200 OK\r\n\r\n"),
        (resp_reply, b"-ERR unknown command\r\n"),
    ],
)
def test_another_reply_is_refused(rule, reply) -> None:
    with pytest.raises(Refused):
        rule(reply)
