"""The comparison, through the command: what takes part, what is left out, and that nothing stays behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.bench import comparison
from cordwood.bench.comparison import QUICK
from cordwood.bench.modes import SQLITE
from cordwood.bench.peers.roster import System, every_mode, running

COMMAND = (sys.executable, "-m", "cordwood", "bench", "--quick", "--only", "sqlite")


@pytest.mark.timeout(300)  # some 10 s of processor time; on a machine that others use, much more
def test_the_command_compares_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--json", "--chart", "chart.svg"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [race["name"] for race in found["races"]] == list(QUICK.races)
    assert {one["label"] for one in found["systems"]} == {
        "Cordwood (safe = default)",
        "Cordwood (interval)",
        *(f"SQLite ({mode.name})" for mode in SQLITE),
    }
    assert found["failures"] == []
    assert all(one["ratio"] > 0 for one in found["ratios"])
    assert "100 B × 1,000: Cordwood" in done.stderr
    assert os.listdir(tmp_path) == ["chart.svg"]


def test_a_signal_stops_what_was_started(tmp_path: Path) -> None:
    with subprocess.Popen(COMMAND, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bench:
        assert bench.stderr is not None
        for line in bench.stderr:
            if "starting SQLite" in line:
                break
        brokers = [
            int(name)
            for name in os.listdir("/proc")
            if name.isdigit() and _parent(int(name)) == bench.pid and b"serve" in _words(int(name))
        ]
        bench.send_signal(signal.SIGTERM)
        bench.communicate(timeout=250)
    assert bench.returncode == 130
    assert len(brokers) == 2
    assert not [pid for pid in brokers if Path(f"/proc/{pid}").exists()]
    assert os.listdir(tmp_path) == []


def test_who_is_not_installed_is_left_out_and_named(tmp_path: Path) -> None:
    absent = System("absent", "Absent", "peers.absent.Absent", ("no_such_package",), SQLITE[:1])
    with running(tmp_path, every_mode([absent]), lambda _: None) as roster:
        assert not roster.peers
        assert [(one.label, one.left_out) for one in roster.entrants] == [
            ("Absent (safe)", "the Python package no_such_package is not installed")
        ]


def test_settling_syncs_files_that_were_written_since_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"bytes")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    comparison.settle(tmp_path)
    assert synced == [5]
    (tmp_path / "old").write_bytes(b"")
    os.utime(tmp_path / "old", (1, 1))
    comparison.settle(tmp_path, since=2)
    assert synced == [5, 5]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
