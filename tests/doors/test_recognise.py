"""What is recognised, and what is not."""

import os
import random
import resource
import shutil
from pathlib import Path

import pytest

from cordwood.doors.recognise import AIRUNNER, BLIPMQ, DANUBE, DRIFTQ, recognise
from cordwood.doors.source import find
from cordwood.errors import Refused, Unavailable
from tests.doors import writers
from tests.doors.writers import SAMPLES


def seen(data: bytes) -> object:
    return recognise(memoryview(data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"{",
        b"{}\n",
        b'{"type":9}\n'[1:],
        b"some text\nin lines\n",
        bytes(4096),
        b"\xff" * 4096,
        b"BLOPWAX?" + bytes(24),
        random.Random(7).randbytes(100_000),
        b"CWSEG001" + bytes(100),
    ],
)
def test_other_bytes_are_not_recognised(data: bytes) -> None:
    assert seen(data) in (None, DRIFTQ if data == b"{" else None)


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_cut_file_is_recognised_by_its_magic(cut: int) -> None:
    assert seen(writers.blipmq([("t", b"x" * 50)])[:cut]) is BLIPMQ
    assert seen(writers.airunner([b"x" * 50])[:cut]) is AIRUNNER
    assert seen(writers.driftq([writers.driftq_message("t", 0, b"x" * 50)])[:cut]) is DRIFTQ


def test_a_damaged_beginning_is_recognised_by_what_follows() -> None:
    for door, data in (
        (BLIPMQ, writers.blipmq([("t", b"one"), ("t", b"two")])),
        (AIRUNNER, writers.airunner([b"one", b"two"])),
        (DANUBE, writers.danube([b"one", b"two"])),
        (DRIFTQ, writers.driftq(writers.driftq_message("t", n, b"x") for n in range(2))),
    ):
        for byte in range(20):
            damaged = bytearray(data)
            damaged[byte] ^= 0x81
            assert seen(bytes(damaged)) is door, byte


def test_a_first_frame_larger_than_what_is_looked_through_is_recognised() -> None:
    assert seen(writers.danube([bytes(3 << 20)])) is DANUBE


def test_a_message_with_lines_of_another_system_is_still_danubes() -> None:
    line = writers.driftq([writers.driftq_message("t", 0, b"x")])
    assert seen(writers.danube([b"\n" + line + b"\n", b"two"])) is DANUBE


def test_the_bytes_count_and_not_the_name(tmp_path: Path) -> None:
    for door, data in (
        (DRIFTQ, writers.driftq([writers.driftq_message("t", 0, b"x")])),
        (BLIPMQ, writers.blipmq([("t", b"x")])),
        (AIRUNNER, writers.airunner([b"x"])),
    ):
        (tmp_path / "wal.log").write_bytes(data)
        (tmp_path / "wal.1.log").write_bytes(data)
        assert [(source.door, source.name) for source in find(tmp_path).sources] == [
            (door, f"{tmp_path}/wal.1.log"),
            (door, f"{tmp_path}/wal.log"),
        ]
    # Where the bytes say nothing, the name does. These are numbers of frames, too.
    for data in (b"", b"{", b"BLIP", bytes(4096), b'{"\n'.ljust(30, b"\0"), b"{\n".ljust(30, b"\0")):
        (tmp_path / "wal.log").write_bytes(data)
        (tmp_path / "wal.1.log").write_bytes(writers.danube([b"x"]))
        (source,) = find(tmp_path).sources
        assert (source.door, len(source.files)) == (DANUBE, 2)


def test_a_directory_has_a_source_for_each_danube_topic_and_each_other_file(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "danube-2025", tmp_path / "default" / "orders")
    shutil.copytree(SAMPLES / "danube-2026", tmp_path / "default" / "bills")
    (tmp_path / "default" / "bills" / "wal.ckpt").write_bytes(b"checkpoint")
    shutil.copy(SAMPLES / "driftq.wal", tmp_path / "driftq.wal")
    found = find(tmp_path)
    assert [source.name for source in found.sources] == [
        f"{tmp_path}/driftq.wal",
        f"{tmp_path}/default/bills",
        f"{tmp_path}/default/orders",
    ]
    assert [[file.name for file in source.files] for source in found.sources] == [
        ["driftq.wal"],
        ["default/bills/wal.log", "default/bills/wal.1.log"],
        ["default/orders/wal.log", "default/orders/wal.1.log"],
    ]
    assert found.others == ("default/bills/wal.ckpt",)
    assert [source.name for source in find(tmp_path, "old").sources] == [
        "old/driftq.wal",
        "old/default/bills",
        "old/default/orders",
    ]
    # The same topic is the same source, whether it is found alone or among others.
    assert find(tmp_path / "default" / "bills").sources[0].name == found.sources[1].name


def test_rotated_files_are_read_in_the_order_of_their_numbers_and_objects_in_that_of_their_frames(
    tmp_path: Path,
) -> None:
    for turn in range(12):
        name = "wal.log" if not turn else f"wal.{turn}.log"
        (tmp_path / name).write_bytes(writers.danube([b"w%d" % turn], first=2 + turn))
    (tmp_path / "data-b.dnb1").write_bytes(writers.danube([b"object 0"], first=0))
    (tmp_path / "data-a.dnb1").write_bytes(writers.danube([b"object 1"], first=1))
    (source,) = find(tmp_path).sources
    values = [item.value for _, item in source.items()]
    assert values == [b"object 0", b"object 1", *(b"w%d" % turn for turn in range(12))]


def test_more_files_than_may_be_open_are_no_trouble(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}.wal").write_bytes(writers.airunner([b"one"]))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    have = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (have + 100, hard))
    try:
        found = find(tmp_path)
        assert sum(len(list(source.items())) for source in found.sources) == len(found.sources) == 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_file_that_becomes_shorter_is_for_later(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(writers.airunner([b"one", b"two"]))
    (source,) = find(tmp_path / "log").sources
    (tmp_path / "log").write_bytes(writers.airunner([b"one"]))
    with pytest.raises(Unavailable, match="shorter"):
        list(source.items())


def test_what_is_appended_meanwhile_is_for_the_next_time(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(writers.airunner([b"one"]))
    (source,) = find(tmp_path / "log").sources
    (tmp_path / "log").write_bytes(writers.airunner([b"one", b"two"]))
    assert len(list(source.items())) == 1


def test_a_link_is_its_target(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "driftq.wal", tmp_path / "real.wal")
    os.symlink("real.wal", tmp_path / "link.wal")
    assert find(tmp_path / "link.wal").sources[0].name == str(tmp_path / "real.wal")


def test_nothing_there_is_nothing_found(tmp_path: Path) -> None:
    assert find(tmp_path).sources == ()
    (tmp_path / "empty").write_bytes(b"")
    assert find(tmp_path).others == ("empty",)
    os.mkfifo(tmp_path / "pipe")
    assert find(tmp_path).sources == ()
    with pytest.raises(Refused, match="does not exist"):
        find(tmp_path / "missing")
    with pytest.raises(Refused, match="regular"):
        find(tmp_path / "pipe")
