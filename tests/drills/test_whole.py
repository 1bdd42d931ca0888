"""The whole broker with its tier, outboxes and clients, on a pretended computer: some worlds of `make drill`.

`python -m cordwood.drills whole --seed N --worlds 1` replays one.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cordwood.drills.whole.groups import Deliveries
from cordwood.drills.whole.tally import DEEDS, FAULTS, PHASES, WORKER_PHASES, Tally
from cordwood.drills.whole.truth import Broken, Truth
from cordwood.drills.whole.world import run_world

WORLDS = 16
TRACE = """
import logging, sys
logging.disable(logging.ERROR)
from cordwood.drills.whole.world import run_world
print(*(run_world(int(seed), 5).trace for seed in sys.argv[1:]))
"""


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """Disks fail by the dozen here, and each says so."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def lived(_quiet: None) -> Tally:
    tally = Tally()
    for seed in range(WORLDS):
        tally.add(run_world(seed))
    return tally


def test_every_promise_is_kept_in_some_worlds(lived: Tally) -> None:
    assert lived.worlds == WORLDS
    assert lived.crashes >= 10 * WORLDS
    assert lived.messages > 10 * WORLDS, "somebody has written something, and read it again"


def test_the_worlds_are_as_bad_as_they_should_be(lived: Tally) -> None:
    usual = [name for name, least in {**FAULTS, **DEEDS}.items() if least >= 0.2]
    assert [name for name in usual if not lived.happened[name]] == []
    assert [
        name for name in ("append", "sync", "recovery", "between", "outbox between") if not lived.phases[name]
    ] == []


def test_what_came_too_seldom_is_named() -> None:
    tally = Tally(worlds=1_000, crashes=10_000, worker_crashes=1_000)
    names = {**FAULTS, **DEEDS, **PHASES, **WORKER_PHASES}
    assert len(tally.missing()) == len(names)
    tally.phases.update(dict.fromkeys(names, 5_000))
    tally.worlds_with.update(dict.fromkeys(names, 1_000))
    assert tally.missing() == []
    tally.phases["rotate"] = 1
    assert [line.partition(":")[0] for line in tally.missing()] == ["rotate"]


def test_one_seed_gives_one_world_whatever_the_hashes_are() -> None:
    seeds = ("3", "17")
    traces = [
        subprocess.run(
            [sys.executable, "-c", TRACE, *seeds],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout.split()
        for hashes in ("1", "4711")
    ]
    assert traces[0] == traces[1]
    assert len(set(traces[0])) == len(seeds), "different seeds, different worlds"


def test_the_truth_notices_each_kind_of_lie() -> None:
    def told() -> Truth:
        truth = Truth()
        truth.send("p", 0, "a")
        truth.send("p", 1, "b")
        truth.stored("t", 0, 0, ["a", "b"])
        return truth

    told().check_log("t", {0: [(0, "a"), (1, "b")]})
    told().check_promised(["t"])
    lies = (
        lambda truth: truth.see("t", 0, 0, "b"),  # two contents
        lambda truth: truth.see("t", 0, 2, "c"),  # nobody sent it
        lambda truth: truth.see("t", 0, 2, "a"),  # twice
        lambda truth: truth.check_ends("t", 0, 1),  # an offset would be given again
        lambda truth: truth.check_log("t", {0: [(0, "a")]}),  # seen, and gone
        lambda truth: truth.check_log("t", {0: [(1, "b")]}),  # a hole
        lambda truth: truth.check_promised(["other"]),
        lambda truth: truth.refuse(["a"]),
    )
    for lie in lies:
        with pytest.raises(Broken):
            lie(told())


def test_a_batch_that_is_half_there_is_noticed() -> None:
    truth = Truth()
    for number, value in enumerate("ab"):
        truth.send("w", number, value, ("a", "b"))
    with pytest.raises(Broken, match="same batch"):
        truth.check_log("t", {0: [(0, "a")]})


def test_a_message_that_comes_after_its_acknowledgement_is_noticed() -> None:
    deliveries = Deliveries()
    key = ("t", "g", 0, 7)
    deliveries.came(key, 1, asked_us=10, now_us=20).acked_us = 30
    deliveries.came(key, 2, asked_us=25, now_us=40)  # it was on its way
    with pytest.raises(Broken, match="acknowledged"):
        deliveries.came(key, 3, asked_us=35, now_us=50)


def test_a_message_that_nobody_acknowledged_is_noticed() -> None:
    deliveries = Deliveries()
    deliveries.came(("t", "g", 0, 0), 1, asked_us=0, now_us=1).asked = True
    deliveries.check_all("t", "g", {0: [(0, "a")]})
    with pytest.raises(Broken, match="nobody"):
        deliveries.check_all("t", "g", {0: [(0, "a"), (1, "b")]})
