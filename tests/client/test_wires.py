"""A producer's connections: the work of a turn is with what is there to send, whatever the number of partitions."""

import socket
from collections.abc import Iterator

import pyarrow as pa
import pytest

from cordwood.client.bell import Bell
from cordwood.client.endpoint import endpoint
from cordwood.client.lane import Lane
from cordwood.client.parcel import Parcel, Take
from cordwood.client.wire import WINDOW
from cordwood.client.wires import MOST_WIRES, Wires

NOW = 1000.0
BATCH = pa.record_batch({"value": pa.array([b"a"], pa.binary())})


@pytest.fixture
def wires() -> Iterator[Wires]:
    """Wires to somebody who takes everything and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        made = Wires(endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}"), "t", "p", 30.0, Bell())
        yield made
        made.close()


def loaded(wires: Wires, number: int, parcels: int = 1) -> Lane:
    lane = Lane(number, 0)
    for _ in range(parcels):
        parcel = Parcel(Take([], 0), number, 0, [BATCH], divisible=False)
        parcel.deadline = NOW + 100
        lane.add(parcel)
    wires.load(lane)
    return lane


def broken(wires: Wires) -> None:
    for wire in list(wires._wires):
        wires._fail(wire, NOW, ConnectionError("cut"))


def test_lanes_behind_a_full_window_wait_for_an_answer_and_not_in_a_circle(wires: Wires) -> None:
    lanes = [loaded(wires, number) for number in range(2 * MOST_WIRES * WINDOW)]
    assert wires.next_time(NOW + 50) <= NOW, "there is something to send"
    wires.send(NOW)
    assert sum(lane.in_flight for lane in lanes) == MOST_WIRES * WINDOW
    assert wires.next_time(NOW + 50) == NOW + 30, "when the first answer is overdue"


def test_lanes_without_parcels_are_not_looked_at(wires: Wires) -> None:
    lanes = [loaded(wires, number) for number in range(10)]
    wires.send(NOW)
    for lane in lanes[1:]:
        lane.stored(lane.queue[0], 0, duplicate=False)
    assert wires.loaded == lanes[:1]
    wires.send(NOW)
    assert wires.loaded == lanes[:1]
    lanes[5].add(Parcel(Take([], 0), 5, 0, [BATCH], divisible=False))
    wires.load(lanes[5])
    assert set(wires.loaded) == {lanes[0], lanes[5]}


def test_a_lane_with_much_to_send_does_not_keep_others_from_the_wire(wires: Wires) -> None:
    much = loaded(wires, 0, parcels=3 * WINDOW)
    others = [loaded(wires, number) for number in range(1, 2 * MOST_WIRES + 1)]
    same_wire = others[MOST_WIRES - 1]
    wires.send(NOW)
    assert (much.in_flight, same_wire.in_flight) == (WINDOW, 0), "it came first"
    broken(wires)
    wires.send(NOW + 60)
    assert same_wire.in_flight == 1, "it is the others' turn"
    assert 0 < much.in_flight < WINDOW


def test_what_a_broken_wire_carried_is_sent_again(wires: Wires) -> None:
    lanes = [loaded(wires, number) for number in range(MOST_WIRES)]
    wires.send(NOW)
    broken(wires)
    assert [lane.in_flight for lane in lanes] == [0] * MOST_WIRES
    wires.send(NOW + 60)
    assert [lane.in_flight for lane in lanes] == [1] * MOST_WIRES
