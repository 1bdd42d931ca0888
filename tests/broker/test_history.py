"""What is only in the tier is asked for once, kept for a while, and all who wait for it are told."""

from typing import Any

import pyarrow as pa
import pytest

from cordwood.broker.history import Away, Group, History, Since
from cordwood.broker.index import TIERED, Place, Tiered
from cordwood.errors import Unavailable
from cordwood.tier.descriptor import Descriptor

OBJECT = Tiered(Descriptor("t", "aa", 0, 10, 16, 1, 0, 6, 7), 500, 4)
FIRST, SECOND = Group(OBJECT, 10, 14), Group(OBJECT, 14, 16)


def batch(count: int) -> Any:
    return pa.record_batch({"value": pa.array([b"%d" % n for n in range(count)], pa.binary())})


def place(first: int, length: int) -> Place:
    return Place(first, length, TIERED, 0, first - OBJECT.group(first)[0], OBJECT)


def begun(most_bytes: int = 1 << 20) -> tuple[History, list[Any]]:
    history, asked = History(most_bytes), []
    history.ask = asked.append
    return history, asked


def test_what_is_not_here_says_what_is_wanted() -> None:
    history, _ = begun()
    with pytest.raises(Away) as away:
        history.fetch(place(12, 1))
    assert away.value.wanted == FIRST
    with pytest.raises(Away) as away:
        history.fetch(place(15, 1))
    assert away.value.wanted == SECOND


def test_it_is_asked_for_once_and_everybody_is_told() -> None:
    history, asked = begun()
    told: list[Any] = []
    for _ in range(3):
        history.bring(FIRST, told.append)
    assert asked == [FIRST]
    history.arrived(FIRST, batch(4))
    assert told == [None] * 3
    assert history.fetch(place(12, 2)).column("value").to_pylist() == [b"2", b"3"]


def test_who_could_not_be_served_is_told_why_and_may_ask_again() -> None:
    history, asked = begun()
    told: list[Any] = []
    history.bring(FIRST, told.append)
    error = Unavailable("down")
    history.failed(FIRST, error)
    assert told == [error]
    history.bring(FIRST, told.append)
    assert asked == [FIRST, FIRST]


def test_what_arrives_is_here_for_all_who_waited_however_little_room_there_is() -> None:
    history, _ = begun(0)
    seen: list[int] = []
    for _ in range(2):
        history.bring(FIRST, lambda error: seen.append(history.fetch(place(10, 4)).num_rows))
    history.arrived(FIRST, batch(4))
    assert seen == [4, 4]
    with pytest.raises(Away):
        history.fetch(place(10, 4))
    assert history.bytes == 0


def test_what_was_used_last_stays_the_longest() -> None:
    history, _ = begun(batch(4).nbytes + batch(2).nbytes)
    history.arrived(FIRST, batch(4))
    history.arrived(SECOND, batch(2))
    history.fetch(place(10, 1))
    other = Group(OBJECT._replace(bytes=1), 14, 16)
    history.arrived(other, batch(2))
    assert history.fetch(place(10, 1)).num_rows == 1
    with pytest.raises(Away):
        history.fetch(place(14, 1))


def test_a_time_is_looked_up_in_the_object_once() -> None:
    history, asked = begun()
    with pytest.raises(Away) as away:
        history.since(OBJECT, 11, 5_000)
    assert away.value.wanted == Since(OBJECT, 11, 5_000)
    history.bring(away.value.wanted, lambda error: None)
    history.arrived(asked[0], None)
    assert history.since(OBJECT, 11, 5_000) is None
    history.arrived(Since(OBJECT, 11, 6_000), 13)
    assert history.since(OBJECT, 11, 6_000) == 13


def test_each_row_group_but_the_last_is_full() -> None:
    assert [OBJECT.group(offset) for offset in range(10, 16)] == [(10, 14)] * 4 + [(14, 16)] * 2
