"""What users of brokers try first, against a real process over HTTP."""

import http.client
import json
import os
import resource
import select
import socket
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.real.served import Served, until

NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as served:
        yield served


class Streamed:
    """A consumer with an open stream."""

    def __init__(self, broker: Served, query: str):
        self.sock = socket.create_connection(("127.0.0.1", broker.port), timeout=60)
        self.sock.sendall(f"GET /v1/consume?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.file = self.sock.makefile("rb")
        assert b" 200 " in self.file.readline()
        while self.file.readline() not in (b"\r\n", b""):
            pass
        self._lines: list[bytes] = []

    def message(self) -> dict[str, Any]:
        """Return the next message."""
        while not self._lines:
            size = int(self.file.readline(), 16)
            self._lines = self.file.read(size).splitlines()
            self.file.readline()
        found: dict[str, Any] = json.loads(self._lines.pop(0))
        return found

    def close(self) -> None:
        self.file.close()
        self.sock.close()


def produce_many(broker: Served, topic: str, messages: list[dict[str, Any]]) -> Any:
    body = "\n".join(json.dumps(message) for message in messages).encode()
    connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=60)
    connection.request("POST", f"/v1/produce?topic={topic}", body, NDJSON)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    assert answer.status == 200, found
    connection.close()
    return found


def ack(broker: Served, group: str, message: dict[str, Any], topic: str = "t") -> None:
    broker.ack(topic, group, message["partition"], message["offset"])


def test_a_slow_consumer_does_not_block_producers(broker: Served) -> None:
    broker.create("t")
    slow = Streamed(broker, "topic=t&group=slow&max_in_flight=100000")
    for _ in range(30):  # 30 MB that the consumer never reads: more than any buffer between takes
        produce_many(broker, "t", [{"value": "x" * 100_000} for _ in range(10)])
    assert broker.topic("t")["partitions"][0]["end_offset"] == 300
    assert broker.send("t", "and on") == 300
    slow.close()


def test_a_consumer_that_disconnects_in_the_middle_gives_its_messages_to_another(broker: Served) -> None:
    broker.create("t")
    produce_many(broker, "t", [{"value": f"m{n}"} for n in range(10)])
    first = Streamed(broker, "topic=t&group=g&lease_ms=3600000")
    seen = [first.message() for _ in range(10)]
    ack(broker, "g", seen[0])
    ack(broker, "g", seen[4])
    first.close()
    again = broker.lease("t", "g", max_messages=100)
    while len(again) < 8:
        again += broker.lease("t", "g")
    assert sorted(m["offset"] for m in again) == [1, 2, 3, 5, 6, 7, 8, 9]
    assert {m["attempts"] for m in again} == {2}


def test_every_message_is_done_once_while_consumers_come_and_go(broker: Served) -> None:
    broker.create("t", 4)
    total, done, lock = 400, [], threading.Lock()

    def consumer(messages: int) -> None:
        stream = Streamed(broker, "topic=t&group=g&max_in_flight=5")
        for _ in range(messages):
            message = stream.message()
            ack(broker, "g", message)
            with lock:
                done.append((message["partition"], message["offset"]))
        stream.close()

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(consumer, 25) for _ in range(total // 25)]
        for n in range(total):
            broker.send("t", f"m{n}", key=f"k{n}")
        for future in waiting:
            future.result(90)
    assert len(done) == len(set(done)) == total
    assert broker.lease("t", "g", wait_ms=0) == []


def test_100_sends_of_one_idempotency_key_at_once_make_one_message(broker: Served) -> None:
    broker.create("t", 3)

    def send(number: int) -> tuple[int, int, bool]:
        asked = {"topic": "t", "value": f"try {number}", "idempotency_key": "order-7"}
        answer = broker.ask("POST", "/v1/produce", asked)
        assert answer.status == 200, answer
        return answer.json["partition"], answer.json["offset"], answer.json.get("duplicate", False)

    with ThreadPoolExecutor(25) as pool:
        found = list(pool.map(send, range(100)))
    assert len({(partition, offset) for partition, offset, _ in found}) == 1
    assert sorted(duplicate for _, _, duplicate in found) == [False] + [True] * 99
    assert sum(p["end_offset"] for p in broker.topic("t")["partitions"]) == 1
    broker.again()
    assert send(100)[2] is True


def test_keys_of_any_kind_come_back_as_they_went_in(broker: Served) -> None:
    broker.create("t", 3)
    keys = ["a\0b", "line\nbreak", "🌲", "k" * 1000, "ключ", " "]
    for key in keys:
        broker.send("t", "v", key=key)
    found = [message for n in range(3) for message in broker.read("t", n)]
    assert sorted(message["key"] for message in found) == sorted(keys)
    assert broker.send("t", "v", key="user:1") >= 0
    places = {m["key"]: m["partition"] for n in range(3) for m in broker.read("t", n)}
    assert places["user:1"] == 1, "FNV-1a-32 of user:1, modulo 3"


def test_all_256_byte_values_come_back(broker: Served) -> None:
    broker.create("t")
    every = bytes(range(256))
    answer = broker.ask("POST", "/v1/produce", {"topic": "t", "value_base64": b64encode(every).decode()})
    assert answer.status == 200
    (message,) = broker.read("t")
    assert b64decode(message["value_base64"]) == every


def test_a_value_of_15_mb_comes_back(broker: Served) -> None:
    broker.create("t")
    value = os.urandom(11 << 20)
    text = b64encode(value).decode()
    assert len(text) > 15_000_000
    assert broker.send("t", text) == 0
    broker.again()
    (message,) = broker.lease("t", "g")
    assert message["value"] == text
    answer = broker.ask("POST", "/v1/produce", {"topic": "t", "value": "x" * (17 << 20)})
    assert (answer.status, answer.json["error"]) == (413, "PAYLOAD_TOO_LARGE")


def test_1000_partitions_each_keep_their_own(broker: Served) -> None:
    broker.create("t", 1000)
    found = produce_many(broker, "t", [{"value": str(n), "partition": n % 1000} for n in range(2000)])
    assert len(found["results"]) == 1000
    broker.again()
    partitions = broker.topic("t")["partitions"]
    assert [p["end_offset"] for p in partitions] == [2] * 1000
    got = []
    while len(got) < 2000:
        got += broker.lease("t", "g")
    assert len({(m["partition"], m["offset"]) for m in got}) == 2000
    assert all(int(m["value"]) % 1000 == m["partition"] for m in got)


def test_an_empty_value_is_not_a_tombstone(broker: Served) -> None:
    broker.create("t")
    broker.send("t", "")
    assert broker.ask("POST", "/v1/produce", {"topic": "t", "value": None}).status == 200
    assert [m["value"] for m in broker.read("t")] == ["", None]


def test_a_lease_of_one_hour_holds(broker: Served) -> None:
    broker.create("t")
    broker.send("t", "long work")
    (message,) = broker.lease("t", "g", lease_ms=3_600_000, owner="me")
    assert broker.lease("t", "g", wait_ms=300) == []
    assert broker.ask("GET", "/v1/groups/t/g").json["in_flight"] == 1
    asked = {"topic": "t", "group": "g", "partition": 0, "offset": 0, "owner": "me"}
    assert broker.ask("POST", "/v1/ack", asked).status == 204
    assert message["attempts"] == 1


def test_a_message_whose_time_is_over_is_never_delivered(broker: Served) -> None:
    broker.create("t")
    broker.send("t", "late", expires_at=1)
    broker.send("t", "fine")
    assert [m["value"] for m in broker.lease("t", "g")] == ["fine"]
    ack(broker, "g", {"partition": 0, "offset": 1})
    assert broker.ask("GET", "/v1/groups/t/g").json["lag"] == 0


def test_a_delayed_message_comes_when_it_is_due_and_holds_nobody_up(broker: Served) -> None:
    broker.create("t")
    broker.send("t", "later", delay_ms=3000)
    broker.send("t", "now")
    assert [m["value"] for m in broker.lease("t", "g")] == ["now"]
    assert [m["value"] for m in broker.lease("t", "g")] == ["later"]


def test_2000_idle_consumers_cost_little_and_each_gets_a_message_when_one_comes(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    count = 2000
    with Served(tmp_path) as broker:
        broker.create("t")
        assert broker.ask("PATCH", "/v1/groups/t/g", {"max_in_flight": count}).status == 200
        streams = [Streamed(broker, "topic=t&group=g&max_in_flight=1") for _ in range(count)]
        assert broker.process is not None
        before = _cpu_ticks(broker.process.pid)
        assert not select.select([], [], [], 4.0)[0]  # four seconds in which nothing happens
        used = (_cpu_ticks(broker.process.pid) - before) / os.sysconf("SC_CLK_TCK") / 4.0
        produce_many(broker, "t", [{"value": str(n)} for n in range(count)])
        got = [int(stream.message()["value"]) for stream in streams]
        assert sorted(got) == list(range(count))
        assert used < 0.05, f"idle consumers took {used:.1%} of a core"
        for stream in streams:
            stream.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_a_broker_that_is_asked_to_stop_finishes_what_it_accepted(tmp_path: Path) -> None:
    acknowledged = []
    with Served(tmp_path) as broker:
        broker.create("t")

        def send(number: int) -> int | None:
            try:
                answer = broker.ask("POST", "/v1/produce", {"topic": "t", "value": str(number)})
                return answer.json["offset"] if answer.status == 200 else None
            except OSError:
                return None  # after it stopped listening

        with ThreadPoolExecutor(16) as pool:
            waiting = [pool.submit(send, number) for number in range(600)]
            until(lambda: sum(future.done() for future in waiting) > 100, "it is busy")
            assert broker.stop() == 0
            acknowledged = [offset for future in waiting if (offset := future.result()) is not None]
        assert acknowledged
        assert (tmp_path / "journal" / "clean").exists()
    with Served(tmp_path) as broker:
        assert {m["offset"] for m in broker.read("t", limit=10_000)} >= set(acknowledged)
