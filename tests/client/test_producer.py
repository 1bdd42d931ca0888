"""Sending, through a real broker."""

import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cordwood import Producer
from cordwood.client.client import Client
from cordwood.client.future import Future
from cordwood.client.shipment import Shipment
from cordwood.embedding import embedded
from cordwood.errors import Conflict, Limited, NotFound, Refused, Unavailable
from tests.real.served import until

from .proxy import Proxy

WAIT_S = 60


@pytest.fixture
def producer(endpoint: str, topic: str) -> Iterator[Producer]:
    with Producer(endpoint, topic) as producer:
        yield producer


def stored(client: Client, topic: str) -> list[bytes | None]:
    return [message.value for message in client.read(topic)]


def test_a_message_goes_in_and_its_place_comes_back(producer: Producer, client: Client, topic: str) -> None:
    assert producer.send(b"one").result(WAIT_S) == (0, 0)
    sent = producer.send("two", key="k").result(WAIT_S)
    assert (sent.partition, sent.offset) == (0, 1)
    assert stored(client, topic) == [b"one", b"two"]


def test_all_that_a_message_can_have_arrives(producer: Producer, client: Client, topic: str) -> None:
    headers: list[tuple[str, bytes | str | None]] = [("a", b"\xff"), ("a", "text"), ("b", None)]
    producer.send({"x": 1}, b"\xfe", headers=headers, timestamp=1_700_000_000_000, expires_at=4_000_000_000_000)
    producer.send(None, deliver_at=1_700_000_000_001)
    producer.flush(WAIT_S)
    first, second = client.read(topic)
    assert (first.value, first.key, first.timestamp) == (b'{"x":1}', b"\xfe", 1_700_000_000_000)
    assert first.headers == [("a", b"\xff"), ("a", b"text"), ("b", None)]
    assert (first.expires_at, second.deliver_at, second.value) == (4_000_000_000_000, 1_700_000_000_001, None)


def test_a_dict_is_taken_as_it_was_when_it_was_sent(producer: Producer, client: Client, topic: str) -> None:
    value = {"n": 1}
    future = producer.send(value)
    value["n"] = 2
    future.result(WAIT_S)
    assert stored(client, topic) == [b'{"n":1}']


def test_thousands_of_messages_keep_their_order(producer: Producer, client: Client, topic: str) -> None:
    sent = [b"%d" % n for n in range(30_000)]
    futures = [producer.send(value) for value in sent]
    assert [future.result(WAIT_S).offset for future in futures] == list(range(30_000))
    assert stored(client, topic) == sent


def test_a_key_keeps_its_order_across_partitions(client: Client, endpoint: str, topic: str) -> None:
    client.create_topic(f"{topic}.5", partitions=5)
    with Producer(endpoint, f"{topic}.5", batch_messages=100) as producer:
        futures = [producer.send(b"%d" % n, key=f"k{n % 13}") for n in range(5_000)]
        places = [future.result(WAIT_S) for future in futures]
    for key in range(13):
        of_key = [place for n, place in enumerate(places) if n % 13 == key]
        assert len({place.partition for place in of_key}) == 1
        assert of_key == sorted(of_key)
    for number in range(5):
        log = [message.value for message in client.read(f"{topic}.5", number)]
        assert log == [b"%d" % n for n, place in enumerate(places) if place.partition == number]


def test_many_threads_send_through_one_producer(producer: Producer, client: Client, topic: str) -> None:
    def work(name: int) -> None:
        for n in range(50):
            assert producer.send(f"{name} {n}").result(WAIT_S).partition == 0

    threads = [threading.Thread(target=work, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [str(value, "utf-8") for value in stored(client, topic) if value is not None]
    assert len(found) == len(set(found)) == 16 * 50
    for name in range(16):
        mine = [value for value in found if value.startswith(f"{name} ")]
        assert mine == [f"{name} {n}" for n in range(50)]


def test_a_table_goes_in_as_it_is(producer: Producer, client: Client, topic: str) -> None:
    table = pa.table({"value": [f"{n}" for n in range(25_000)], "key": ["k"] * 25_000})
    producer.send(b"before")
    (run,) = producer.send_table(table).result(WAIT_S)
    producer.send(b"after")
    assert (run.partition, run.first_offset, run.count) == (0, 1, 25_000)
    producer.flush(WAIT_S)
    assert stored(client, topic) == [b"before", *[b"%d" % n for n in range(25_000)], b"after"]
    assert producer.send_table({"value": pa.array([], pa.binary())}).result(WAIT_S) == []


def test_a_message_that_is_too_large_fails_alone(producer: Producer, client: Client, topic: str) -> None:
    values: list[bytes] = [b"%d" % n for n in range(20)]
    values[7] = b"x" * (2 << 20)
    futures = [producer.send(value) for value in values]
    errors = [future.exception(WAIT_S) for future in futures]
    assert [type(error) for error in errors if error is not None] == [Refused]
    assert isinstance(errors[7], Refused)
    assert stored(client, topic) == [value for value in values if len(value) < 100]
    assert producer.send(b"and on").result(WAIT_S).offset == 19


def test_a_table_that_is_refused_fails_whole(producer: Producer, client: Client, topic: str) -> None:
    future = producer.send_table({"value": [b"a", b"x" * ((1 << 18) + 1)]})
    assert isinstance(future.exception(WAIT_S), Refused)
    with pytest.raises(Refused):
        future.result(WAIT_S)
    assert producer.send(b"on").result(WAIT_S).offset == 0


def test_a_topic_that_is_not_there_is_a_clear_error(endpoint: str) -> None:
    with Producer(endpoint, "nowhere") as producer, pytest.raises(NotFound, match="no topic 'nowhere'"):
        producer.send(b"x").result(WAIT_S)


def test_a_topic_is_made_where_the_broker_makes_topics() -> None:
    with embedded(auto_create_topics=True) as broker, Producer(broker.endpoint, "new") as producer:
        assert producer.send(b"x").result(WAIT_S) == (0, 0)
        assert producer.send(b"y").result(WAIT_S) == (0, 1)


def test_cut_connections_neither_lose_nor_repeat(endpoint: str, client: Client, topic: str) -> None:
    with (
        Proxy(endpoint, troubles=12, seed=3) as proxy,
        Producer(proxy.endpoint, topic, batch_messages=50) as producer,
    ):
        futures = [producer.send(b"%d" % n) for n in range(2_000)]
        assert [future.result(WAIT_S).offset for future in futures] == list(range(2_000))
    assert stored(client, topic) == [b"%d" % n for n in range(2_000)]


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_tables_over_many_partitions_are_neither_lost_nor_repeated(
    endpoint: str, client: Client, topic: str, seed: int
) -> None:
    name, keys = f"{topic}.40", [f"k{n}" for n in range(100)]
    client.create_topic(name, partitions=40)
    with (
        Proxy(endpoint, troubles=12, within_bytes=9_000, seed=seed) as proxy,
        Producer(proxy.endpoint, name) as producer,
    ):
        futures = []
        for n in range(0, 6_000, 100):
            futures.append(producer.send_table({"value": [f"{n + row}" for row in range(100)], "key": keys}))
            if n % 700 == 0:
                futures[-1].result(WAIT_S)
        runs = [run for future in futures for run in future.result(WAIT_S)]
    found = list(client.read(name))
    assert sorted(int(message.value or b"") for message in found) == list(range(6_000))
    of_key: dict[bytes | None, list[int]] = {}
    for message in found:
        of_key.setdefault(message.key, []).append(int(message.value or b""))
    assert all(values == sorted(values) for values in of_key.values()), "the order of a key is kept"
    told = {(run.partition, (run.first_offset or 0) + n) for run in runs for n in range(run.count)}
    assert told == {(message.partition, message.offset) for message in found}


def test_tables_over_many_partitions_travel_together(
    endpoint: str, client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{topic}.100"
    client.create_topic(name, partitions=100)
    sent: list[int] = []
    encode = Shipment.encode

    def watched(self: Shipment) -> int:
        sent.append(len(self.parts))
        return encode(self)

    monkeypatch.setattr(Shipment, "encode", watched)
    with Producer(endpoint, name) as producer:
        producer.send_table({"value": ["x"] * 2_000, "key": [f"{n}" for n in range(2_000)]}).result(WAIT_S)
    assert sent == [100]


def test_a_full_partition_does_not_hold_up_the_others(endpoint: str, client: Client, topic: str) -> None:
    name = f"{topic}.4"
    client.create_topic(name, partitions=4, max_buffered_messages=10)
    client.set_group(name, "g")

    def table(rows: int) -> dict[str, object]:
        return {"value": ["x"] * 4 * rows, "partition": pa.array([n % 4 for n in range(4 * rows)], "int32")}

    def counts() -> list[int]:
        return [len(list(client.read(name, number))) for number in range(4)]

    with Producer(endpoint, name, delivery_timeout_ms=60_000) as producer:
        producer.send_table({"value": ["x"] * 10, "partition": pa.array([2] * 10, "int32")}).result(WAIT_S)
        future = producer.send_table(table(3))
        until(lambda: counts() == [3, 3, 10, 3], "the others are stored")
        more = producer.send_table(table(2))
        until(lambda: counts() == [5, 5, 10, 5], "and go on")
        assert not future.done()
        client.seek(name, "g", "latest")
        future.result(WAIT_S)
        more.result(WAIT_S)
    assert counts() == [5, 5, 15, 5]


def test_a_table_that_is_refused_takes_no_other_along(endpoint: str, client: Client, topic: str) -> None:
    name = f"{topic}.3"
    client.create_topic(name, partitions=3)
    keys = [f"{n}" for n in range(30)]
    with Producer(endpoint, name, linger_ms=300) as producer:
        good = producer.send_table({"value": ["a"] * 30, "key": keys})
        bad = producer.send_table({"value": ["b"] * 29 + ["x" * (1 << 18)], "key": keys})
        after = producer.send_table({"value": ["c"] * 30, "key": keys})
        good.result(WAIT_S)
        after.result(WAIT_S)
        with pytest.raises(Refused, match="at most"):
            bad.result(WAIT_S)
    found = [bytes(message.value or b"")[:1] for message in client.read(name)]
    assert (found.count(b"a"), found.count(b"c")) == (30, 30)


def test_an_answer_that_never_comes_is_asked_for_again(endpoint: str, client: Client, topic: str) -> None:
    with Proxy(endpoint) as proxy, Producer(proxy.endpoint, topic, request_timeout_ms=200) as producer:
        producer.send(b"first").result(WAIT_S)
        proxy.deaf = True
        future = producer.send(b"second")
        while len(stored(client, topic)) < 2:
            pass
        proxy.deaf = False
        assert future.result(WAIT_S).offset == 1
    assert stored(client, topic) == [b"first", b"second"]


def test_after_the_delivery_timeout_a_message_fails_and_those_that_follow_do_not(
    endpoint: str, client: Client, topic: str
) -> None:
    with (
        Proxy(endpoint) as proxy,
        Producer(proxy.endpoint, topic, delivery_timeout_ms=2000, request_timeout_ms=500) as producer,
    ):
        producer.send(b"first").result(WAIT_S)
        proxy.deaf = True
        with pytest.raises(Unavailable, match="may or may not be stored"):
            producer.send(b"second").result(WAIT_S)
        proxy.deaf = False
        proxy.cut()
        producer.send(b"third").result(WAIT_S)
    assert stored(client, topic) in ([b"first", b"second", b"third"], [b"first", b"third"])


def test_a_broker_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    with embedded(tmp_path) as broker:
        endpoint = broker.endpoint
        with Client(endpoint) as client:
            client.create_topic("t")
        port = int(endpoint.rpartition(":")[2])
    producer = Producer(endpoint, "t")
    future = producer.send(b"early")
    assert not future.done()
    with embedded(tmp_path, port=port):
        assert future.result(WAIT_S).offset == 0
        producer.close()


def test_a_program_that_ends_before_its_messages_are_stored_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        code = f"""
import cordwood.client.producer as producer
producer.EXIT_S = 0.1
producer.Producer("http://127.0.0.1:{deaf.getsockname()[1]}", "orders").send(b"x")
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "not all that was sent to orders is stored" in done.stderr


def test_a_restart_in_the_middle_neither_loses_nor_repeats(tmp_path: Path) -> None:
    broker = embedded(tmp_path)
    endpoint = broker.endpoint
    Client(endpoint).create_topic("t", partitions=2)
    producer = Producer(endpoint, "t", batch_messages=20)
    futures = [producer.send(b"%d" % n, key=f"{n % 7}") for n in range(1_000)]
    futures[100].result(WAIT_S)
    broker.stop()
    port = int(endpoint.rpartition(":")[2])
    with embedded(tmp_path, port=port):
        futures += [producer.send(b"%d" % n, key=f"{n % 7}") for n in range(1_000, 1_500)]
        places = {future.result(WAIT_S) for future in futures}
        producer.close()
        with Client(endpoint) as client:
            found = [message.value for message in client.read("t")]
    assert len(places) == len(found) == 1_500
    assert {int(value) for value in found if value is not None} == set(range(1_500))


def test_a_full_topic_is_waited_for(client: Client, endpoint: str, topic: str) -> None:
    client.set_topic(topic, max_buffered_messages=10)
    client.set_group(topic, "g")
    with Producer(endpoint, topic, delivery_timeout_ms=60_000) as producer:
        producer.send_table({"value": ["x"] * 10}).result(WAIT_S)
        future = producer.send(b"eleventh")
        with pytest.raises(TimeoutError):
            future.result(0.2)
        client.seek(topic, "g", "latest")
        assert future.result(WAIT_S).offset == 10


def test_send_waits_when_too_much_is_on_its_way(endpoint: str, topic: str) -> None:
    with Proxy(endpoint) as proxy:
        producer = Producer(proxy.endpoint, topic, buffer_bytes=100_000, max_block_ms=100)
        producer.send(b"x").result(WAIT_S)
        proxy.deaf = True
        with pytest.raises(Limited) as caught:
            for _ in range(1_000_000):
                producer.send(b"x" * 1000)
        assert caught.value.reason == "producer_buffer_full"
        proxy.deaf = False
        proxy.cut()
        producer.close(WAIT_S)


def test_flush_and_close_wait_for_everything(endpoint: str, client: Client, topic: str) -> None:
    producer = Producer(endpoint, topic, linger_ms=60_000)
    first = producer.send(b"a")
    assert not first.done()
    producer.flush(WAIT_S)
    assert first.done()
    producer.send(b"b")
    producer.close()
    producer.close()
    assert stored(client, topic) == [b"a", b"b"]
    with pytest.raises(Unavailable, match="closed"):
        producer.send(b"c")


def test_flush_says_when_time_is_up(endpoint: str, topic: str) -> None:
    with Proxy(endpoint) as proxy:
        producer = Producer(proxy.endpoint, topic)
        producer.send(b"a").result(WAIT_S)
        proxy.deaf = True
        producer.send(b"b")
        with pytest.raises(TimeoutError):
            producer.flush(0.05)
        proxy.deaf = False
        proxy.cut()
        producer.close(WAIT_S)


def test_a_producer_that_is_forgotten_still_sends(endpoint: str, client: Client, topic: str) -> None:
    Producer(endpoint, topic).send(b"x").result(WAIT_S)
    future = Producer(endpoint, topic).send(b"y")
    assert future.result(WAIT_S).offset == 1


def test_a_name_of_ones_own_is_used_with_a_higher_epoch_each_time(endpoint: str, client: Client, topic: str) -> None:
    with Producer(endpoint, topic, producer_id="me", epoch=1) as first:
        first.send(b"a").result(WAIT_S)
    with Producer(endpoint, topic, producer_id="me", epoch=1) as again, pytest.raises(Conflict, match="higher"):
        again.send(b"b").result(WAIT_S)
    with Producer(endpoint, topic, producer_id="me", epoch=2) as second:
        second.send(b"c").result(WAIT_S)
    assert stored(client, topic) == [b"a", b"c"]


def test_an_older_epoch_is_ended_by_a_newer_one(endpoint: str, topic: str) -> None:
    with Producer(endpoint, topic, producer_id="me", epoch=1) as old:
        old.send(b"a").result(WAIT_S)
        with Producer(endpoint, topic, producer_id="me", epoch=2) as new:
            new.send(b"b").result(WAIT_S)
        with pytest.raises(Conflict):
            old.send(b"c").result(WAIT_S)
        with pytest.raises(Conflict):
            old.send(b"d").result(WAIT_S)


def test_another_producer_of_the_same_name_is_noticed_in_one_of_many_partitions(
    endpoint: str, client: Client, topic: str
) -> None:
    name = f"{topic}.3"
    client.create_topic(name, partitions=3)
    with Producer(endpoint, name, producer_id="mine") as other:
        other.send("theirs", partition=1).result(WAIT_S)
    with Producer(endpoint, name, producer_id="mine") as producer:
        future = producer.send_table({"value": ["a", "b", "c"], "partition": pa.array([0, 1, 2], "int32")})
        with pytest.raises(Conflict, match="another producer"):
            future.result(WAIT_S)
    assert [message.value for message in client.read(name)] == [b"a", b"theirs", b"c"]


def test_a_topic_that_was_made_anew_is_produced_to(endpoint: str, client: Client, topic: str) -> None:
    with Producer(endpoint, topic) as producer:
        producer.send_table({"value": ["x"] * 5}).result(WAIT_S)
        client.delete_topic(topic)
        client.create_topic(topic)
        assert producer.send(b"new").result(WAIT_S).offset == 0
        assert producer.epoch == 1


def test_callbacks_are_called_with_the_future(producer: Producer) -> None:
    found: queue.SimpleQueue[Future] = queue.SimpleQueue()
    future = producer.send(b"x")
    future.add_done_callback(found.put)
    assert found.get(timeout=WAIT_S) is future


def test_a_callback_may_fail_and_may_send(producer: Producer, client: Client, topic: str) -> None:
    futures: queue.SimpleQueue[Future] = queue.SimpleQueue()

    def fail(future: Future) -> None:
        raise ValueError("not the producer's fault")

    first = producer.send(b"first")
    first.add_done_callback(fail)
    first.add_done_callback(lambda _: futures.put(producer.send(b"second")))
    assert futures.get(timeout=WAIT_S).result(WAIT_S).offset == 1


def test_a_forked_child_is_told_to_make_its_own(producer: Producer) -> None:
    producer.send(b"x").result(WAIT_S)
    child = os.fork()
    if not child:
        try:
            producer.send(b"y")
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("setting", ["batch_messages", "buffer_bytes", "delivery_timeout_ms"])
def test_an_impossible_setting_is_named(endpoint: str, setting: str) -> None:
    impossible: dict[str, Any] = {setting: 0}
    with pytest.raises(Refused, match=setting):
        Producer(endpoint, "t", **impossible)
    with pytest.raises(TypeError, match="batch_mesages"):
        Producer(endpoint, "t", batch_mesages=5)
