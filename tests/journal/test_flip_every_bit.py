"""Every bit of a small journal, flipped, one at a time."""

import logging

import pytest

from cordwood.errors import Damaged
from cordwood.journal.fold import Snapshot
from cordwood.journal.survey import survey
from cordwood.journal.verdict import judge
from cordwood.sim.disk import SimDirectory
from tests.journal.recorder import Counting, append, contents, disk_of, files, open_sim


class Tiny(Counting):
    """A snapshot of two short parts."""

    def snapshot(self) -> Snapshot:
        text = str(max(self.frames, default=-1) + 1).encode()
        return Snapshot([text, b""], 2, len(text))


def small_journal(clean: bool) -> tuple[dict[str, bytes], dict[int, bytes]]:
    """Return the files and frames of a journal of several segments, closed or killed."""
    disk = SimDirectory()
    frames: dict[int, bytes] = {}
    for opening in range(3):
        journal = open_sim(disk, Tiny(), seed=opening)
        journal.maintain()
        for number in range(3):
            data = bytes([opening * 16 + number]) * (5 + number)
            frames[append(journal, data)] = data
        if clean or opening < 2:
            journal.close()
        else:
            journal.abandon()
    held = {name: data for name, data in files(disk).items() if not name.endswith(".spare")}
    return held, frames


@pytest.fixture(autouse=True)
def _no_warnings() -> None:
    logging.getLogger("cordwood.journal").setLevel(logging.ERROR)


@pytest.mark.parametrize("part", range(4))
def test_each_flip_in_a_cleanly_closed_journal_is_found_and_named(part: int) -> None:
    held, _ = small_journal(clean=True)
    assert len([name for name in held if name.endswith(".wal")]) == 3
    assert set(held) == {*(name for name in held if name.endswith(".wal")), "clean"}, "no byte is left out"
    for name, data in held.items():
        for bit in range(part, len(data) * 8, 4):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            disk = disk_of({**held, name: bytes(flipped)})
            with pytest.raises(Damaged) as caught:
                open_sim(disk, Tiny())
            damage = caught.value.damages[0]
            assert damage.file == name, f"{name} bit {bit}: {damage}"
            assert damage.position <= bit // 8 <= damage.position + 200, f"{name} bit {bit}: {damage}"
            assert disk.operations == 0, "nothing was changed"


@pytest.mark.parametrize("part", range(2))
def test_each_flip_after_a_kill_is_refused_if_proven_and_cut_if_not(part: int) -> None:
    held, frames = small_journal(clean=False)
    found = survey(disk_of(held))
    verdict = judge(found)
    assert not verdict.damages
    assert verdict.proven == verdict.end - 1, "only the last frame is not yet proven"
    last = found.segments[-1]
    proven_bytes = last.places.find(verdict.proven)[1]
    seen = set()
    for name, data in held.items():
        length = min(len(data), last.behind + 40) if name == last.name else len(data)
        for bit in range(part, length * 8, 2):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            disk = disk_of({**held, name: bytes(flipped)})
            if name != last.name or bit // 8 < proven_bytes:
                with pytest.raises(Damaged) as caught:
                    open_sim(disk, Tiny())
                assert caught.value.damages[0].file == name
                assert disk.operations == 0, "nothing was changed"
                seen.add("refused")
            else:
                journal = open_sim(disk, Tiny())
                end = verdict.proven if bit // 8 < last.behind else verdict.end
                assert contents(journal) == {lsn: frames[lsn] for lsn in range(end)}, f"{name} bit {bit}"
                seen.add("cut")
    assert seen == {"refused", "cut"}


def test_every_length_of_every_file_is_judged_without_another_error() -> None:
    held, frames = small_journal(clean=False)
    last = max(name for name in held if name.endswith(".wal"))
    for name, data in held.items():
        for length in range(min(len(data), 1200)):
            disk = disk_of({**held, name: data[:length]})
            try:
                journal = open_sim(disk, Tiny())
            except Damaged:
                continue
            assert name == last
            found = contents(journal)
            assert found == {lsn: frames[lsn] for lsn in found}
            assert journal.end >= 6, "a later segment proves those before it"
