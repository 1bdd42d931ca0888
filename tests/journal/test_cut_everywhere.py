"""The last, never acknowledged group of writes, cut and thinned out in every way."""

import logging
from random import Random

import pytest

from cordwood.journal.limits import Limits
from cordwood.sim.disk import SimDirectory
from tests.journal.recorder import append, contents, disk_of, files, open_sim

LIMITS = Limits(segment_bytes=8192)
GROUP = 20


class Scene:
    """A journal whose last group of 20 frames was written and never synced, as bytes."""

    def __init__(self, recycled: bool):
        disk = SimDirectory()
        journal = open_sim(disk, limits=LIMITS)
        journal.maintain()
        number = 0
        while True:
            append(journal, bytes([number % 256]) * (60 + number % 13))
            number += 1
            if recycled:
                journal.release(journal.synced)
                journal.maintain()
            segment = journal._writer.segment
            behind = files(disk)[segment.name][segment.size :]
            if number > 12 and segment.size < 3000 and (not recycled or any(behind)):
                break
        self.acknowledged = contents(journal)
        self.end = journal.end
        before = files(disk)[segment.name]
        self.group = [Random(frame).randbytes(30 + frame % 7) for frame in range(GROUP)]
        for entry in self.group:
            journal.append([entry])
        self.start = segment.size
        journal.commit(sync=False)
        group = range(segment.end - GROUP, segment.end)
        self.places = [*(segment.places.find(lsn)[1] for lsn in group), segment.size]
        self.name, self.before, self.after = segment.name, before, files(disk)[segment.name]
        self.others = {name: data for name, data in files(disk).items() if name != segment.name}

    def check(self, data: bytes, whole: int | None, what: str) -> None:
        """Open a disk on which the segment holds `data`; the first `whole` frames of the group may be there."""
        disk = disk_of({**self.others, self.name: data})
        journal = open_sim(disk, limits=LIMITS, seed=2)
        found = contents(journal)
        kept = journal.end - self.end
        assert all(found[lsn] == data for lsn, data in self.acknowledged.items() if lsn >= journal.first), what
        assert whole is None or kept == whole, f"{what}: {kept} frames of the group, not {whole}"
        for number in range(kept):
            assert found[self.end + number] == self.group[number], f"{what}: frame {number} of the group"
        journal.maintain()
        new = {append(journal, b"new %d" % number): b"new %d" % number for number in range(3)}
        again = open_sim(disk.image().after_power_cut(Random(3), keep=0.0), limits=LIMITS, seed=4)
        assert contents(again) == {**found, **new}, f"{what}: after another restart"


@pytest.fixture(autouse=True)
def _no_warnings() -> None:
    logging.getLogger("cordwood.journal").setLevel(logging.ERROR)


@pytest.mark.parametrize("recycled", [False, True], ids=["fresh", "recycled"])
def test_a_group_cut_at_any_byte_opens_with_all_that_was_acknowledged(recycled: bool) -> None:
    scene = Scene(recycled)
    for cut in range(scene.start, scene.places[-1] + 1):
        data = scene.after[:cut] + scene.before[cut:]
        # A frame may end in the zeros that stood there before: then it is whole although its end was cut.
        whole = sum(1 for place in scene.places[1:] if data[:place] == scene.after[:place])
        scene.check(data, whole, f"cut at byte {cut}")


@pytest.mark.parametrize("recycled", [False, True], ids=["fresh", "recycled"])
def test_any_subset_of_a_groups_writes_may_be_missing(recycled: bool) -> None:
    scene = Scene(recycled)
    random = Random(5)
    subsets = [{frame} for frame in range(GROUP)]
    subsets += [set(range(GROUP)) - {frame} for frame in range(GROUP)]
    subsets += [set(range(frame, GROUP)) for frame in range(GROUP)]
    subsets += [{frame for frame in range(GROUP) if random.random() < 0.7} for _ in range(300)]
    for kept in subsets:
        data = bytearray(scene.before)
        for frame in kept:
            start, end = scene.places[frame], scene.places[frame + 1]
            data[start:end] = scene.after[start:end]
        whole = next((frame for frame in range(GROUP) if frame not in kept), GROUP)
        scene.check(bytes(data), whole, f"kept {sorted(kept)}")


def test_any_pieces_of_a_groups_bytes_may_be_missing() -> None:
    scene = Scene(recycled=True)
    for seed in range(300):
        random = Random(seed)
        data = bytearray(scene.before)
        cuts = sorted(random.randrange(scene.start, scene.places[-1]) for _ in range(random.randrange(1, 12)))
        for start, end in zip([scene.start, *cuts], [*cuts, scene.places[-1]], strict=True):
            if random.random() < 0.7:
                data[start:end] = scene.after[start:end]
        scene.check(bytes(data), None, f"seed {seed}")
