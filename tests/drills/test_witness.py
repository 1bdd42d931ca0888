"""The witness notices every broken promise: a wrong history for each of its rules."""

import pytest

from cordwood.drills.field.witness import (
    Delivered,
    Done,
    Event,
    Group,
    History,
    Place,
    Reading,
    Restarted,
    Seen,
    Unsure,
    Write,
    judge,
)


def a(number: int) -> Write:
    return Write("a", number)


def at(offset: int, partition: int = 0) -> Place:
    return Place(partition, offset)


def reading(*writes: Write | None, told: int | None = None, start: int = 0, reader: str = "a reader") -> Reading:
    """A look at one partition: these writes, one after the other."""
    seen = [Seen(at(start + step), write) for step, write in enumerate(writes)]
    return Reading(reader, len(writes) if told is None else told, seen, {0: start} if start else {})


def right(*extra: Reading, count: int = 3) -> History:
    """Three writes, acknowledged and read."""
    writes = [a(number) for number in range(count)]
    acknowledged = [(write, at(number)) for number, write in enumerate(writes)]
    return History(set(writes), acknowledged, readings=[reading(*writes), *extra])


def rules(history: History) -> set[str]:
    """Which rules are broken."""
    return {line.split(":")[0] for line in judge(history)}


def test_a_right_history_breaks_no_rule() -> None:
    history = right(reading(a(0), a(1), a(2), a(3)))
    history.sent.add(a(3))  # nobody heard of it, and it is there: once
    history.groups.append(
        Group("g", [Delivered(at(n), a(n), 1) for n in range(3)] + [Done(at(1))], drained=True),
    )
    assert judge(history) == []


def test_an_acknowledged_write_that_is_missing_is_noticed() -> None:
    assert rules(right(reading(a(0), a(1), told=3))) >= {"acknowledged"}


def test_an_acknowledgement_that_came_after_the_reading_began_need_not_be_in_it() -> None:
    history = right()
    history.readings = [reading(a(0), told=1), reading(a(0), a(1), a(2))]
    assert judge(history) == []


def test_an_acknowledged_write_at_another_offset_is_noticed() -> None:
    history = right()
    history.acknowledged[1] = (a(1), at(2))
    history.acknowledged[2] = (a(2), at(1))
    assert "acknowledged" in rules(history)


def test_a_write_that_is_acknowledged_at_two_places_is_noticed() -> None:
    history = right()
    history.acknowledged.append((a(1), at(7)))
    assert "acknowledged" in rules(history)


def test_two_writes_that_are_acknowledged_at_one_place_are_noticed() -> None:
    history = right()
    history.sent.add(a(9))
    history.acknowledged.append((a(9), at(1)))
    assert "one content" in rules(history)


def test_what_nobody_sent_is_noticed() -> None:
    history = right()
    history.readings.append(reading(a(0), a(1), a(2), Write("b", 0), told=3))
    assert rules(history) == {"sent"}


def test_bytes_that_are_no_message_are_noticed() -> None:
    history = right()
    history.readings.append(reading(a(0), a(1), a(2), None, told=3))
    assert rules(history) == {"sent"}


def test_a_refused_write_that_is_there_is_noticed() -> None:
    history = right(reading(a(0), a(1), a(2), a(3)))
    history.sent.add(a(3))
    history.refused.add(a(3))
    assert rules(history) == {"refused"}


def test_a_gap_in_the_offsets_is_noticed() -> None:
    history = right()
    history.sent.add(a(3))
    history.readings[0].seen.append(Seen(at(4), a(3)))
    assert rules(history) == {"dense"}


def test_what_retention_took_is_not_missing_and_not_a_gap() -> None:
    history = right()
    history.readings.append(reading(a(2), start=2, told=3))
    assert judge(history) == []


def test_a_log_that_begins_late_without_saying_so_is_noticed() -> None:
    late = reading(a(2), start=2, told=0)
    late.starts.clear()
    assert "dense" in rules(History({a(2)}, readings=[late]))


def test_writes_out_of_order_are_noticed() -> None:
    history = History({a(0), a(1)}, readings=[reading(a(1), a(0), told=0)])
    assert rules(history) == {"order"}


def test_an_unacknowledged_write_that_is_there_twice_is_noticed() -> None:
    history = History({a(0)}, readings=[reading(a(0), a(0), told=0)])
    assert rules(history) == {"once"}


def test_an_offset_with_two_contents_is_noticed() -> None:
    history = History({a(0), a(1)}, readings=[reading(a(0), told=0), reading(a(1), told=0)])
    assert rules(history) == {"one content"}


def test_what_was_shown_and_is_gone_is_noticed() -> None:
    history = History({a(0), a(1)}, readings=[reading(a(0), a(1), told=0), reading(a(0), told=0)])
    assert rules(history) == {"stays"}


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([Delivered(at(0), a(0), 1), Done(at(0)), Restarted(), Delivered(at(0), a(0), 2)], "although it was done"),
        ([Delivered(at(0), a(0), 1), Restarted()], "did not get 0/0 again"),
        ([Restarted()], "never got a:0"),
        ([Delivered(at(0), a(0), 1), Restarted(), Delivered(at(0), a(0), 1)], "as attempt 1 after attempt 1"),
    ],
)
def test_a_group_that_gets_too_much_or_too_little_is_noticed(events: list[Event], why: str) -> None:
    history = right(count=1)
    history.groups.append(Group("g", events, drained=True))
    (line,) = judge(history)
    assert line.startswith("group: ")
    assert why in line


def test_an_ack_that_nobody_answered_may_count_or_not() -> None:
    for after in ([], [Delivered(at(0), a(0), 2)]):
        history = right(count=1)
        events: list[Event] = [Delivered(at(0), a(0), 1), Unsure(at(0)), Restarted(), *after]
        history.groups.append(Group("g", events, drained=True))
        assert judge(history) == []


def test_what_a_group_is_given_is_judged_like_what_is_read() -> None:
    history = right(count=1)
    history.groups.append(Group("g", [Delivered(at(0), a(5), 1)]))
    assert rules(history) == {"sent", "one content"}


def test_a_delivery_that_was_given_back_need_not_count() -> None:
    history = right(count=1)
    events: list[Event] = [Delivered(at(0), a(0), 2), Delivered(at(0), a(0), 2)]
    history.groups.append(Group("g", events, counted=False))
    assert judge(history) == []
    events.append(Delivered(at(0), a(0), 1))
    assert rules(history) == {"group"}


def test_many_of_one_kind_are_counted_and_not_listed() -> None:
    history = History({a(0)}, readings=[reading(*[None] * 20, told=0)])
    assert len(judge(history)) == 6
    assert judge(history)[-1] == "… and 15 more of this kind"
