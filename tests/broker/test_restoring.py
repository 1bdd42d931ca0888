"""A broker on an empty disk goes on from what the store knows, above every offset that was given out."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.broker import ops
from cordwood.broker.restoring import GIVEN_BITS, _covering, _unheard_of, restored
from cordwood.errors import Damaged
from cordwood.sim.clock import SimClock
from cordwood.sim.objects import SimObjects
from cordwood.tier import state as states
from cordwood.tier.catalogue import ListedCatalogue
from cordwood.tier.descriptor import Descriptor, topic_prefix
from cordwood.tier.rows import Rows
from cordwood.tier.ship import Freight, ship
from tests.broker.harness import records
from tests.broker.tiered import Tiered
from tests.tier.shelf import batch_of, message

FAR = 1 << GIVEN_BITS


def begun(**settings: object) -> Tiered:
    harness = Tiered(**settings)
    harness.do("create_topic", "jobs", 1, {})
    return harness


def put(harness: Tiered, *values: bytes) -> int:
    """Produce messages durably; return the offset of the first."""
    return int(harness.do("produce", "jobs", records(*values)).results[0][1])


def on_an_empty_disk(before: Tiered, epoch: int = 2) -> Tiered:
    """Return the broker that goes on after a disk was lost."""
    before.objects.watch = None
    return Tiered(before.objects, epoch)


def where(harness: Tiered) -> tuple[int, int, list[tuple[int, int]]]:
    (partition,) = harness.ledger.state.topics["jobs"].partitions
    return partition.start, partition.end, partition.holes


def test_an_empty_store_knows_nothing() -> None:
    objects = SimObjects(SimClock())
    assert restored(objects, ListedCatalogue(objects)) is None


def test_what_was_tiered_is_there_and_what_was_not_is_a_hole() -> None:
    harness = begun()
    put(harness, b"a", b"b")
    harness.round()
    put(harness, b"lost")
    after = on_an_empty_disk(harness)
    assert after.read("jobs") == {0: b"a", 1: b"b"}
    assert where(after) == (0, FAR, [(2, FAR)])
    assert put(after, b"c") == FAR
    assert after.read("jobs") == {0: b"a", 1: b"b", FAR: b"c"}


def test_objects_that_came_after_the_snapshot_are_there_too() -> None:
    harness = begun()
    put(harness, b"a")
    harness.go_through(harness.rounds.put_snapshot())
    steps = harness.rounds.round(everything=True)
    steps.send(next(steps)())  # type: ignore[operator]  # shipped and noted, and no snapshot
    harness.sync()
    after = on_an_empty_disk(harness)
    assert after.read("jobs") == {0: b"a"}
    assert where(after) == (0, FAR, [(1, FAR)])


def test_an_object_that_the_start_lies_within_is_there_too() -> None:
    harness = begun()
    put(harness, b"a", b"b")
    harness.ledger.write([ops.Trimmed("jobs", 0, 1)])
    harness.sync()
    harness.go_through(harness.rounds.put_snapshot())
    steps = harness.rounds.round(everything=True)
    steps.send(next(steps)())  # type: ignore[operator]
    harness.sync()
    assert harness.ranges() == [(0, 2, 1)], "an object has whole pieces"
    after = on_an_empty_disk(harness)
    assert after.read("jobs") == {1: b"b"}
    assert where(after) == (1, FAR, [(2, FAR)])


def test_after_a_clean_stop_offsets_go_on_without_a_hole() -> None:
    harness = begun()
    put(harness, b"a", b"b")
    harness.round()
    harness.go_through(harness.rounds.put_snapshot(clean=True))
    after = on_an_empty_disk(harness)
    assert where(after) == (0, 2, [])
    assert put(after, b"c") == 2


def test_what_was_not_tiered_at_a_clean_stop_is_a_hole_and_no_more() -> None:
    harness = begun()
    put(harness, b"a")
    harness.round()
    put(harness, b"lost")
    harness.go_through(harness.rounds.put_snapshot(clean=True))
    assert where(on_an_empty_disk(harness)) == (0, 2, [(1, 2)])


def test_what_was_lost_is_stored_when_it_is_sent_again_and_nothing_else_is() -> None:
    harness = begun()

    def send(harness: Tiered, sequence: int, *values: bytes) -> tuple[int, int]:
        found = harness.do("produce", "jobs", records(*values), number=ops.Numbered("p", 0, sequence))
        return int(found.results[0][1]), found.duplicates

    send(harness, 0, b"a", b"b")
    harness.round()
    send(harness, 2, b"c", b"d")
    send(harness, 4, b"e")
    harness.do("produce", "jobs", records(b"f"), keys=["key"])
    harness.go_through(harness.rounds.put_snapshot())
    after = on_an_empty_disk(harness)
    assert send(after, 0, b"a", b"b") == (0, 2), "it is in the tier"
    assert send(after, 2, b"c", b"d") == (FAR, 0), "it is in the hole"
    assert send(after, 2, b"c", b"d") == (FAR, 2)
    assert send(after, 5, b"g") == (FAR + 2, 0), "whoever does not know of the loss goes on"
    assert send(after, 4, b"e") == (FAR + 3, 0)
    again = [after.do("produce", "jobs", records(b"f"), keys=["key"]).results[0][1] for _ in range(2)]
    assert again == [FAR + 4, FAR + 4]
    lines = [b"a", b"b", b"c", b"d", b"g", b"e", b"f"]
    assert list(after.read("jobs").values()) == lines


def test_a_disk_that_is_lost_twice_leaves_one_hole() -> None:
    harness = begun()
    put(harness, b"a")
    harness.round()
    after = on_an_empty_disk(on_an_empty_disk(harness), 3)
    assert where(after) == (0, 2 * FAR, [(1, 2 * FAR)])
    (partition,) = after.ledger.state.topics["jobs"].partitions
    assert partition.messages == 1


def test_groups_go_on_behind_the_hole() -> None:
    harness = begun()
    put(harness, b"a", b"b")
    harness.do("set_group", "jobs", "mail", {})
    harness.round()
    after = on_an_empty_disk(harness)
    new = put(after, b"c")
    answers = after.ask("lease", "jobs", "mail", owner="me", wait_ms=1_000)
    after.sync()
    after.fetch()
    (runs,) = answers
    assert [run.first_offset for run in runs] == [0, new]
    after.do("ack", "jobs", "mail", 0, [(0, 2), (new, new + 1)])
    (found,) = after.do("group", "jobs", "mail").partitions
    assert (found.floor, found.lag, found.done) == (new + 1, 0, [])


def test_a_topic_with_a_tombstone_is_gone() -> None:
    harness = begun()
    put(harness, b"a")
    harness.round()
    topic = harness.ledger.state.topics["jobs"]
    harness.objects.put(f"{topic_prefix('jobs', topic.id)}deleted", b"")
    assert on_an_empty_disk(harness).ledger.state.topics == {}


def test_objects_of_an_earlier_epoch_that_the_snapshot_does_not_name_do_not_count() -> None:
    harness = begun()
    put(harness, b"a")
    harness.go_through(harness.rounds.put_snapshot())
    steps = harness.rounds.round(everything=True)
    next(steps)()  # type: ignore[operator]  # put, and nobody knows
    assert harness.ranges() == [(0, 1, 1)]
    harness.journal.abandon()
    again = Tiered(harness.objects, 2, harness.disk)  # the journal is there, and says nothing of it
    assert again.ledger.state.topics["jobs"].partitions[0].index.tiered == []
    assert on_an_empty_disk(again, 3).read("jobs") == {}


def test_what_was_put_twice_takes_no_messages_away() -> None:
    harness = begun()
    for values in ((b"a", b"b"), (b"c",), (b"d",)):
        put(harness, *values)
    harness.go_through(harness.rounds.put_snapshot())
    steps = harness.rounds.round(everything=True)
    step = next(steps)
    for _ in range(3):
        step = steps.send(step())  # type: ignore[operator]  # shipped and noted, and no snapshot
    topic = harness.ledger.state.topics["jobs"]
    late = Rows.dense(0, batch_of(message(value=value) for value in (b"a", b"b", b"c")))
    ship(harness.objects, harness.catalogue, Freight("jobs", topic.id, 0, 0, 3, 1), [late])  # nobody waits for it
    assert harness.ranges() == [(0, 2, 1), (0, 3, 1), (2, 3, 1), (3, 4, 1)]
    after = on_an_empty_disk(harness)
    assert after.read("jobs") == {0: b"a", 1: b"b", 2: b"c", 3: b"d"}


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5), st.integers(1, 2)), max_size=8))
def test_objects_are_chosen_so_that_the_most_is_there(some: list[tuple[int, int, int]]) -> None:
    candidates = [Descriptor("t", "aa", 0, f, f + n, epoch, 0, n, at) for at, (f, n, epoch) in enumerate(some)]
    chosen = _covering(candidates)
    assert all(one.end <= other.first for one, other in pairwise(chosen))
    most = 0
    for number in range(1 << len(candidates)):
        part = sorted((one for at, one in enumerate(candidates) if number >> at & 1), key=lambda one: one.first)
        if all(one.end <= other.first for one, other in pairwise(part)):
            most = max(most, sum(one.count for one in part))
    assert sum(one.count for one in chosen) == most


def test_a_damaged_snapshot_is_passed_over() -> None:
    harness = begun()
    put(harness, b"a")
    harness.round()
    put(harness, b"b")
    harness.round()
    harness.objects.corrupt(states.marks(harness.objects)[0].name)
    assert on_an_empty_disk(harness).read("jobs") == {0: b"a", 1: b"b"}


def test_where_no_snapshot_is_whole_nothing_begins() -> None:
    harness = begun()
    put(harness, b"a")
    harness.round()
    for mark in states.marks(harness.objects):
        harness.objects.corrupt(mark.name)
    with pytest.raises(Damaged):
        on_an_empty_disk(harness)
    assert harness.ranges() == [(0, 1, 1)]


def test_no_offset_is_given_out_again_though_the_snapshot_that_says_so_is_damaged() -> None:
    harness = begun()
    put(harness, b"a")
    harness.go_through(harness.rounds.put_snapshot())
    second = on_an_empty_disk(harness)
    assert put(second, b"b") == FAR
    harness.objects.corrupt(states.marks(harness.objects)[0].name)
    third = on_an_empty_disk(second, 3)
    assert put(third, b"c") == 2 * FAR


def test_objects_that_were_deleted_after_an_older_snapshot_are_a_hole() -> None:
    harness = begun()
    put(harness, b"a")
    harness.round()
    put(harness, b"b")
    harness.round()
    harness.objects.delete([harness.stored()[0].name])
    after = on_an_empty_disk(harness)
    assert after.read("jobs") == {1: b"b"}
    assert where(after) == (0, FAR, [(0, 1), (2, FAR)])


def test_half_of_what_is_skipped_is_skipped_at_least() -> None:
    assert _unheard_of(0, 0) == _unheard_of(FAR // 2 - 1, 0) == FAR
    assert _unheard_of(FAR // 2, 0) == _unheard_of(FAR - 1, 0) == _unheard_of(FAR, 0) == 2 * FAR
    assert _unheard_of(5, 2) == 3 * FAR
