"""What a run of histories covered, and whether that is enough to mean something."""

from collections import Counter
from dataclasses import dataclass, field

NAMED = (  # a run that reached one of these in under 1 % of its histories has failed
    "dead letter",
    "lease expired",
    "message expired",
    "seek",
    "ordered",
    "publish",
    "duplicate numbers",
    "numbers over partitions",
    "some numbers were there",
    "idempotency repeat",
    "crash with unsynced acks",
    "snapshot recovered",
    "redrive",
    "failed sync",
    "disk full",
    "waited for room",
    "deleted topic",
    "closed stream",
    "cancelled",
    "retention",
    "forgotten",
    "blocked",
    "dropped",
    "tiered",
    "read from the tier",
    "delivered from the tier",
    "store fault during shipping",
    "crash during shipping",
    "adopted",
    "leftovers collected",
    "object deleted by retention",
    "object of a deleted topic deleted",
    "disk lost",
)


@dataclass(slots=True)
class Tally:
    """How many histories there were, and how many of them reached what."""

    histories: int = 0
    frames: int = 0
    openings: int = 0
    reached: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        self.histories += other.histories
        self.frames += other.frames
        self.openings += other.openings
        self.reached.update(other.reached)

    def missing(self) -> list[str]:
        """Return what fewer than 1 % of the histories reached."""
        return [what for what in NAMED if self.reached[what] * 100 < self.histories]
