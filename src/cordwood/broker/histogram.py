"""How often how much: counts of values by size, for `/metrics`."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


class Histogram:
    """Counts of values up to each bound; the last count is of those above all bounds."""

    def __init__(self, bounds: Sequence[float]):
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0
        self.count = 0

    def add(self, value: float, times: int = 1) -> None:
        """Count a value, once or so many times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times
        self.count += times

    def add_all(self, values: npt.NDArray[np.float64], times: npt.NDArray[np.int64]) -> None:
        """Count many values, each so many times."""
        found = np.bincount(np.searchsorted(self.bounds, values), times, len(self.counts))
        for at in np.flatnonzero(found):
            self.counts[at] += int(found[at])
        self.sum += float(values @ times)
        self.count += int(times.sum())
