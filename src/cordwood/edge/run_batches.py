"""Events in batches: each is one append, and so one sync.

a batch is full       with 50 events, or when the next one would make it larger than 256 KiB
it is due             2 s after its first event

Pure: the monotonic time is handed in.
"""

from cordwood.edge.event import Draft

MOST_EVENTS = 50
MOST_BYTES = 256 << 10
MOST_MS = 2_000


class Batches:
    """Gathers events. Each comes out once, in the order it went in."""

    def __init__(self, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES, most_ms: int = MOST_MS):
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._most_ms = most_ms
        self._gathered: list[Draft] = []
        self._bytes = 0
        self.due_at_ms: int | None = None  # when what is gathered must go; None while nothing is

    def add(self, event: Draft, now_ms: int) -> list[list[Draft]]:
        """Take an event, and return the batches that are full now: one, or two if the event is large."""
        size = event.size
        full = [self.take()] if self._gathered and self._bytes + size > self._most_bytes else []
        if not self._gathered:
            self.due_at_ms = now_ms + self._most_ms
        self._gathered.append(event)
        self._bytes += size
        if len(self._gathered) >= self._most_events or self._bytes >= self._most_bytes:
            full.append(self.take())
        return full

    def due(self, now_ms: int) -> list[Draft]:
        """Return what has been gathered for long enough; nothing before that."""
        return self.take() if self.due_at_ms is not None and now_ms >= self.due_at_ms else []

    def take(self) -> list[Draft]:
        """Return what is gathered, however little."""
        taken, self._gathered = self._gathered, []
        self._bytes = 0
        self.due_at_ms = None
        return taken
