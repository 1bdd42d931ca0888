"""What a frame of the broker says: a list of facts that become true together, and the messages they speak of.

    entry 0        [1, [op, op, …]]      MessagePack; 1 is the version of this format
    entry 1, 2     head and body of payload 0, as `record.encode` made them
    entry 3, 4     … of payload 1

An op is an array: its number, then its fields in the order below. Times (`at`) are the broker's clock in
milliseconds. New fields go to the end with a default; a number is never given twice.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from cordwood.broker.terms import GroupTerms, TopicTerms
from cordwood.errors import OtherVersion
from cordwood.machine.disk import Buffer
from cordwood.record import Batch, Resting, encode

VERSION = 1
Ranges = list[tuple[int, int]]


class Piece(Struct, array_like=True, frozen=True, gc=False):
    """Rows `row` to `row + count` of a payload: messages of one partition, from offset `first` on."""

    partition: int
    first: int
    count: int
    row: int
    bytes: int
    latest_us: int


class Numbered(Struct, array_like=True, frozen=True):
    """The number that a producer gave to the first message of a batch."""

    producer: str
    epoch: int
    sequence: int


class TopicMade(Struct, array_like=True, frozen=True, tag=1):
    topic: str
    id: str
    partitions: int
    terms: TopicTerms
    at: int


class TopicSet(Struct, array_like=True, frozen=True, tag=2):
    topic: str
    terms: TopicTerms


class TopicDeleted(Struct, array_like=True, frozen=True, tag=3):
    topic: str


class Appended(Struct, array_like=True, frozen=True, tag=4):
    """Messages are in the log. `key_hashes` are idempotency keys: (hash, partition, offset)."""

    topic: str
    payload: int
    pieces: list[Piece]
    at: int
    number: Numbered | None = None
    key_hashes: list[tuple[bytes, int, int]] = []


class Staged(Struct, array_like=True, frozen=True, tag=5):
    """Messages wait to be published; the pieces have no offsets yet (`first` is 0)."""

    topic: str
    payload: int
    pieces: list[Piece]
    at: int
    writer: str
    batch: int
    task: int
    attempt: int


class Placed(Struct, array_like=True, frozen=True):
    """A piece that was staged in frame `lsn`, with the offset that it has now."""

    topic: str
    lsn: int
    payload: int
    piece: Piece


class Published(Struct, array_like=True, frozen=True, tag=6):
    """What was staged for a batch is in the log, as placed here; what else the writer staged so far is dropped.

    The offsets are said here and not found out again: if an operator gives up a frame before this one, what is
    behind it keeps its numbers.
    """

    writer: str
    batch: int
    placed: list[Placed]
    at: int


class Forgotten(Struct, array_like=True, frozen=True, tag=7):
    """Producers and writers, idempotency keys, and stages that were last used before these times are forgotten."""

    producers_before: int
    keys_before: int
    stages_before: int


class Trimmed(Struct, array_like=True, frozen=True, tag=8):
    """Messages below `start` are gone."""

    topic: str
    partition: int
    start: int


class GroupMade(Struct, array_like=True, frozen=True, tag=9):
    topic: str
    group: str
    starts: list[int]
    terms: GroupTerms
    at: int


class GroupSet(Struct, array_like=True, frozen=True, tag=10):
    topic: str
    group: str
    terms: GroupTerms


class GroupDeleted(Struct, array_like=True, frozen=True, tag=11):
    topic: str
    group: str


class Sought(Struct, array_like=True, frozen=True, tag=12):
    """The group goes on from these offsets, as if it had never been further: (partition, offset)."""

    topic: str
    group: str
    to: list[tuple[int, int]]
    at: int


class Delivered(Struct, array_like=True, frozen=True, tag=13):
    """These messages leave for a consumer: one attempt more."""

    topic: str
    group: str
    partition: int
    ranges: Ranges
    at: int


class GivenBack(Struct, array_like=True, frozen=True, tag=14):
    """These came back unused: the attempt does not count."""

    topic: str
    group: str
    partition: int
    ranges: Ranges


class Failed(Struct, array_like=True, frozen=True, tag=15):
    """The delivery failed; not again before `until_ms`."""

    topic: str
    group: str
    partition: int
    ranges: Ranges
    until_ms: int
    error: str


class Done(Struct, array_like=True, frozen=True, tag=16):
    """The group is done with these: acked, expired, dropped or dead-lettered. (first, end)"""

    topic: str
    group: str
    partition: int
    ranges: Ranges
    at: int


class Redriven(Struct, array_like=True, frozen=True, tag=17):
    """These dead letters of the group, counted in the dead-letter topic, were sent back."""

    topic: str
    group: str
    partition: int
    ranges: Ranges


class ReaderPut(Struct, array_like=True, frozen=True, tag=18):
    """A named reader stands at these offsets: (partition, offset)."""

    topic: str
    reader: str
    offsets: list[tuple[int, int]]
    at: int


class ReaderDeleted(Struct, array_like=True, frozen=True, tag=19):
    topic: str
    reader: str


class Stored(Struct, array_like=True, frozen=True, tag=20):
    """The messages from `first` to `end` are in an object of the tier, and are read from there from now on.

    It replaces objects that held the same messages; these are deleted, but not before `keep_until_ms`.
    """

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    epoch: int
    generation: int
    checksum: int
    bytes: int
    group_rows: int
    keep_until_ms: int = 0


class ObjectsDeleted(Struct, array_like=True, frozen=True, tag=21):
    """These objects, which no message is read from, are no longer in the store."""

    names: list[str]


class TopicBuried(Struct, array_like=True, frozen=True, tag=22):
    """No object of a deleted topic is in the store any more."""

    topic: str
    topic_id: str


class Restored(Struct, array_like=True, frozen=True, tag=23):
    """The journal was lost; this is what the store knows: the parts of a snapshot, and objects that came after it.

    All that was in the lost journal alone is a hole. `ends` says where each partition goes on behind it: (topic,
    partition, offset). An object is (fact, bytes of its messages, latest timestamp).
    """

    parts: list[bytes]
    objects: list[tuple[Stored, int, int]]
    ends: list[tuple[str, int, int]]


class StoreClaimed(Struct, array_like=True, frozen=True, tag=24):
    """This broker has the claim to a store. A journal belongs to one store, and a store to one journal."""

    store: str
    epoch: int


class AppendedAcross(Struct, array_like=True, frozen=True, tag=25):
    """Messages of a numbered producer are in the log, in several partitions; `sequences` has one for each piece."""

    topic: str
    payload: int
    pieces: list[Piece]
    at: int
    producer: str
    epoch: int
    sequences: list[int]


Op = (
    TopicMade
    | TopicSet
    | TopicDeleted
    | Appended
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
    | Stored
    | ObjectsDeleted
    | TopicBuried
    | Restored
    | StoreClaimed
    | AppendedAcross
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[tuple[int, list[Op]]] = msgspec.msgpack.Decoder(tuple[int, list[Op]])


def pack(ops: Sequence[Op], payloads: Sequence[Batch | Resting] = ()) -> list[Buffer]:
    """Return the entries of a frame that says this."""
    entries: list[Any] = [_encoder.encode((VERSION, ops))]
    for payload in payloads:
        entries += (payload.head, payload.body) if isinstance(payload, Resting) else encode(payload)
    return entries


def unpack(entry: Buffer) -> list[Op]:
    """Return the facts of a frame's first entry. Raises ValueError for bytes that are none."""
    try:
        version, ops = _decoder.decode(entry)
    except (msgspec.MsgspecError, RecursionError) as error:
        head = bytes(entry[:2])
        if len(head) == 2 and head[:1] == b"\x92" and head[1:] != b"\x01":
            raise OtherVersion(f"a frame of version {head[1]}; this Cordwood reads {VERSION}") from None
        raise ValueError(f"not a frame of the broker: {error}") from None
    if version != VERSION:
        raise OtherVersion(f"a frame of version {version}; this Cordwood reads {VERSION}")
    return ops
