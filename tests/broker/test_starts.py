"""Where a group begins: an offset, the end, or a time, whatever retention took."""

import pyarrow as pa
import pytest

from cordwood.broker.starts import EARLIEST, LATEST, Start, parse
from cordwood.record import TIME, Records, assemble
from tests.broker.harness import Harness


def with_times(*appends: list[int]) -> Harness:
    """Return a broker with one partition, one append for each list of timestamps in ms."""
    harness = Harness()
    harness.broker.create_topic("t", 1, {"discard": "acked"}, lambda result: None)
    for times in appends:
        columns = {
            "timestamp": pa.array([time * 1000 for time in times], TIME),
            "value": pa.array([b"x"] * len(times), pa.binary()),
        }
        harness.broker.produce("t", Records(assemble(columns)), lambda result: None)
    harness.sync()
    return harness


def test_a_time_is_the_first_offset_at_or_after_it_also_where_times_fall() -> None:
    harness = with_times([10, 5, 20], [7, 30])
    places = {time: harness.broker.place("t", 0, Start(time_ms=time)) for time in (0, 10, 11, 20, 21, 31)}
    assert places == {0: 0, 10: 0, 11: 2, 20: 2, 21: 4, 31: 5}


def test_a_time_is_found_behind_the_start_that_lies_within_an_append() -> None:
    harness = with_times([10, 5, 6], [8, 9])
    broker = harness.broker
    broker.set_group("t", "g", {}, lambda result: None)
    broker.ack("t", "g", 0, [(0, 1)], lambda result: None)
    harness.sync()
    harness.clock.pass_ms(60_000)
    harness.sync()
    assert broker.state.topics["t"].partitions[0].start == 1, "the first message of the first append went"
    assert broker.place("t", 0, Start(time_ms=7)) == 3, "the message at 1 is older than that"
    assert broker.place("t", 0, Start(time_ms=10)) == 5
    assert broker.place("t", 0, EARLIEST) == 1
    assert broker.place("t", 0, LATEST) == 5


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        (7, Start(offset=7)),
        ("7", Start(offset=7)),
        ("time:1700000000000", Start(time_ms=1_700_000_000_000)),
        ("2023-11-14T22:13:20Z", Start(time_ms=1_700_000_000_000)),
        ("2023-11-14T23:13:20+01:00", Start(time_ms=1_700_000_000_000)),
    ],
)
def test_a_place_can_be_said_in_many_ways(text: str | int, start: Start) -> None:
    assert parse(text) == start
