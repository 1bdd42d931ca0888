"""Which messages may go out now, which have expired, and which wait for their time."""

from itertools import pairwise

import numpy as np

from cordwood.broker.index import Place
from cordwood.record import Batch, times_us

WAITING_TOGETHER = 256  # messages with a time of their own that share a timer


def due(batch: Batch, place: Place, now_ms: int) -> list[tuple[int, int, int]]:
    """Return (first, end, when) of rows alike: 0 may go now, -1 has expired, else not before that time (ms)."""
    names = batch.schema.names
    if "deliver_at" not in names and "expires_at" not in names:
        return [(place.first, place.end, 0)]
    when = np.zeros(batch.num_rows, np.int64)
    if "deliver_at" in names:
        valid = batch.column("deliver_at").is_valid().to_numpy(zero_copy_only=False)
        later = valid & (times_us(batch, "deliver_at") > now_ms * 1000)
        when[later] = -(-times_us(batch, "deliver_at")[later] // 1000)
    if "expires_at" in names:
        valid = batch.column("expires_at").is_valid().to_numpy(zero_copy_only=False)
        when[valid & (times_us(batch, "expires_at") <= now_ms * 1000)] = -1
    kinds = np.sign(when)
    turns = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(when)]
    found = []
    for low, high in pairwise(turns):
        # Those that wait are looked at again, some at a time, when the first of them is due.
        step = WAITING_TOGETHER if kinds[low] > 0 else high - low
        for at in range(low, high, step):
            stop = min(high, at + step)
            found.append((place.first + at, place.first + stop, int(when[at:stop].min())))
    return found
