"""What a run of many worlds did and met: counted, added up, and judged."""

from collections import Counter
from dataclasses import dataclass, field

JUDGED = 1_000  # worlds; in fewer, something rare may well be missing

# Kinds of faults; each has a share of worlds below which a large run is not worth its name.
FAULTS: dict[str, float] = {
    "power cut of the broker": 0.5,
    "kill of the broker": 0.5,
    "clean stop of the broker": 0.2,
    "crash during recovery": 0.2,
    "disk of the broker lost": 0.01,
    "failed sync": 0.01,
    "short write": 0.02,
    "disk full": 0.05,
    "disk freed": 0.05,
    "store outage": 0.05,
    "slow store": 0.05,
    "put failed": 0.02,
    "lost answer of the store": 0.02,
    "put done late": 0.01,
    "clock set back": 0.1,
    "clock set forward": 0.1,
    "cut before the request": 0.1,
    "cut amid the request": 0.1,
    "cut between request and answer": 0.1,
    "cut amid the answer": 0.1,
    "partition": 0.1,
    "power cut of a worker": 0.1,
    "kill of a worker": 0.1,
    "failed sync of a worker": 0.005,
    "disk of a worker full": 0.01,
}
# Where a crash fell, by what the process was doing; the share of all crashes of brokers, or of workers.
PHASES: dict[str, float] = {
    "append": 0.01,
    "sync": 0.01,
    "rotate": 0.002,
    "snapshot": 0.003,
    "prepare": 0.01,
    "release": 0.0002,
    "recovery": 0.02,
    "tier put": 0.001,
    "tier read back": 0.0005,
    "tier snapshot": 0.001,
    "tombstone": 0.0002,
    "claim renewal": 0.001,
    "claim taking": 0.005,
    "close": 0.001,
    "between": 0.1,
}
WORKER_PHASES: dict[str, float] = {
    "outbox append": 0.02,
    "outbox progress": 0.02,
    "outbox archive": 0.002,
    "outbox recovery": 0.005,
    "outbox room": 0.001,
    "outbox between": 0.1,
}
# What clients did, so that a world in which nothing happens does not count as one in which all went well.
DEEDS: dict[str, float] = {
    "numbered batch acknowledged": 0.5,
    "numbered batch repeated": 0.05,
    "plain message acknowledged": 0.5,
    "idempotency key repeated": 0.03,
    "batch published": 0.3,
    "published again": 0.02,
    "outbox event stored": 0.5,
    "event parked": 0.05,
    "left-over sent": 0.3,
    "log read": 0.5,
    "message acknowledged": 0.5,
    "message given back": 0.2,
    "lease extended": 0.1,
    "dead letter": 0.1,
    "topic deleted": 0.1,
    "object shipped": 0.3,
    "segment released": 0.1,
}


@dataclass(slots=True)
class Tally:
    """Counts of one world, or of many."""

    worlds: int = 0
    crashes: int = 0  # of the broker
    worker_crashes: int = 0
    openings: int = 0
    requests: int = 0
    messages: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    worlds_with: Counter[str] = field(default_factory=Counter)
    trace: str = ""

    def add(self, other: "Tally") -> None:
        """Count another one's, too."""
        self.trace = other.trace
        self.worlds += other.worlds
        self.crashes += other.crashes
        self.worker_crashes += other.worker_crashes
        self.openings += other.openings
        self.requests += other.requests
        self.messages += other.messages
        self.phases += other.phases
        self.happened += other.happened
        self.worlds_with += other.worlds_with

    def close(self) -> None:
        """This was one world."""
        self.worlds = 1
        self.worlds_with = Counter(dict.fromkeys(sorted(self.happened), 1))

    def share(self, name: str) -> float:
        """Return the share of worlds in which something happened, or of crashes that fell into a phase."""
        if name in PHASES:
            return self.phases[name] / max(1, self.crashes)
        if name in WORKER_PHASES:
            return self.phases[name] / max(1, self.worker_crashes)
        return self.worlds_with[name] / max(1, self.worlds)

    def missing(self) -> list[str]:
        """Return what came too seldom, with its share and the least that was wanted."""
        wanted = {**FAULTS, **DEEDS, **PHASES, **WORKER_PHASES}
        return [
            f"{name}: {self.share(name):.2%}, at least {least:.2%} was wanted"
            for name, least in wanted.items()
            if self.share(name) < least
        ]
