"""What is shipped, and when; what is known of the store."""

from cordwood.broker import ops
from cordwood.broker.shipping import has_folder
from cordwood.tier.descriptor import Descriptor
from cordwood.tier.ship import Shipped
from tests.broker.tiered import Tiered


def begun(**settings: object) -> Tiered:
    """Return a broker with a topic that the store knows."""
    harness = Tiered(**settings)
    harness.do("create_topic", "jobs", 1, {})
    harness.go_through(harness.rounds.put_snapshot())
    return harness


def put(harness: Tiered, *values: bytes) -> None:
    """Produce messages, in one piece."""
    harness.produce("jobs", *values)
    harness.sync()


def next_range(harness: Tiered, *, everything: bool = False) -> tuple[int, int] | None:
    load = harness.shipping.next(everything=everything)
    return None if load is None else (load.freight.first, load.freight.end)


def test_a_topic_that_no_snapshot_has_is_not_shipped() -> None:
    harness = Tiered()
    harness.do("create_topic", "jobs", 1, {})
    put(harness, b"a")
    assert harness.shipping.unnamed
    assert next_range(harness, everything=True) is None
    harness.go_through(harness.rounds.put_snapshot())
    assert not harness.shipping.unnamed
    assert next_range(harness, everything=True) == (0, 1)


def test_what_makes_a_whole_object_is_due_at_once() -> None:
    harness = begun(tier_object_bytes=10)
    put(harness, b"123456789")
    assert next_range(harness) is None
    put(harness, b"0")
    assert next_range(harness) == (0, 2)


def test_less_is_due_after_the_interval() -> None:
    harness = begun(tier_object_bytes=1_000, tier_interval_s=60)
    put(harness, b"a")
    assert next_range(harness) is None
    harness.pass_ms(59_999)
    assert next_range(harness) is None
    harness.pass_ms(1)
    assert next_range(harness) == (0, 1)


def test_an_object_has_whole_pieces_and_one_at_least() -> None:
    harness = begun(tier_object_bytes=5)
    put(harness, b"1234", b"5678")
    put(harness, b"9")
    assert next_range(harness) == (0, 2)


def test_what_is_not_durable_is_not_shipped() -> None:
    harness = begun()
    harness.produce("jobs", b"a")
    assert next_range(harness, everything=True) is None
    harness.sync()
    harness.produce("jobs", b"b")
    assert next_range(harness, everything=True) == (0, 1)


def test_messages_that_nobody_wants_any_more_are_not_noted() -> None:
    harness = begun()
    put(harness, b"a")
    load = harness.shipping.next(everything=True)
    assert load is not None
    shipped = Shipped(Descriptor(*load.freight[:5], 1, 0, 1, 7), 100, 1)
    harness.ledger.write([ops.Trimmed("jobs", 0, 1)])
    assert not harness.shipping.stored(shipped)
    harness.do("delete_topic", "jobs")
    assert not harness.shipping.stored(shipped)
    harness.do("create_topic", "jobs", 1, {})
    assert not harness.shipping.stored(shipped), "it belongs to another topic of this name"


def test_an_object_is_deleted_when_its_time_has_come_and_a_snapshot_says_so() -> None:
    harness = begun()
    harness.ledger.state.doomed.update(now=0, later=harness.clock.now_ms() + 1)
    assert harness.shipping.doomed() == []
    harness.go_through(harness.rounds.put_snapshot())
    assert harness.shipping.doomed() == ["now"]
    harness.clock.pass_ms(1)
    assert harness.shipping.doomed() == ["now", "later"]
    harness.shipping.deleted(["now"])
    assert harness.shipping.doomed() == ["later"]


def test_what_is_read_from_and_what_is_doomed_is_known() -> None:
    harness = begun()
    put(harness, b"a")
    harness.round()
    (one,) = harness.stored()
    harness.ledger.state.doomed["over"] = 0
    assert harness.shipping.known() == {one.name, "over"}
    assert harness.shipping.unread([one]) == []
    assert [tiered.descriptor for tiered in harness.ledger.state.topics["jobs"].partitions[0].index.tiered] == [one]


def test_the_backlog_is_what_is_not_in_the_tier() -> None:
    harness = begun()
    put(harness, b"12345")
    assert harness.shipping.backlog_bytes == 5
    harness.round()
    assert harness.shipping.backlog_bytes == 0


def test_a_name_that_no_store_takes_stays_in_the_journal() -> None:
    assert has_folder("a/" * 60 + "a")
    assert not has_folder("a/" * 119 + "aa")
