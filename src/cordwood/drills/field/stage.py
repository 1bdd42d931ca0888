"""A stage: all that a drill is given, and where it says what it did, expected and saw.

stage.step("publish and kill")                        what happens now
stage.expect("exit code 65", code == 65, f"{code}")   what should be, and what is
stage.mark("SIGKILL")                                 a fault, in the picture
stage.draw                                            the only randomness; one seed, one stage
"""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from cordwood.drills.field.witness import History, judge

PATIENCE_S = 90.0  # for anything that must come; a shared machine may be slow


class Failed(Exception):
    """A promise does not hold: what was expected, and what was seen."""


class Skipped(Exception):
    """This drill cannot be run here: why, and what it needs."""


@dataclass(slots=True)
class Step:
    """One thing that was done, or one that was expected; `holds` is None for the former."""

    at_s: float
    what: str
    seen: str = ""
    holds: bool | None = None


@dataclass(slots=True)
class Timeline:
    """What happened when: things that were counted, and faults. Threads append."""

    began: float = field(default_factory=time.monotonic)
    counted: list[tuple[float, str, int]] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)

    def count(self, series: str, number: int = 1) -> None:
        """Note that so many happened now."""
        self.counted.append((time.monotonic() - self.began, series, number))

    def mark(self, what: str) -> None:
        """Note a fault."""
        self.marks.append((time.monotonic() - self.began, what))

    def total(self, series: str) -> int:
        """Return how many of a kind there were."""
        return sum(number for _, name, number in self.counted if name == series)


class Stage:
    """What one drill runs on. Everything it starts ends with it: `stack` sees to that."""

    def __init__(
        self, name: str, scratch: Path, seed: int, *, quick: bool, tell: Callable[[str], None] = lambda line: None
    ):
        self.name = name
        self.scratch = scratch
        self.seed = seed
        self.quick = quick
        self.draw = Random(f"{name} {seed}")
        self.timeline = Timeline()
        self.steps: list[Step] = []
        self.stack = ExitStack()
        self._tell = tell

    def times(self, few: int, many: int) -> int:
        """Return how often to do something: few times for a quick look, many times otherwise."""
        return few if self.quick else many

    def step(self, what: str) -> None:
        """Say what happens now."""
        self.steps.append(Step(self._now_s(), what))
        self._tell(what)

    def expect(self, what: str, holds: bool, seen: str) -> None:
        """Say what should be, and what was seen; end the drill if it does not hold."""
        self.steps.append(Step(self._now_s(), what, seen, holds))
        self._tell(f"{what}: {seen}{'' if holds else '  ✗'}")
        if not holds:
            raise Failed(f"expected {what}; saw {seen}")

    def mark(self, what: str) -> None:
        """Put a fault into the picture."""
        self.timeline.mark(what)

    def judge(self, *histories: History) -> None:
        """Have the witness look at all that the clients noted; in several histories, if so many worlds were seen."""
        broken = [line for history in histories for line in judge(history)]
        readings = [reading for history in histories for reading in history.readings]
        told = max(len(history.acknowledged) for history in histories)
        what = f"{told} acknowledged, {sum(len(one.seen) for one in readings)} read by {len(readings)} readers"
        delivered = self.timeline.total("delivered")
        if delivered:
            what += f", {delivered} delivered"
        self.expect("every promise holds for what all clients saw", not broken, "; ".join(broken) or what)

    def directory(self, name: str) -> Path:
        """Return a new directory of this name in the scratch directory."""
        path = self.scratch / name
        path.mkdir(parents=True)
        return path

    def _now_s(self) -> float:
        return time.monotonic() - self.timeline.began


def until(fact: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Return once a fact is true; fail if it does not become so."""
    end = time.monotonic() + patience_s
    while not fact():
        if time.monotonic() > end:
            raise Failed(f"expected {what}; saw nothing of it for {patience_s:.0f} s")
        time.sleep(0.01)


def need_root(what: str) -> None:
    """Skip the drill unless this is root."""
    if os.geteuid() != 0:
        raise Skipped(f"only root may {what}")


def need_tool(name: str, how: str) -> str:
    """Return where a program is, or skip the drill and say how to get it."""
    found = shutil.which(name)
    if found is None:
        raise Skipped(f"{name} is not installed ({how})")
    return found
