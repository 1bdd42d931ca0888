"""The power goes, or the process dies, before any operation of the disk; then somebody goes on."""

from random import Random

import pytest

from cordwood.edge import archive
from cordwood.edge.delivery import Terms
from cordwood.edge.log import Log
from cordwood.sim.disk import CrashImage, SimDirectory
from tests.edge.world import World


class Stop(BaseException):
    """The moment of the crash."""


def crash_at(disk: SimDirectory, step: int) -> list[CrashImage]:
    """Have the disk's picture taken before its n-th operation from here on, which then does not happen."""
    taken: list[CrashImage] = []
    left = step

    def watch(operation: str, name: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            if not taken:
                taken.append(disk.image())
            raise Stop

    disk.watch = watch
    return taken


def let_go(log: Log, busy: bool) -> None:
    """Let go of what was sent, often, as a long run does."""
    if log.state.settled > log.state.archived + 3:
        log.release(log.state.settled)


def lives(seed: int, step: int) -> bool:
    """Append and send with a crash at this step, then go on; say whether there was a crash."""
    world = World(seed, partitions=1 + 2 * (seed % 2), terms=Terms(batch_events=5, window=3, linger_ms=0))
    world.broker.trouble = 0.1
    world.broker.bad = {b"11"} if seed % 3 == 0 else set()
    if seed >= 3:
        world.delivery._keep = let_go
    images = crash_at(world.disk, step)
    acknowledged: list[bytes] = []
    crashed = False
    try:
        for number in range(25):
            value = b"%d" % number if number != 20 else b"20" + bytes(6000)
            world.append(value, key=b"k%d" % (number % 3) if seed % 2 else None)
            acknowledged.append(value)
            world.clock.pass_ms(world.sender.turn())
        world.run()
    except Stop:
        crashed = True
    if crashed:
        random = Random(f"{seed}-{step}")
        world.disk = images[0].after_kill() if random.random() < 0.3 else images[0].after_power_cut(random)
        world.broker.close()
        world.open()
        if seed >= 3:
            world.delivery._keep = let_go
        world.append(b"after")
        acknowledged.append(b"after")
        world.run()
    stored = [event.value for events in world.broker.stored.values() for event in events]
    assert len(stored) == len(set(stored)), f"twice [seed {seed}, step {step}]"
    missing = set(acknowledged) - set(stored) - world.broker.bad
    assert not missing, f"missing {missing} [seed {seed}, step {step}]"
    for events in world.broker.stored.values():
        keys = {event.key for event in events}
        for key in keys:
            numbers = [event.number for event in events if event.key == key]
            assert numbers == sorted(numbers), f"out of order [seed {seed}, step {step}]"
    return crashed


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_at_any_step_loses_nothing_and_sends_nothing_twice(seed: int) -> None:
    step = 0
    while lives(seed, step):
        step += 1
    assert step > 50, "there was much to be crashed"


def filled(seed: int) -> World:
    world = World(seed)
    for number in range(30):
        world.append(b"%d" % number)
    world.run()
    return world


@pytest.mark.parametrize("seed", range(8))
def test_a_crash_at_any_step_of_archiving_leaves_the_source_or_a_whole_archive(seed: int) -> None:
    step = 0
    while True:
        world = filled(seed)
        shelf = SimDirectory()
        images = crash_at(shelf, step)
        removed = False
        try:
            archive.put(world.log, shelf, world.log.journal.end)
            removed = True
        except Stop:
            pass
        image = images[0] if images else shelf.image()
        found = image.after_power_cut(Random(step), keep=None if images else 0.0)
        if removed:
            names = [name for name in found.names() if name.endswith(archive.SUFFIX)]
            assert names == ["job%2F1.wal.zst"], f"the source went, and there is no archive [step {step}]"
        names = archive.put(world.log, found, world.log.journal.end)
        events = archive._archive(names[0], archive.contents(found, names[0])).events
        assert [event.value for event in events] == [b"%d" % number for number in range(30)]
        whole = [name for name in found.names() if name.endswith(archive.SUFFIX)]
        assert len(whole) == 1, "the same twice is once"
        if removed:
            break
        step += 1
    assert step >= 5


def test_an_archive_never_overwrites_another() -> None:
    shelf = SimDirectory()
    assert archive.put(filled(1).log, shelf, 1 << 40) == ["job%2F1.wal.zst"]
    first = archive.contents(shelf, "job%2F1.wal.zst")
    assert archive.put(filled(2).log, shelf, 1 << 40) == ["job%2F1.wal.zst"], "the same log: it is there already"
    other = World(3)
    other.append(b"another")
    other.run()
    assert archive.put(other.log, shelf, 1 << 40) == ["job%2F1.2.wal.zst"]
    assert archive.contents(shelf, "job%2F1.wal.zst") == first


def test_a_full_disk_leaves_no_half_archive() -> None:
    from cordwood.errors import Full

    shelf = SimDirectory(capacity_bytes=100)
    with pytest.raises(Full):
        archive.put(filled(1).log, shelf, 1 << 40)
    assert shelf.names() == []
