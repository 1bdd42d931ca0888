"""Running drills: each on a stage of its own, and what came of it."""

import shutil
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cordwood.drills.field.roster import ROSTER
from cordwood.drills.field.stage import Failed, Skipped, Stage, Step, Timeline

Verdict = Literal["passed", "failed", "skipped"]


@dataclass(slots=True)
class Outcome:
    """What came of one drill. `reason` says why it failed or was skipped, and what it saw if it passed."""

    name: str
    verdict: Verdict
    reason: str
    seed: int
    seconds: float = 0.0
    steps: list[Step] = field(default_factory=list)
    timeline: Timeline = field(default_factory=Timeline)
    quick: bool = False

    @property
    def again(self) -> str:
        """The command that makes the same draws again."""
        return f"cordwood drill {self.name} --seed {self.seed}{' --quick' if self.quick else ''}"


def run_drill(
    name: str, scratch: Path, seed: int, *, quick: bool, keep: bool = False, tell: Callable[[str], None]
) -> Outcome:
    """Run one drill in a directory of its own below `scratch`, removed afterwards unless told to `keep` it."""
    place = scratch / name
    place.mkdir()
    stage = Stage(name, place, seed, quick=quick, tell=tell)
    verdict, reason = _verdict(stage)
    if not keep:
        shutil.rmtree(place, ignore_errors=True)
    seconds = time.monotonic() - stage.timeline.began
    return Outcome(name, verdict, reason, seed, seconds, stage.steps, stage.timeline, quick)


def _verdict(stage: Stage) -> tuple[Verdict, str]:
    try:
        with stage.stack:
            ROSTER[stage.name].run(stage)
    except Skipped as skipped:
        return "skipped", str(skipped)
    except Failed as failed:
        return "failed", str(failed)
    except (
        Exception
    ) as error:  # whatever a broken broker makes a client raise is a failure, not the end of the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        stage.steps.append(Step(0.0, "".join(traceback.format_exception(error)), holds=False))
        return "failed", f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})"
    checks = [step for step in stage.steps if step.holds is not None]
    return "passed", checks[-1].seen if checks else ""
