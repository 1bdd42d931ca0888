"""How often how much: counts of values by size, for `/metrics`."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts of values up to each bound; the last count is of those above all bounds."""

    def __init__(self, bounds: Sequence[float]):
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0
        self.count = 0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
        self.count += 1
