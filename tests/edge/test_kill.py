"""Real processes that are killed, and a wire that is cut: the drill, small."""

import logging
from pathlib import Path

import pytest

from cordwood.client.client import Client
from cordwood.drills import outbox_kill
from cordwood.edge import patience
from cordwood.edge.look import look, outboxes
from cordwood.edge.outbox import Outbox
from cordwood.edge.running import Progress, send_left_overs
from tests.client.proxy import Proxy
from tests.edge.left import left

NOBODY = "http://127.0.0.1:9"


def test_killed_workers_and_a_killed_broker_lose_and_double_nothing() -> None:
    logging.disable(logging.WARNING)
    try:
        report = outbox_kill.run(seed=11, kills=6)
    finally:
        logging.disable(logging.NOTSET)
    assert report.wrong == []
    assert (report.kills, report.broker_kills) == (6, 2)
    assert 0 < report.acknowledged <= report.stored


@pytest.mark.parametrize("seed", range(3))
def test_a_wire_cut_at_any_byte_loses_and_doubles_nothing(
    client: Client, endpoint: str, topic: str, root: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(patience, "FIRST_MS", 5)
    monkeypatch.setattr(patience, "MOST_MS", 20)
    with (
        Proxy(endpoint, troubles=30, within_bytes=1500, seed=seed) as proxy,
        Outbox(root, "e", topic, proxy.endpoint, batch_events=50, linger_ms=1) as outbox,
    ):
        for start in range(0, 3000, 100):
            outbox.append_many(b"%d" % number for number in range(start, start + 100))
        outbox.flush(60)
    assert [message.value for message in client.read(topic, partition=0)] == [b"%d" % n for n in range(3000)]


def test_left_overs_can_be_sent_by_themselves(client: Client, endpoint: str, topic: str, root: Path) -> None:
    for name in ("a", "b"):
        dead = Outbox(root, name, topic, NOBODY)
        dead.append_many([b"1", b"2"])
        dead.stop(0)
    assert send_left_overs(root, NOBODY) == 4
    assert sum(look(path).pending for path in outboxes(root)) == 4
    told: list[Progress] = []
    assert send_left_overs(root, endpoint, timeout_s=20, tell=told.append) == 0
    assert outboxes(root) == []
    assert told[-1] == Progress(settled=4, pending=0, error=None)
    assert len(list(client.read(topic, partition=0))) == 4
    assert send_left_overs(root, endpoint) == 0


def test_each_left_over_goes_to_the_broker_that_it_was_meant_for(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    left(root, "elsewhere", topic, NOBODY, b"not for here")
    left(root, "here", topic, endpoint, b"1", b"2")
    told: list[Progress] = []
    assert send_left_overs(root, timeout_s=20, tell=told.append) == 1
    assert told[-1].settled == 2
    assert [message.value for message in client.read(topic, partition=0)] == [b"1", b"2"]
    assert send_left_overs(root, endpoint, timeout_s=20) == 0, "all goes where a person says"
    assert [message.value for message in client.read(topic, partition=0)] == [b"1", b"2", b"not for here"]
