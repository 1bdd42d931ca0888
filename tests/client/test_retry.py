"""What an answer means, and how long to wait."""

import pytest

from cordwood.client.reply import Reply, error_of, retry_after_ms
from cordwood.client.retry import CONFLICT, LATER, REFUSED, STORED, Backoff, meaning
from cordwood.errors import Conflict, Full, Limited, NotFound, Refused, Unavailable


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, STORED),
        (201, STORED),
        (204, STORED),
        (409, CONFLICT),
        (400, REFUSED),
        (404, REFUSED),
        (413, REFUSED),
        (401, REFUSED),
        (403, REFUSED),
        (408, LATER),
        (429, LATER),
        (500, LATER),
        (503, LATER),
        (507, LATER),
    ],
)
def test_every_status_has_one_of_four_meanings(status: int, expected: str) -> None:
    assert meaning(status) == expected


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Refused),
        (401, Refused),
        (404, NotFound),
        (409, Conflict),
        (413, Refused),
        (429, Limited),
        (500, Unavailable),
        (503, Unavailable),
        (507, Full),
        (408, Unavailable),
        (302, Unavailable),
    ],
)
def test_every_error_status_is_one_error_with_the_brokers_words(status: int, kind: type[Exception]) -> None:
    error = error_of(Reply(status, {}, b'{"error":"CODE","message":"do this"}'))
    assert type(error) is kind
    assert str(error) == "do this"


def test_a_conflict_carries_what_was_expected() -> None:
    error = error_of(Reply(409, {}, b'{"error":"X","message":"gap","expected_sequence":7,"epoch":1}'))
    assert isinstance(error, Conflict)
    assert error.facts == {"expected_sequence": 7, "epoch": 1}


def test_a_limit_says_which_and_when_to_come_again() -> None:
    body = b'{"error":"RESOURCE_EXHAUSTED","message":"full","reason":"partition_buffer_full","retry_after_ms":250}'
    error = error_of(Reply(429, {b"retry-after": b"1"}, body))
    assert isinstance(error, Limited)
    assert (error.reason, error.retry_after_ms) == ("partition_buffer_full", 250)


def test_retry_after_is_seconds_unless_the_body_is_more_exact() -> None:
    assert retry_after_ms(Reply(429, {b"retry-after": b"2"}, b"")) == 2000
    assert retry_after_ms(Reply(429, {b"retry-after": b"2"}, b'{"retry_after_ms":10}')) == 10
    assert retry_after_ms(Reply(503, {b"retry-after": b"Wed, 21 Oct 2026 07:28:00 GMT"}, b"")) is None


def test_an_answer_that_is_not_ours_is_unavailable_and_not_a_crash() -> None:
    assert isinstance(error_of(Reply(502, {}, b"<html>")), Unavailable)
    with pytest.raises(Unavailable, match="not JSON"):
        Reply(200, {}, b"<html>").json()


def test_waits_double_up_to_a_limit_and_vary() -> None:
    backoff = Backoff(0.1, 5.0)
    assert [backoff.wait_s(n, lambda: 1.0) for n in range(5)] == [0.0, 0.1, 0.2, 0.4, 0.8]
    assert backoff.wait_s(1000, lambda: 1.0) == 5.0
    assert backoff.wait_s(1000, lambda: 0.0) == 2.5
