"""Opening after we do not know what happened: torn is not corrupt."""

import logging
from random import Random

import pytest
from awscrt.checksums import crc64nvme

from cordwood.errors import Damaged, OtherVersion, Refused
from cordwood.journal.clean import encode_clean
from cordwood.journal.segment import segment_name
from cordwood.journal.survey import survey
from cordwood.journal.verdict import judge
from cordwood.sim.disk import SimDirectory
from tests.journal.recorder import Counting, append, contents, disk_of, files, open_sim

FIRST = segment_name(0)


def used(frames: int = 6, clean: bool = False, size: int = 50) -> SimDirectory:
    """Return a disk with a journal of `frames` synced frames, closed or abandoned."""
    disk = SimDirectory()
    journal = open_sim(disk)
    journal.maintain()
    for number in range(frames):
        append(journal, bytes([number]) * size)
    journal.close() if clean else journal.abandon()
    return disk


def flipped(disk: SimDirectory, name: str, position: int) -> SimDirectory:
    held = files(disk)
    data = bytearray(held[name])
    data[position] ^= 1
    return disk_of({**held, name: bytes(data)})


def position_of(disk: SimDirectory, lsn: int, name: str = FIRST) -> int:
    for report in survey(disk).segments:
        if report.name == name:
            return report.places.find(lsn)[1]
    raise AssertionError("no such frame")


def test_an_empty_directory_becomes_a_journal() -> None:
    disk = SimDirectory()
    journal = open_sim(disk)
    assert (journal.first, journal.end) == (0, 0)


def test_an_empty_journal_opens_again_and_again() -> None:
    disk = SimDirectory()
    for number in range(5):
        journal = open_sim(disk, seed=number)
        assert journal.end == 0
        journal.close() if number % 2 else journal.abandon()
    assert [name for name in disk.names() if name.endswith(".wal")] == [FIRST]


def test_an_abandoned_journal_opens_with_all_of_its_frames() -> None:
    disk = used(6)
    journal = open_sim(disk)
    assert contents(journal) == {number: bytes([number]) * 50 for number in range(6)}
    assert journal.synced == 6


def test_damage_below_a_later_frames_proof_is_refused_and_named() -> None:
    disk = used(6)
    place = position_of(disk, 2)
    broken = flipped(disk, FIRST, place + 70)
    with pytest.raises(Damaged) as caught:
        open_sim(broken)
    (damage,) = caught.value.damages
    assert (damage.file, damage.position, damage.first, damage.end) == (FIRST, place, 2, 3)
    assert "synced" in damage.proof
    assert broken.operations == 0, "nothing was changed"
    assert caught.value.exit_code == 65


def test_damage_to_the_very_last_group_cannot_be_told_from_a_torn_write() -> None:
    disk = used(6)
    journal = open_sim(flipped(disk, FIRST, position_of(disk, 5) + 70))
    assert contents(journal) == {number: bytes([number]) * 50 for number in range(5)}


def test_a_mark_proves_the_last_group() -> None:
    disk = SimDirectory()
    journal = open_sim(disk)
    journal.maintain()
    append(journal, b"x" * 50)
    journal.mark()
    journal.commit()
    journal.abandon()
    with pytest.raises(Damaged, match="LSN 0 cannot be read"):
        open_sim(flipped(disk, FIRST, position_of(disk, 0) + 70))


def test_a_clean_mark_proves_everything() -> None:
    disk = used(6, clean=True)
    with pytest.raises(Damaged, match="the clean mark covers it"):
        open_sim(flipped(disk, FIRST, position_of(disk, 5) + 70))


def test_a_later_segment_proves_all_before_it() -> None:
    disk = used(30, size=200)
    names = [name for name in disk.names() if name.endswith(".wal")]
    assert len(names) > 2
    last_of_first = int(names[1].removesuffix(".wal")) - 1
    with pytest.raises(Damaged, match="follows"):
        open_sim(flipped(disk, FIRST, position_of(disk, last_of_first) + 70))


def test_a_cut_tail_is_copied_cut_and_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    disk = used(6)
    place = position_of(disk, 5)
    torn = flipped(disk, FIRST, place + 70)
    with caplog.at_level(logging.WARNING, "cordwood.journal"):
        journal = open_sim(torn)
    assert f"byte {place} (LSN 5)" in caplog.text
    assert journal.torn_bytes > 0
    copy = files(torn)[FIRST.replace(".wal", "-5.torn")]
    assert copy[:20] == files(disk)[FIRST][place : place + 20]
    assert len(files(torn)[FIRST]) <= place, "nothing stands behind the cut"
    assert append(journal, b"new") == 5
    journal.abandon()
    assert contents(open_sim(torn))[5] == b"new"


def test_a_missing_segment_is_damage() -> None:
    disk = used(40, size=200, clean=True)
    held = files(disk)
    names = [name for name in held if name.endswith(".wal")]
    with pytest.raises(Damaged, match=f"LSN {int(names[1][:20])} to {int(names[2][:20]) - 1} cannot be read"):
        open_sim(disk_of({name: data for name, data in held.items() if name != names[1]}))


def test_missing_last_segments_are_damage_after_a_clean_close() -> None:
    held = files(used(40, size=200, clean=True))
    last = max(name for name in held if name.endswith(".wal"))
    with pytest.raises(Damaged, match="clean mark"):
        open_sim(disk_of({name: data for name, data in held.items() if name != last}))
    with pytest.raises(Damaged, match="segments are gone"):
        open_sim(disk_of({name: data for name, data in held.items() if not name.endswith(".wal")}))


def test_a_damaged_clean_mark_is_found() -> None:
    disk = used(6, clean=True)
    with pytest.raises(Damaged, match="clean, byte 17"):
        open_sim(flipped(disk, "clean", 17))


def test_a_clean_mark_that_ends_too_early_is_found() -> None:
    held = files(used(6, clean=True))
    with pytest.raises(Damaged, match="clean, byte 16: the log goes on"):
        open_sim(disk_of({**held, "clean": encode_clean(5)}))


def test_the_mark_goes_before_the_first_append() -> None:
    disk = used(6, clean=True)
    journal = open_sim(disk)
    assert "clean" not in disk.image().after_power_cut(Random(1), keep=0.0).names()
    journal.abandon()


def test_a_segment_of_another_time_does_not_chain() -> None:
    one, other = used(30, size=200), used(30, size=201)
    held, strange = files(one), files(other)
    shared = sorted(name for name in held if name.endswith(".wal") and name in strange)
    assert len(shared) > 1
    with pytest.raises(Damaged, match="does not chain"):
        open_sim(disk_of({**held, shared[1]: strange[shared[1]]}))


def test_another_version_is_said_to_be_one() -> None:
    held = files(used(3, clean=True))
    data = bytearray(held[FIRST])
    data[8] = 9
    data[56:64] = crc64nvme(bytes(data[:56])).to_bytes(8, "little")
    with pytest.raises(OtherVersion, match="format 9"):
        open_sim(disk_of({**held, FIRST: bytes(data)}))


def test_a_damaged_version_is_damage_and_not_another_version() -> None:
    disk = used(3, clean=True)
    with pytest.raises(Damaged, match="header"):
        open_sim(flipped(disk, FIRST, 8))
    with pytest.raises(Damaged, match="header"):
        open_sim(flipped(flipped(disk, FIRST, 8), FIRST, 13))


@pytest.mark.parametrize("name", ["99999999999999999999.wal", "\u0661" * 20 + ".wal", "-0000000000000000001.wal"])
def test_a_number_that_is_no_lsn_is_no_segment(name: str) -> None:
    with pytest.raises(Refused, match="move it elsewhere"):
        open_sim(disk_of({name: b""}))


def test_a_strangely_named_segment_is_refused() -> None:
    with pytest.raises(Refused, match="move it elsewhere"):
        open_sim(disk_of({"copy of 1.wal": b"x"}))


def test_unfinished_files_are_removed() -> None:
    held = files(used(3))
    disk = disk_of({**held, "0badcafe.tmp": b"half"})
    open_sim(disk)
    assert "0badcafe.tmp" not in disk.names()


def test_a_snapshot_carries_state_over_released_segments() -> None:
    disk = SimDirectory()
    fold = Counting()
    journal = open_sim(disk, fold)
    journal.maintain()
    for _ in range(100):
        append(journal, bytes(200))
    journal.release(journal.synced)
    journal.maintain()
    journal.abandon()
    again = Counting()
    journal = open_sim(disk, again)
    assert journal.first > 0
    assert sorted(again.frames) == list(range(100))


def test_a_crash_between_any_two_steps_of_an_opening_opens_again() -> None:
    disk = used(6)
    torn = files(flipped(disk, FIRST, position_of(disk, 5) + 70))
    wanted = {number: bytes([number]) * 50 for number in range(5)}
    counted = disk_of(torn)
    open_sim(counted)
    assert counted.operations > 8
    for step in range(counted.operations):
        for seed in range(20):
            cut_off = disk_of(torn)
            images = []

            def watch(operation: str, name: str, at: SimDirectory = cut_off, into: list = images) -> None:
                into.append(at.image())

            cut_off.watch = watch
            open_sim(cut_off, seed=seed)
            journal = open_sim(images[step].after_power_cut(Random(seed)), seed=seed + 1)
            assert contents(journal) == wanted


def test_a_survey_changes_nothing() -> None:
    disk = used(40, size=200)
    before, disk.operations = files(disk), 0
    assert not judge(survey(disk)).damages
    assert (files(disk), disk.operations) == (before, 0)


def test_a_frame_that_does_not_chain_is_not_in_the_log() -> None:
    """The same number, the same segment, a checksum that holds: but not the one that was written here."""

    def written(second: bytes) -> SimDirectory:
        disk = SimDirectory()
        journal = open_sim(disk, seed=7)
        journal.maintain()
        for data in (b"first", second, b"third", b"fourth"):
            append(journal, data)
        journal.close()
        return disk

    one, other = written(b"one"), written(b"two")
    place, end = position_of(one, 2), position_of(one, 3)
    mixed = bytearray(files(one)[FIRST])
    mixed[place:end] = files(other)[FIRST][place:end]
    with pytest.raises(Damaged, match=r"LSN 2 cannot be read"):
        open_sim(disk_of({**files(one), FIRST: bytes(mixed)}))


def test_a_crash_while_opening_after_a_clean_close_opens_again() -> None:
    for frames in (0, 6):
        held = files(used(frames, clean=True))
        images = []
        disk = disk_of(held)
        disk.watch = lambda operation, name, at=disk, into=images: into.append(at.image())
        open_sim(disk)
        for step, image in enumerate([*images, disk.image()]):
            lefts = [image.after_kill(), *(image.after_power_cut(Random(seed)) for seed in range(20))]
            for left in lefts:
                assert open_sim(left, seed=step).end == frames, f"before operation {step}"


def test_a_torn_write_on_a_full_disk_is_copied_into_a_spare() -> None:
    disk = used(6)
    torn = flipped(disk, FIRST, position_of(disk, 5) + 70)
    torn.capacity_bytes = sum(map(len, files(torn).values()))
    journal = open_sim(torn)
    assert journal.end == 5
    copy = files(torn)[FIRST.replace(".wal", "-5.torn")]
    assert 0 < len(copy) < 500, "only what was ours"


def test_a_full_disk_without_a_spare_opens_with_what_the_last_segment_has_left() -> None:
    disk = used(6)
    held = {name: data for name, data in files(disk).items() if not name.endswith(".spare")}
    full = disk_of(held)
    full.capacity_bytes = sum(map(len, held.values()))
    assert open_sim(full).end == 6
