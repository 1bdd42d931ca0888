"""Room: full disks, the reserve, released segments and what becomes of them."""

import errno
from random import Random

import pytest

from cordwood.errors import Full, Preparing, Refused
from cordwood.journal.fold import Snapshot
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.journal.segments import WARM
from cordwood.journal.survey import survey
from cordwood.journal.verdict import judge
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory, SimFile
from tests.journal.recorder import SMALL, Counting, append, contents, disk_of, files, open_sim, ready


def test_released_segments_go_and_the_one_before_the_newest_stays() -> None:
    journal = ready()
    for _ in range(60):
        append(journal, bytes(300))
    segments = len(journal._segments)
    journal.release(journal.synced)
    journal.maintain()
    assert segments > 3
    assert len(journal._segments) == 2
    with pytest.raises(Refused, match="gone"):
        journal.read(0)


def test_a_segment_that_is_being_read_is_not_used_again() -> None:
    journal = ready()
    for number in range(60):
        append(journal, bytes([number]) * 300)
    reading = journal.frames(0)
    next(reading)
    journal.release(journal.synced)
    journal.maintain()
    assert journal.first == 0
    assert sum(1 for _ in reading) == 59
    journal.maintain()
    assert journal.first > 0


def test_used_files_are_used_again_and_show_nothing_of_the_past() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    for number in range(200):
        append(journal, bytes([number]) * 300)
        journal.release(journal.synced)
        journal.maintain()
    assert len([name for name in disk.names()]) <= 6
    kept = contents(journal)
    assert all(data == bytes([lsn]) * 300 for lsn, data in kept.items())
    journal.abandon()
    assert contents(open_sim(disk_of(files(disk)))) == kept


def test_a_frame_larger_than_a_segment_gets_its_own() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    with pytest.raises(Preparing):
        journal.append([bytes(10_000)])
    assert journal.end == 0, "nothing was numbered"
    assert append(journal, bytes(10_000)) == 0
    append(journal, b"after")
    journal.abandon()
    assert contents(open_sim(disk_of(files(disk)))) == {0: bytes(10_000), 1: b"after"}


def test_full_is_said_before_anything_is_numbered_and_the_reserve_goes_on() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    disk.capacity_bytes = sum(map(len, files(disk).values()))
    with pytest.raises(Full):
        for _ in range(100):
            append(journal, bytes(300))
    end = journal.end
    assert journal.synced == end, "nothing numbered is left without its sync"
    acks = [journal.write([b"ack"], reserve=True) for _ in range(5)]
    assert acks == list(range(end, end + 5))
    disk.capacity_bytes = None
    assert journal.maintain()
    assert append(journal, bytes(300)) == end + 5
    journal.abandon()
    assert open_sim(disk_of(files(disk))).end == end + 6


def test_a_full_disk_never_stops_a_start() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    disk.capacity_bytes = sum(map(len, files(disk).values()))
    with pytest.raises(Full):
        for _ in range(100):
            append(journal, bytes(300))
    end = journal.end
    journal.abandon()
    full = disk_of(files(disk))
    for name in full.names():
        if name.endswith(".spare"):
            full.remove(name)
    full.sync()
    full.capacity_bytes = sum(map(len, files(full).values())) + 20
    with pytest.raises(Full, match="free some space"):
        open_sim(full)
    assert judge(survey(full)).end == end, "nothing is lost by trying"
    full.capacity_bytes += 1000
    opened = open_sim(full)
    assert opened.end == end
    opened.maintain()
    with pytest.raises(Full):
        opened.append([bytes(300)])
    full.capacity_bytes = None
    assert append(opened, bytes(300)) == end


def test_a_frame_too_large_for_the_disk_stops_nobody_else() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    disk.capacity_bytes = sum(map(len, files(disk).values())) + 40 * SMALL.segment_bytes
    with pytest.raises(Full):
        journal.write([bytes(100 * SMALL.segment_bytes)])
    assert journal.end == 0
    for number in range(40):
        assert append(journal, bytes(300)) == number


def test_a_state_larger_than_a_segment_still_lets_many_frames_into_one() -> None:
    class Large(Counting):
        def snapshot(self) -> Snapshot:
            return Snapshot([super().snapshot().parts[0], bytes(3 * SMALL.segment_bytes)], 2, 4 * SMALL.segment_bytes)

        def restore(self, parts) -> None:
            super().restore([next(iter(parts))])

    disk = SimDirectory()
    journal = open_sim(disk, Large())
    for _ in range(50):
        append(journal, b"tiny")
    assert len(journal._segments) < 10
    disk.capacity_bytes = sum(map(len, files(disk).values()))
    with pytest.raises(Full):
        for _ in range(500):
            append(journal, b"tiny")
    assert journal.failure is None, "full is decided before numbering, whatever the snapshot's size"
    end = journal.end
    journal.abandon()
    disk.capacity_bytes = None
    assert open_sim(disk, Large()).end == end


def test_each_refusal_is_an_error_of_its_own() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    disk.capacity_bytes = 0
    errors = []
    for _ in range(40):
        try:
            append(journal, bytes(300))
        except Full as error:
            errors.append(error)
    assert len(errors) > 2
    assert len(set(map(id, errors))) == len(errors), "one that is raised again keeps every caller's frame alive"


def test_closing_on_a_full_disk_loses_nothing_but_the_mark() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    append(journal, b"x")

    def no_room(operation: str, name: str, size: int) -> None:
        if name.startswith("clean"):
            raise OSError(errno.ENOSPC, "no room")

    disk.faults = no_room
    journal.close()
    disk.faults = None
    assert contents(open_sim(disk)) == {0: b"x"}


def test_spares_of_smaller_segments_are_no_reserve() -> None:
    disk = SimDirectory()
    ready(disk).abandon()
    journal = ready(disk, Limits(segment_bytes=3 * SMALL.segment_bytes))
    spares = [data for name, data in files(disk).items() if name.endswith(".spare")]
    assert {len(data) for data in spares} == {3 * SMALL.segment_bytes}
    journal.abandon()


def test_no_room_for_a_name_is_full_too() -> None:
    disk = SimDirectory()
    journal = open_sim(disk)

    def no_inodes(operation: str, name: str, size: int) -> None:
        if operation == "create":
            raise OSError(errno.ENOSPC, "no inodes")

    disk.faults = no_inodes
    assert not journal.maintain()
    with pytest.raises(Full):
        journal.append([b"x"])


@pytest.mark.parametrize("operation", ["remove", "rename", "sync directory"])
def test_when_a_released_file_does_not_surely_go_no_later_one_goes_before_it(operation: str) -> None:
    disk = SimDirectory()
    journal = ready(disk)
    for _ in range(60):
        append(journal, bytes(300))
    journal.release(journal.synced)
    failing = iter([True])

    def fail_once(found: str, name: str, size: int) -> None:
        if found == operation and next(failing, False):
            raise OSError(errno.EIO, "it failed")

    disk.faults = fail_once
    if operation == "rename":
        journal._room._spares.ready.pop()  # so that the first one is used again
    before = len(journal._segments)
    journal.maintain()
    journal.maintain()
    if operation == "sync directory":
        assert len(journal._segments) == before - 1, "nobody knows what became of that one"
    for _ in range(10):
        append(journal, bytes(300))
    for seed in range(20):
        assert open_sim(disk.image().after_power_cut(Random(seed), keep=0.0)).end == 70
        assert open_sim(disk.image().after_power_cut(Random(seed))).end == 70
    if operation != "sync directory":
        assert len(journal._segments) < 9, "it was tried again, and then the others went"


def test_a_reserve_that_is_there_is_used_although_the_state_has_grown() -> None:
    class Growing(Counting):
        size = 0

        def snapshot(self) -> Snapshot:
            return Snapshot([super().snapshot().parts[0], bytes(self.size)], 2, 20 + self.size)

        def restore(self, parts) -> None:
            super().restore([next(iter(parts))])

    disk = SimDirectory()
    fold = Growing()
    journal = open_sim(disk, fold)
    journal.maintain()
    fold.size = SMALL.segment_bytes // 2
    disk.capacity_bytes = sum(map(len, files(disk).values()))
    with pytest.raises(Full):
        for _ in range(100):
            append(journal, bytes(300))
    for _ in range(5):
        journal.write([b"ack"], reserve=True)


def test_a_frame_that_did_not_fit_is_refused_without_trying_and_a_smaller_one_is_not() -> None:
    disk = SimDirectory()
    clock = SimClock()
    journal = open_journal(disk, Counting(), SMALL, clock=clock, random=Random(1))
    journal.maintain()
    disk.capacity_bytes = sum(map(len, files(disk).values())) + 20 * SMALL.segment_bytes
    with pytest.raises(Full):
        journal.write([bytes(100 * SMALL.segment_bytes)])
    before = disk.operations
    for _ in range(10):
        with pytest.raises(Full):
            journal.write([bytes(100 * SMALL.segment_bytes)])
    assert disk.operations == before
    assert append(journal, bytes(3 * SMALL.segment_bytes)) == 0
    disk.capacity_bytes = None
    clock.pass_ms(1001)
    assert append(journal, bytes(100 * SMALL.segment_bytes)) == 1


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What the system was told of which file: to forget it, or to have it at hand."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(SimFile, "cool", lambda file: found.append(("cool", file._name)))
    monkeypatch.setattr(SimFile, "warm", lambda file: found.append(("warm", file._name)))
    return found


def test_the_system_need_not_hold_what_is_far_behind(told: list[tuple[str, str]]) -> None:
    journal = ready()
    while len(journal._segments) < WARM + 4:
        append(journal, bytes(300))
    journal.maintain()
    names = [segment.name for segment in journal._segments._segments]
    assert told == [("cool", name) for name in names[:-WARM]], "each once, the oldest first"
    assert not journal.wants_maintenance
    assert sum(1 for _ in journal.frames(0)) == journal.end, "all of it can be read"


def test_a_file_that_was_forgotten_is_at_hand_before_it_is_used_again(told: list[tuple[str, str]]) -> None:
    journal = ready()
    while len(journal._segments) < WARM + 4:
        append(journal, bytes(300))
    journal.maintain()
    told.clear()
    journal._room._spares.ready.clear()
    journal.release(journal.synced)
    journal.maintain()
    assert told
    assert {what for what, _ in told} == {"warm"}
    while len(journal._segments) < WARM:
        append(journal, bytes(300))
    journal.release(journal.synced)
    told.clear()
    journal.maintain()
    assert told == [], "what is new is still at hand"
