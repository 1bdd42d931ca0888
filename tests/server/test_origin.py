"""Web pages of others do nothing to a broker without tokens; programs notice none of it."""

from pathlib import Path

import pytest

from cordwood.http.refusal import Refusal
from cordwood.http.request import Request
from cordwood.server.need import LISTED
from cordwood.server.origin import Origins
from tests.server.serving import Serving
from tests.server.tokens import token_of

PRODUCE = {"topic": "clicks", "value": "x"}


def host(server: Serving, name: str) -> dict[str, str]:
    return {"Host": name.replace("PORT", str(server.port))}


@pytest.mark.parametrize(
    "name", ["127.0.0.1:PORT", "localhost:PORT", "localhost", "LocalHost", "a.localhost:1", "[::1]:PORT", "10.0.0.5"]
)
def test_a_broker_answers_to_its_address(server: Serving, name: str) -> None:
    assert server.get("/v1/topics", host(server, name)).status == 200


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:PORT", "127.0.0.1.evil.example", "localhost.evil.example", "1.2.3.4.5", ""]
)
def test_a_name_that_somebody_pointed_at_it_is_not_its_own(server: Serving, name: str) -> None:
    server.topic()
    for method, path, body in (
        ("GET", "/v1/topics", None),
        ("GET", "/v1/healthz", None),
        ("POST", "/v1/produce", PRODUCE),
        ("DELETE", "/v1/topics/clicks", None),
    ):
        assert server.ask(method, path, body, host(server, name)).error == "PERMISSION_DENIED"
    assert server.end() == 0


@pytest.mark.parametrize("name", ["0.0.0.0:PORT", "0.0.0.0", "[::]:PORT", "[::ffff:0.0.0.0]:PORT", "[::ffff:0:0]"])
def test_the_address_of_nobody_is_not_its_own(server: Serving, name: str) -> None:
    """A page's picture at http://0.0.0.0 has neither Origin nor Sec-Fetch-Site, and may be a stream of ours."""
    server.topic()
    server.produce("a")
    connection = server.open("GET", "/v1/consume", None, host(server, name), topic="clicks", group="g")
    try:
        assert connection.getresponse().status == 403
    finally:
        connection.close()
    assert server.get("/v1/groups").json == {"groups": []}


def test_further_names_can_be_allowed(tmp_path: Path) -> None:
    with Serving(tmp_path, allowed_hosts="queue.example, other.example") as server:
        assert server.get("/v1/topics", host(server, "queue.example")).status == 200
        assert server.get("/v1/topics", host(server, "Other.Example:80")).status == 200
        assert server.get("/v1/topics", host(server, "evil.example")).status == 403


def test_in_public_any_name_is_good_until_some_are_said() -> None:
    def answers(name: str, allowed: str) -> bool:
        try:
            Origins("0.0.0.0", allowed).check(Request("GET", b"/", {b"host": name.encode()}), LISTED)
        except Refusal:
            return False
        return True

    assert answers("evil.example", "")
    assert answers("queue.example:7878", "queue.example")
    assert answers("10.0.0.5:7878", "queue.example")
    assert answers("localhost:7878", "queue.example")
    assert not answers("evil.example", "queue.example")
    assert answers("0.0.0.0:7878", "")
    assert not answers("0.0.0.0:7878", "queue.example")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
def test_a_page_from_elsewhere_changes_and_reads_nothing(server: Serving, headers: dict[str, str]) -> None:
    server.topic()
    server.produce("a")
    for method, path, body in (
        ("POST", "/v1/produce", PRODUCE),
        ("POST", "/v1/produce?topic=clicks", b'{"value":"x"}'),
        ("POST", "/v1/topics", {"name": "new"}),
        ("DELETE", "/v1/topics/clicks", None),
        ("GET", "/v1/consume?topic=clicks&group=g", None),
        ("GET", "/v1/read?topic=clicks", None),
        ("GET", "/v1/topics", None),
    ):
        reply = server.ask(method, path, body, headers)
        assert reply.error == "PERMISSION_DENIED"
        assert not any(name.startswith("access-control") for name in reply.headers)
    assert server.end() == 1
    assert server.get("/v1/groups").json == {"groups": []}
    assert server.get("/docs", headers).status == 200, "to follow a link is no harm"


def test_a_page_of_its_own_may_do_everything(server: Serving) -> None:
    own = f"http://127.0.0.1:{server.port}"
    server.topic()
    assert server.post("/v1/produce", PRODUCE, {"Origin": own, "Sec-Fetch-Site": "same-origin"}).status == 200
    assert server.get("/v1/topics", {"Sec-Fetch-Site": "none"}).status == 200


def test_nothing_is_said_to_those_who_ask_first(server: Serving) -> None:
    reply = server.ask(
        "OPTIONS", "/v1/produce", None, {"Origin": "https://x", "Access-Control-Request-Method": "POST"}
    )
    assert reply.status == 405
    assert not any(name.startswith("access-control") for name in reply.headers)


def test_a_broker_that_listens_in_public_has_names_that_it_does_not_know(tmp_path: Path) -> None:
    with Serving(tmp_path, host="0.0.0.0") as server:  # the test's listener is on loopback all the same
        assert server.get("/v1/topics", host(server, "queue.internal")).status == 200
        assert server.get("/v1/topics", {"Origin": "https://evil.example"}).status == 403


def test_where_tokens_are_asked_for_a_token_is_all_that_counts(tmp_path: Path) -> None:
    shown = token_of(tmp_path, "one", "admin:")
    with Serving(tmp_path) as server:
        elsewhere = {"Host": "queue.example", "Origin": "https://page.example"}
        assert server.get("/v1/topics", {**shown, **elsewhere}).status == 200
        assert server.get("/v1/topics", elsewhere).status == 401


def test_every_answer_says_that_it_is_what_it_says(server: Serving) -> None:
    server.topic()
    server.produce("<script>")
    for path in ("/v1/topics", "/v1/read?topic=clicks", "/metrics", "/v1/openapi.json", "/nope"):
        headers = server.get(path).headers
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


def test_pages_cannot_be_framed_and_tell_nobody_where_they_are(server: Serving) -> None:
    headers = server.get("/docs").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
