"""A broker as a process of somebody who shows, measures or strains it."""

import socket
import threading
import time
from pathlib import Path

import pytest

from cordwood.client.client import Client
from cordwood.errors import CordwoodError
from cordwood.serving import Serving


def test_it_keeps_its_port_and_its_messages_through_a_kill(tmp_path: Path) -> None:
    broker = Serving(tmp_path, "--tier", "none")
    try:
        broker.start()
        before = broker.endpoint
        with Client(broker.endpoint) as client:
            client.create_topic("orders")
        broker.kill()
        broker.start()
        assert broker.endpoint == before
        with Client(broker.endpoint) as client:
            assert [topic["name"] for topic in client.topics()] == ["orders"]
    finally:
        broker.stop()
    broker.stop()  # once more does nothing


def test_it_waits_for_its_port_where_somebody_else_has_it_for_a_moment(tmp_path: Path) -> None:
    broker = Serving(tmp_path, "--tier", "none")
    broker.start()
    broker.kill()
    somebody = socket.create_server(("127.0.0.1", broker.port))

    def leave() -> None:
        while "address already in use" not in (tmp_path / "broker.log").read_text():
            time.sleep(0.01)
        somebody.close()

    leaving = threading.Thread(target=leave, daemon=True)
    leaving.start()
    try:
        broker.start()
        leaving.join()
        with Client(broker.endpoint) as client:
            assert client.topics() == []
    finally:
        broker.stop()


def test_what_the_user_has_set_for_a_broker_of_their_own_does_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    monkeypatch.setenv("CORDWOOD_TIER", f"file://{theirs}")
    monkeypatch.setenv("CORDWOOD_AUTH", "token")
    monkeypatch.setenv("CORDWOOD_TOKEN_FILE", str(tmp_path / "tokens"))
    broker = Serving(tmp_path)
    try:
        broker.start()
        with Client(broker.endpoint) as client:
            client.create_topic("orders")
    finally:
        broker.stop()
    assert not theirs.exists()


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(CordwoodError, match=r"the broker did not start: .*no_such_setting"):
        Serving(tmp_path, "--set", "no_such_setting=1").start()
