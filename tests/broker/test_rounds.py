"""Rounds of the tier: in which order things become true, and what a fault between two of them leaves."""

import pytest

from cordwood.broker.index import TIERED
from cordwood.broker.rounds import Durable
from cordwood.machine.objects.store import StoreUnavailable
from tests.broker.tiered import Tiered


def begun(**settings: object) -> Tiered:
    harness = Tiered(**settings)
    harness.do("create_topic", "jobs", 1, {})
    return harness


def calls(harness: Tiered) -> list[str]:
    """Return the list that gets what is asked of the store from here on."""
    found: list[str] = []
    harness.objects.watch = lambda operation, name: found.append(f"{operation} {name}")
    return found


def test_a_topic_is_shipped_after_a_snapshot_names_it() -> None:
    harness = begun()
    harness.produce("jobs", b"a")
    harness.sync()
    asked = calls(harness)
    harness.round()
    puts = [call for call in asked if call.startswith("put ")]
    assert [call.endswith(".snapshot") for call in puts] == [True, False, True]


def test_an_object_is_read_back_before_the_journal_says_that_it_is_there() -> None:
    harness = begun()
    harness.produce("jobs", b"a")
    harness.sync()
    harness.go_through(harness.rounds.put_snapshot())
    steps = harness.rounds.round(everything=True)
    step = next(steps)
    assert not isinstance(step, Durable), "all of it is durable"
    asked, end = calls(harness), harness.ledger.end
    shipped = step()
    assert [call.split()[0] for call in asked[:3]] == ["put", "size", "get"]
    assert harness.ledger.end == end, "it is not known yet"
    steps.send(shipped)
    assert harness.ledger.end == end + 1


def test_messages_are_read_from_their_object_once_that_is_known() -> None:
    harness = begun()
    harness.produce("jobs", b"a", b"b")
    harness.sync()
    (partition,) = harness.ledger.state.topics["jobs"].partitions
    assert partition.index.lowest_lsn() is not None
    harness.round()
    assert harness.ranges() == [(0, 2, 1)]
    assert partition.index.lowest_lsn() is None, "their segments may go"
    assert [place.lsn for place in partition.index.places(0, 2)] == [TIERED]
    assert harness.read("jobs") == {0: b"a", 1: b"b"}


def test_segments_go_when_it_is_durable_that_their_messages_are_in_an_object() -> None:
    harness = begun()
    harness.produce("jobs", b"a")
    harness.sync()
    harness.go_through(harness.rounds.put_snapshot())
    steps = harness.rounds.round(everything=True)
    steps.send(next(steps)())  # type: ignore[operator]
    harness.clock.pass_ms(61_000)
    harness.broker.tick()
    assert harness.released == [], "a power cut would take the fact, and leave the messages nowhere"
    harness.sync()
    assert harness.released == [harness.journal.end]


def test_an_object_of_which_only_the_answer_was_lost_is_adopted() -> None:
    harness = begun()
    harness.produce("jobs", b"a")
    harness.sync()
    harness.go_through(harness.rounds.put_snapshot())
    harness.objects.weather.fail_after = 1.0
    with pytest.raises(StoreUnavailable):
        harness.round()
    harness.objects.weather.fail_after = 0.0
    harness.produce("jobs", b"b")
    harness.sync()
    harness.round()
    assert harness.rounds.adopted == 1
    assert harness.ranges() == [(0, 1, 1), (1, 2, 1)], "nothing is there twice"
    assert harness.read("jobs") == {0: b"a", 1: b"b"}


def test_what_failed_for_want_of_room_in_the_journal_is_adopted_too() -> None:
    harness = begun()
    harness.produce("jobs", b"a")
    harness.sync()
    harness.go_through(harness.rounds.put_snapshot())
    harness.refuse = lambda entries: StoreUnavailable("here", "no room")
    with pytest.raises(StoreUnavailable):
        harness.round()
    harness.refuse = None
    harness.round()
    assert (harness.rounds.adopted, harness.ranges()) == (1, [(0, 1, 1)])


def test_what_is_over_goes_from_the_store_after_a_snapshot_says_so() -> None:
    harness = begun(retention_ms=1_000, hold_max_ms=0)
    harness.produce("jobs", b"a")
    harness.sync()
    harness.round()
    harness.pass_ms(120_000)
    harness.broker.tick()
    harness.sync()
    assert harness.ledger.state.doomed, "retention took it"
    asked = calls(harness)
    harness.round()
    assert not [call for call in asked if "delete topics" in call], "the last snapshot still names it"
    harness.round()
    assert [call for call in asked if "delete topics" in call]
    assert (harness.stored(), harness.ledger.state.doomed) == ([], {})


def test_the_objects_of_a_deleted_topic_go_after_a_snapshot_says_so() -> None:
    harness = begun()
    harness.produce("jobs", b"a")
    harness.sync()
    harness.round()
    harness.do("delete_topic", "jobs")
    harness.round()
    assert harness.ranges() == [(0, 1, 1)]
    harness.pass_ms(120_000)
    harness.round()
    harness.round()
    assert (harness.stored(), harness.ledger.state.graves) == ([], {})


def test_leftovers_of_another_epoch_are_collected_and_nothing_else() -> None:
    harness = begun()
    harness.produce("jobs", b"a")
    harness.sync()
    harness.round()
    (known,) = harness.stored()
    old, new = (
        f"{known.name.rsplit('/', 1)[0]}/{2:020}-{3:020}-{epoch}-0-1-00000000000000ff.parquet" for epoch in (1, 2)
    )
    harness.objects.put(old, b"")
    harness.objects.put(new, b"")
    harness.shipping.epoch = 2
    assert harness.go_through(harness.rounds.collect()) == [old]
    assert {one.name for one in harness.stored()} == {known.name, new}


def test_what_somebody_is_about_to_use_is_no_leftover() -> None:
    harness = begun()
    name = f"topics/jobs/aa/partition=0/{0:020}-{3:020}-0-1-3-00000000000000ff.parquet"
    harness.objects.put(name, b"")
    harness.rounds.spared.add(name)
    assert harness.go_through(harness.rounds.collect()) == []
    harness.rounds.spared.clear()
    steps = harness.rounds.collect()
    steps.send(next(steps)())  # type: ignore[operator]
    assert harness.rounds.condemned == {name}, "who wants it now must put it again"
    steps.close()
    assert not harness.rounds.condemned


def test_objects_of_a_topic_whose_deletion_is_not_durable_are_no_leftovers() -> None:
    harness = begun()
    harness.produce("jobs", b"a")
    harness.sync()
    harness.round()
    harness.shipping.epoch = 2
    harness.ask("delete_topic", "jobs")
    assert harness.go_through(harness.rounds.collect()) == []
    assert harness.ranges() == [(0, 1, 1)]


def test_with_sync_never_nothing_is_shipped_before_it_is_synced() -> None:
    harness = begun(sync="never")
    harness.produce("jobs", b"a")
    harness.sync()
    harness.go_through(harness.rounds.put_snapshot())
    assert isinstance(next(harness.rounds.round(everything=True)), Durable)


def test_a_broker_that_stops_ships_nothing_more() -> None:
    harness = begun()
    harness.produce("jobs", b"a")
    harness.sync()
    harness.rounds.closing = True
    harness.round()
    assert harness.stored() == []
