"""Who consumes for a group, and what they have in their hands. Lost in a restart."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from cordwood.broker.hand import Hand
from cordwood.broker.ledger import Then
from cordwood.errors import CordwoodError
from cordwood.wire.run import Run

STREAM_MESSAGES = 1_000  # in one piece of a stream
STREAM_BYTES = 4 << 20


class Poll:
    """A consumer that asked for one batch and waits for it."""

    def __init__(self, owner: str, lease_ms: int, max_messages: int, max_bytes: int, then: Then):
        self.owner = owner
        self.lease_ms = lease_ms
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.closed = False
        self._then: Then | None = then

    def room(self, partition: int) -> int:
        """Return how many messages of a partition it takes now."""
        return self.max_messages

    def lent(self, partition: int, count: int) -> None:
        """Take notice that it holds more messages, or fewer."""

    def accept(self, runs: list[Run]) -> None:
        """Hand over what is durable now; an empty list: nothing came in time."""
        self._tell(runs)

    def refuse(self, error: CordwoodError) -> None:
        """Say why nothing will come."""
        self._tell(error)

    def _tell(self, result: Any) -> None:
        then, self._then = self._then, None  # a timer may hold this poll for long; it must not hold the messages
        if not self.closed and then is not None:  # else it was told already, or does not want to know any more
            self.closed = True
            then(result)


class Subscription:
    """A consumer with an open stream: it takes a piece, and when that is on its way the next one."""

    def __init__(
        self,
        owner: str,
        lease_ms: int,
        max_in_flight: int,
        sink: Callable[[list[Run] | CordwoodError], None],
    ):
        self.owner = owner
        self.lease_ms = lease_ms
        self.max_in_flight = max_in_flight
        self.max_messages = STREAM_MESSAGES
        self.max_bytes = STREAM_BYTES
        self.closed = False
        self.held: Counter[int] = Counter()  # partition → messages
        self._sink = sink

    def room(self, partition: int) -> int:
        """Return how many messages of a partition it takes now."""
        return self.max_in_flight - self.held[partition]

    def lent(self, partition: int, count: int) -> None:
        """Take notice that it holds more messages, or fewer."""
        self.held[partition] += count

    def accept(self, runs: list[Run]) -> None:
        """Hand over what is durable now."""
        self._sink(runs)

    def refuse(self, error: CordwoodError) -> None:
        """Say why nothing more will come."""
        if not self.closed:
            self.closed = True
            self._sink(error)


Consumer = Poll | Subscription


class Crew:
    """The consumers of one group, in the order of their turns, and the partitions that may have something."""

    def __init__(self, topic: str, group: str):
        self.topic = topic
        self.group = group
        self.hands: dict[int, Hand] = {}
        self.live: dict[int, None] = {}  # partitions that may have something, in the order of their turns
        self.away: set[int] = set()  # partitions whose next messages are being fetched from the tier
        self.failures: dict[int, int] = {}  # partition → how often in a row they could not be
        self.waiting: dict[Consumer, None] = {}
        self.streams: set[Subscription] = set()

    def hand(self, partition: int, floor: int) -> Hand:
        """Return the hand of a partition; a new one begins at the floor."""
        found = self.hands.get(partition)
        if found is None:
            found = self.hands[partition] = Hand(floor)
        return found

    def wake(self, partition: int) -> None:
        """Note that a partition may have something."""
        self.live[partition] = None

    @property
    def in_flight(self) -> int:
        """How many messages are out."""
        return sum(hand.out.total for hand in self.hands.values())

    def disband(self, error: CordwoodError) -> None:
        """Tell everybody who waits or streams that it is over."""
        waiting, self.waiting = list(self.waiting), {}
        for consumer in {*waiting, *self.streams}:
            consumer.refuse(error)
        self.streams.clear()
        self.hands.clear()
        self.live.clear()
