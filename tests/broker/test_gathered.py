"""Single messages that wait for the next commit, when their topic goes meanwhile."""

import msgspec

from cordwood.errors import NotFound
from cordwood.wire.message import Message
from tests.broker.harness import Harness

ONE = Message(value=msgspec.Raw(b'"one"'))


def waiting(**settings: object) -> Harness:
    """Return a broker with a topic, and a commit under way that single messages wait for."""
    harness = Harness(**settings)
    harness.ask("create_topic", "t", 3, {})
    return harness


def test_what_is_accepted_with_qos_0_is_answered_once_whatever_becomes_of_it() -> None:
    harness = waiting()
    answers = harness.ask("produce_one", "t", ONE, qos=0)
    assert [answer.offset for answer in answers] == [None]
    harness.ask("delete_topic", "t")
    harness.sync()
    assert len(answers) == 1


def test_a_message_for_a_topic_that_was_deleted_is_not_in_the_one_made_after_it() -> None:
    harness = waiting()
    answers = harness.ask("produce_one", "t", Message(value=msgspec.Raw(b'"one"'), partition=2))
    other = harness.ask("create_topic", "u", 1, {})
    kept = harness.ask("produce_one", "u", ONE)
    harness.ask("delete_topic", "t")
    harness.ask("create_topic", "t", 1, {})
    harness.sync()
    assert [type(answer) for answer in answers] == [NotFound]
    assert harness.broker.state.topics["t"].partitions[0].end == 0
    assert len(other) == 1
    assert [answer.offset for answer in kept] == [0], "others are not refused because of it"
