"""A journal in use: appending, committing, rotating, reading, releasing."""

import errno
import gc
import threading
from array import array
from collections.abc import Iterator
from random import Random

import pytest

from cordwood.errors import Damaged, Full, Locked, Preparing, Refused, Unavailable
from cordwood.journal.fold import Snapshot
from cordwood.journal.journal import Journal
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.journal.survey import survey
from cordwood.journal.verdict import judge
from cordwood.machine.disk import RealDirectory
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory
from tests.journal.recorder import SMALL, Counting, append, contents, disk_of, files, open_sim, until


def ready(disk: SimDirectory | None = None, limits: Limits = SMALL) -> Journal:
    journal = open_sim(disk or SimDirectory(), limits=limits)
    journal.maintain()
    return journal


def test_numbers_are_dense_from_zero() -> None:
    journal = ready()
    assert [journal.append([b"x"]) for _ in range(5)] == [0, 1, 2, 3, 4]


def test_nothing_is_readable_before_its_sync() -> None:
    journal = ready()
    journal.append([b"x"])
    assert (journal.end, journal.written, journal.synced) == (1, 0, 0)
    assert contents(journal) == {}
    journal.commit(sync=False)
    assert (journal.end, journal.written, journal.synced) == (1, 1, 0)
    assert contents(journal) == {}
    journal.commit()
    assert (journal.end, journal.written, journal.synced) == (1, 1, 1)
    assert contents(journal) == {0: b"x"}


def test_a_commit_takes_all_that_is_queued_with_one_sync() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    for _ in range(5):
        journal.append([b"x"])
    before = disk.operations
    journal.commit()
    assert disk.operations - before == 2, "one write, one sync"
    assert journal.synced == 5


def test_a_commit_takes_no_more_than_the_limit() -> None:
    journal = ready(limits=Limits(segment_bytes=1 << 20, max_batch_bytes=1000))
    for _ in range(10):
        journal.append([bytes(300)])
    journal.append([bytes(5000)])
    journal.commit()
    assert 0 < journal.synced < 10
    journal.sync(9)
    assert journal.synced == 10, "a large frame does not ride along"
    journal.commit()
    assert journal.synced == 11, "and is not left waiting"


def test_entries_of_a_frame_come_back_one_by_one() -> None:
    journal = ready()
    lsn = journal.write([b"first", b"", b"third"])
    assert [bytes(entry) for entry in journal.read(lsn)] == [b"first", b"", b"third"]


def test_frames_are_read_across_segments_from_any_number() -> None:
    journal = ready()
    written = {append(journal, bytes([number]) * 300): bytes([number]) * 300 for number in range(40)}
    assert len(journal._segments) > 3
    assert contents(journal) == written
    for start in range(40):
        assert [lsn for lsn, _ in journal.frames(start)] == list(range(start, 40))
    assert [lsn for lsn, _ in journal.frames(3, 9)] == list(range(3, 9))


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


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_after_a_failed_write_or_sync_it_only_reads(operation: str, code: int) -> None:
    disk = SimDirectory()
    journal = ready(disk)
    append(journal, b"before")
    failing = iter([True])

    def fail_once(found: str, name: str, size: int) -> None:
        if found == operation and next(failing, False):
            raise OSError(code, "it failed")

    disk.faults = fail_once
    lsn = journal.append([b"unlucky"])
    with pytest.raises(Unavailable, match="only reads"):
        journal.sync(lsn)
    with pytest.raises(Unavailable):
        journal.append([b"later"])
    with pytest.raises(Unavailable):
        journal.sync(lsn)
    assert contents(journal) == {0: b"before"}
    journal.close()
    assert "clean" not in disk.names(), "a journal that failed leaves no mark"
    again = open_sim(disk_of(files(disk)))
    assert contents(again) == {0: b"before"}, "an error means: not there"
    assert append(again, b"another") == 1


def test_what_was_told_to_be_written_is_kept_when_a_later_sync_fails() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    journal.append([b"told"])
    journal.commit(sync=False)

    def fail(found: str, name: str, size: int) -> None:
        if found == "sync":
            raise OSError(errno.EIO, "it failed")

    disk.faults = fail
    with pytest.raises(Unavailable):
        journal.commit()
    journal.abandon()
    assert contents(open_sim(disk_of(files(disk)))) == {0: b"told"}


def test_a_snapshot_that_raises_leaves_nobody_waiting() -> None:
    class Broken(Counting):
        broken = False

        def snapshot(self) -> Snapshot:
            def parts() -> Iterator[bytes]:
                raise RuntimeError("no snapshot today")
                yield b""

            return Snapshot(parts(), 1, 10) if self.broken else super().snapshot()

    fold = Broken()
    journal = open_sim(SimDirectory(), fold)
    journal.maintain()
    fold.broken = True
    with pytest.raises(Unavailable, match="no snapshot today"):
        for _ in range(20):
            journal.write([bytes(300)])
    with pytest.raises(Unavailable):
        journal.append([b"x"])


def test_a_flipped_bit_is_found_when_it_is_read(tmp_path) -> None:
    journal = open_journal(RealDirectory(tmp_path), Counting(), SMALL)
    journal.write([b"abcdefgh" * 10])
    name = min(tmp_path.glob("*.wal"))
    data = bytearray(name.read_bytes())
    data[data.index(b"abcdefgh") + 3] ^= 4
    name.write_bytes(data)
    with pytest.raises(Damaged, match="payload"):
        journal.read(0)
    journal.abandon()


def test_an_idle_log_is_marked_once() -> None:
    journal = ready()
    assert journal.mark() is None, "nothing to prove"
    journal.append([b"x"])
    assert journal.mark() is None, "in the same group it would prove nothing"
    journal.commit()
    assert journal.mark() == 1
    assert journal.mark() is None
    journal.commit()
    assert contents(journal) == {0: b"x"}


def test_many_threads_share_syncs_and_each_frame_is_there_once() -> None:
    disk = SimDirectory()
    journal = ready(disk, Limits(segment_bytes=1 << 16))
    numbers: list[int] = []

    def work(caller: int) -> None:
        for number in range(50):
            numbers.append(journal.write([b"%d %d" % (caller, number)]))

    threads = [threading.Thread(target=work, args=(caller,)) for caller in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(400))
    wanted = {b"%d %d" % (caller, number) for caller in range(8) for number in range(50)}
    assert set(contents(journal).values()) == wanted


def test_a_second_opener_is_told_so(tmp_path) -> None:
    with (
        open_journal(RealDirectory(tmp_path), Counting(), SMALL),
        pytest.raises(Locked, match="in use"),
    ):
        open_journal(RealDirectory(tmp_path), Counting(), SMALL)
    open_journal(RealDirectory(tmp_path), Counting(), SMALL).close()


def test_a_closed_journal_takes_nothing_and_closes_twice() -> None:
    journal = ready()
    journal.append([b"queued"])
    journal.close()
    journal.close()
    with pytest.raises(Unavailable, match="closed"):
        journal.append([b"x"])


def test_closing_finishes_what_was_appended() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    journal.append([b"queued"])
    journal.close()
    durable = disk.image().after_power_cut(Random(1), keep=0.0)
    assert contents(open_sim(durable)) == {0: b"queued"}


def test_a_moved_directory_opens(tmp_path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    with open_journal(RealDirectory(here), Counting(), SMALL) as journal:
        for number in range(30):
            append(journal, bytes([number]) * 200)
    here.rename(there)
    with open_journal(RealDirectory(there), Counting(), SMALL) as journal:
        assert journal.end == 30
        assert len(contents(journal)) == 30


def test_files_are_for_their_owner_only(tmp_path) -> None:
    with open_journal(RealDirectory(tmp_path), Counting(), SMALL) as journal:
        append(journal, b"x")
    assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {"0o600"}


def test_frames_written_again_by_an_opening_want_their_proof_too() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    append(journal, b"x")
    journal.abandon()
    journal = open_sim(disk)
    assert journal.mark() == 1
    journal.commit()
    journal.abandon()
    assert judge(survey(disk)).proven >= 1


def test_a_full_segment_keeps_room_for_the_proof_of_its_last_frame() -> None:
    for size in range(200, 300):
        journal = ready()
        while journal._writer.segment.first == 0:
            append(journal, bytes(size))
            assert journal.mark() is not None
            journal.commit()


def test_an_interrupt_in_a_commit_is_a_failure_and_nothing_is_misnumbered() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    append(journal, b"before")

    def interrupt(operation: str, name: str, size: int) -> None:
        if operation == "write":
            raise KeyboardInterrupt

    disk.faults = interrupt
    journal.append([b"unlucky"])
    with pytest.raises(KeyboardInterrupt):
        journal.commit()
    disk.faults = None
    with pytest.raises(Unavailable, match="only reads"):
        journal.append([b"later"])
    journal.close()
    assert contents(open_sim(disk)) == {0: b"before"}


def test_nothing_is_numbered_once_closing_has_begun() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    append(journal, b"before")
    with journal._room.at_rest():
        closing = threading.Thread(target=journal.close)
        closing.start()
        until(lambda: journal._closing or not closing.is_alive())
        with pytest.raises(Unavailable, match="closed"):
            journal.append([b"too late"])
    closing.join()
    assert open_sim(disk).end == 1


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


def test_a_reader_ended_by_the_garbage_collector_blocks_nobody() -> None:
    journal = ready()
    for _ in range(10):
        append(journal, bytes(300))
    cycle: list = []
    cycle.extend((cycle, journal.frames(0)))
    next(cycle[1])
    with journal._segments._lock:
        del cycle
        gc.collect()
    assert append(journal, b"after") == 10


def test_an_entry_of_wide_items_is_taken_by_its_bytes() -> None:
    disk = SimDirectory()
    journal = ready(disk)
    wide = memoryview(array("Q", [1, 2, 3]))
    large = memoryview(array("Q", range(2000)))
    journal.write([wide, b"x"])
    journal.write([large])
    journal.abandon()
    assert contents(open_sim(disk)) == {0: bytes(wide) + b"x", 1: bytes(large)}


def test_waiting_for_a_number_that_was_never_given_out_is_an_error() -> None:
    with pytest.raises(ValueError, match="never appended"):
        ready().sync(0)


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
