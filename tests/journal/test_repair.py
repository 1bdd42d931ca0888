"""Repair by explicit choice: copies are kept, losses are named, the rest opens."""

from random import Random

import pytest

from cordwood.errors import Damaged, Full, Refused
from cordwood.journal.clean import encode_clean
from cordwood.journal.frame import Lost
from cordwood.journal.repair import Choice, Repaired, _write_lost, repair
from cordwood.journal.segment import HEADER_BYTES, SegmentHeader, segment_name
from cordwood.journal.survey import survey
from cordwood.journal.verdict import judge
from cordwood.sim.disk import SimDirectory
from tests.journal.recorder import Counting, append, contents, disk_of, files, open_sim

FRAMES = 40


def closed() -> SimDirectory:
    disk = SimDirectory()
    journal = open_sim(disk)
    journal.maintain()
    for number in range(FRAMES):
        append(journal, bytes([number]) * 200)
    journal.close()
    return disk_of({name: data for name, data in files(disk).items() if not name.endswith(".spare")})


def original() -> dict[int, bytes]:
    return {number: bytes([number]) * 200 for number in range(FRAMES)}


def flip(disk: SimDirectory, name: str, *positions: int) -> SimDirectory:
    held = files(disk)
    data = bytearray(held[name])
    for position in positions:
        data[position] ^= 1
    return disk_of({**held, name: bytes(data)})


def place(disk: SimDirectory, lsn: int) -> tuple[str, int]:
    for report in survey(disk).segments:
        if report.first <= lsn < report.end:
            return report.name, report.places.find(lsn)[1]
    raise AssertionError("no such frame")


def names(disk: SimDirectory) -> list[str]:
    return [name for name in disk.names() if name.endswith(".wal")]


def fix(disk: SimDirectory, choice: Choice) -> Repaired:
    before = files(disk)
    done = repair(disk, choice, Random(1))
    held = files(disk)
    for name in set(done.changed) & set(before):
        copies = [held[copy] for copy in done.copies if copy.startswith(name)]
        assert before[name] in copies, f"a copy of {name} is kept"
    return done


def test_nothing_to_repair_changes_nothing() -> None:
    disk = closed()
    assert repair(disk, Choice.TRUNCATE, Random(1)) == Repaired((), (), ())
    assert disk.operations == 0


@pytest.mark.parametrize("lsn", [0, 7, 20, FRAMES - 1])
def test_quarantine_gives_up_only_what_cannot_be_read(lsn: int) -> None:
    disk = closed()
    name, position = place(disk, lsn)
    disk = flip(disk, name, position + 80)
    done = fix(disk, Choice.QUARANTINE)
    assert done.lost == ((lsn, lsn + 1),)
    fold = Counting()
    journal = open_sim(disk, fold)
    assert contents(journal) == {number: data for number, data in original().items() if number != lsn}
    assert append(journal, b"new") == FRAMES
    journal.close()
    assert contents(open_sim(disk))[FRAMES] == b"new"


def test_an_owner_learns_what_was_given_up() -> None:
    disk = closed()
    name, position = place(disk, FRAMES - 1)
    disk = flip(disk, name, position + 80)
    fix(disk, Choice.QUARANTINE)
    fold = Counting()
    open_sim(disk, fold)
    assert fold.given_up == [(FRAMES - 1, FRAMES)]


def test_quarantine_of_several_places_in_several_segments() -> None:
    disk = closed()
    gone = [1, 2, 9, 10, 30]
    for lsn in gone:
        name, position = place(closed(), lsn)
        disk = flip(disk, name, position + 80)
    done = fix(disk, Choice.QUARANTINE)
    assert done.lost == ((1, 3), (9, 11), (30, 31))
    assert contents(open_sim(disk)) == {lsn: data for lsn, data in original().items() if lsn not in gone}


@pytest.mark.parametrize("lsn", [0, 7, 20, FRAMES - 1])
def test_truncate_ends_the_log_before_the_first_damage(lsn: int) -> None:
    disk = closed()
    name, position = place(disk, lsn)
    disk = flip(disk, name, position + 80)
    done = fix(disk, Choice.TRUNCATE)
    assert done.lost == ((lsn, FRAMES),)
    journal = open_sim(disk)
    assert contents(journal) == {number: data for number, data in original().items() if number < lsn}
    assert append(journal, b"new") == lsn


@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("position", [3, 20, 60, 80], ids=["magic", "identity", "checksum", "snapshot"])
def test_a_damaged_header_or_snapshot_is_mended_without_loss(which: int, position: int) -> None:
    disk = closed()
    disk = flip(disk, names(disk)[which], position)
    done = fix(disk, Choice.MEND)
    assert done.lost == ()
    fold = Counting()
    journal = open_sim(disk, fold)
    assert contents(journal) == original()
    assert sorted(fold.frames) == list(range(FRAMES))


def test_a_damaged_clean_mark_is_mended_without_loss() -> None:
    disk = flip(closed(), "clean", 17)
    assert fix(disk, Choice.MEND).changed == ("clean",)
    assert contents(open_sim(disk)) == original()


def test_mending_refuses_to_lose_a_frame() -> None:
    disk = closed()
    name, position = place(disk, 7)
    disk = flip(disk, name, position + 80)
    with pytest.raises(Damaged):
        repair(disk, Choice.MEND, Random(1))
    assert disk.operations == 0


def test_a_missing_segment_is_quarantined() -> None:
    disk = closed()
    held = files(disk)
    missing = names(disk)[1]
    first, end = int(missing[:20]), int(names(disk)[2][:20])
    disk = disk_of({name: data for name, data in held.items() if name != missing})
    assert fix(disk, Choice.QUARANTINE).lost == ((first, end),)
    kept = {lsn: data for lsn, data in original().items() if not first <= lsn < end}
    assert contents(open_sim(disk)) == kept


def test_all_segments_missing_is_quarantined_as_lost() -> None:
    disk = disk_of({"clean": files(closed())["clean"]})
    assert repair(disk, Choice.QUARANTINE, Random(1)).lost == ((0, FRAMES),)
    assert open_sim(disk).end == FRAMES


def test_a_swapped_segment_needs_a_choice() -> None:
    disk, other = closed(), SimDirectory()
    journal = open_sim(other, seed=9)
    journal.maintain()
    for number in range(FRAMES):
        append(journal, bytes([number + 100]) * 200)
    journal.close()
    name = names(disk)[1]
    disk = disk_of({**files(disk), name: files(other)[name]})
    with pytest.raises(Damaged, match="does not chain"):
        repair(disk, Choice.MEND, Random(1))
    fix(disk, Choice.QUARANTINE)
    assert open_sim(disk).end == FRAMES


@pytest.mark.parametrize("choice", [Choice.QUARANTINE, Choice.TRUNCATE])
def test_a_repair_cut_off_anywhere_can_be_run_again(choice: Choice) -> None:
    broken = closed()
    for lsn in (7, 25):
        name, position = place(closed(), lsn)
        broken = flip(broken, name, position + 80)
    held = files(broken)
    counted = disk_of(held)
    repair(counted, choice, Random(1))
    wanted = contents(open_sim(counted))
    assert counted.operations > 10
    for step in range(counted.operations):
        disk = disk_of(held)
        images = []

        def watch(operation: str, name: str, at: SimDirectory = disk, into: list = images) -> None:
            into.append(at.image())

        disk.watch = watch
        repair(disk, choice, Random(1))
        if step >= len(images):
            break
        for seed in range(6):
            again = images[step].after_power_cut(Random(seed))
            repair(again, choice, Random(2))
            assert contents(open_sim(again)) == wanted, f"cut off before operation {step}, seed {seed}"


def test_a_repaired_journal_verifies() -> None:
    disk = closed()
    name, position = place(disk, 7)
    disk = flip(disk, name, position + 80)
    fix(disk, Choice.QUARANTINE)
    assert not judge(survey(disk)).damages


def test_what_is_lost_reads_as_nothing_and_the_rest_reads_from_anywhere() -> None:
    disk = closed()
    gone = {6, 7, 8}
    for lsn in gone:
        name, position = place(closed(), lsn)
        disk = flip(disk, name, position + 80)
    fix(disk, Choice.QUARANTINE)
    journal = open_sim(disk)
    for start in range(FRAMES):
        for end in range(start, FRAMES + 1):
            expected = [lsn for lsn in range(start, end) if lsn not in gone]
            assert [lsn for lsn, _ in journal.frames(start, end)] == expected
    with pytest.raises(Refused, match="holds no entries"):
        journal.read(7)


def test_a_lost_frame_for_a_huge_run_takes_no_memory() -> None:
    disk = SimDirectory()
    file = disk.open(segment_name(0), create=True)
    header = SegmentHeader(5, 0, 0, HEADER_BYTES, 0, False)
    file.write([header.encode()], 0)
    _write_lost(file, HEADER_BYTES, 5, 0, 0, Lost(1 << 40, 0, ""))
    file.sync()
    disk.sync()
    assert open_sim(disk).end == 1 << 40


def test_a_log_that_goes_on_behind_the_mark_is_mended() -> None:
    held = files(closed())
    disk = disk_of({**held, "clean": encode_clean(FRAMES - 3)})
    assert fix(disk, Choice.MEND).changed == ("clean",)
    assert contents(open_sim(disk)) == original()


@pytest.mark.parametrize("choice", [Choice.QUARANTINE, Choice.TRUNCATE])
def test_an_empty_file_named_like_a_later_segment_is_repaired(choice: Choice) -> None:
    disk = disk_of({**files(closed()), segment_name(100): b""})
    repair(disk, choice, Random(1))
    journal = open_sim(disk)
    assert contents(journal) == original()
    assert journal.end == (100 if choice is Choice.QUARANTINE else FRAMES)


def test_a_damaged_mark_without_segments_is_not_mended_silently() -> None:
    mark = bytearray(files(closed())["clean"])
    mark[17] ^= 1
    disk = disk_of({"clean": bytes(mark)})
    with pytest.raises(Damaged, match="segments are gone"):
        repair(disk, Choice.MEND, Random(1))
    repair(disk, Choice.QUARANTINE, Random(1))
    assert open_sim(disk).end == 0


def test_a_full_disk_leaves_no_half_copies() -> None:
    disk = closed()
    name, position = place(disk, 7)
    disk = flip(disk, name, position + 80)
    before = files(disk)
    disk.capacity_bytes = sum(map(len, before.values())) + 100
    for _ in range(3):
        with pytest.raises(Full, match="free some space"):
            repair(disk, Choice.QUARANTINE, Random(1))
        assert files(disk) == before
    disk.capacity_bytes = None
    fix(disk, Choice.QUARANTINE)


def late() -> SimDirectory:
    """Return a closed journal that no longer begins at 0."""
    disk = SimDirectory()
    journal = open_sim(disk)
    journal.maintain()
    for number in range(FRAMES):
        append(journal, bytes([number]) * 200)
        if number == FRAMES // 2:
            journal.release(journal.synced)
            journal.maintain()
    journal.close()
    assert journal.first > 0
    return disk_of({name: data for name, data in files(disk).items() if not name.endswith(".spare")})


def test_truncating_away_every_snapshot_is_said_to_lose_the_state() -> None:
    disk = late()
    first = survey(disk).segments[0].first
    name, position = place(disk, first + 2)
    broken = flip(flip(disk, names(disk)[0], 3), name, position + 80)
    lost = fix(broken, Choice.TRUNCATE).lost
    assert lost == ((0, first), (first + 2, FRAMES))
    fold = Counting()
    journal = open_sim(broken, fold)
    assert fold.given_up == [(0, first)]
    assert sorted(contents(journal)) == [first, first + 1]


def test_a_truncation_cut_off_anywhere_names_the_same_loss_when_run_again() -> None:
    disk = late()
    first = survey(disk).segments[0].first
    name, position = place(disk, first + 2)
    held = files(flip(flip(disk, names(disk)[0], 3), name, position + 80))
    images = []
    watched = disk_of(held)
    watched.watch = lambda operation, name: images.append(watched.image())
    wanted = repair(watched, Choice.TRUNCATE, Random(1)).lost
    watched.watch = None
    left = contents(open_sim(watched))
    for step, image in enumerate(images):
        for seed in range(4):
            again = image.after_power_cut(Random(seed))
            done = repair(again, Choice.TRUNCATE, Random(2)).lost
            assert done in (wanted, wanted[:1], ()), f"before operation {step}: {done}"
            if done == wanted[:1]:
                assert judge(survey(again)).end == first + 2, "only the state was still to be given up"
            assert contents(open_sim(again)) == left, f"before operation {step}"
