"""Staging and named readers over HTTP: what programs like Spark use."""

from pathlib import Path
from typing import Any

import pytest

from tests.server.serving import Serving
from tests.server.test_produce import ARROW, NDJSON, lines, stream


def test_staged_messages_are_seen_when_they_are_published_and_once(server: Serving) -> None:
    import pyarrow as pa

    server.topic(partitions=2)
    asked = {"topic": "clicks", "writer": "query-1", "batch": 0}
    one = server.post("/v1/stage", {"value": "a", "partition": 0}, **asked, task=0)
    two = server.post("/stage", lines({"value": "b"}, {"value": "c"}), NDJSON, **asked, task=1, partition=1)
    late = server.post(
        "/v1/stage", stream(pa.table({"value": ["x"]})), ARROW, **asked, task=1, attempt=1, partition=1
    )
    assert (one.json, two.json, late.json) == (
        {"staged": 1, "count": 1},
        {"staged": 1, "count": 2},
        {"staged": 1, "count": 1},
    )
    assert server.values() == []
    published = server.post("/v1/publish", {"writer": "query-1", "batch": 0, "tasks": [[0, 0], [1, 0]]})
    assert published.json == {
        "results": [
            {"topic": "clicks", "partition": 0, "first_offset": 0, "count": 1},
            {"topic": "clicks", "partition": 1, "first_offset": 0, "count": 2},
        ],
        "duplicate": False,
    }
    assert server.values() == ["a", "b", "c"]
    again = server.post("/publish", writer="query-1", batch=0, tasks=[[0, 0], [1, 0]])
    assert again.json == {**published.json, "duplicate": True}
    assert server.values() == ["a", "b", "c"]


def test_a_repeated_stage_changes_nothing_and_a_gap_is_409(server: Serving) -> None:
    server.topic()
    asked = {"topic": "clicks", "writer": "w", "batch": 0}
    assert server.post("/v1/stage", {"value": "a"}, **asked, sequence=0).json["staged"] == 1
    assert server.post("/v1/stage", {"value": "a"}, **asked, sequence=0).json["staged"] == 1
    gap = server.post("/v1/stage", {"value": "b"}, **asked, sequence=2)
    assert (gap.status, gap.json["expected_sequence"]) == (409, 1)
    server.post("/v1/publish", {"writer": "w", "batch": 0})
    assert server.values() == ["a"]


def test_the_one_message_of_a_json_body_may_say_for_whom_it_is_staged(server: Serving) -> None:
    server.topic(partitions=2)
    said = {"topic": "clicks", "writer": "w", "batch": 0, "task": 1, "attempt": 2, "sequence": 0, "partition": 1}
    first = server.post("/v1/stage", {**said, "value": {"n": 1.0}, "key": "k"})
    assert first.json == {"staged": 1, "count": 1}
    assert server.post("/v1/stage", {**said, "value": {"n": 1.0}}, task=1).json == first.json, "a repeat"
    assert server.post("/v1/stage", {**said, "sequence": 2, "value": "c"}).status == 409, "a gap"
    other = server.post("/v1/stage", {**said, "value": "b"}, writer="v")
    assert (other.error, "in the query" in other.json["message"]) == ("INVALID_ARGUMENT", True)
    published = server.post("/v1/publish", {"writer": "w", "batch": 0, "tasks": [[1, 2]]})
    assert published.json["results"] == [{"topic": "clicks", "partition": 1, "first_offset": 0, "count": 1}]
    assert server.values() == ['{"n":1.0}']


@pytest.mark.parametrize(
    "wrong", [{"writer": 1}, {"batch": "x"}, {"task": -1}, {"attempt": 2**31}, {"colour": "red"}]
)
def test_what_a_json_body_says_about_its_stage_is_checked(server: Serving, wrong: dict[str, Any]) -> None:
    server.topic()
    said = {"topic": "clicks", "writer": "w", "batch": 0, "value": "a"}
    assert server.post("/v1/stage", {**said, **wrong}).error == "INVALID_ARGUMENT"
    assert server.post("/v1/stage", lines({**said, "value": "a"}), NDJSON).error == "INVALID_ARGUMENT"


def test_an_older_batch_and_a_task_that_staged_nothing_are_409(server: Serving) -> None:
    server.topic()
    server.post("/v1/stage", {"value": "a"}, topic="clicks", writer="w", batch=5)
    assert server.post("/v1/publish", {"writer": "w", "batch": 5, "tasks": [[9, 0]]}).status == 409
    assert server.post("/v1/publish", {"writer": "w", "batch": 5}).status == 200
    assert server.post("/v1/publish", {"writer": "w", "batch": 4}).status == 409
    assert server.post("/v1/stage", {"value": "a"}, topic="clicks", writer="w", batch=5).status == 409


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch": 0},
        {"writer": "w"},
        {"writer": "", "batch": 0},
        {"writer": "w", "batch": -1},
        {"writer": "w", "batch": "x"},
    ],
)
def test_a_stage_without_its_writer_and_batch_is_400(server: Serving, wrong: dict[str, Any]) -> None:
    server.topic()
    assert server.post("/v1/stage", {"value": "a"}, topic="clicks", **wrong).error == "INVALID_ARGUMENT"


def test_a_stage_to_an_unknown_topic_is_404_and_to_none_is_400(server: Serving) -> None:
    assert server.post("/v1/stage", {"value": "a"}, topic="nope", writer="w", batch=0).status == 404
    assert server.post("/v1/stage", {"value": "a"}, writer="w", batch=0).status == 400


def test_a_large_stage_is_read_beside_the_loop(server: Serving) -> None:
    server.topic()
    body = lines(*({"value": "x" * 1000} for _ in range(1000)))
    assert server.post("/v1/stage", body, NDJSON, topic="clicks", writer="w", batch=0).json["count"] == 1000


def test_a_named_reader_is_remembered(tmp_path: Path) -> None:
    path = "/v1/readers/clicks/spark-1"
    with Serving(tmp_path) as server:
        server.topic(partitions=2)
        server.produce("a", "b", partition=1)
        put = server.ask("PUT", path, {"offsets": {"0": 0, "1": 1}})
        assert (put.status, put.json["offsets"], put.json["lag"]) == (200, {"0": 0, "1": 1}, 1)
    with Serving(tmp_path) as server:
        assert server.get(path).json["offsets"] == {"0": 0, "1": 1}
        assert server.ask("PUT", path, offsets={"1": 2}).json["lag"] == 0
        assert server.ask("DELETE", "/readers/clicks/spark-1").status == 204
        assert server.get(path).error == "NOT_FOUND"
        assert server.ask("DELETE", path).status == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"offsets": {"0": 5}},
        {"offsets": {"9": 0}},
        {"offsets": {"x": 0}},
        {"offsets": [0]},
        {"offsets": {"0": -1}},
    ],
)
def test_a_reader_cannot_stand_where_nothing_is(server: Serving, wrong: dict[str, Any]) -> None:
    server.topic()
    assert server.ask("PUT", "/v1/readers/clicks/r", wrong).error == "INVALID_ARGUMENT"
    assert server.ask("PUT", "/v1/readers/nope/r", {"offsets": {}}).error == "NOT_FOUND"
