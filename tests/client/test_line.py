"""A producer's connection: the work of a turn is with what is there to send, whatever the number of partitions."""

import socket
from collections.abc import Iterator

import pyarrow as pa
import pytest

from cordwood.client.bell import Bell
from cordwood.client.endpoint import endpoint
from cordwood.client.lane import Lane
from cordwood.client.line import Line
from cordwood.client.parcel import Parcel, Take
from cordwood.client.wire import WINDOW

NOW = 1000.0
BATCH = pa.record_batch({"value": pa.array([b"a"], pa.binary())})


@pytest.fixture
def line() -> Iterator[Line]:
    """A line to somebody who takes everything and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        made = Line(endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}"), "t", "p", 30.0, Bell())
        yield made
        made.close()


def loaded(line: Line, number: int, parcels: int = 1) -> Lane:
    lane = Lane(number, 0)
    for _ in range(parcels):
        parcel = Parcel(Take([], 0), number, 0, [BATCH], divisible=False)
        parcel.deadline = NOW + 100
        lane.add(parcel)
    line.load(lane)
    return lane


def broken(line: Line) -> None:
    line._fail(NOW, ConnectionError("cut"))


def test_lanes_behind_a_full_window_wait_for_an_answer_and_not_in_a_circle(line: Line) -> None:
    lanes = [loaded(line, number) for number in range(2 * WINDOW)]
    assert line.next_time(NOW + 50) <= NOW, "there is something to send"
    line.send(NOW)
    assert sum(lane.in_flight for lane in lanes) == WINDOW
    assert line.next_time(NOW + 50) == NOW + 30, "when the first answer is overdue"


def test_lanes_without_parcels_are_not_looked_at(line: Line) -> None:
    lanes = [loaded(line, number) for number in range(WINDOW)]
    line.send(NOW)
    for lane in lanes[1:]:
        lane.stored(lane.queue[0], 0, duplicate=False)
    assert line.loaded == lanes[:1]
    line.send(NOW)
    assert line.loaded == lanes[:1]
    lanes[5].add(Parcel(Take([], 0), 5, 0, [BATCH], divisible=False))
    line.load(lanes[5])
    assert set(line.loaded) == {lanes[0], lanes[5]}


def test_a_lane_with_much_to_send_does_not_keep_others_from_the_wire(line: Line) -> None:
    much = loaded(line, 0, parcels=3 * WINDOW)
    other = loaded(line, 1, parcels=2)
    line.send(NOW)
    assert (much.in_flight, other.in_flight) == (WINDOW - 2, 2), "each in its turn"


def test_lanes_that_found_the_window_full_come_first_next_time(line: Line) -> None:
    lanes = [loaded(line, number, parcels=2) for number in range(WINDOW + 2)]
    line.send(NOW)
    assert [lane.in_flight for lane in lanes] == [1] * WINDOW + [0, 0]
    broken(line)
    line.send(NOW + 60)
    assert [lane.in_flight for lane in lanes] == [1] * (WINDOW - 2) + [0, 0] + [1, 1]


def test_what_a_broken_wire_carried_is_sent_again(line: Line) -> None:
    lanes = [loaded(line, number) for number in range(4)]
    line.send(NOW)
    broken(line)
    assert [lane.in_flight for lane in lanes] == [0] * 4
    line.send(NOW + 60)
    assert [lane.in_flight for lane in lanes] == [1] * 4
