"""The threads of a running journal."""

import threading
import time

import pytest

from cordwood.errors import Full, Preparing, Unavailable
from cordwood.journal.committer import Committer
from cordwood.journal.limits import Limits
from cordwood.journal.survey import survey
from cordwood.journal.verdict import judge
from cordwood.sim.disk import SimDirectory
from tests.journal.recorder import contents, files, open_sim, until

LIMITS = Limits(segment_bytes=1 << 16)


class Told:
    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []
        self.failures: list[Unavailable] = []
        self.rooms = 0

    def __call__(self, written: int, synced: int) -> None:
        self.calls.append((written, synced))

    @property
    def synced(self) -> int:
        return max((synced for _, synced in self.calls), default=0)

    @property
    def written(self) -> int:
        return max((written for written, _ in self.calls), default=0)

    def room(self) -> None:
        self.rooms += 1


def running(disk: SimDirectory, **options) -> tuple[Committer, Told]:
    told = Told()
    committer = Committer(open_sim(disk, limits=LIMITS), told, failed=told.failures.append, room=told.room, **options)
    committer.start()
    until(lambda: told.rooms > 0)
    return committer, told


def test_what_is_appended_is_committed_and_told() -> None:
    committer, told = running(SimDirectory())
    for number in range(1000):
        committer.append_when_room([b"%d" % number])
    until(lambda: told.synced >= 1000)
    assert list(contents(committer.journal).values()) == [b"%d" % number for number in range(1000)]
    committer.stop()
    committer.journal.close()


def test_nothing_is_told_before_it_is_synced() -> None:
    committer, told = running(SimDirectory())
    for number in range(500):
        committer.append_when_room([b"%d" % number])
        assert all(written == synced for written, synced in list(told.calls))
    committer.stop()


def test_an_idle_log_is_marked_so_that_its_last_group_is_proven() -> None:
    disk = SimDirectory()
    committer, told = running(disk)
    committer.append([b"last"])
    until(lambda: told.synced >= 2)
    committer.stop()
    committer.journal.abandon()
    assert judge(survey(disk)).proven >= 1


def test_interval_mode_syncs_by_a_timer_without_further_traffic() -> None:
    committer, told = running(SimDirectory(), sync="interval", sync_interval_ms=30)
    committer.append([b"lonely"])
    until(lambda: told.written >= 1)
    until(lambda: told.synced >= 1)
    committer.stop()


def test_interval_mode_tells_of_what_is_written_before_it_is_synced() -> None:
    committer, told = running(SimDirectory(), sync="interval", sync_interval_ms=3_600_000)
    committer.append([b"x"])
    until(lambda: told.written >= 1)
    assert told.synced == 0
    committer.stop()


def test_never_mode_syncs_when_it_is_closed() -> None:
    disk = SimDirectory()
    committer, told = running(disk, sync="never")
    committer.append([b"x"])
    until(lambda: told.written >= 1)
    assert committer.journal.synced == 0
    committer.stop()
    committer.journal.close()
    assert open_sim(disk).end == 1


def test_stopping_commits_what_was_appended() -> None:
    committer, told = running(SimDirectory())
    for _ in range(100):
        committer.append_when_room([bytes(100)])
    committer.stop()
    assert told.synced == 100


def test_a_failure_is_told_once_and_later_appends_say_so() -> None:
    disk = SimDirectory()
    committer, told = running(disk)

    def fail(operation: str, name: str, size: int) -> None:
        if operation == "sync":
            raise OSError(5, "it failed")

    disk.faults = fail
    committer.append([b"unlucky"])
    until(lambda: bool(told.failures))
    with pytest.raises(Unavailable, match="only reads"):
        committer.append([b"x"])
    committer.stop()
    assert len(told.failures) == 1


def test_after_space_is_freed_it_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.journal.committer.RETRY_MS", 10)
    disk = SimDirectory()
    committer, told = running(disk)
    until(lambda: not committer.journal.wants_maintenance)
    disk.capacity_bytes = sum(map(len, files(disk).values()))

    def fill() -> None:
        while True:
            try:
                committer.append([bytes(5000)])
            except Preparing:
                time.sleep(0)

    with pytest.raises(Full):
        fill()
    rooms = told.rooms
    disk.capacity_bytes = None
    until(lambda: told.rooms > rooms)
    lsn = committer.append_when_room([bytes(5000)])
    until(lambda: told.synced > lsn)
    committer.stop()


def test_many_threads_append_and_release_while_segments_are_used_again() -> None:
    disk = SimDirectory()
    committer, told = running(disk)

    def work(caller: int) -> None:
        for number in range(100):
            lsn = committer.append_when_room([b"%d-%d" % (caller, number) * 50])
            if number % 10 == 0:
                committer.release(min(lsn, committer.journal.synced))

    threads = [threading.Thread(target=work, args=(caller,)) for caller in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: told.synced >= 800)
    until(lambda: committer.journal.first > 0)  # another thread lets them go
    committer.stop()
    committer.journal.close()
    assert open_sim(disk).end >= 800


def test_an_owner_that_raises_when_told_leaves_nobody_waiting() -> None:
    failures: list[Unavailable] = []

    def told(written: int, synced: int) -> None:
        raise RuntimeError("the event loop is closed")

    committer = Committer(open_sim(SimDirectory(), limits=LIMITS), told, failed=failures.append).start()
    committer.append_when_room([b"x"])
    until(lambda: bool(failures))
    with pytest.raises(Unavailable, match="event loop"):
        committer.append([b"y"])
    committer.stop()


def test_a_full_disk_is_not_asked_again_for_every_append_it_refuses() -> None:
    disk = SimDirectory()
    committer, _ = running(disk)
    until(lambda: not committer.journal.wants_maintenance)
    disk.capacity_bytes = sum(map(len, files(disk).values()))
    refused = 0
    before = 0
    while refused < 2000:
        try:
            committer.append([bytes(5000)])
        except Full:
            before = before or disk.operations
            refused += 1
        except Preparing:
            time.sleep(0)
    assert disk.operations - before < 50
    committer.stop()


def test_a_lone_caller_is_committed_at_once_and_proven_later() -> None:
    disk = SimDirectory()
    committer, told = running(disk)
    at_once = 0
    for number in range(200):
        lsn, done = committer.append_alone([b"%d" % number])
        at_once += done
        if done:
            assert committer.journal.synced > lsn
        else:
            until(lambda lsn=lsn: told.synced > lsn)
    assert at_once > 0, "some were committed by the caller itself"
    until(lambda: committer.journal._marked == committer.journal.synced)
    end = committer.journal.end
    committer.stop()
    committer.journal.abandon()
    assert judge(survey(disk)).proven >= end - 1


def test_those_who_were_committed_along_with_a_lone_caller_are_told() -> None:
    committer, told = running(SimDirectory())
    committer.append([b"first"])
    until(lambda: told.synced >= 1)
    for _ in range(200):
        lsn = committer.journal.append([b"beside"])  # as if its thread had not yet come to wake the committer
        committer.append_alone([b"alone"])
        until(lambda lsn=lsn: told.synced > lsn)
    assert told.calls == sorted(told.calls), "never backwards"
    committer.stop()


def test_a_failed_lone_commit_is_told_to_those_who_wait() -> None:
    disk = SimDirectory()
    committer, told = running(disk)
    committer.append([b"first"])
    until(lambda: told.synced >= 1)
    committer._quick = True

    def fail(operation: str, name: str, size: int) -> None:
        if operation == "sync":
            raise OSError(5, "it failed")

    disk.faults = fail
    committer.journal.append([b"beside"])
    with pytest.raises(Unavailable):
        committer.append_alone([b"alone"])
    until(lambda: len(told.failures) == 1)
    committer.stop()
    assert len(told.failures) == 1


def test_lone_callers_have_their_segments_prepared_too() -> None:
    disk = SimDirectory()
    committer, told = running(disk)
    for _ in range(100):
        while True:
            try:
                lsn, done = committer.append_alone([bytes(3000)])
                break
            except Preparing:
                time.sleep(0.001)
        if not done:
            until(lambda lsn=lsn: told.synced > lsn)
    until(lambda: not committer.journal.wants_maintenance)
    committer.stop()


def test_interval_mode_syncs_under_traffic_that_never_pauses() -> None:
    committer, told = running(SimDirectory(), sync="interval", sync_interval_ms=5)
    going = True

    def produce() -> None:
        while going:
            committer.append_when_room([bytes(100)])

    threads = [threading.Thread(target=produce) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: told.synced > 0)
        seen = told.synced
        until(lambda: told.synced > seen)
    finally:
        going = False
        for thread in threads:
            thread.join()
    committer.stop()
