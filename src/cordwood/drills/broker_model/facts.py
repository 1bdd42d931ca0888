"""What may become true, in the model's own words: single offsets and whole messages.

A frame is a list of facts that become true together. What the broker wrote is such a list too (`frames` reads it),
but without the messages: those are checked when somebody reads them.
"""

from typing import Any, NamedTuple


class Message(NamedTuple):
    """A message as a consumer sees it. Times are in milliseconds."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int = 0
    deliver_at: int | None = None
    expires_at: int | None = None

    @property
    def bytes(self) -> int:
        """What it counts for in limits and retention."""
        own = len(self.value or b"") + len(self.key or b"")
        return own + sum(len(name.encode()) + len(value) for name, value in self.headers)


class Number(NamedTuple):
    """What a producer gave to the first message of a request."""

    producer: str
    epoch: int
    sequence: int


class Piece(NamedTuple):
    """Messages of one partition next to each other; `messages` is empty in what the broker wrote."""

    partition: int
    first: int
    count: int  # type: ignore[assignment]  # it hides a method of tuples that nobody wants here
    messages: tuple[Message, ...] = ()


class TopicMade(NamedTuple):
    topic: str
    id: str
    partitions: int
    terms: dict[str, Any]
    at: int


class TopicSet(NamedTuple):
    topic: str
    terms: dict[str, Any]


class TopicDeleted(NamedTuple):
    topic: str


class Stored(NamedTuple):
    """Messages are in the log. `keys`: (idempotency key, partition, offset); the broker writes only its hash."""

    topic: str
    pieces: tuple[Piece, ...]
    at: int
    number: Number | None = None
    keys: tuple[tuple[str, int, int], ...] = ()
    sequences: tuple[int, ...] = ()  # of each piece, where there are several


class Staged(NamedTuple):
    topic: str
    pieces: tuple[Piece, ...]
    at: int
    writer: str
    batch: int
    task: int
    attempt: int


class Published(NamedTuple):
    """`placed`: (topic, partition, first, count) of what was staged by the chosen (task, attempt), in order."""

    writer: str
    batch: int
    placed: tuple[tuple[str, int, int, int], ...]
    at: int
    chosen: tuple[tuple[int, int], ...] = ()


class Forgotten(NamedTuple):
    producers_before: int
    keys_before: int
    stages_before: int


class Trimmed(NamedTuple):
    topic: str
    partition: int
    start: int


class GroupMade(NamedTuple):
    topic: str
    group: str
    starts: tuple[int, ...]
    terms: dict[str, Any]
    at: int


class GroupSet(NamedTuple):
    topic: str
    group: str
    terms: dict[str, Any]


class GroupDeleted(NamedTuple):
    topic: str
    group: str


class Sought(NamedTuple):
    topic: str
    group: str
    to: tuple[tuple[int, int], ...]
    at: int


class Delivered(NamedTuple):
    topic: str
    group: str
    partition: int
    offsets: tuple[int, ...]
    at: int


class GivenBack(NamedTuple):
    topic: str
    group: str
    partition: int
    offsets: tuple[int, ...]


class Failed(NamedTuple):
    topic: str
    group: str
    partition: int
    offsets: tuple[int, ...]
    until: int
    error: str


class Done(NamedTuple):
    topic: str
    group: str
    partition: int
    offsets: tuple[int, ...]
    at: int


class Redriven(NamedTuple):
    topic: str
    group: str
    partition: int
    offsets: tuple[int, ...]


class ReaderPut(NamedTuple):
    topic: str
    reader: str
    offsets: tuple[tuple[int, int], ...]
    at: int


class ReaderDeleted(NamedTuple):
    topic: str
    reader: str


class Tiered(NamedTuple):
    """Messages are kept together from now on. Nobody can tell, but for retention: it takes them together, too."""

    topic: str
    partition: int
    first: int
    end: int


class Kept(NamedTuple):
    """Messages of a partition that were kept together, and are there though a disk was lost."""

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    bytes: int
    latest: int


class Restored(NamedTuple):
    """A disk was lost. `kept` are messages that the snapshot did not know of; `ends` is where each partition goes on.

    `world` is all that is true then; the broker does not say that in words.
    """

    kept: tuple[Kept, ...]
    ends: tuple[tuple[str, int, int], ...]
    world: Any = None


class Noted(NamedTuple):
    """The broker wrote down something for itself that nobody outside can tell."""


Fact = (
    TopicMade
    | TopicSet
    | TopicDeleted
    | Stored
    | Staged
    | Published
    | Forgotten
    | Trimmed
    | GroupMade
    | GroupSet
    | GroupDeleted
    | Sought
    | Delivered
    | GivenBack
    | Failed
    | Done
    | Redriven
    | ReaderPut
    | ReaderDeleted
    | Tiered
    | Restored
    | Noted
)


def claimed(fact: Fact) -> tuple[Any, ...]:
    """Return a fact as far as a frame of the broker tells it, to be compared."""
    name = type(fact).__name__
    if isinstance(fact, Stored):
        keys = tuple(key[1:] for key in fact.keys)
        return name, fact.topic, tuple(piece[:3] for piece in fact.pieces), fact.at, fact.number, keys, fact.sequences
    if isinstance(fact, Published):
        return name, *fact[:4]
    if isinstance(fact, Staged):
        return name, fact.topic, tuple(piece[:3] for piece in fact.pieces), *fact[2:]
    if isinstance(fact, TopicMade):
        return name, fact.topic, *fact[2:]  # the id is the broker's choice
    if isinstance(fact, Done | Delivered | GivenBack | Failed | Redriven):
        return name, *fact[:3], tuple(sorted(fact.offsets)), *fact[4:]
    return name, *fact
