"""Simulated crashes of a journal; `make drill` does 100,000."""

from random import SystemRandom

import pytest

from cordwood.drills.journal_crash import ROUNDS_OF_ONE_DISK, Tally, run_disk

# Seeds that show a bug which is mended; tests/mutants brings each of them back and sees it fail.
KEPT = {
    5: "a rotation at an empty segment gave two segments one name",
    266: "a crash between an opening's own segment and the removal of the clean mark refused the next start",
}


@pytest.mark.parametrize("seed", KEPT)
def test_a_seed_that_once_found_something(seed: int) -> None:
    run_disk(seed)


@pytest.mark.parametrize("part", range(4))
def test_no_acknowledged_frame_is_lost_and_none_invented(part: int) -> None:
    start = SystemRandom().getrandbits(40)
    print(f"seeds from {start}")
    tally = Tally()
    for seed in range(start, start + 25):
        tally.add(run_disk(seed))
    assert tally.rounds == 25 * ROUNDS_OF_ONE_DISK
    assert tally.appends >= 50 * tally.rounds
    assert {"rotation", "snapshot", "recycling", "recovery"} <= set(tally.phases)


def test_one_seed_gives_one_run() -> None:
    one, other = run_disk(5), run_disk(5)
    assert (one.operations, one.phases, one.events) == (other.operations, other.phases, other.events)
