"""Who consumes, what is on lease, and what is on its way to whom. Lost in a crash.

The broker chooses who gets a message, and nobody outside knows whom it chose before the message arrives. So a lease
begins with everybody who was waiting as its possible holder, and the delivery tells which one it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cordwood.drills.broker_model.facts import Message

Place = tuple[int, int]  # partition, offset


@dataclass(slots=True, eq=False)
class Consumer:
    """A poll that waits for one batch, or a stream (`most` messages of a partition at once)."""

    topic: str
    group: str
    owner: str
    lease_ms: int
    max_messages: int
    wait_ms: int
    since: int = 0  # on the clock that never goes back
    most: int | None = None
    closed: bool = False
    left: bool = False  # it went before its time
    waiting: bool = False
    over: bool = False  # its time is over, and it is only told when that is durable
    saw: "set[Place]" = field(default_factory=set)  # what was there for it before the turn in which its time is over
    got: list[list[Place]] = field(default_factory=list)

    @property
    def waits_until(self) -> int:
        return self.since + self.wait_ms

    @property
    def streams(self) -> bool:
        return self.most is not None


@dataclass(slots=True, eq=False)
class Parcel:
    """What one frame said leaves for the consumers of a group, until they have it: (attempts, error, message)."""

    lsn: int
    content: dict[Place, tuple[int, str, Message]]
    candidates: list[Consumer]
    ordered: bool


@dataclass(slots=True, eq=False)
class Lease:
    """One message on lease since a moment, to one of `candidates`."""

    parcel: Parcel
    since: int
    candidates: list[Consumer]
    until: int | None = None  # an extension says so

    @property
    def owners(self) -> set[str]:
        return {consumer.owner for consumer in self.candidates}

    @property
    def gone(self) -> bool:
        """Whether who has it may have gone."""
        return any(consumer.closed and (consumer.streams or consumer.left) for consumer in self.candidates)

    @property
    def deadlines(self) -> list[int]:
        """Return when it runs out, for each of the possible holders."""
        if self.until is not None:
            return [self.until]
        return [self.since + consumer.lease_ms for consumer in self.candidates]


@dataclass(slots=True, eq=False)
class Hand:
    """What the consumers of one group hold."""

    leases: dict[Place, Lease] = field(default_factory=dict)
    waiting: list[Consumer] = field(default_factory=list)
    streams: list[Consumer] = field(default_factory=list)

    def held(self, partition: int) -> dict[int, Lease]:
        """Return the leases of one partition by offset."""
        return {offset: lease for (number, offset), lease in self.leases.items() if number == partition}

    def drop(self, partition: int, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self.leases.pop((partition, offset), None)


class Hands:
    """What all consumers hold."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str], Hand] = {}
        self.parcels: list[Parcel] = []

    def of(self, topic: str, group: str) -> Hand:
        return self.groups.setdefault((topic, group), Hand())

    def known(self, consumer: Consumer) -> bool:
        """Say whether it is known what is on its way to a consumer: nothing, or what can be for nobody else."""
        return all(parcel.candidates == [consumer] for parcel in self.parcels if consumer in parcel.candidates)

    def disband(self, topic: str, group: str | None) -> list[Consumer]:
        """Forget a group, or all groups of a topic; return who waited or streamed there."""
        gone = [key for key in self.groups if key[0] == topic and group in (None, key[1])]
        told: list[Consumer] = []
        for key in gone:
            hand = self.groups.pop(key)
            told += dict.fromkeys([*hand.waiting, *hand.streams])
        return told
