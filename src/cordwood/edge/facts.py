"""What an outbox's log says: one fact is one entry of a frame, a msgpack array that begins with the fact's name.

    begun     the first of all: whose log this is
    events    events were appended, see `event`
    sending   the next requests end behind these events; synced before the first of them goes out
    sent      the broker has every event below `through`; so many went to each partition
    parked    the broker will never take this one event; what follows has this epoch
    epoch     what follows is numbered anew, because the broker no longer knows the numbers before
    archived  frames below this LSN are in an archive, or need not be kept

A request that was sent, and whose answer nobody heard, is sent again with the same events, partitions and numbers,
because its end was on disk before it went. So it is never stored twice.
"""

from typing import TypeAlias

import msgspec

from cordwood.errors import OtherVersion

VERSION = 1
Bytes: TypeAlias = bytes | memoryview


class Begun(msgspec.Struct, frozen=True, array_like=True, tag="begun"):
    """Whose log this is, and where its events go. `topic` is None where a function delivers and no broker."""

    version: int
    execution: str
    topic: str | None
    producer: str
    created_ms: int
    endpoint: str | None = None


class Appended(msgspec.Struct, frozen=True, array_like=True, tag="events", gc=False):
    """Events `first` to `first + count`, as columns."""

    first: int
    count: int
    times: bytes
    lengths: bytes
    values: bytes
    key_lengths: bytes | None
    keys: bytes | None
    headers: list[list[tuple[str, bytes | None]] | None] | None

    @property
    def end(self) -> int:
        """The number behind the last event."""
        return self.first + self.count

    @property
    def size(self) -> int:
        """About how many bytes the events take."""
        return len(self.values) + len(self.keys or b"") + 32 * self.count


class Sending(msgspec.Struct, frozen=True, array_like=True, tag="sending"):
    """The ends of the requests behind `sent`, in order; partitions are chosen among so many."""

    throughs: list[int]
    partitions: int


class Sent(msgspec.Struct, frozen=True, array_like=True, tag="sent"):
    """Every event below `through` is stored; `counts` says how many more each partition has."""

    through: int
    counts: dict[int, int]
    size: int


class Parked(msgspec.Struct, frozen=True, array_like=True, tag="parked"):
    """This event was refused for good. It stays in the log and its archive; `epoch` is the next one's."""

    number: int
    reason: str
    epoch: int
    size: int


class Renewed(msgspec.Struct, frozen=True, array_like=True, tag="epoch"):
    """Numbers begin again at 0, in this epoch."""

    epoch: int


class Archived(msgspec.Struct, frozen=True, array_like=True, tag="archived"):
    """Frames below this LSN may go."""

    lsn: int


Fact: TypeAlias = Begun | Appended | Sending | Sent | Parked | Renewed | Archived

encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Fact] = msgspec.msgpack.Decoder(Fact)


_EVENTS = b"\x99\xa6events"  # how an entry with events begins
_decode_events = msgspec.msgpack.Decoder(Appended).decode


def decode_events(entry: Bytes) -> Appended | None:
    """Return the events of an entry, None for one that holds another fact."""
    return _decode_events(entry) if entry[:8] == _EVENTS else None


def decode(entry: Bytes) -> Fact:
    """Return the fact that an entry holds; Raises ValueError where it holds none."""
    try:
        fact = _decoder.decode(entry)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"an entry is no fact of an outbox: {error}") from None
    if isinstance(fact, Begun) and fact.version != VERSION:
        raise OtherVersion(f"an outbox of version {fact.version}; this Cordwood reads version {VERSION}")
    return fact
