"""Where a streaming query stands, and what became of it."""

import json

import pytest

from cordwood.errors import Refused
from cordwood.spark.extent import Extent, Loss, Range
from cordwood.spark.position import ANEW, DELETED, Position, between, resume


def one(topic: str, number: int, start: int, end: int, topic_id: str = "a1") -> Extent:
    return Extent(topic, topic_id, number, start, end)


def at(offset: int, topic: str = "t", topic_id: str = "a1") -> Position:
    return Position({(topic, 0): offset}, {topic: topic_id})


def test_it_is_written_in_one_way_and_read_back() -> None:
    extents = [one("b", 1, 0, 9), one("a", 10, 0, 9, "a2"), one("b", 0, 0, 9), one("a", 9, 0, 9, "a2")]
    position = Position.of(extents, {("a", 9): 1, ("a", 10): 2, ("b", 0): 3, ("b", 1): 4})
    text = json.dumps(position.to_json())
    assert text == '{"a": {"9": 1, "10": 2, "id": "a2"}, "b": {"0": 3, "1": 4, "id": "a1"}}'
    assert Position.from_json(json.loads(text)) == position
    assert position.of_topic("b") == {0: 3, 1: 4}


def test_an_offset_that_is_not_ours_is_refused() -> None:
    with pytest.raises(Refused, match="not Cordwood's"):
        Position.from_json({"t": 5})


def test_a_query_goes_on_where_it_was_and_at_0_in_what_is_new() -> None:
    starts, losses = resume(at(5), [one("t", 0, 0, 9), one("u", 0, 0, 4)])
    assert starts == {("t", 0): 5, ("u", 0): 0}
    assert not losses


def test_a_topic_that_went_or_was_made_again_is_a_loss() -> None:
    assert resume(at(5), []) == ({}, [Loss("t", 0, 5, 5, DELETED)])
    starts, losses = resume(at(5), [one("t", 0, 0, 9, "b2")])
    assert (starts, losses) == ({("t", 0): 0}, [Loss("t", 0, 5, 5, ANEW)])
    starts, losses = resume(at(5), [one("t", 0, 0, 3)])
    assert starts == {("t", 0): 3}
    assert [(loss.start, loss.end) for loss in losses] == [(3, 5)]


def test_a_trigger_is_what_lies_between_two_positions() -> None:
    ranges, losses = between(at(2), at(7), [one("t", 0, 0, 9)])
    assert (ranges, losses) == ([Range("t", "a1", 0, 2, 7)], [])
    ranges, losses = between(Position({}, {}), at(7), [one("t", 0, 0, 9)])
    assert (ranges, losses) == ([Range("t", "a1", 0, 0, 7)], [])


def test_what_a_trigger_promised_and_is_gone_is_a_loss() -> None:
    assert between(at(2), at(7), []) == ([], [Loss("t", 0, 2, 7, DELETED)])
    assert between(at(2), at(7), [one("t", 0, 0, 9, "b2")]) == ([], [Loss("t", 0, 2, 7, ANEW)])
    ranges, losses = between(at(2), at(7), [one("t", 0, 4, 9)])
    assert ranges == [Range("t", "a1", 0, 4, 7)]
    assert losses == [Loss("t", 0, 2, 4, "retention took them")]


def test_the_topic_that_was_made_again_is_read_from_its_beginning() -> None:
    ranges, losses = between(at(50), at(7, topic_id="b2"), [one("t", 0, 0, 9, "b2")])
    assert (ranges, losses) == ([Range("t", "b2", 0, 0, 7)], [])
