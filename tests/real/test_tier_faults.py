"""A store or a broker that dies while history is on its way, and a store that changes a bit: nothing is made up."""

import contextlib
import threading
import time
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from cordwood.tier.descriptor import Descriptor
from tests.real.served import until
from tests.real.stores import s3_store, seaweed
from tests.real.tier_broker import ARROW, BATCH, TierBroker, check_dense, ipc, numbered, numbers, sorted_by_first


class Producing:
    """A numbered producer that sends again what was not acknowledged, for the length of a `with`."""

    def __init__(self, broker: TierBroker, size: int):
        self.sent = 0  # acknowledged, one for each offset
        self._broker = broker
        self._size = size
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._error: BaseException | None = None

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                with contextlib.suppress(OSError, HTTPException):
                    self._send()
                time.sleep(0.02)
        except BaseException as error:
            self._error = error

    def _send(self) -> None:
        body = ipc(numbered(self.sent, self.sent + BATCH, self._size))
        asked = {"topic": "t", "partition": 0, "producer_id": "p", "epoch": 1, "sequence": self.sent}
        answer = self._broker.fetch("POST", "/v1/produce", body, {"Content-Type": ARROW}, **asked)
        if answer.status == 200:
            assert answer.json["results"][0]["first_offset"] == self.sent, answer
            self.sent += BATCH
        else:
            assert answer.status in (429, 503), answer

    def __enter__(self) -> "Producing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error


def check_all_there(broker: TierBroker, count: int) -> None:
    """Make sure that each message is read once, in order, and is once in the store."""
    found = broker.table("t")
    assert found["offset"].to_pylist() == list(range(count))
    assert numbers(found["value"].to_pylist()) == list(range(count))
    check_dense(broker.stored()[("t", 0)], count)


def test_producing_goes_on_while_the_store_is_dead_and_shipping_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, server = s3_store(), seaweed()[0]
    for name, value in store.env.items():
        monkeypatch.setenv(name, value)
    with TierBroker(tmp_path, tier=store.url, soon=False) as broker:
        broker.create("t")
        with Producing(broker, 1_000) as producing:
            until(lambda: broker.partitions("t")[0]["tiered_offset"] > 0, "shipping has begun")
            server.kill()
            before = producing.sent
            time.sleep(1)
            assert producing.sent > before, "producers do not wait for the store"
            during = broker.values("t", offset=before)
            assert numbers(during)[:1] == [before], "nor do readers of what is here"
            server.start()
        broker.rest("t")
        check_all_there(broker, producing.sent)
        assert any("history waits in the journal" in line for line in broker.said)


def test_a_broker_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path) -> None:
    random = Random(11)
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        with Producing(broker, 1_000) as producing:
            for _ in range(4):
                time.sleep(random.uniform(0.05, 0.7))
                broker.again()
            until(lambda: broker.partitions("t")[0]["tiered_offset"] > 0, "something is in the tier")
        broker.rest("t")
        leave(broker)
        broker.again()
        until(lambda: not left(broker), "leftovers are collected")
        check_all_there(broker, producing.sent)


def leave(broker: TierBroker) -> None:
    """Put what a broker leaves that dies before it can say what it put: overlapping objects of its epoch."""
    one = sorted_by_first(broker.stored()[("t", 0)])[0]
    data = bytes(broker.objects.get(one.name))
    for name in (
        one.name.replace(f"-{one.end:020}-", f"-{one.end - 1:020}-").replace(f"-{one.count}-", f"-{one.count - 1}-"),
        one.name.replace(f"/{one.topic_id}/", "/0123456789abcdef/"),
        one.name.replace("topics/t/", "topics/unknown/"),
    ):
        assert broker.objects.put(name, data)
    assert len(left(broker)) >= 3


def left(broker: TierBroker) -> set[str]:
    """Return the objects that nothing is read from."""
    spans = broker.ask("GET", "/v1/spans", topic="t").json["spans"]
    names = {one.name for objects in broker.stored().values() for one in objects}
    read = {span["object"] for span in spans if span["source"] == "object"}
    assert read <= names, "what is read from is there"
    return names - read


# Damage


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    path.unlink()
    if how != "missing":
        content[len(content) // 2] ^= 1
        path.write_bytes(content if how == "flipped" else content[: len(content) // 2])


def test_a_damaged_object_is_named_and_nothing_of_it_is_read_and_all_else_goes_on(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        for how in ("flipped", "cut", "missing"):
            broker.create(how, 2)
            broker.send_numbered(how, 0, 3_000, 1_000, partition=0)
            broker.send_numbered(how, 0, 10, partition=1)
        broker.rest("flipped", "cut", "missing")
        damaged = {how: sorted_by_first(broker.stored()[(how, 0)])[1] for how in ("flipped", "cut", "missing")}
        copies = {one.name: (tmp_path / "tier" / one.name).read_bytes() for one in damaged.values()}
        for how, one in damaged.items():
            damage(tmp_path / "tier" / one.name, how)
        broker.again()
        for topic, one in damaged.items():
            check_damaged(broker, topic, one)
        for name, content in copies.items():  # somebody had a copy
            (tmp_path / "tier" / name).write_bytes(content)
        for topic, one in damaged.items():
            assert numbers(broker.values(topic, 0)) == list(range(3_001))
            rest = broker.lease_all(topic, "g", 3_001 - one.first, max_messages=10_000)
            assert [m["offset"] for m in rest] == list(range(one.first, 3_001))


def check_damaged(broker: TierBroker, topic: str, one: Descriptor) -> None:
    answer = broker.ask("GET", "/v1/read", topic=topic, partition=0, offset=one.first)
    assert answer.status >= 500, answer
    assert one.name in answer.json["message"]
    assert f"{one.first} to {one.end - 1}" in answer.json["message"]
    assert numbers(broker.values(topic, 0, limit=one.first)) == list(range(one.first))
    assert numbers(broker.values(topic, 0, offset=one.end)) == list(range(one.end, 3_000))
    with pytest.raises((IncompleteRead, ConnectionError, pa.ArrowInvalid)):
        broker.table(topic, 0)  # it is cut at the damage, and does not look whole
    assert numbers(broker.values(topic, 1)) == list(range(10))
    assert broker.send(topic, "3000", partition=0) == 3_000
    broker.ask("PATCH", f"/v1/groups/{topic}/g", {"max_in_flight": 10_000})
    found = broker.lease_all(topic, "g", one.first + 10, max_messages=10_000)
    assert {(m["partition"], m["offset"]) for m in found} == {
        *((0, offset) for offset in range(one.first)),
        *((1, offset) for offset in range(10)),
    }
