"""Fetching ahead, against a broker that a test plays itself: what is asked when, and what becomes of it."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from cordwood import Consumer
from cordwood.client.client import Client
from cordwood.record import TIME
from cordwood.wire import arrow
from cordwood.wire.run import Run

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


class Played:
    """Gives the connection that leases to the test; all that is said about messages it answers itself, and keeps."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(10)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.told: list[tuple[str, dict[str, Any]]] = []
        self._leasing: list[tuple[socket.socket, dict[str, Any]]] = []
        self._came = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def lease(self) -> tuple[socket.socket, dict[str, Any]]:
        """Return the connection of the first lease, and what it asks."""
        with self._came:
            assert self._came.wait_for(lambda: self._leasing, 10)
            return self._leasing.pop()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            peer.settimeout(10)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        while (found := request(peer)) is not None:
            path, asked = found
            if path == "/v1/lease":
                with self._came:
                    self._leasing.append((peer, asked))
                    self._came.notify_all()
                return
            self.told.append((path, asked))
            peer.sendall(NO_CONTENT)


def request(peer: socket.socket) -> tuple[str, dict[str, Any]] | None:
    """Return the next request's path and what it asks, None at the end."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = peer.recv(1)
        if not piece:
            return None
        head += piece
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    body = b""
    while len(body) < length:
        body += peer.recv(length - len(body))
    return head.split(b" ")[1].decode(), msgspec.json.decode(body)


def answer(first: int, count: int) -> bytes:
    """Return an answer to a lease with the messages from offset `first` on."""
    values = [b"%d" % n for n in range(first, first + count)]
    batch = pa.record_batch({"timestamp": pa.array([0] * count, TIME), "value": pa.array(values, pa.binary())})
    body = b"".join(map(bytes, arrow.pieces([Run(batch, 0, first, 1)])))
    kind = f"Content-Type: {arrow.CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\n" + kind.encode() + body


@pytest.fixture
def broker() -> Iterator[Played]:
    played = Played()
    yield played
    played.close()


def test_the_next_messages_are_asked_for_while_an_answer_is_on_its_way(broker: Played) -> None:
    with Consumer(broker.endpoint, "t", "g", prefetch=100, close_ms=1000) as consumer:
        assert consumer.receive(1) == []
        peer, asked = broker.lease()
        assert asked["max_messages"] == 32, "half of what may wait here, so that there is room for two"
        whole = answer(0, 10)
        peer.sendall(whole[:-20])
        assert request(peer) is not None, "before the answer is whole"
        peer.sendall(whole[-20:] + answer(10, 5))
        assert [m.offset for m in consumer.receive(10, 5000)] == list(range(10))
        assert [m.offset for m in consumer.receive(5, 5000)] == list(range(10, 15))
        peer.close()


def test_nothing_is_asked_behind_a_request_that_waits_for_messages(broker: Played) -> None:
    with Consumer(broker.endpoint, "t", "g", close_ms=1000) as consumer:
        assert consumer.receive(1) == []
        peer, _ = broker.lease()
        peer.settimeout(0.3)
        with pytest.raises(TimeoutError):
            peer.recv(1)
        peer.close()


def test_nothing_is_asked_when_there_is_no_room_for_another_answer(broker: Played) -> None:
    with Consumer(broker.endpoint, "t", "g", prefetch=1, close_ms=1000) as consumer:
        assert consumer.receive(1) == []
        peer, asked = broker.lease()
        assert asked["max_messages"] == 1
        peer.sendall(answer(0, 1))
        peer.settimeout(0.3)
        with pytest.raises(TimeoutError):
            peer.recv(1)
        peer.settimeout(10)
        assert len(consumer.receive(1, 5000)) == 1
        assert request(peer) is not None, "now it was taken"
        peer.close()


def test_all_that_is_on_its_way_when_the_consumer_closes_goes_back(broker: Played) -> None:
    consumer = Consumer(broker.endpoint, "t", "g", close_ms=5000)
    assert consumer.receive(1) == []
    peer, _ = broker.lease()
    whole = answer(0, 10)
    peer.sendall(whole[:-20])
    assert request(peer) is not None
    closing = threading.Thread(target=consumer.close)
    closing.start()
    assert peer.recv(1) == b"", "it says that it is going"
    peer.sendall(whole[-20:] + answer(10, 5))  # the second answer had been made already
    peer.close()
    closing.join(10)
    assert not closing.is_alive()
    given_back = [asked["ranges"] for path, asked in broker.told if path == "/v1/extend" and asked["lease_ms"] == 0]
    assert given_back == [[[0, 15]]]


def test_overlapping_leases_keep_the_order_of_an_ordered_group(endpoint: str, client: Client, topic: str) -> None:
    client.stage(topic, {"value": [f"{n}" for n in range(20_000)]}, writer=topic, batch=0)
    client.publish(topic, 0)
    client.set_group(topic, "g", mode="ordered", max_in_flight=5_000)
    with Consumer(endpoint, topic, "g") as consumer:
        found = []
        for message in consumer:
            found.append(message.offset)
            message.ack()
            if len(found) == 20_000:
                break
        consumer.flush(30)
        assert consumer.lost == 0
    assert found == list(range(20_000))
