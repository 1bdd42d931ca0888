"""A broker inside this process."""

import http.client
import threading
import time
from pathlib import Path

import pytest

import cordwood
from cordwood import Client, Consumer, Producer
from cordwood.embedding import Embedded
from cordwood.errors import Locked, Refused


def test_messages_survive_on_a_path(tmp_path: Path) -> None:
    with cordwood.embedded(tmp_path) as broker:
        Client(broker.endpoint).create_topic("t")
        with Producer(broker.endpoint, "t") as producer:
            assert producer.send(b"kept").result() == (0, 0)
    with cordwood.embedded(tmp_path) as broker:
        assert [m.value for m in Client(broker.endpoint).read("t")] == [b"kept"]


def test_what_a_producer_of_this_process_sent_is_stored_before_it_ends(tmp_path: Path) -> None:
    with cordwood.embedded(tmp_path) as broker:
        Client(broker.endpoint).create_topic("t")
        Producer(broker.endpoint, "t").send(b"kept")
        Producer(broker.endpoint, "missing").send(b"refused")  # which keeps nobody from ending
    with cordwood.embedded(tmp_path) as broker:
        assert [m.value for m in Client(broker.endpoint).read("t")] == [b"kept"]


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with cordwood.embedded() as broker:
        client = Client(broker.endpoint)
        client.create_topic("t")
        with Producer(broker.endpoint, "t") as producer:
            producer.send("gone tomorrow").result()
        with Consumer(broker.endpoint, "t", group="g", idle_timeout_ms=500) as consumer:
            for message in consumer:
                message.ack()
        assert client.group("t", "g")["lag"] == 0
    assert list(tmp_path.iterdir()) == []


def test_a_directory_has_one_broker_at_a_time(tmp_path: Path) -> None:
    with cordwood.embedded(tmp_path), pytest.raises(Locked):
        cordwood.embedded(tmp_path)
    with cordwood.embedded(tmp_path):
        pass


def test_settings_are_those_of_serve_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no setting 'colour'"):
        cordwood.embedded(tmp_path, colour="red")
    with cordwood.embedded(tmp_path, auto_create_topics=True, partitions=3) as broker:
        client = Client(broker.endpoint)
        with Producer(broker.endpoint, "made/by/producing") as producer:
            producer.send(b"x").result()
        assert len(client.topic("made/by/producing")["partitions"]) == 3


@pytest.mark.parametrize("url", ["ftp://there", "s3://user:secret@bucket/prefix", "file://elsewhere/dir"])
def test_a_tier_that_cannot_be_is_refused_by_name_and_its_secrets_are_not_said(tmp_path: Path, url: str) -> None:
    with pytest.raises(Refused, match=r"^tier: ") as caught:
        cordwood.embedded(tmp_path, tier=url)
    assert "secret" not in str(caught.value)


def test_a_lease_that_waits_is_answered_when_the_broker_stops() -> None:
    broker = cordwood.embedded()
    client = Client(broker.endpoint)
    client.create_topic("t")
    waiting = http.client.HTTPConnection(broker.endpoint.removeprefix("http://"), timeout=60)
    waiting.request("POST", "/v1/lease", '{"topic": "t", "group": "g", "wait_ms": 60000}')
    while not client.groups():  # it is made by the lease, which waits from then on
        pass
    client.close()
    broker.stop()
    response = waiting.getresponse()
    assert response.status == 204
    assert response.getheader("Connection") == "close"
    waiting.close()


def test_it_stops_twice_and_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    broker = cordwood.embedded(tmp_path)
    broker.stop()
    broker.stop()
    until = time.monotonic() + 60
    while not set(threading.enumerate()) <= before and time.monotonic() < until:
        time.sleep(0.01)  # one that is on its way out is not waited for: it may be asking a store
    assert set(threading.enumerate()) <= before


def test_the_fixture_comes_along(cordwood_broker: Embedded) -> None:
    Client(cordwood_broker.endpoint).create_topic("t")
    assert [t["name"] for t in Client(cordwood_broker.endpoint).topics()] == ["t"]
