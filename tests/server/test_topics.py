"""Topics over HTTP: made once, shown, set, deleted, and named with slashes."""

import pytest

from tests.server.serving import Serving


def test_a_topic_is_made_once_and_the_same_again_is_the_same_topic(server: Serving) -> None:
    made = server.post("/v1/topics", {"name": "clicks", "partitions": 3, "retention_ms": 5000})
    again = server.post("/v1/topics", {"name": "clicks", "partitions": 3, "retention_ms": 5000})
    assert (made.status, again.status) == (201, 200)
    assert made.json == again.json
    assert [p["partition"] for p in made.json["partitions"]] == [0, 1, 2]
    assert made.json["settings"]["retention_ms"] == 5000
    assert made.json["groups"] == []


def test_another_topic_of_the_same_name_is_409(server: Serving) -> None:
    server.topic("clicks", partitions=3)
    reply = server.post("/v1/topics", {"name": "clicks", "partitions": 2})
    assert (reply.status, reply.error) == (409, "FAILED_PRECONDITION")


def test_the_list_counts_messages_and_bytes(server: Serving) -> None:
    server.topic("clicks", partitions=2)
    server.produce("a", "bc")
    assert server.get("/v1/topics").json == {
        "topics": [{"name": "clicks", "partitions": 2, "messages": 2, "bytes": 3}]
    }


def test_a_topic_shows_its_partitions_and_groups(server: Serving) -> None:
    server.topic()
    server.produce("abc")
    server.lease()
    shown = server.get("/v1/topics/clicks").json
    assert shown["partitions"] == [
        {
            "partition": 0,
            "start_offset": 0,
            "end_offset": 1,
            "tiered_offset": 0,
            "bytes": 3,
            "memory_bytes": 3,
            "journal_bytes": 3,
        }
    ]
    assert shown["groups"] == ["mailer"]


def test_settings_change_and_null_takes_them_back(server: Serving) -> None:
    server.topic()
    changed = server.ask("PATCH", "/v1/topics/clicks", {"max_buffered_messages": 7, "discard": "acked"})
    assert changed.json["settings"]["max_buffered_messages"] == 7
    assert changed.json["settings"]["discard"] == "acked"
    back = server.ask("PATCH", "/v1/topics/clicks", {"max_buffered_messages": None})
    assert back.json["settings"]["max_buffered_messages"] == 0
    assert back.json["settings"]["discard"] == "acked"


def test_the_number_of_partitions_is_fixed(server: Serving) -> None:
    server.topic(partitions=2)
    assert server.ask("PATCH", "/v1/topics/clicks", {"partitions": 2}).status == 200
    assert server.ask("PATCH", "/v1/topics/clicks", {"partitions": 3}).status == 409


def test_a_deleted_topic_is_gone(server: Serving) -> None:
    server.topic()
    assert server.ask("DELETE", "/v1/topics/clicks").status == 204
    assert server.get("/v1/topics/clicks").error == "NOT_FOUND"
    assert server.ask("DELETE", "/v1/topics/clicks").status == 404
    assert server.get("/v1/topics").json == {"topics": []}


def test_a_slash_in_a_name_is_escaped_in_a_path(server: Serving) -> None:
    server.topic("shop/clicks")
    server.post("/v1/lease", {"topic": "shop/clicks", "group": "mail/er"})
    assert server.get("/v1/topics/shop%2Fclicks").json["name"] == "shop/clicks"
    assert server.get("/v1/groups/shop%2Fclicks/mail%2Fer").json["group"] == "mail/er"
    assert server.get("/v1/topics/shop/clicks").status == 404
    assert server.ask("DELETE", "/topics/shop%2Fclicks").status == 204


@pytest.mark.parametrize("name", ["", "a b", "ü", "a//b", "../x", "a" * 241, "/a", "a/"])
def test_a_name_that_no_topic_may_have_is_400(server: Serving, name: str) -> None:
    assert server.post("/v1/topics", {"name": name}).error == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"name": "a", "partitions": 0},
        {"name": "a", "partitions": "many"},
        {"name": "a", "retention_ms": -1},
        {"name": "a", "discard": "some"},
        {"name": 7},
    ],
)
def test_a_setting_that_cannot_be_is_400(server: Serving, wrong: dict[str, object]) -> None:
    assert server.post("/v1/topics", wrong).error == "INVALID_ARGUMENT"
    assert server.get("/v1/topics").json == {"topics": []}


def test_there_are_no_objects_to_replace_without_a_tier(server: Serving) -> None:
    server.topic()
    swap = {"partition": 0, "objects": ["a", "b"], "replacement": "c"}
    reply = server.post("/v1/topics/clicks/replace", swap)
    assert (reply.status, reply.error) == (409, "FAILED_PRECONDITION")
    assert "tier" in reply.json["message"]
    assert server.post("/v1/topics/clicks/replace", {**swap, "objects": []}).status == 400
    assert server.post("/v1/topics/clicks/replace", {"partition": 0}).status == 400
    assert server.post("/v1/topics/nope/replace", swap).status == 404
