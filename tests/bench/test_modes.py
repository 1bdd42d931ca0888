"""Modes: what each system promises in each, and that SQLite keeps to what its mode says."""

from pathlib import Path

import pytest

from cordwood.bench.load import Load, make_messages
from cordwood.bench.modes import SQLITE, Mode
from cordwood.bench.peers.roster import CORDWOOD, PEERS, System
from cordwood.bench.peers.sqlite import Sqlite

LOAD = Load(make_messages(100, 10_000), seconds=0.005)


@pytest.mark.parametrize("mode", SQLITE, ids=lambda mode: mode.name)
def test_sqlite_runs_a_lap_in_each_mode(mode: Mode, tmp_path: Path) -> None:
    peer = Sqlite(mode)
    peer.start(tmp_path)
    assert peer.produce_batches(LOAD, 100) > 0
    assert peer.consume_batches(LOAD, 100) > 0


@pytest.mark.parametrize("mode", SQLITE, ids=lambda mode: mode.name)
def test_the_setting_of_sqlite_is_the_one_that_is_told(mode: Mode, tmp_path: Path) -> None:
    levels = {"0": "OFF", "1": "NORMAL", "2": "FULL"}
    peer = Sqlite(mode)
    peer.start(tmp_path)
    with peer._queue() as queue:
        (journal,), (level,), (size,) = (
            queue.database.execute(f"PRAGMA {name}").fetchone()
            for name in ("journal_mode", "synchronous", "page_size")
        )
    told = f"journal_mode={journal.upper()}, synchronous={levels[str(level)]}, page_size={size};"
    assert mode.setting.startswith(told)


@pytest.mark.parametrize("system", [CORDWOOD, *PEERS], ids=lambda system: system.key)
def test_the_first_mode_of_each_is_safe_and_one_is_its_default(system: System) -> None:
    assert system.modes[0].survives
    assert "safe" in system.modes[0].name
    assert [mode.name for mode in system.modes if "default" in mode.name] != []


@pytest.mark.parametrize("system", [CORDWOOD, *PEERS], ids=lambda system: system.key)
def test_a_mode_that_is_not_safe_says_what_may_be_lost(system: System) -> None:
    assert all(mode.but for mode in system.modes if not mode.survives)


def test_survival_is_told_in_words() -> None:
    assert SQLITE[0].survival == "yes"
    assert SQLITE[2].survival.startswith("no: ")
