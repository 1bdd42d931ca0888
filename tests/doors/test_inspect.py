"""`cordwood wal inspect` on the logs of other systems, as a person or a script meets it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cordwood.cli.main import cli
from cordwood.doors.source import find
from tests.doors import writers
from tests.doors.writers import SAMPLES


def cordwood(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cordwood", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "kind", "topics", "first", "last"),
    [
        ("driftq.wal", "driftq", {"tasks": 3}, 0, 2),
        ("danube-2025", "danube-2025", {"/default/orders": 5}, 0, 4),
        ("danube-2026", "danube-2026", {"/default/orders": 5}, 0, 4),
        ("danube-2026/wal.1.log", "danube-2026", {"/default/orders": 2}, 3, 4),
        ("blipmq.wal", "blipmq", {"demo": 2, "other/topic": 1}, 1, 3),
        ("airunner-length-without-itself.wal", "airunner", {"airunner": 3}, 1, 3),
    ],
)
def test_json_has_format_records_topics_and_numbers(
    name: str, kind: str, topics: dict[str, int], first: int, last: int
) -> None:
    done = cordwood("wal", "inspect", SAMPLES / name, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["ok"], found["format"], found["records"]) == (True, kind, sum(topics.values()))
    assert {topic["topic"]: topic["records"] for topic in found["topics"]} == topics
    (source,) = found["sources"]
    assert (source["source"], source["first"], source["last"]) == (str(SAMPLES / name), first, last)
    assert (found["torn"], found["damages"], found["gaps"]) == ([], [], [])
    if kind.startswith(("danube", "airunner")):
        assert 1_704_067_200_000 <= source["first_timestamp"] <= source["last_timestamp"] <= 1_704_067_201_000


def test_a_person_sees_topics_times_and_what_is_not_imported() -> None:
    done = cordwood("wal", "inspect", SAMPLES)
    assert done.returncode == 0, done.stderr
    for text in (
        "driftq, 3 records",
        "danube-2026, 5 records",
        "/default/orders",
        "2024-01-01 00:00:00",
        "group offset: topic tasks, partition 1, offset 0, group mailer",
        "shown, not imported: 1 group offset(s), 1 idempotency key(s), 1 retry state(s)",
    ):
        assert text in done.stdout, text


def test_a_torn_tail_is_told_and_is_no_error(tmp_path: Path) -> None:
    data = (SAMPLES / "blipmq.wal").read_bytes()
    (tmp_path / "log").write_bytes(data[:-1])
    done = cordwood("wal", "inspect", tmp_path / "log", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert [(place["file"], place["byte"], place["end"]) for place in found["torn"]] == [("log", 87, len(data) - 1)]
    assert found["records"] == 2
    assert "torn, never known to be whole: log, byte 87" in cordwood("wal", "inspect", tmp_path / "log").stdout


def test_damage_is_exit_65_and_names_file_and_byte(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "danube-2025", tmp_path / "orders")
    path = tmp_path / "orders" / "wal.log"
    data = bytearray(path.read_bytes())
    data[data.index(b'"order":1')] ^= 1
    path.write_bytes(data)
    for words in ((), ("--json",)):
        done = cordwood("wal", "inspect", tmp_path, *words)
        assert done.returncode == 65
        assert len(done.stderr.strip().splitlines()) == 1
        assert "orders/wal.log, byte 88: the checksum of record 1 does not hold" in done.stderr
    assert [place["byte"] for place in json.loads(done.stdout)["damages"]] == [88]


def test_frames_are_those_of_our_own_journal() -> None:
    done = cordwood("wal", "inspect", SAMPLES / "driftq.wal", "--frames")
    assert (done.returncode, "--frames" in done.stderr) == (2, True)


def test_what_is_no_log_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "nothing").mkdir()
    for name in ("empty", "noise", "nothing", "missing"):
        done = cordwood("wal", "inspect", tmp_path / name)
        assert (done.returncode, name in done.stderr) == (2, True)
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_topic_of_any_name_is_shown_without_harm(tmp_path: Path) -> None:
    names = ["[/bold]", "[red]", "\x1b[2J", "a\nb", "", "ü"]
    (tmp_path / "log").write_bytes(writers.blipmq([(name, b"x") for name in names]))
    done = cordwood("wal", "inspect", tmp_path / "log")
    assert done.returncode == 0, done.stderr
    assert all(shown in done.stdout for shown in ("[/bold]", "[red]", r"\x1b[2J", r"a\nb", "ü"))
    assert "\x1b" not in done.stdout
    found = json.loads(cordwood("wal", "inspect", tmp_path / "log", "--json").stdout)
    assert sorted(topic["topic"] for topic in found["topics"]) == sorted(names)


def test_a_log_without_records_is_a_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(writers.BLIP_HEADER)
    found = json.loads(cordwood("wal", "inspect", tmp_path / "log", "--json").stdout)
    assert (found["format"], found["records"], found["torn"]) == ("blipmq", 0, [])


def test_import_has_help_with_an_example() -> None:
    done = cordwood("wal", "import", "--help")
    assert done.returncode == 0
    assert "Example: cordwood wal import" in done.stdout


def test_a_name_with_odd_characters_moves_no_terminals_cursor(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m\nb").write_bytes(writers.blipmq([("t", b"x")]))
    for words in ([tmp_path / "a\x1b[31m\nb"], [tmp_path]):
        done = CliRunner().invoke(cli, ["wal", "inspect", *map(str, words)])
        assert (done.exit_code, "\x1b" in done.output) == (0, False)
        assert "\\x1b[31m\\nb" in done.output


def test_a_directory_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "log").write_bytes(writers.blipmq([("t", b"x")]))
    scandir = os.scandir

    def guarded(path: str) -> object:
        if str(path).endswith("hidden"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(PermissionError):
        find(tmp_path)
