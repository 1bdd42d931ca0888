"""Dead letters there and back."""

from tests.broker.harness import Harness


def give_up(harness: Harness, value: bytes) -> None:
    """Produce a message, and fail it until it is a dead letter."""
    harness.produce("t", value)
    harness.sync()
    ((partition, offset, _),) = harness.lease("t", "g")
    harness.do("nack", "t", "g", partition, [(offset, offset + 1)])


def values(harness: Harness, topic: str) -> list[bytes]:
    found = harness.broker.state.topics[topic]
    page = harness.broker.page(topic, found.id, 0, 0)
    return [value for run in page.runs for value in run.batch.column("value").to_pylist()]


def test_what_was_sent_back_is_not_sent_back_again() -> None:
    harness = Harness(max_attempts=1)
    harness.do("create_topic", "t", 1, {})
    give_up(harness, b"one")
    assert harness.do("redrive", "t", "g") == 1
    assert harness.do("redrive", "t", "g") == 0
    assert values(harness, "t") == [b"one", b"one"]


def test_after_the_dead_letters_were_deleted_the_next_ones_can_be_sent_back() -> None:
    harness = Harness(max_attempts=1)
    harness.do("create_topic", "t", 1, {})
    give_up(harness, b"one")
    assert harness.do("redrive", "t", "g") == 1
    harness.do("delete_topic", "dlq.t")
    harness.do("ack", "t", "g", 0, [(1, 2)])
    give_up(harness, b"two")
    assert values(harness, "dlq.t") == [b"two"]
    assert harness.do("redrive", "t", "g") == 1
    assert values(harness, "t")[-1:] == [b"two"]
