"""The pretended disk keeps what was synced and plays with the rest."""

import errno
from random import Random

import pytest

from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory, SimFile


def content(disk: SimDirectory, name: str) -> bytes:
    file = disk.open(name)
    buffer = bytearray(file.size())
    file.read_into(memoryview(buffer), 0)
    return bytes(buffer)


def synced_file(disk: SimDirectory, name: str = "f", data: bytes = b"0123456789") -> SimFile:
    file = disk.open(name, create=True)
    file.write([data], 0)
    file.sync()
    disk.sync()
    return file


def states(disk: SimDirectory, name: str, tries: int = 300) -> set[bytes]:
    """Return every content that a power cut was seen to leave."""
    image = disk.image()
    left = [image.after_power_cut(Random(seed)) for seed in range(tries)]
    return {content(one, name) for one in left if name in one.names()}


def test_what_was_synced_survives() -> None:
    disk = SimDirectory()
    synced_file(disk)
    assert states(disk, "f") == {b"0123456789"}


def test_what_was_not_synced_may_be_lost_kept_or_torn() -> None:
    disk = SimDirectory()
    synced_file(disk).write([b"abcdefghij"], 0)
    seen = states(disk, "f", 2000)
    assert b"0123456789" in seen
    assert b"abcdefghij" in seen
    assert any(data.startswith(b"abc") and data.endswith(b"789") for data in seen), "torn in the middle"
    assert any(data.startswith(b"012") and data.endswith(b"hij") for data in seen), "the end without the beginning"


def test_a_later_write_may_survive_an_earlier_one() -> None:
    disk = SimDirectory()
    file = synced_file(disk)
    file.write([b"AA"], 0)
    file.write([b"BB"], 8)
    assert b"01234567BB" in states(disk, "f")


def test_a_name_that_was_not_synced_may_be_lost() -> None:
    disk = SimDirectory()
    file = disk.open("f", create=True)
    file.write([b"x"], 0)
    file.sync()
    left = [disk.image().after_power_cut(Random(seed)).names() for seed in range(50)]
    assert [] in left
    assert ["f"] in left


def test_a_rename_is_whole_or_not_at_all() -> None:
    disk = SimDirectory()
    synced_file(disk, "old")
    disk.rename("old", "new")
    left = {tuple(disk.image().after_power_cut(Random(seed)).names()) for seed in range(50)}
    assert left == {("old",), ("new",)}


def test_a_failed_sync_is_not_made_good_by_the_next() -> None:
    disk = SimDirectory()
    file = synced_file(disk)
    file.write([b"abcdefghij"], 0)

    def fail(operation: str, name: str, size: int) -> None:
        raise OSError(errno.EIO, "it failed")

    disk.faults = fail
    with pytest.raises(OSError, match="it failed"):
        file.sync()
    disk.faults = None
    assert content(disk, "f") == b"abcdefghij", "the kernel still shows it"
    file.sync()
    assert states(disk, "f") == {b"0123456789"}, "the disk never had it"


def test_a_full_disk_takes_what_fits_and_then_nothing() -> None:
    disk = SimDirectory(capacity_bytes=5)
    file = disk.open("f", create=True)
    assert file.write([b"abcdefgh"], 0) == 5
    with pytest.raises(OSError, match="No space"):
        file.write([b"x"], 5)
    assert file.write([b"AB"], 0) == 2, "written blocks can be written over"


def test_a_killed_process_leaves_all_that_it_wrote() -> None:
    disk = SimDirectory()
    synced_file(disk).write([b"abc"], 0)
    disk.rename("f", "g")
    assert content(disk.image().after_kill(), "g") == b"abc3456789"


def test_time_passes_only_when_told() -> None:
    clock = SimClock()
    before, steady = clock.now_ms(), clock.monotonic_ms()
    clock.pass_ms(5)
    clock.jump_ms(-1000)
    assert clock.now_ms() == before - 995
    assert clock.monotonic_ms() == steady + 5
