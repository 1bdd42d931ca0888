"""A race: several systems do the same, in turns, round after round, with a look at the disk before each.

    round 1    probe A   probe B   probe C
    round 2    probe B   probe C   probe A        another one begins, so that nobody always follows the same neighbour

The machine is shared, so medians count, and a ratio is taken within a round before the median is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from cordwood.bench.result import Bar, Result, compared

Entrants = Mapping[str, Callable[[], float]]


@dataclass(frozen=True, slots=True)
class Lap:
    """What one system did in one round, and synced writes a second of the bare disk just before."""

    rate: float
    probe: float


@dataclass(frozen=True, slots=True)
class Race:
    """All laps, by system; the n-th of each belong to one round."""

    name: str
    unit: str
    laps: Mapping[str, Sequence[Lap]]

    def rate(self, system: str) -> float:
        """Return the median of a system."""
        return median(lap.rate for lap in self.laps[system])

    @property
    def probe(self) -> float:
        """Synced writes a second of the bare disk: the median of all probes."""
        return median(lap.probe for laps in self.laps.values() for lap in laps)

    @property
    def slowest_probe(self) -> float:
        """The worst moment of the bare disk: others may have used it."""
        return min(lap.probe for laps in self.laps.values() for lap in laps)

    def ratio(self, ours: str, theirs: str) -> float:
        """Return how many times as fast ours is as theirs."""
        return median(a.rate / b.rate for a, b in zip(self.laps[ours], self.laps[theirs], strict=True))

    def others(self, ours: str) -> list[str]:
        return [name for name in self.laps if name != ours]

    def against(self, ours: str, theirs: str, bar: Bar | None = None, note: str = "", name: str = "") -> Result:
        """Return the result of ours beside one of the others."""
        pairs = [(a.rate, b.rate) for a, b in zip(self.laps[ours], self.laps[theirs], strict=True)]
        return compared(name or self.name, self.unit, pairs, bar, note, against=theirs)

    def against_best(self, ours: str, bar: Bar | None = None, note: str = "") -> Result:
        """Return the result of ours beside whoever of the others is best over all rounds."""
        return self.against(ours, max(self.others(ours), key=self.rate), bar, note)


def run(
    name: str,
    unit: str,
    entrants: Entrants,
    rounds: int,
    probe: Callable[[], float],
    tell: Callable[[str], None],
    failed: Callable[[str, Exception], None] | None = None,
) -> Race:
    """Let every entrant do its lap in every round. One that fails is told to `failed` and is not in the race."""
    order = list(entrants)
    laps: dict[str, list[Lap]] = {system: [] for system in order}
    for _ in range(rounds):
        for system in tuple(order):
            free = probe()
            try:
                rate = entrants[system]()
                if not rate:
                    raise TimeoutError("nothing was done in time")
                laps[system].append(Lap(rate, free))
            except Exception as error:
                if failed is None:
                    raise
                failed(system, error)
                order.remove(system)
                del laps[system]
        order = [*order[1:], *order[:1]]
    race = Race(name, unit, laps)
    tell(f"{name}: " + ", ".join(f"{system} {race.rate(system):,.0f}" for system in laps) + f" {unit}")
    return race
