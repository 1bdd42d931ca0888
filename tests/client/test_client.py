"""Topics, groups and the log, through a real broker."""

import threading
from pathlib import Path

import pytest

from cordwood import Client
from cordwood.embedding import embedded
from cordwood.errors import Conflict, NotFound, Refused, Unavailable


def test_topics_are_made_listed_set_and_deleted(client: Client) -> None:
    made = client.create_topic("a/b", partitions=3, retention_ms=1000)
    assert [partition["partition"] for partition in made["partitions"]] == [0, 1, 2]
    assert client.create_topic("a/b", partitions=3, retention_ms=1000)["id"] == made["id"]
    with pytest.raises(Conflict):
        client.create_topic("a/b", partitions=4)
    assert {"a/b"} <= {topic["name"] for topic in client.topics()}
    assert client.set_topic("a/b", retention_ms=5)["settings"]["retention_ms"] == 5
    assert client.topic("a/b")["settings"]["retention_ms"] == 5
    client.delete_topic("a/b")
    with pytest.raises(NotFound):
        client.topic("a/b")
    with pytest.raises(Refused, match="partitons"):
        client.create_topic("x", partitons=3)


def test_groups_are_made_shown_sent_back_and_deleted(client: Client, topic: str) -> None:
    for n in range(3):
        client.produce(topic, f"{n}")
    made = client.set_group(topic, "a/b", max_in_flight=7, start="latest")
    assert (made["settings"]["max_in_flight"], made["lag"]) == (7, 0)
    assert client.seek(topic, "a/b", "earliest")["lag"] == 3
    assert client.seek(topic, "a/b", 2, partition=0)["lag"] == 1
    assert (topic, "a/b") in {(group["topic"], group["group"]) for group in client.groups()}
    assert client.redrive(topic, "a/b") == 0
    client.delete_group(topic, "a/b")
    with pytest.raises(NotFound):
        client.group(topic, "a/b")


def test_one_message_goes_in_simply(client: Client, topic: str) -> None:
    assert client.produce(topic, b"\xff", key=b"\xfe", headers={"a": b"\xff", "b": "c"}, timestamp=5) == (0, 0)
    assert client.produce(topic, {"a": 1}).offset == 1
    assert client.produce(topic, None, idempotency_key="once").offset == 2
    assert client.produce(topic, None, idempotency_key="once").offset == 2
    first, second, third = client.read(topic)
    assert (first.value, first.key, first.timestamp) == (b"\xff", b"\xfe", 5)
    assert dict(first.headers) == {"a": b"\xff", "b": b"c"}
    assert (second.value, third.value, third.attempts) == (b'{"a":1}', None, 0)


def test_the_log_is_read_from_an_offset_or_a_time_and_up_to_a_limit(client: Client, topic: str) -> None:
    for n in range(10):
        client.produce(topic, f"{n}", timestamp=1000 + n)
    assert [message.offset for message in client.read(topic, 0, offset=4, limit=3)] == [4, 5, 6]
    assert [message.offset for message in client.read(topic, timestamp=1007)] == [7, 8, 9]
    assert list(client.read(topic, offset=10)) == []
    assert sum(batch.num_rows for batch in client.read_batches(topic)) == 10
    with pytest.raises(NotFound):
        next(client.read("nowhere"))


def test_following_goes_on_as_messages_come(client: Client, topic: str) -> None:
    client.produce(topic, "0")
    messages = client.read(topic, 0, offset=0, follow=True)
    assert next(messages).value == b"0"
    threading.Timer(0.02, client.produce, (topic, "1")).start()
    assert next(messages).value == b"1"


def test_following_a_partition_survives_a_restart(tmp_path: Path) -> None:
    with embedded(tmp_path) as broker:
        client = Client(broker.endpoint)
        client.create_topic("t")
        client.produce("t", "0")
        messages = client.read("t", 0, offset=0, follow=True)
        assert next(messages).value == b"0"
        port = int(broker.endpoint.rpartition(":")[2])
    with embedded(tmp_path, port=port):
        client.produce("t", "1")
        assert next(messages).value == b"1"
        client.close()


def test_staged_messages_are_seen_when_published(client: Client, topic: str) -> None:
    assert client.stage(topic, {"value": ["a", "b"]}, writer="w", batch=1, sequence=0) == {"staged": 1, "count": 2}
    assert client.stage(topic, {"value": ["a", "b"]}, writer="w", batch=1, sequence=0)["staged"] == 1
    assert list(client.read(topic)) == []
    assert client.publish("w", 1, [(0, 0)])["duplicate"] is False
    assert client.publish("w", 1)["duplicate"] is True
    assert [message.value for message in client.read(topic)] == [b"a", b"b"]
    with pytest.raises(Conflict):
        client.publish("w", 0)


def test_named_readers_are_remembered(client: Client, topic: str) -> None:
    client.produce(topic, "x")
    assert client.set_reader(topic, "r", {0: 1})["offsets"] == {"0": 1}
    assert client.reader(topic, "r")["lag"] == 0
    client.delete_reader(topic, "r")
    with pytest.raises(NotFound):
        client.reader(topic, "r")


def test_spans_say_where_messages_are(client: Client, topic: str) -> None:
    client.produce(topic, "x")
    (span,) = client.spans(topic, 0, 1)
    assert (span["partition"], span["start"], span["end"], span["source"]) == (0, 0, 1, "broker")


def test_the_broker_speaks_about_itself(client: Client) -> None:
    assert client.health() == {"status": "ok"}
    assert client.version()["version"]
    assert "max_message_bytes" in client.config()


def test_a_broker_that_cannot_be_reached_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        Client("http://127.0.0.1:1", tries=2).topics()


def test_a_client_is_for_many_threads(client: Client, topic: str) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                assert client.topic(topic)["name"] == topic
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
