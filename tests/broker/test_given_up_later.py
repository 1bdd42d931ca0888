"""Messages that had their last attempt, and whose bytes are in a store that does not answer now."""

from cordwood.errors import Unavailable
from tests.broker.tiered import Tiered


def after_a_crash() -> Tiered:
    """Return a broker whose first message had its last attempt, and is in the tier; the second is in the journal."""
    harness = Tiered(max_attempts=1)
    harness.do("create_topic", "t", 1, {})
    harness.do("set_group", "t", "g", {"mode": "ordered"})
    harness.produce("t", b"one")
    harness.sync()
    harness.round()
    assert harness.lease("t", "g") == []
    harness.fetch()
    assert harness.lease("t", "g") == [(0, 0, 1)]
    harness.produce("t", b"two")
    harness.sync()
    return Tiered(harness.objects, 2, harness.disk.image().after_kill(), max_attempts=1)


def test_what_is_behind_them_waits_in_ordered_mode() -> None:
    harness = after_a_crash()
    assert harness.lease("t", "g") == []
    harness.fetch()
    assert harness.lease("t", "g") == [(0, 1, 1)]
    assert harness.read("dlq.t") == {0: b"one"}


def test_why_they_failed_is_written_once() -> None:
    harness = after_a_crash()
    ends = []
    for _ in range(5):
        assert harness.lease("t", "g") == []
        for wanted in list(harness.wanted):
            harness.wanted.remove(wanted)
            harness.ledger.history.failed(wanted, Unavailable("it is down"))
        harness.pass_ms(60_000)
        ends.append(harness.ledger.end)
    assert len(set(ends)) == 1
