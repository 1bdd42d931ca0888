"""What is to be done at a time: leases that run out, delays that are over, waits that end."""

import logging
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

log = logging.getLogger("cordwood.broker")


class Timers:
    """Calls in the order of their times. Nothing is taken back: whoever is called looks whether it still applies."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._numbers = count()

    def at(self, time_ms: int, call: Callable[[int], None]) -> None:
        """Have `call(now_ms)` called once this time has come."""
        heappush(self._heap, (time_ms, next(self._numbers), call))

    def run(self, now_ms: int) -> None:
        """Call everything that is due; what those calls add is not before the next time."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            due.append(heappop(self._heap)[2])
        for call in due:
            try:
                call(now_ms)
            except Exception:  # the others are due all the same
                log.exception("something that was due failed")

    @property
    def next_ms(self) -> int | None:
        """When something is due next."""
        return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        self._heap.clear()
