"""Numbers: never twice, never lost, always in order, whatever the network does."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cordwood.client.lane import MOST_EPOCHS, Lane
from cordwood.client.parcel import Parcel, Take
from cordwood.client.retry import CONFLICT, LATER, REFUSED
from cordwood.errors import Conflict, Refused, Unavailable

from .model import POISON, Numbering, values_of

FATES = ("answer", "later", "stored, but later", "lost", "answer lost")
GAP = Conflict("gap", epoch=0, expected_sequence=0)


def parcel_of(*values: bytes, divisible: bool = True, deadline: float = 1e9) -> Parcel:
    take = Take([], 0)
    made = Parcel(take, 0, 0, [pa.record_batch({"value": pa.array(values, pa.binary())})], divisible=divisible)
    take.parcels[0] = [made]
    made.deadline = deadline
    return made


def sent(lane: Lane) -> Parcel:
    parcel = lane.next()
    assert parcel is not None
    lane.sent(parcel)
    return parcel


def test_messages_are_numbered_one_after_the_other() -> None:
    lane = Lane(0, epoch=3)
    for values in ((b"a", b"b"), (b"c",)):
        lane.add(parcel_of(*values))
    first, second = sent(lane), sent(lane)
    assert [(p.epoch, p.sequence) for p in (first, second)] == [(3, 0), (3, 2)]
    assert lane.next() is None


def test_a_stored_parcel_is_settled_with_its_offset() -> None:
    lane = Lane(0, 0)
    lane.add(parcel_of(b"a"))
    parcel = sent(lane)
    assert lane.stored(parcel, 7, duplicate=False) == [parcel]
    assert (parcel.settled, parcel.first_offset, parcel.error) == (True, 7, None)


def test_a_lost_connection_sends_the_same_numbers_again() -> None:
    lane = Lane(0, 0)
    lane.add(parcel_of(b"a"))
    lane.add(parcel_of(b"b"))
    before = [(p.epoch, p.sequence) for p in (sent(lane), sent(lane))]
    lane.lost()
    assert [(p.epoch, p.sequence) for p in (sent(lane), sent(lane))] == before


def test_a_repeat_that_was_stored_is_settled_as_a_duplicate() -> None:
    lane = Lane(0, 0)
    lane.add(parcel_of(b"a"))
    sent(lane)
    lane.lost()
    parcel = sent(lane)
    assert lane.stored(parcel, 4, duplicate=True) == [parcel]
    assert parcel.first_offset == 4


def test_what_follows_a_postponed_parcel_waits_for_it() -> None:
    lane = Lane(0, 0)
    lane.add(parcel_of(b"a"))
    lane.add(parcel_of(b"b"))
    first, second = sent(lane), sent(lane)
    assert lane.failed(first, LATER, Unavailable("later")) == []
    assert lane.next() is None, "the second is still under way"
    assert lane.failed(second, CONFLICT, GAP) == []
    assert [sent(lane), sent(lane)] == [first, second]
    assert (first.epoch, second.sequence) == (0, 1), "nothing was renumbered"


def test_a_refused_message_fails_alone_and_those_behind_it_begin_a_new_epoch() -> None:
    lane = Lane(0, 0)
    lane.add(parcel_of(POISON))
    lane.add(parcel_of(b"b"))
    first, second = sent(lane), sent(lane)
    assert lane.failed(first, REFUSED, Refused("too large")) == [first]
    assert lane.failed(second, CONFLICT, GAP) == []
    assert sent(lane) is second
    assert (second.epoch, second.sequence, second.error) == (1, 0, None)


def test_a_refused_parcel_is_parted_to_find_the_message_at_fault() -> None:
    lane = Lane(0, 0)
    lane.add(parcel_of(b"a", b"b", POISON))
    assert lane.failed(sent(lane), REFUSED, Refused("too large")) == []
    assert [values_of(p) for p in lane.queue] == [[b"a"], [b"b", POISON]]
    assert [(p.epoch, p.sequence) for p in lane.queue] == [(0, 0), (0, 1)], "the numbers are those of the whole"


def test_a_table_is_not_parted() -> None:
    lane = Lane(0, 0)
    parcel = parcel_of(b"a", POISON, divisible=False)
    lane.add(parcel)
    assert lane.failed(sent(lane), REFUSED, Refused("too large")) == [parcel]


def test_a_parcel_is_given_up_when_its_time_is_over_and_not_under_way() -> None:
    lane = Lane(0, 0)
    parcel = parcel_of(b"a", deadline=10)
    lane.add(parcel)
    sent(lane)
    late = Unavailable("late")
    assert lane.expire(11, late) == []
    lane.lost()
    assert lane.expire(9, late) == []
    assert lane.expire(11, late) == [parcel]
    assert parcel.error is late


def test_numbers_go_on_when_what_was_given_up_had_been_stored() -> None:
    broker, lane = Numbering(), Lane(0, 0)
    lane.add(parcel_of(b"a", deadline=1))
    first = sent(lane)
    broker.produce(first.epoch, first.sequence, values_of(first))
    lane.lost()
    lane.expire(2, Unavailable("late"))
    lane.add(parcel_of(b"b"))
    second = sent(lane)
    assert broker.produce(second.epoch, second.sequence, values_of(second)) == (1, False)
    assert (second.epoch, broker.log) == (0, [b"a", b"b"])


def test_a_duplicate_of_what_was_sent_once_is_somebody_elses() -> None:
    own = Lane(0, 0)
    own.add(parcel_of(b"a"))
    parcel = sent(own)
    assert own.stored(parcel, 0, duplicate=True) == []
    assert (sent(own), parcel.epoch) == (parcel, 1)

    given_name = Lane(0, 0, name_given=True)
    given_name.add(parcel_of(b"a"))
    parcel = sent(given_name)
    assert given_name.stored(parcel, 0, duplicate=True) == [parcel]
    assert isinstance(parcel.error, Conflict)
    assert given_name.over is parcel.error


def test_a_producer_with_a_given_name_is_ended_by_one_with_a_higher_epoch() -> None:
    lane = Lane(0, 1, name_given=True)
    lane.add(parcel_of(b"a"))
    lane.add(parcel_of(b"b"))
    first, second = sent(lane), sent(lane)
    assert lane.failed(first, CONFLICT, Conflict("over", epoch=2)) == [first, second]
    assert lane.failed(second, CONFLICT, Conflict("over", epoch=2)) == [], "its answer comes too late to matter"


def test_a_broker_that_forgot_the_producer_gets_a_new_epoch() -> None:
    lane = Lane(0, 0)
    lane.add(parcel_of(b"a"))
    lane.stored(sent(lane), 0, duplicate=False)
    lane.add(parcel_of(b"b"))
    parcel = sent(lane)
    assert parcel.sequence == 1
    lane.failed(parcel, CONFLICT, Conflict("gap", expected_sequence=0, epoch=0))
    assert (sent(lane).epoch, parcel.sequence) == (1, 0)


def test_conflicts_without_end_are_an_error() -> None:
    lane = Lane(0, 0)
    lane.add(parcel_of(b"a"))
    for _ in range(MOST_EPOCHS):
        assert lane.failed(sent(lane), CONFLICT, Conflict("gap", epoch=lane.epoch)) == []
    parcel = sent(lane)
    assert lane.failed(parcel, CONFLICT, GAP) == [parcel]


@given(data=st.data(), batches=st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=8))
def test_every_message_is_stored_once_and_in_order_whatever_happens(
    data: st.DataObject, batches: list[list[bool]]
) -> None:
    """Answers are lost, requests are lost, connections break, the broker says later, messages are refused."""
    broker, lane = Numbering(), Lane(0, 0)
    number = 0
    good: list[bytes] = []
    for poisons in batches:
        values = []
        for poison in poisons:
            values.append(POISON if poison and data.draw(st.booleans()) else b"%d" % number)
            number += 1
        good += [value for value in values if value != POISON]
        lane.add(parcel_of(*values))
    settled: list[Parcel] = []
    trouble = 30
    while lane.queue:
        under_way = []
        for _ in range(data.draw(st.integers(1, 4))):
            parcel = lane.next()
            if parcel is not None:
                lane.sent(parcel)
                under_way.append(parcel)
        while under_way:
            parcel = under_way.pop(0)
            fate = data.draw(st.sampled_from(FATES)) if trouble else "answer"
            trouble -= fate != "answer"
            if fate == "later":
                settled += lane.failed(parcel, LATER, Unavailable("later"))
                continue
            if fate == "lost":
                lane.lost()
                break
            stored, second = broker.produce(parcel.epoch, parcel.sequence, values_of(parcel))
            if fate == "stored, but later":
                settled += lane.failed(parcel, LATER, Unavailable("internal"))
                continue
            if fate == "answer lost":  # and what was sent behind it may have arrived as well
                for behind in under_way[: data.draw(st.integers(0, len(under_way)))]:
                    broker.produce(behind.epoch, behind.sequence, values_of(behind))
                lane.lost()
                break
            if isinstance(stored, int):
                settled += lane.stored(parcel, stored, duplicate=bool(second))
            else:
                assert isinstance(second, Refused)
                settled += lane.failed(parcel, stored, second)
    assert broker.log == good
    for parcel in settled:
        assert (parcel.error is not None) == (POISON in values_of(parcel))
        if parcel.error is None:
            assert parcel.first_offset is not None
            assert broker.log[parcel.first_offset :][: parcel.count] == values_of(parcel)
