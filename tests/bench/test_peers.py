"""Peers: the one that every machine has, measured for a moment; and one that is not installed."""

from pathlib import Path

import pytest

from cordwood.bench.load import Load, make_messages
from cordwood.bench.peers.peer import Missing
from cordwood.bench.peers.server import package, program
from cordwood.bench.peers.sqlite import Sqlite

LOAD = Load(make_messages(100, 10_000), seconds=0.01)


@pytest.mark.parametrize(
    "action",
    [
        lambda peer: peer.produce_batches(LOAD, 100),
        lambda peer: peer.produce_loop(LOAD),
        lambda peer: peer.singles(LOAD, 4),
        lambda peer: peer.consume_batches(LOAD, 100),
        lambda peer: peer.consume_each(LOAD),
    ],
)
def test_sqlite_does_what_a_peer_does_and_leaves_nothing(action, tmp_path: Path) -> None:
    peer = Sqlite()
    peer.start(tmp_path)
    assert action(peer) > 0
    peer.stop()
    assert not list(tmp_path.iterdir())


def test_what_is_not_installed_is_named() -> None:
    with pytest.raises(Missing, match="no-such-server is not installed"):
        program("no-such-server")
    with pytest.raises(Missing, match="no_such_package is not installed"):
        package("no_such_package")
