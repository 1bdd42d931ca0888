"""One measured figure and the bar it is held against.

    compared     ours and raw (or a peer) in the same unit, taken in turns; the figure is the median of ours / raw
    alone        nothing to compare with; the figure is ours itself

The machine is shared, so a ratio counts and not a number of megabytes: raw goes up and down with ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Bar:
    """What is wanted of a figure: at least `value`, or at most."""

    value: float
    at_least: bool

    def score(self, figure: float) -> float:
        """Return how many times as good as wanted the figure is; 1 is just met."""
        if not self.at_least:
            return self.value / figure if figure else float("inf")
        return figure / self.value

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.value:.3g}"


def at_least(value: float) -> Bar:
    return Bar(value, True)


def at_most(value: float) -> Bar:
    return Bar(value, False)


@dataclass(frozen=True, slots=True)
class Result:
    """One line of a report. `low` and `high` are the worst and the best of the rounds, in no judged order.

    `against` says whose the other figure is.
    """

    name: str
    unit: str
    ours: float
    raw: float | None
    figure: float
    low: float
    high: float
    bar: Bar | None
    note: str = ""
    against: str = "raw"

    @property
    def score(self) -> float | None:
        """How many times as good as wanted, None where nothing is wanted."""
        return self.bar.score(self.figure) if self.bar else None

    @property
    def met(self) -> bool | None:
        """Whether the bar is met, None where there is none."""
        return None if self.score is None else self.score >= 1


def compared(
    name: str,
    unit: str,
    rounds: Sequence[tuple[float, float]],
    bar: Bar | None = None,
    note: str = "",
    *,
    against: str = "raw",
) -> Result:
    """Return the result of rounds of (ours, raw)."""
    ratios = [ours / raw for ours, raw in rounds]
    return Result(
        name,
        unit,
        median(ours for ours, _ in rounds),
        median(raw for _, raw in rounds),
        median(ratios),
        min(ratios),
        max(ratios),
        bar,
        note,
        against,
    )


def alone(name: str, unit: str, rounds: Sequence[float], bar: Bar | None = None, note: str = "") -> Result:
    """Return the result of rounds of a figure that has no raw counterpart."""
    middle = median(rounds)
    return Result(name, unit, middle, None, middle, min(rounds), max(rounds), bar, note)
