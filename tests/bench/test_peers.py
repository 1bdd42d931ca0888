"""Peers: the one that every machine has, measured for a moment; and one that is not installed."""

import sys
import tempfile
from pathlib import Path

import pytest

from cordwood.bench.load import Load, make_messages
from cordwood.bench.peers.peer import Missing
from cordwood.bench.peers.roster import PEERS, every_mode, running
from cordwood.bench.peers.server import Server, free_port, package, program
from cordwood.bench.peers.sqlite import Sqlite
from tests.conftest import skip_for_want_of

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


def test_postgresql_starts_wherever_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a place that is named relative to where we are, and deeper than the path of a socket may be long."""
    system = next(system for system in PEERS if system.key == "postgresql")
    try:
        program("initdb", *Path("/usr/lib/postgresql").glob("*/bin"))
    except Missing as missing:
        skip_for_want_of(str(missing))
    with tempfile.TemporaryDirectory() as place:  # not pytest's, which nobody else may pass through
        deep = Path(place) / ("d" * 120)
        deep.mkdir()
        Path(place).chmod(0o711)
        monkeypatch.chdir(deep.parent)
        with running(Path(deep.name), every_mode([system])[:1], lambda _: None) as roster:
            assert [entrant.left_out for entrant in roster.entrants] == [""]
        assert not list(deep.iterdir())


def test_a_server_that_ends_says_why(tmp_path: Path) -> None:
    said = "import sys; print('FATAL: no room'); print('LOG: shut down'); sys.exit(1)"
    with pytest.raises(Missing, match="it ended with code 1: FATAL: no room"):
        Server([sys.executable, "-c", said], tmp_path, port=free_port())
