"""The real disk, asked for little things."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.errors import Locked
from cordwood.machine.disk import RealDirectory, make_directory, write_all
from cordwood.sim.disk import SimDirectory


def test_a_directory_is_made_with_those_above_it_for_its_owner_only(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "b")
    make_directory(tmp_path / "a" / "b")
    assert oct((tmp_path / "a" / "b").stat().st_mode & 0o777) == "0o700"


def test_bytes_come_back_from_where_they_were_put(tmp_path: Path) -> None:
    directory = RealDirectory(tmp_path)
    file = directory.open("f", create=True)
    assert write_all(file, [b"abc", memoryview(b"defg")], 2) == 9
    file.sync()
    buffer = bytearray(20)
    assert file.read_into(memoryview(buffer), 0) == 9
    assert bytes(buffer[:9]) == b"\0\0abcdefg"
    file.truncate(4)
    assert file.size() == 4
    file.close()
    directory.rename("f", "g")
    directory.sync()
    assert directory.names() == ["g"]
    directory.remove("g")
    directory.close()


def test_a_file_that_was_given_up_reads_the_same(tmp_path: Path) -> None:
    directory = RealDirectory(tmp_path)
    file = directory.open("f", create=True)
    written = os.urandom(1 << 20)
    write_all(file, [written], 0)
    file.sync()
    file.cool()
    buffer = bytearray(len(written))
    assert file.read_into(memoryview(buffer), 0) == len(written)
    assert buffer == written
    file.warm()
    file.close()
    directory.close()


def test_more_buffers_than_one_call_takes_are_all_written(tmp_path: Path) -> None:
    file = RealDirectory(tmp_path).open("f", create=True)
    buffers = [bytes([number % 256]) * 3 for number in range(5000)]
    assert write_all(file, buffers, 0) == 15_000
    assert (tmp_path / "f").read_bytes() == b"".join(buffers)


def test_short_writes_are_finished() -> None:
    disk = SimDirectory()
    disk.faults = lambda operation, name, size: 1 if operation == "write" else None
    file = disk.open("f", create=True)
    assert write_all(file, [b"abc", b"", b"de"], 0) == 5
    buffer = bytearray(5)
    file.read_into(memoryview(buffer), 0)
    assert bytes(buffer) == b"abcde"


def test_a_disk_that_takes_nothing_is_an_error_and_not_a_loop() -> None:
    disk = SimDirectory()
    disk.faults = lambda operation, name, size: 0 if operation == "write" else None
    with pytest.raises(OSError, match="took no bytes") as caught:
        write_all(disk.open("f", create=True), [b"abc"], 0)
    assert caught.value.errno == errno.EIO


def test_the_lock_holds_between_processes_and_ends_with_its_owner(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from cordwood.machine.disk import RealDirectory;"
        "RealDirectory(Path(sys.argv[1])).lock(); print('locked', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ),
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"locked\n"
    with pytest.raises(Locked, match="stop that one first"):
        RealDirectory(tmp_path).lock()
    child.kill()
    child.wait()
    RealDirectory(tmp_path).lock()
