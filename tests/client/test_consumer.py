"""Receiving, through a real broker."""

import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cordwood import Consumer, Producer
from cordwood.client.client import Client
from cordwood.client.inbox import FEW, SLOW_S, Appetite
from cordwood.client.message import only, read_only
from cordwood.embedding import embedded
from cordwood.errors import Conflict, NotFound, Refused, Unavailable

from .proxy import Proxy


def fill(client: Client, topic: str, count: int, first: int = 0) -> None:
    client.stage(topic, {"value": [f"{n}" for n in range(first, first + count)]}, writer=f"{topic}", batch=first)
    client.publish(topic, first)


def until(fact: Callable[[], Any]) -> None:
    """Return when it is true; what never becomes true fails by the test's own time limit."""
    while not fact():
        time.sleep(0.002)


def floor(client: Client, topic: str, group: str = "g") -> int:
    return sum(partition["floor"] for partition in client.group(topic, group)["partitions"])


def numbers(messages: list[Any]) -> list[int]:
    return [int(message.value) for message in messages]


def test_messages_come_in_order_and_are_done_when_acknowledged(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 500)
    with Consumer(endpoint, topic, "g", idle_timeout_ms=300) as consumer:
        found = []
        for message in consumer:
            found.append(message)
            message.ack()
        consumer.flush()
        assert numbers(found) == list(range(500))
        assert {message.attempts for message in found} == {1}
        assert floor(client, topic) == 500
        assert consumer.lost == 0


def test_a_message_says_why_it_failed_and_batches_keep_one_schema(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 3)
    with Consumer(endpoint, topic, "g") as consumer:
        first, second, third = consumer.receive(3, wait_ms=10_000)
        assert {first.last_error, second.last_error, third.last_error} == {None}
        second.nack("no such user", delay_ms=0)
        third.nack(delay_ms=0)
        consumer.flush()
        again = consumer.receive(2, wait_ms=10_000)
        again += consumer.receive(2 - len(again), wait_ms=10_000)
        assert [(message.offset, message.last_error) for message in again] == [(1, "no such user"), (2, None)]
        for message in again:
            message.nack("again", delay_ms=0)
        first.ack()
        consumer.flush()
        schema = next(client.read_batches(topic)).schema
        assert next(consumer.batches()).record_batch.schema == schema


def test_a_message_shows_all_it_has(endpoint: str, client: Client, topic: str) -> None:
    client.produce(topic, {"a": 1}, key="k", headers={"h": b"\xff", "t": "x"}, timestamp=1_700_000_000_000)
    client.produce(topic, None)
    with Consumer(endpoint, topic, "g") as consumer:
        first, second = consumer.receive(2, 5000)
        assert (first.partition, first.offset, first.attempts, first.timestamp) == (0, 0, 1, 1_700_000_000_000)
        assert (first.key, first.value, first.text, first.json()) == (b"k", b'{"a":1}', '{"a":1}', {"a": 1})
        assert dict(first.headers) == {"h": b"\xff", "t": b"x"}
        assert (first.header("t"), first.header("none")) == (b"x", None)
        assert (second.value, second.text, second.json(), second.headers) == (None, None, None, [])


def test_leaving_gives_back_what_was_not_acknowledged(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 100)
    with Consumer(endpoint, topic, "g") as consumer:
        for message in consumer:
            if message.offset % 2:
                message.ack()
            if message.offset == 49:
                break
    group = client.group(topic, "g")
    assert group["in_flight"] == 0
    with Consumer(endpoint, topic, "g", idle_timeout_ms=300) as consumer:
        found = list(consumer)
    assert [message.offset for message in found] == [*range(0, 50, 2), *range(50, 100)]
    assert {message.attempts for message in found} == {1}, "given back in time, a delivery does not count"


def test_leaving_a_loop_and_coming_back_loses_nothing(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 60)
    with Consumer(endpoint, topic, "g", idle_timeout_ms=300) as consumer:
        found = []
        for message in consumer:
            found.append(message)
            if len(found) % 7 == 0:
                break
        found += consumer.receive(5, 1000)
        for batch in consumer.batches():
            assert batch.record_batch.schema.names[:3] == ["partition", "offset", "attempts"]
            found += batch.messages()
            break
        found += list(consumer)
    assert numbers(found) == list(range(60))


def test_batches_are_acknowledged_together(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 5_000)
    with Consumer(endpoint, topic, "g", idle_timeout_ms=300) as consumer:
        rows = []
        for batch in consumer.batches():
            rows += batch.record_batch.column("offset").to_pylist()
            batch.ack()
        consumer.flush()
    assert rows == list(range(5_000))
    assert floor(client, topic) == 5_000


def test_more_may_wait_here_than_the_broker_gives_at_once(endpoint: str, client: Client, topic: str) -> None:
    client.set_group(topic, "g", max_in_flight=1_000_000)
    with Producer(endpoint, topic) as producer:
        for _ in range(20):
            producer.send_table({"value": ["x"] * 10_000})
    found = 0
    with Consumer(
        endpoint, topic, "g", prefetch=1_000_000, prefetch_bytes=1 << 30, idle_timeout_ms=2_000
    ) as consumer:
        for batch in consumer.batches():
            found += len(batch)
            batch.ack()
    assert found == 200_000


def test_receive_returns_what_is_there_or_nothing_in_time(endpoint: str, client: Client, topic: str) -> None:
    with Consumer(endpoint, topic, "g") as consumer:
        assert consumer.receive(3, wait_ms=20) == []
        fill(client, topic, 2)
        assert numbers(consumer.receive(10, wait_ms=10_000)) == [0, 1]
        assert consumer.receive(10) == []


def test_a_failed_message_comes_again_with_its_reason_counted(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 2)
    with Consumer(endpoint, topic, "g") as consumer:
        first, second = consumer.receive(2, 5000)
        second.ack()
        first.nack("no luck", delay_ms=10)
        (again,) = consumer.receive(1, 10_000)
        assert (again.offset, again.attempts) == (0, 2)
        again.ack(wait=True)
        assert floor(client, topic) == 2


def test_a_failed_batch_comes_again(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 5)
    with Consumer(endpoint, topic, "g") as consumer:
        next(consumer.batches()).nack("all of it", delay_ms=0)
        again: list[int] = []
        while len(again) < 5:
            again += [message.attempts for message in consumer.receive(5, 5000)]
        assert again == [2] * 5


def test_leases_are_renewed_while_the_application_works(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 3)
    with Consumer(endpoint, topic, "g", lease_ms=300) as consumer:
        held = consumer.receive(3, 5000)
        until_s = time.monotonic() + 1.2
        while time.monotonic() < until_s:
            assert client.group(topic, "g")["in_flight"] == 3
            time.sleep(0.02)
        for message in held:
            message.ack()
        consumer.flush()
    assert floor(client, topic) == 3


def test_an_ack_of_what_another_consumer_has_is_reported(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 4)
    with Proxy(endpoint) as proxy, Consumer(proxy.endpoint, topic, "g", lease_ms=200, close_ms=500) as first:
        held = first.receive(4, 5000)
        held[0].ack(wait=True)
        proxy.close()
        with Consumer(endpoint, topic, "g") as second:
            taken: list[Any] = []
            while len(taken) < 3:
                taken += second.receive(3, 5000)
            back = Proxy(endpoint)
            first._settling._telling._endpoint = first._leasing._endpoint = second._leasing._endpoint
            for message in held[1:]:
                message.ack()
            with pytest.raises(Conflict):
                first.flush(30)
            assert first.lost == 3
            back.close()


def test_a_loop_does_not_end_while_messages_are_on_their_way(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 3)
    with Proxy(endpoint) as proxy, Consumer(proxy.endpoint, topic, "g", idle_timeout_ms=1000) as consumer:
        proxy.pause_s = 2.0
        assert numbers([next(iter(consumer))]) == [0]
        proxy.pause_s = 0.0
        assert numbers(list(consumer)) == [1, 2]


def test_two_consumers_share_and_nobody_gets_what_the_other_has(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 2_000)
    found: list[list[int]] = [[], []]

    def work(name: int) -> None:
        with Consumer(endpoint, topic, "g", idle_timeout_ms=500) as consumer:
            for message in consumer:
                found[name].append(message.offset)
                message.ack()

    threads = [threading.Thread(target=work, args=(name,)) for name in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found[0] + found[1]) == list(range(2_000))
    assert floor(client, topic) == 2_000


def test_a_new_group_begins_where_it_is_told(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 10)
    for start, expected in (("earliest", 0), (7, 7)):
        with Consumer(endpoint, topic, f"g{start}", start=start) as consumer:
            assert consumer.receive(1, 5000)[0].offset == expected
    with Consumer(endpoint, topic, "latest", start="latest") as consumer:
        assert consumer.receive(1, 100) == []
        fill(client, topic, 1, first=10)
        assert consumer.receive(1, 5000)[0].offset == 10


def test_a_topic_that_is_not_there_is_a_clear_error(endpoint: str) -> None:
    with Consumer(endpoint, "nowhere", "g") as consumer, pytest.raises(NotFound, match="no topic 'nowhere'"):
        next(iter(consumer))


def test_a_closed_consumer_says_so(endpoint: str, topic: str) -> None:
    consumer = Consumer(endpoint, topic, "g")
    consumer.close()
    consumer.close()
    with pytest.raises(Unavailable, match="closed"):
        consumer.receive()


def test_closing_does_not_wait_for_the_long_poll(endpoint: str, topic: str) -> None:
    with Consumer(endpoint, topic, "g", wait_ms=60_000) as consumer:
        assert consumer.receive(1, 50) == []


def test_cut_connections_are_made_again_and_acks_survive_them(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 3_000)
    client.set_group(topic, "g", backoff_ms=10, max_attempts=0)  # what an answer held that was cut comes again soon
    with (
        Proxy(endpoint, troubles=8, within_bytes=60_000, seed=5) as proxy,
        Consumer(proxy.endpoint, topic, "g", lease_ms=500, prefetch=300, idle_timeout_ms=30_000) as consumer,
    ):
        acked = set()
        for message in consumer:
            assert message.offset not in acked, "what was acknowledged does not come again"
            acked.add(message.offset)
            message.ack()
            if len(acked) == 3_000:
                break
        consumer.flush(60)
        assert consumer.lost == 0
    assert floor(client, topic) == 3_000


def test_a_restart_in_the_middle_loses_nothing_and_repeats_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with embedded(tmp_path) as broker:
        endpoint = broker.endpoint
        with Client(endpoint) as client:
            client.create_topic("t", partitions=2)
            client.stage("t", {"value": ["x"] * 2_000, "key": [f"{n}" for n in range(2_000)]}, writer="w", batch=0)
            client.publish("w", 0)
        consumer = Consumer(endpoint, "t", "g", prefetch=200)
        acked = set()
        for message in consumer:
            acked.add((message.partition, message.offset))
            message.ack()
            if len(acked) == 700:
                break
    for message in consumer.receive(50, 1000):  # while nobody is there
        acked.add((message.partition, message.offset))
        message.ack()
    port = int(endpoint.rpartition(":")[2])
    with embedded(tmp_path, port=port), consumer, Client(endpoint) as client:
        for message in consumer:
            place = (message.partition, message.offset)
            assert place not in acked
            acked.add(place)
            message.ack()
            if len(acked) == 2_000:
                break
        consumer.flush(60)
        assert consumer.lost == 0
        assert floor(client, "t") == 2_000


def test_a_forked_child_is_told_to_make_its_own(endpoint: str, topic: str) -> None:
    with Consumer(endpoint, topic, "g") as consumer:
        child = os.fork()
        if not child:
            try:
                consumer.receive(1)
            except RuntimeError as error:
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0


def test_a_fast_application_gets_more_ahead_and_a_slow_one_less() -> None:
    appetite = Appetite(1000)
    assert appetite.wanted == FEW
    for _ in range(10):
        appetite.used(appetite.wanted, 0.01)
    assert appetite.wanted == 1000
    appetite.used(1, 0.01)
    assert appetite.wanted == 1000, "there was simply no more"
    for _ in range(20):
        appetite.used(appetite.wanted, SLOW_S + 1)
    assert appetite.wanted == 1
    for _ in range(4):
        appetite.used(100 * appetite.wanted, 2 * SLOW_S)
    assert appetite.wanted == 16, "long, but for many more than were fetched ahead at once"


def test_arrow_columns_arrive_as_they_were_sent(endpoint: str, client: Client, topic: str) -> None:
    headers = pa.array([[("a", b"1")], None], pa.map_(pa.string(), pa.binary()))
    client.stage(
        topic, pa.table({"value": [b"x", None], "key": [None, b"k"], "headers": headers}), writer=topic, batch=0
    )
    client.publish(topic, 0)
    with Consumer(endpoint, topic, "g") as consumer:
        batch = next(consumer.batches())
        assert len(batch) == 2
        assert batch.record_batch.column("headers").to_pylist() == [[("a", b"1")], None]
        assert [(m.value, m.key, m.headers) for m in batch.messages()] == [
            (b"x", None, [("a", b"1")]),
            (None, b"k", []),
        ]
        batch.ack(wait=True)
    assert floor(client, topic) == 2


def test_a_batch_can_be_cut_down_to_some_offsets() -> None:
    batch = pa.record_batch({"partition": pa.array([0, 0, 1, 1], pa.int32()), "offset": pa.array([3, 4, 3, 5])})
    found = only(batch, {0: [(4, 9)], 1: [(0, 4)]})
    assert list(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True)) == [(0, 4), (1, 3)]
    assert only(batch, {}).num_rows == 0


def test_the_offsets_of_rows_are_found_whether_named_one_by_one_or_as_ranges() -> None:
    offsets = pa.array([3, 4, 5, 9, 0])
    delivery = read_only(pa.record_batch({"partition": pa.array([0, 0, 0, 0, 1], pa.int32()), "offset": offsets}))
    assert delivery.ranges() == {0: [(3, 6), (9, 10)], 1: [(0, 1)]}
    assert delivery.ranges([2, 0, 2]) == {0: [(3, 4), (5, 6)]}
    assert delivery.ranges([range(1, 3), 4]) == {0: [(4, 6)], 1: [(0, 1)]}
    assert delivery.ranges([]) == {}


def test_acknowledging_twice_does_no_harm(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 3)
    with Consumer(endpoint, topic, "g") as consumer:
        first, second, third = consumer.receive(3, 5000)
        for _ in range(5):
            first.ack(wait=True)
        assert floor(client, topic) == 1
        third.ack()
        second.ack(wait=True)
        assert floor(client, topic) == 3


def test_a_consumer_that_is_forgotten_gives_back_what_it_had(endpoint: str, client: Client, topic: str) -> None:
    fill(client, topic, 5)
    consumer = Consumer(endpoint, topic, "g")
    assert len(consumer.receive(5, 5000)) == 5
    del consumer
    gc.collect()
    until(lambda: client.group(topic, "g")["in_flight"] == 0)


def test_a_message_that_was_only_read_cannot_be_acknowledged(client: Client, topic: str) -> None:
    client.produce(topic, "x")
    (message,) = client.read(topic)
    with pytest.raises(Refused, match="not leased"):
        message.ack()
    with pytest.raises(Refused, match="not leased"):
        message.nack()
