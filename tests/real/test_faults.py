"""The kernel's own calls made to fail, by strace, in a real process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.journal.fold import Blank
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.machine.disk import RealDirectory

SEGMENT_BYTES = 1 << 20


def run(strace: str, directory: Path, inject: str, frames: int = 30) -> list[list[str]]:
    """Run the appender with a fault injected; return its lines as words."""
    call = inject.split(":")[0]
    command = [strace, "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={inject}"]
    command += [sys.executable, "-m", "tests.real.appender", str(directory), str(frames), str(SEGMENT_BYTES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def frames_of(directory: Path) -> list[int]:
    """Open the journal again, check what is in it, append one more, and return the numbers that were there."""
    with open_journal(RealDirectory(directory), Blank(), Limits(segment_bytes=SEGMENT_BYTES)) as journal:
        found = [int(bytes(entries[0][:20]).split()[0]) for _, entries in journal.frames(journal.first)]
        assert journal.write([b"%d " % journal.end]) == len(found)
    return found


@pytest.mark.parametrize("code", ["EIO", "ENOSPC"])
def test_a_failed_fdatasync_means_not_acknowledged_and_not_there(strace: str, tmp_path: Path, code: str) -> None:
    lines = run(strace, tmp_path, f"fdatasync:error={code}:when=12")
    told = [int(words[1]) for words in lines if words[0] == "durable"]
    assert lines[-1][:2] == ["error", "Unavailable"]
    assert 0 < len(told) < 30
    assert frames_of(tmp_path) == told


@pytest.mark.parametrize("code", ["EIO", "ENOSPC"])
def test_a_failed_write_means_not_acknowledged_and_not_there(strace: str, tmp_path: Path, code: str) -> None:
    lines = run(strace, tmp_path, f"pwritev,pwritev2:error={code}:when=14")
    told = [int(words[1]) for words in lines if words[0] == "durable"]
    assert lines[-1][:2] == ["error", "Unavailable"]
    assert 0 < len(told) < 30
    assert frames_of(tmp_path) == told


def test_every_fdatasync_failing_from_the_start_acknowledges_nothing(strace: str, tmp_path: Path) -> None:
    lines = run(strace, tmp_path, "fdatasync:error=EIO")
    assert [words for words in lines if words[0] == "durable"] == []
    assert frames_of(tmp_path) == []


def test_no_room_to_prepare_a_segment_is_said_as_full(strace: str, tmp_path: Path) -> None:
    lines = run(strace, tmp_path, "pwritev,pwritev2:error=ENOSPC:when=1+", frames=3)
    assert lines[-1][:2] == ["error", "Full"]
    assert frames_of(tmp_path) == []


@pytest.mark.parametrize("when", [3, 5, 7, 9, 11])
def test_killed_inside_any_fdatasync_it_opens_again(strace: str, tmp_path: Path, when: int) -> None:
    command = [strace, "-f", "-qq", "-o", os.devnull, "-e", "trace=fdatasync"]
    command += ["-e", f"inject=fdatasync:signal=SIGKILL:when={when}"]
    command += [sys.executable, "-m", "tests.real.appender", str(tmp_path), "30", str(SEGMENT_BYTES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("durable")]
    assert len(told) < 30
    found = frames_of(tmp_path)
    assert found[: len(told)] == told
    assert len(found) <= len(told) + 1
