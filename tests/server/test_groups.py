"""Groups over HTTP: listed, set, sent elsewhere, and their dead letters sent back."""

from typing import Any

import pytest

from tests.server.serving import Serving

PATH = "/v1/groups/clicks/mailer"


def test_a_group_shows_how_far_it_is(server: Serving) -> None:
    server.topic(partitions=2)
    server.produce("a", "b", "c", partition=1)
    server.lease(max_messages=2)
    server.post("/v1/ack", {"topic": "clicks", "group": "mailer", "partition": 1, "offset": 1})
    shown = server.get(PATH).json
    assert (shown["topic"], shown["group"], shown["lag"], shown["in_flight"]) == ("clicks", "mailer", 2, 1)
    assert shown["settings"]["max_in_flight"] == 1000
    one = shown["partitions"][1]
    assert (one["floor"], one["end_offset"], one["lag"], one["in_flight"], one["done"]) == (0, 3, 2, 1, [[1, 2]])
    assert (one["leased"], one["redriven"]) == ([[0, 1]], [])
    assert server.get("/groups").json == {
        "groups": [{"topic": "clicks", "group": "mailer", "lag": 2, "in_flight": 1, "consumers": 0}]
    }


def test_a_patch_makes_a_group_and_changes_it(server: Serving) -> None:
    server.topic()
    server.produce("a", "b")
    made = server.ask("PATCH", PATH, {"mode": "ordered", "start": "latest"})
    assert (made.status, made.json["lag"], made.json["settings"]["mode"]) == (200, 0, "ordered")
    changed = server.ask("PATCH", PATH, {"mode": None}, max_attempts=3)
    assert (changed.json["settings"]["max_attempts"], changed.json["settings"]["mode"]) == (3, "shared")


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "chaotic"},
        {"max_in_flight": 0},
        {"lease_ms": "soon"},
        {"max_attempts": 1.5},
        {"on_exhausted": "weep"},
        {"partitions": 1},
        {"start": "never"},
    ],
)
def test_a_setting_that_cannot_be_is_400(server: Serving, wrong: dict[str, Any]) -> None:
    server.topic()
    assert server.ask("PATCH", PATH, wrong).error == "INVALID_ARGUMENT"
    assert server.get(PATH).error == "NOT_FOUND"


def test_a_deleted_group_is_gone(server: Serving) -> None:
    server.topic()
    server.lease()
    assert server.ask("DELETE", PATH).status == 204
    assert server.get(PATH).status == server.ask("DELETE", PATH).status == 404
    assert server.get("/v1/groups/nope/mailer").status == 404


def test_a_group_seeks_to_a_place_or_a_time_in_one_partition_or_all(server: Serving) -> None:
    server.topic(partitions=2)
    for timestamp in (1000, 2000, 3000):
        server.produce("x", timestamp=timestamp, partition=0)
    server.produce("y", partition=1, timestamp=5000)
    server.ask("PATCH", PATH)

    def floors(**asked: Any) -> list[int]:
        reply = server.post(PATH + "/seek", asked)
        assert reply.status == 200, reply
        return [p["floor"] for p in reply.json["partitions"]]

    assert floors(to="latest") == [3, 1]
    assert floors(to="earliest", partition=0) == [0, 1]
    assert floors(to=2, partition=0) == [2, 1]
    assert floors(timestamp=2000) == [1, 0]
    assert floors(to="time:2001") == [2, 0]
    assert [row["offset"] for row in server.lease() if row["partition"] == 0] == [2]


@pytest.mark.parametrize(
    "wrong", [{}, {"to": "somewhere"}, {"to": 1, "timestamp": 1}, {"to": 0, "partition": 7}, {"to": -1}, {"at": 0}]
)
def test_a_seek_to_nowhere_is_400(server: Serving, wrong: dict[str, Any]) -> None:
    server.topic()
    server.lease()
    assert server.post(PATH + "/seek", wrong).error == "INVALID_ARGUMENT"


def test_dead_letters_are_sent_back_all_or_by_their_offsets(server: Serving) -> None:
    server.topic()
    server.ask("PATCH", PATH, {"max_attempts": 1})
    server.produce("a", "b", "c")
    server.lease()
    bad = {"topic": "clicks", "group": "mailer", "partition": 0, "ranges": [[0, 3]], "reason": "poison"}
    assert server.post("/v1/nack", bad).status == 204
    dead = server.get("/v1/read", topic="dlq.clicks").lines
    assert [line["value"] for line in dead] == ["a", "b", "c"]
    assert dead[0]["headers"]["cordwood-error"] == "poison"
    assert server.post(PATH + "/redrive", {"ranges": [[1, 2]], "partition": 0}).json == {"redriven": 1}
    assert server.get(PATH).json["partitions"][0]["redriven"] == [[1, 2]]
    assert server.post(PATH + "/redrive").json == {"redriven": 2}
    assert server.post(PATH + "/redrive").json == {"redriven": 0}
    assert [row["value"] for row in server.lease()] == ["b", "a", "c"]
    assert server.post(PATH + "/redrive", {"ranges": [[2, 1]]}).error == "INVALID_ARGUMENT"
    assert server.post("/v1/groups/clicks/nope/redrive").error == "NOT_FOUND"
