"""Broker and model through the same histories; `make drill` lives through 20,000."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from random import SystemRandom

import pytest

from cordwood.drills import broker_model
from cordwood.drills.broker_model.history import run_history
from cordwood.drills.broker_model.tally import NAMED, Tally

# Seeds that show a bug which is mended; tests/mutants brings each of them back and sees it fail.
KEPT = {
    0: "a poll that was taken back took messages from whoever got them since",
    2: "with `sync = never` messages left the cache that could not be read from the disk yet",
    4: "two consumers that waited together got an ordered partition both, and more than may be in flight",
    5: "a stream with a delivery on its way was told twice that the journal failed",
    19: "a delivery that arrived after a seek raised KeyError",
    29: "a poll came back empty although a message was due at that very moment",
    46: "a disk that was lost twice left one hole twice",
    37: "a message that is not due hid those behind it from a poll for one",
    55: "what retention took stayed in hands",
    87: "a stage whose topic was deleted was there before a restart and not after it",
    93: "a message was delivered before one that is given up, which was still in the tier",
    94: "a partition was served that a topic made anew does not have",
    151: "single messages for a deleted topic went into the one that was made after it",
    644: "after the dead letters were deleted, the next ones counted as sent back",
}
BESIDE_THE_BROKER = {"answers", "client", "compare", "consumers", "frames", "history", "tier", "watched"}


@pytest.mark.parametrize("seed", KEPT)
def test_a_seed_that_once_found_something(seed: int) -> None:
    run_history(seed)


@pytest.mark.parametrize("part", range(3))
def test_broker_and_model_never_disagree(part: int) -> None:
    start = SystemRandom().getrandbits(40)
    print(f"seeds from {start}")
    tally = Tally()
    for seed in range(start, start + 50):
        tally.add(run_history(seed))
    assert tally.histories == 50
    assert tally.openings >= 100, "each is opened again at its end"
    assert {"lease expired", "ordered", "snapshot recovered", "seek"} <= set(tally.reached)


def test_a_run_of_histories_comes_to_everything_that_is_named() -> None:
    tally = Tally()
    for seed in range(1_000, 1_200):
        tally.add(run_history(seed))
    assert set(NAMED) <= set(tally.reached)


def test_a_run_that_reached_too_little_says_so() -> None:
    tally = Tally(histories=1_000)
    tally.reached.update(dict.fromkeys(NAMED, 10))
    assert tally.missing() == []
    tally.reached["seek"] = 9
    assert tally.missing() == ["seek"]


def test_one_seed_gives_one_history_in_every_process() -> None:
    here = run_history(7)
    script = "from cordwood.drills.broker_model.history import run_history; print(run_history(7))"
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        found = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == str(here)


def test_the_model_imports_nothing_of_the_broker() -> None:
    for path in sorted(Path(broker_model.__file__).parent.glob("*.py")):
        if path.stem not in BESIDE_THE_BROKER:
            names = [
                name
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Import | ast.ImportFrom)
                for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            ]
            assert not [name for name in names if name.startswith("cordwood.broker")], path.name
