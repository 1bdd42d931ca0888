"""Many frames at once are the same frames, checked as well as one by one."""

from random import Random

import pytest

from cordwood.errors import Damaged
from cordwood.journal import segments
from cordwood.journal.journal import Journal
from cordwood.journal.limits import Limits
from cordwood.journal.repair import Choice, repair
from cordwood.sim.disk import SimDirectory
from tests.journal.recorder import append, files, open_sim, ready
from tests.journal.test_repair import closed, flip, place


def one_by_one(journal: Journal, start: int) -> list[bytes]:
    return [bytes(entry) for _, entries in journal.frames(start) for entry in entries]


def at_once(journal: Journal, start: int) -> list[bytes]:
    return [bytes(entry) for entries in journal.entries(start) for entry in entries]


@pytest.mark.parametrize("window", [100, 1000, 1 << 20])
def test_they_are_the_same_whatever_the_frames_are_like(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "READ_BYTES", window)
    random = Random(1)
    journal = ready(limits=Limits(segment_bytes=4096))
    for _ in range(300):
        append(journal, *(random.randbytes(random.randrange(200)) for _ in range(random.choice((1, 1, 2, 5)))))
        if random.random() < 0.2 and journal.mark() is not None:
            journal.commit()
        journal.maintain()
    assert len(at_once(journal, 0)) > 400
    for start in (0, 1, 150, journal.end - 1, journal.end):
        wanted = one_by_one(journal, start)
        found = at_once(journal, start)
        assert found[len(found) - len(wanted) :] == wanted, "a few before may come, too"


def test_they_lead_over_what_was_given_up() -> None:
    disk = closed()
    for lsn in (1, 2, 9, 30):
        name, position = place(closed(), lsn)
        disk = flip(disk, name, position + 80)
    repair(disk, Choice.QUARANTINE, Random(1))
    journal = open_sim(disk)
    assert at_once(journal, 0) == one_by_one(journal, 0)
    assert len(at_once(journal, 0)) == 36


def test_a_flipped_bit_is_found_wherever_it_is() -> None:
    disk = SimDirectory()
    journal = ready(disk, limits=Limits(segment_bytes=4096))
    for number in range(8):
        append(journal, b"%d" % number * 40)
    (name,) = (name for name in files(disk) if name.endswith(".wal"))
    first = journal._segments._segments[0].places.find(0)[1]
    content = disk._names[name].cache
    for position in range(first, journal._segments._segments[0].size):
        content[position] ^= 1 << position % 8
        with pytest.raises(Damaged) as wrong:
            at_once(journal, 0)
        with pytest.raises(Damaged) as told:
            one_by_one(journal, 0)
        # The very first link is what it is compared with, in both ways of reading.
        assert wrong.value.damages == told.value.damages
        content[position] ^= 1 << position % 8
    assert len(at_once(journal, 0)) == 8
