"""`cordwood wal`, as a person or a script meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from awscrt.checksums import crc64nvme

from cordwood.journal.fold import Blank
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.machine.disk import RealDirectory

LIMITS = Limits(segment_bytes=1 << 20)


def cordwood(*words: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cordwood", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def tree(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a cleanly closed journal of 30 frames in several segments."""
    path = tmp_path / "data"
    (path / "journal").mkdir(parents=True)
    with open_journal(RealDirectory(path / "journal"), Blank(), LIMITS) as journal:
        for number in range(30):
            journal.write([b"frame %d " % number + bytes(100_000), b"second"])
    return path


def flip(data: Path, text: bytes, file: str = "*.wal") -> Path:
    """Flip a bit of the frame that holds this text; return the file."""
    for path in sorted((data / "journal").glob(file)):
        content = bytearray(path.read_bytes())
        place = content.find(text)
        if place >= 0:
            content[place] ^= 1
            path.write_bytes(content)
            return path
    raise AssertionError("no such text")


def test_verify_says_that_every_byte_holds(data: Path) -> None:
    before = tree(data)
    done = cordwood("wal", "verify", data)
    assert done.returncode == 0, done.stderr
    assert "30 frames" in done.stdout
    assert "every acknowledged byte holds" in done.stdout
    assert tree(data) == before


def test_verify_takes_the_journal_directory_too_and_speaks_json(data: Path) -> None:
    done = cordwood("wal", "verify", data / "journal", "--json")
    found = json.loads(done.stdout)
    assert (found["ok"], found["frames"], found["first"], found["end"]) == (True, 30, 0, 30)
    assert found["clean"] is True
    assert found["damages"] == []


def test_verify_names_file_byte_and_number_of_what_is_damaged(data: Path) -> None:
    path = flip(data, b"frame 7 ")
    before = tree(data)
    done = cordwood("wal", "verify", data, "--json")
    assert done.returncode == 65
    (damage,) = json.loads(done.stdout)["damages"]
    assert (damage["file"], damage["first"], damage["end"]) == (path.name, 7, 8)
    assert len(done.stderr.strip().splitlines()) == 1
    assert path.name in done.stderr
    assert "LSN 7" in done.stderr
    assert tree(data) == before


def test_inspect_shows_segments_and_frames(data: Path) -> None:
    done = cordwood("wal", "inspect", data, "--frames", "--from", "10", "--limit", "3")
    assert done.returncode == 0, done.stderr
    assert "00000000000000000000.wal" in done.stdout
    found = json.loads(cordwood("wal", "inspect", data, "--frames", "--from", "10", "--limit", "3", "--json").stdout)
    assert [frame["lsn"] for frame in found["frames"]] == [10, 11, 12]
    assert found["frames"][0]["entries"] == 2
    assert sum(segment["frames"] for segment in found["segments"]) == 30
    assert {segment["state"] for segment in found["segments"]} == {"ok"}


def test_inspect_marks_the_damaged_segment(data: Path) -> None:
    path = flip(data, b"frame 7 ")
    found = json.loads(cordwood("wal", "inspect", data, "--json").stdout)
    assert [segment["file"] for segment in found["segments"] if segment["state"] == "damaged"] == [path.name]


def test_repair_without_a_choice_shows_what_each_would_lose_and_changes_nothing(data: Path) -> None:
    flip(data, b"frame 7 ")
    before = tree(data)
    done = cordwood("wal", "repair", data)
    assert done.returncode == 65
    assert "--quarantine would lose: LSN 7\n" in done.stdout
    assert "--truncate would lose: LSN 7 to 29\n" in done.stdout
    assert tree(data) == before
    assert cordwood("wal", "repair", data, "--quarantine", "--dry-run").returncode == 0
    assert tree(data) == before


@pytest.mark.parametrize(("choice", "left"), [("--quarantine", 29), ("--truncate", 7)])
def test_repair_by_choice_keeps_a_copy_and_names_what_is_lost(data: Path, choice: str, left: int) -> None:
    path = flip(data, b"frame 7 ")
    damaged = path.read_bytes()
    done = cordwood("wal", "repair", data, choice)
    assert done.returncode == 0, done.stderr
    assert "lost: LSN 7" in done.stdout
    copies = [file.read_bytes() for file in (data / "journal").glob(f"{path.name}.*.aside")]
    assert damaged in copies
    assert cordwood("wal", "verify", data).returncode == 0
    with open_journal(RealDirectory(data / "journal"), Blank(), LIMITS) as journal:
        assert sum(1 for _ in journal.frames(0)) == left


def test_a_damaged_header_is_mended_without_a_choice(data: Path) -> None:
    flip(data, b"CORDWOOD")
    assert cordwood("wal", "verify", data).returncode == 65
    done = cordwood("wal", "repair", data)
    assert done.returncode == 0, done.stderr
    assert "lost: no frame" in done.stdout
    assert cordwood("wal", "verify", data).returncode == 0


def test_nothing_to_repair_is_said(data: Path) -> None:
    before = tree(data)
    done = cordwood("wal", "repair", data, "--truncate")
    assert (done.returncode, "nothing to repair" in done.stdout) == (0, True)
    assert tree(data) == before


@pytest.mark.parametrize("command", ["inspect", "verify", "repair"])
def test_a_path_without_a_journal_is_wrong_usage(tmp_path: Path, command: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for path in ("missing", "empty", "file"):
        done = cordwood("wal", command, tmp_path / path)
        assert done.returncode == 2, path
        assert len(done.stderr.strip().splitlines()) == 1
        assert path in done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty", "file"]
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("command", ["inspect", "verify", "repair"])
def test_a_directory_in_use_is_refused_for_now(data: Path, command: str) -> None:
    with open_journal(RealDirectory(data / "journal"), Blank(), LIMITS):
        done = cordwood("wal", command, data)
    assert done.returncode == 75
    assert "in use by another process" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_another_version_is_named(data: Path) -> None:
    path = min((data / "journal").glob("*.wal"))
    content = bytearray(path.read_bytes())
    content[8] = 2
    content[56:64] = crc64nvme(bytes(content[:56])).to_bytes(8, "little")
    path.write_bytes(content)
    before = tree(data)
    done = cordwood("wal", "verify", data)
    assert done.returncode == 1
    assert "format 2" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert tree(data) == before


def test_a_directory_without_permission_is_said_in_one_line(data: Path) -> None:
    # Root may read anything, so a child that was root gives that up before it looks.
    code = (
        "import os, sys; import cordwood.cli.main as it, cordwood.cli.wal;"
        "nobody = [65534] * 3;"
        "os.geteuid() == 0 and (os.setgroups([]), os.setresgid(*nobody), os.setresuid(*nobody));"
        "sys.argv = ['cordwood', 'wal', 'verify', sys.argv[1]]; it.main()"
    )
    (data / "journal").chmod(0)
    for part in [data, *data.parents][:3]:
        part.chmod(0o755)
    before = sorted((data / "journal").iterdir()) if os.geteuid() == 0 else None
    done = subprocess.run([sys.executable, "-c", code, str(data)], capture_output=True, text=True, check=False)
    if before is not None:
        assert sorted((data / "journal").iterdir()) == before
    (data / "journal").chmod(0o700)
    assert done.returncode == 1, done.stderr
    assert "Permission denied" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_wrong_usage_is_exit_2() -> None:
    assert cordwood("wal", "verify").returncode == 2
    assert cordwood("wal", "inspect", ".", "--limit", "0").returncode == 2
    assert cordwood("nonsense").returncode == 2
    assert cordwood("wal", "repair", ".", "--quarantine", "--truncate").returncode == 2


@pytest.mark.parametrize("words", [[], ["wal"], ["wal", "inspect"], ["wal", "verify"], ["wal", "repair"], ["demo"]])
def test_help_is_there(words: list[str]) -> None:
    done = cordwood(*words, "--help")
    assert done.returncode == 0
    assert "Usage:" in done.stdout
    if len(words) == 2 or words == ["demo"]:
        assert "Example: cordwood" in done.stdout


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_what_is_no_file_is_named_and_nobody_waits_for_it(data: Path, command: str) -> None:
    strange = data / "journal" / "00000000000000000900.wal"
    os.mkfifo(strange)
    done = cordwood("wal", command, data)
    assert done.returncode == 1
    assert "00000000000000000900.wal: not a regular file" in done.stderr
    strange.unlink()
    strange.mkdir()
    done = cordwood("wal", command, data)
    assert (done.returncode, "00000000000000000900.wal" in done.stderr) == (1, True)
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_name_with_a_line_break_is_still_one_line(data: Path) -> None:
    (data / "journal" / "x\ny.wal").write_bytes(b"")
    done = cordwood("wal", "verify", data)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
