"""A journal in use: appending, committing, rotating, reading, releasing."""

import errno
import gc
import threading
from array import array
from collections.abc import Iterator
from random import Random

import pytest

from cordwood.errors import Damaged, Locked, Unavailable
from cordwood.journal.fold import Snapshot
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.journal.survey import survey
from cordwood.journal.verdict import judge
from cordwood.machine.disk import RealDirectory
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory
from tests.journal.recorder import SMALL, Counting, append, contents, disk_of, files, open_sim, ready, until


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


def test_a_segment_that_is_old_is_closed_by_the_next_append() -> None:
    clock = SimClock()
    limits = Limits(segment_bytes=1 << 20, segment_max_age_ms=1000)
    journal = open_journal(SimDirectory(), Counting(), limits, clock=clock)
    journal.maintain()
    journal.write([b"young"])
    before = len([name for name in journal._directory.names() if name.endswith(".wal")])
    clock.pass_ms(1000)
    journal.write([b"in the next one"])
    after = [name for name in journal._directory.names() if name.endswith(".wal")]
    assert len(after) == before + 1
    journal.close()
