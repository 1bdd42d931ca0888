"""How long messages took from their time to their ack, by group, since the start.

A message counts with the latest time of the piece that it is in, since that is what the index has: so an ack costs by
pieces, not by messages, and reads nothing. What was produced together has about one time. What is in the tier counts
with the latest time of its object, so a group that is far behind is shown a little better than it is.
"""

from collections.abc import Iterable

import numpy as np

from cordwood.broker.histogram import Histogram
from cordwood.broker.index import Index

BOUNDS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1_800, 3_600, 21_600, 86_400, 604_800)
FEW = 16  # pieces: from here on numpy is faster


def delays() -> Histogram:
    """Return a histogram of seconds without any."""
    return Histogram(BOUNDS_S)


def count(found: Histogram, index: Index, ranges: Iterable[tuple[int, int]], now_ms: int) -> None:
    """Count messages that are acked now; a time that is still to come counts as now."""
    now_us = now_ms * 1000
    for first, end in ranges:
        sizes, latest = index.times(first, end)
        if len(sizes) < FEW:
            for size, time_us in zip(sizes, latest, strict=True):
                if size:
                    found.add(max(0, now_us - time_us) / 1e6, size)
        else:
            waits = np.maximum(0, now_us - np.frombuffer(latest, np.int64)) / 1e6
            found.add_all(waits, np.frombuffer(sizes, np.int64))
