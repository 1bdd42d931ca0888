"""The door: when it is locked, that it stays so, and that whoever may not stay has to go."""

import threading
from pathlib import Path

import pytest

from cordwood.auth.token_file import TokenFile
from cordwood.errors import Refused
from cordwood.server.door import Door
from tests.server.serving import Serving
from tests.server.streams import Open
from tests.server.tokens import token_of

ASKED = {"topic": "orders", "group": "g"}


class HeldClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def test_the_first_token_locks_a_running_broker(tmp_path: Path) -> None:
    with Serving(tmp_path) as server:
        server.topic("orders")
        assert server.get("/v1/topics").status == 200
        shown = token_of(tmp_path, "one", "consume:orders")
        server.look()
        assert server.get("/v1/topics").error == "UNAUTHENTICATED"
        assert server.get("/v1/topics", shown).status == 200


def test_to_revoke_the_last_token_does_not_open_the_door(tmp_path: Path) -> None:
    shown = token_of(tmp_path, "one", "admin:")
    file = TokenFile(tmp_path / "tokens.json")
    with Serving(tmp_path) as server:
        assert server.get("/v1/topics", shown).status == 200
        file.remove("one")
        server.look()
        assert server.get("/v1/topics", shown).error == server.get("/v1/topics").error == "UNAUTHENTICATED"
    with Serving(tmp_path) as server:
        assert server.get("/v1/topics").error == "UNAUTHENTICATED", "nor does a restart"
        other = token_of(tmp_path, "two", "admin:")
        server.look()
        assert server.get("/v1/topics", other).status == 200


@pytest.mark.parametrize("damage", ["not JSON", '{"version":9}', None])
def test_a_file_that_cannot_be_used_leaves_the_tokens_as_they_were(
    tmp_path: Path, damage: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    shown = token_of(tmp_path, "one", "admin:")
    path = tmp_path / "tokens.json"
    with Serving(tmp_path) as server:
        path.unlink()
        if damage is not None:
            path.write_text(damage)
        server.look()
        server.look()
        assert [record.name for record in caplog.records if record.levelname == "ERROR"] == ["cordwood.door"]
        assert server.get("/v1/topics", shown).status == 200
        assert server.get("/v1/topics").status == 401
        path.unlink(missing_ok=True)
        other = token_of(tmp_path, "two", "admin:")
        server.look()
        assert server.get("/v1/topics", shown).status == 401
        assert server.get("/v1/topics", other).status == 200


def test_a_broker_does_not_start_with_tokens_that_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text("{")
    with pytest.raises(Refused, match=r"tokens\.json is no file of tokens"), Serving(tmp_path):
        pass


def test_auth_says_whether_tokens_are_asked_for(tmp_path: Path) -> None:
    with Serving(tmp_path / "a", auth="required") as server:
        assert server.get("/v1/topics").status == 401, "before there is any token"
        assert server.get("/v1/healthz").status == 200
    token_of(tmp_path / "b", "one", "admin:")
    with Serving(tmp_path / "b", auth="off") as server:
        assert server.get("/v1/topics").status == 200


def test_a_broker_in_memory_has_the_tokens_of_the_file_that_it_is_told(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="token_file"), Serving(auth="required"):
        pass
    shown = token_of(tmp_path, "one", "admin:")
    with Serving(token_file=str(tmp_path / "tokens.json")) as server:
        assert server.get("/v1/topics").status == 401
        assert server.get("/v1/topics", shown).status == 200


def test_a_stream_ends_when_its_token_is_revoked_and_gives_back_what_it_holds(tmp_path: Path) -> None:
    mine, other = token_of(tmp_path, "mine", "consume:orders"), token_of(tmp_path, "other", "admin:")
    with Serving(tmp_path) as server:
        server.ask("POST", "/v1/topics", {"name": "orders"}, other)
        server.post("/v1/produce", {"topic": "orders", "value": "x"}, other)
        with (
            Open(server, "/v1/consume", mine, **ASKED) as leasing,
            Open(server, "/v1/read", mine, topic="orders", follow="true") as following,
            Open(server, "/v1/read", other, topic="orders", follow="true") as staying,
        ):
            for stream in (leasing, following, staying):
                assert stream.line()["value"] == "x"
            TokenFile(tmp_path / "tokens.json").remove("mine")
            server.look()
            assert leasing.rest() == b""
            assert following.rest() == b""
            leased = server.post("/v1/lease", {**ASKED, "wait_ms": 60_000}, other).json["messages"]
            assert [message["offset"] for message in leased] == [0]
            server.post("/v1/produce", {"topic": "orders", "value": "y"}, other)
            assert staying.line()["value"] == "y", "another's stream goes on"


def test_a_stream_ends_when_the_time_of_its_token_is_over(tmp_path: Path) -> None:
    clock = HeldClock()
    mine, other = token_of(tmp_path, "mine", "consume:orders", expires_at=2_000), token_of(tmp_path, "all", "admin:")
    with Serving(tmp_path, clock=clock) as server:
        server.ask("POST", "/v1/topics", {"name": "orders"}, other)
        with Open(server, "/v1/read", mine, topic="orders", follow="true") as following:
            assert following.status == 200
            clock.ms = 1_999
            server.look()
            server.post("/v1/produce", {"topic": "orders", "value": "x"}, other)
            assert following.line()["value"] == "x"
            clock.ms = 2_000
            server.look()
            assert following.rest() == b""
        assert server.get("/v1/topics", mine).status == 401


def test_a_stream_from_before_the_lock_ends_with_it(tmp_path: Path) -> None:
    with Serving(tmp_path) as server:
        server.topic("orders")
        with Open(server, "/v1/consume", **ASKED) as stream:
            assert stream.status == 200
            token_of(tmp_path, "one", "admin:")
            server.look()
            assert stream.rest() == b""


def test_a_long_read_is_cut_when_its_token_is_revoked(tmp_path: Path) -> None:
    mine, other = token_of(tmp_path, "mine", "consume:orders"), token_of(tmp_path, "other", "admin:")
    with Serving(tmp_path) as server:
        server.ask("POST", "/v1/topics", {"name": "orders"}, other)
        for _ in range(16):
            assert server.post("/v1/produce", {"topic": "orders", "value": "x" * 1_000_000}, other).status == 200
        with Open(server, "/v1/read", mine, topic="orders") as reading:
            assert reading.status == 200  # and nothing of it is read: it waits for us, and the rest for that
            TokenFile(tmp_path / "tokens.json").remove("mine")
            server.look()
            with pytest.raises((ValueError, AssertionError, ConnectionError)):  # no last chunk
                reading.rest()


def test_a_lease_that_was_waited_for_is_not_given_to_whom_it_is_no_longer_for(tmp_path: Path) -> None:
    mine, other = token_of(tmp_path, "mine", "consume:orders"), token_of(tmp_path, "other", "admin:")
    with Serving(tmp_path) as server:
        server.ask("POST", "/v1/topics", {"name": "orders"}, other)
        server.ask("PATCH", "/v1/groups/orders/g", {}, other)
        waiting = server.open("POST", "/v1/lease", {**ASKED, "wait_ms": 60_000}, mine)
        while server.get("/v1/groups/orders/g", other).json["consumers"] == 0:
            pass
        TokenFile(tmp_path / "tokens.json").remove("mine")
        server.look()
        server.post("/v1/produce", {"topic": "orders", "value": "x"}, other)
        assert waiting.getresponse().status == 401
        waiting.close()
        leased = server.post("/v1/lease", {**ASKED, "wait_ms": 60_000}, other).json["messages"]
        assert [(message["offset"], message["attempts"]) for message in leased] == [(0, 1)], "it was not counted"


def test_the_large_body_of_a_stranger_is_refused_before_it_is_read(tmp_path: Path) -> None:
    shown = token_of(tmp_path, "one", "produce:orders")
    with Serving(tmp_path) as server:
        connection = server.open("POST", "/v1/produce?topic=orders", None, {"Content-Length": "60000000"})
        reply = connection.getresponse()
        assert (reply.status, reply.getheader("connection")) == (401, "close")
        connection.close()
        chunked = {"Transfer-Encoding": "chunked"}
        connection = server.open("POST", "/v1/produce?topic=orders", None, chunked)
        connection.send(b"11170\r\n" + bytes(70_000) + b"\r\n")
        assert connection.getresponse().status == 401
        connection.close()
        assert server.post("/v1/produce?topic=orders", b'{"value":"' + b"x" * 100_000 + b'"}', shown).status == 404


def test_look_survives_whatever_happens_to_the_directory(tmp_path: Path) -> None:
    token_of(tmp_path, "one", "admin:")
    with Serving(tmp_path) as server:
        path = tmp_path / "tokens.json"
        path.unlink()
        path.mkdir()
        server.look()
        assert server.get("/v1/topics").status == 401
        path.rmdir()
        server.look()
        assert isinstance(server.door, Door)
        assert server.door.locked


def test_requests_are_answered_while_tokens_come_and_go(tmp_path: Path) -> None:
    kept = token_of(tmp_path, "kept", "admin:")
    file = TokenFile(tmp_path / "tokens.json")
    with Serving(tmp_path) as server:
        server.ask("POST", "/v1/topics", {"name": "orders"}, kept)
        stop = threading.Event()

        def change() -> None:
            while not stop.is_set():
                token_of(tmp_path, "brief", "admin:")
                server.look()
                file.remove("brief")
                server.look()

        changing = threading.Thread(target=change)
        changing.start()
        try:
            statuses = {server.post("/v1/produce", {"topic": "orders", "value": "x"}, kept).status for _ in range(50)}
        finally:
            stop.set()
            changing.join(60)
        assert statuses == {200}
