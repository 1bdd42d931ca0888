"""The log of one execution on a pretended disk: group commit, room, failure, reading."""

import errno
import os
import threading
from random import Random

import pytest

from cordwood.edge.event import Draft, columns, events_of
from cordwood.edge.facts import VERSION, Begun, Sent, decode, encode
from cordwood.edge.log import Log
from cordwood.edge.look import fold
from cordwood.errors import Full, OtherVersion, Unavailable
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory
from tests.edge.world import SMALL, World

BEGUN = Begun(VERSION, "job/1", "t", "p", 1)


def drafts(*values: bytes | None, key: bytes | None = None) -> list[Draft]:
    return [Draft(1_000_000, key, value, None) for value in values]


def opened(disk: SimDirectory, **options: int) -> Log:
    return Log(disk, SimClock(), Random(1), begun=BEGUN, limits=SMALL, **options)


def all_of(log: Log, most: int = 3) -> list[bytes | None]:
    found: list[bytes | None] = []
    at = log.state.sent
    while pieces := log.read(at, most, 1 << 20):
        for piece in pieces:
            found += [event.value for event in events_of(piece.appended, "job/1", piece.start, piece.end)]
        at = pieces[-1].end
    return found


def test_threads_share_syncs_and_every_event_has_its_number() -> None:
    disk = SimDirectory()
    log = opened(disk)
    log.maintain()
    syncs = 0
    inside, go_on = threading.Event(), threading.Event()

    def slow(operation: str, name: str) -> None:
        nonlocal syncs
        if operation == "sync":
            syncs += 1
            inside.set()
            go_on.wait(10)

    disk.watch = slow
    numbers: dict[int, int] = {}

    def append(value: int) -> None:
        numbers[value] = log.append(drafts(b"%d" % value))

    threads = [threading.Thread(target=append, args=(value,)) for value in range(16)]
    threads[0].start()
    assert inside.wait(10)
    for thread in threads[1:]:
        thread.start()
    while log._group is None or len(log._group.drafts) < 15:
        pass
    assert not numbers, "nothing returns before it is synced"
    assert log.durable == 0
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert syncs == 2, "one for the first, one for all who came meanwhile"
    assert sorted(numbers.values()) == list(range(16))
    assert [b"%d" % value for value in sorted(numbers, key=lambda value: numbers[value])] == all_of(log)


def test_a_failed_sync_fails_everybody_who_waits_and_everybody_later() -> None:
    disk = SimDirectory()
    log = opened(disk)
    log.append(drafts(b"kept"))

    def broken(operation: str, name: str, size: int) -> int | None:
        if operation == "sync":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return None

    disk.faults = broken
    for _ in range(2):
        with pytest.raises(Unavailable):
            log.append(drafts(b"lost"))
    assert log.durable == 1
    assert all_of(log) == [b"kept"]
    disk.faults = None
    log.abandon()
    assert all_of(opened(disk)) == [b"kept"]


def test_a_full_disk_refuses_events_and_lets_progress_go_on() -> None:
    world = World(1)
    accepted = 0
    world.disk.capacity_bytes = sum(len(inode.cache) for inode in world.disk._names.values()) + (20 << 10)
    with pytest.raises(Full):
        while True:
            world.append(b"%d" % accepted + bytes(1000))
            accepted += 1
    world.delivery._keep = lambda log, busy: log.release(log.state.settled)
    world.run()
    assert len(world.values()) == accepted > 5, "all that was accepted was sent from a full disk"
    world.clock.pass_ms(2_000)
    world.append(b"there is room again")
    world.run()
    assert world.values()[-1] == b"there is room again"


def test_events_are_read_again_the_same_from_memory_and_from_disk() -> None:
    values = [None if number % 7 == 3 else b"%d" % number * (number % 50) for number in range(300)]
    for recent_bytes in (1 << 20, 2000, 0):
        disk = SimDirectory()
        log = opened(disk, recent_bytes=recent_bytes)
        for start in range(0, 300, 11):
            log.append(drafts(*values[start : start + 11]))
        for most in (1, 4, 1000):
            assert all_of(log, most) == values
        log.record([Sent(150, {0: 150}, 0)])
        assert all_of(log) == values[150:]
        log.close()
        again = opened(disk)
        assert all_of(again) == values[150:]
        assert (again.state.end, again.state.sent, again.state.sequences) == (300, 150, {0: 150})


def test_a_batch_ends_at_its_limits_and_has_one_event_at_least() -> None:
    log = opened(SimDirectory())
    log.append(drafts(*[bytes(100)] * 10))
    log.append(drafts(bytes(5000)))
    assert sum(piece.end - piece.start for piece in log.read(0, 4, 1 << 20)) == 4
    assert sum(piece.end - piece.start for piece in log.read(0, 100, 500)) == 3
    assert sum(piece.end - piece.start for piece in log.read(10, 100, 500)) == 1
    assert [(piece.start, piece.end) for piece in log.read(2, 0, 0, 11)] == [(2, 10), (10, 11)]


def test_old_segments_go_when_they_are_released_and_the_state_stays() -> None:
    disk = SimDirectory()
    log = opened(disk)
    for number in range(100):
        log.append(drafts(b"%d" % number + bytes(500)))
        log.record([Sent(number + 1, {0: 1}, 532)])
        log.release(log.state.settled)
    assert sum(name.endswith(".wal") for name in disk.names()) <= 4
    log.abandon()
    again = opened(disk)
    assert (again.state.end, again.state.sent, again.state.sequences, again.begun) == (100, 100, {0: 100}, BEGUN)
    assert again.append(drafts(b"next")) == 100


def test_looking_changes_nothing_and_sees_what_is_there() -> None:
    disk = SimDirectory()
    log = opened(disk)
    for number in range(50):
        log.append(drafts(b"%d" % number + bytes(300)))
    log.record([Sent(20, {0: 20}, 0)])
    before = disk.operations
    state = fold(disk)
    assert disk.operations == before
    assert (state.end, state.sent, state.begun) == (50, 20, BEGUN)


def test_what_is_no_fact_is_refused() -> None:
    with pytest.raises(ValueError, match="no fact"):
        decode(b"\x01")
    with pytest.raises(ValueError, match="no fact"):
        decode(b"")
    with pytest.raises(OtherVersion, match="version 9"):
        decode(encode(Begun(9, "e", None, "p", 1)))


def test_one_event_and_many_are_the_same_columns() -> None:
    for one in (Draft(1, b"k", b"v", [("h", None)]), Draft(-1, None, None, None), Draft(2, b"", b"", [])):
        alone = decode(encode(columns(3, [one])))
        double = decode(encode(columns(3, [one, one])))
        assert list(events_of(alone, "e", 3, 4)) == list(events_of(double, "e", 3, 4))  # type: ignore[arg-type]


def test_what_is_appended_after_the_seal_is_refused_and_nothing_of_it_is_there() -> None:
    log = opened(SimDirectory())
    log.append(drafts(b"a"))
    log.seal()
    with pytest.raises(Unavailable, match="stopped"):
        log.append(drafts(b"b"))
    assert (log.durable, log.state.end, all_of(log)) == (1, 1, [b"a"])
    log.close()


def test_ctrl_c_while_an_event_is_numbered_gives_no_number_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDirectory()
    log = opened(disk)
    log.append(drafts(b"a"))

    def interrupted(lsn: int, fact: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(log.state, "take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.append(drafts(b"b"))
    monkeypatch.undo()
    with pytest.raises(Unavailable):
        log.append(drafts(b"c"))
    log.close()
    again = opened(disk.image().after_kill())
    again.append(drafts(b"d"))
    assert all_of(again) == [b"a", b"d"]
    again.close()


def test_reading_goes_on_where_the_log_had_ended_when_it_began() -> None:
    log = opened(SimDirectory(), recent_bytes=0)
    log.append(drafts(b"a"))
    assert [piece.end for piece in log.read(0, 1, 1 << 20)] == [1]
    log.append(drafts(b"b"))
    assert [piece.end for piece in log.read(1, 0, 0, 2)] == [2]
    log.close()
