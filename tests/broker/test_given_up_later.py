"""Messages that had their last attempt, and whose bytes are in a store that does not answer now."""

from cordwood.broker.history import History
from tests.broker.tiered import Tiered


def with_one_away() -> Tiered:
    """Return a broker where the first message failed for the last time, and is away; the second is here."""
    harness = Tiered(max_attempts=1)
    harness.do("create_topic", "t", 1, {})
    harness.do("set_group", "t", "g", {"mode": "ordered"})
    harness.produce("t", b"one")
    harness.sync()
    harness.round()
    assert harness.lease("t", "g") == []
    harness.fetch()
    assert harness.lease("t", "g") == [(0, 0, 1)]
    ask = harness.ledger.history.ask
    harness.ledger.history = History(1 << 20)  # what was fetched is forgotten
    harness.ledger.history.ask = ask
    harness.produce("t", b"two")
    harness.sync()
    harness.do("nack", "t", "g", 0, [(0, 1)])
    return harness


def test_what_is_behind_them_waits_in_ordered_mode() -> None:
    harness = with_one_away()
    assert harness.lease("t", "g") == []
    harness.fetch()
    assert harness.lease("t", "g") == [(0, 1, 1)]
    assert harness.read("dlq.t") == {0: b"one"}


def test_why_they_failed_is_written_once() -> None:
    harness = with_one_away()
    end = harness.ledger.end
    for _ in range(5):
        assert harness.lease("t", "g") == []
        harness.sync()
    assert harness.ledger.end == end
