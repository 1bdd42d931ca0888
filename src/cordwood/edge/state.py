"""Where an outbox stands: a fold of its log.

    0 ─────── sent ──────── cuts ──────── end          numbers of events
      settled    may be out      waiting

An event below `sent` is stored or parked. `cuts` are the ends of requests that may have gone out. `sequences` is each
partition's next number in this `epoch`, as of `sent`.
"""

from bisect import bisect_right
from collections.abc import Iterable

import msgspec

from cordwood.edge.facts import Appended, Archived, Begun, Fact, Parked, Renewed, Sending, Sent, decode
from cordwood.journal.fold import Snapshot

PLACE_BYTES = 256 << 10  # how far apart the frames are whose place is remembered
MOST_SHOWN = 100  # parked events whose reason is remembered; each of them is in the log


class _Image(msgspec.Struct, array_like=True):
    """The state as a snapshot has it."""

    begun: Begun | None
    end: int
    sent: int
    epoch: int
    sequences: dict[int, int]
    cuts: list[int]
    partitions: int
    appended_bytes: int
    settled_bytes: int
    failed: int
    parked: list[Parked]
    parked_lsns: list[int]
    archived: int
    places: list[tuple[int, int]]
    lost: int


class State:
    """What the frames so far amount to. Nothing but `take` changes it."""

    def __init__(self) -> None:
        self._become(_Image(None, 0, 0, 0, {}, [], 0, 0, 0, 0, [], [], 0, [], 0))

    def _become(self, image: _Image) -> None:
        self.begun = image.begun
        self.end, self.sent, self.epoch = image.end, image.sent, image.epoch
        self.sequences, self.cuts, self.partitions = image.sequences, image.cuts, image.partitions
        self.appended_bytes, self.settled_bytes = image.appended_bytes, image.settled_bytes
        self.failed, self.parked = image.failed, image.parked
        self.parked_lsns = image.parked_lsns  # where parked events stand that are in no archive yet
        self.archived = image.archived
        self.places = image.places  # (event, LSN) of some frames, both rising
        self.lost_frames = image.lost
        self._placed_bytes = image.appended_bytes
        self._last: int | None = None  # the LSN of the last events, if they came after the snapshot

    @property
    def pending(self) -> int:
        """How many events are not settled."""
        return self.end - self.sent

    @property
    def pending_bytes(self) -> int:
        """About how many bytes these have."""
        return self.appended_bytes - self.settled_bytes

    @property
    def doubtful(self) -> int:
        """How many events may be stored or not: requests with them may have gone out, and no answer is written."""
        return max(self.cuts, default=self.sent) - self.sent

    def place(self, number: int) -> int:
        """Return the LSN of a frame at or before the one that holds this event."""
        at = bisect_right(self.places, number, key=lambda place: place[0])
        return self.places[at - 1][1] if at else self.archived

    @property
    def settled(self) -> int:
        """The LSN below which all events are settled, as far as it is known."""
        return self._last + 1 if self.sent == self.end and self._last is not None else self.place(self.sent)

    # The fold

    def restore(self, parts: Iterable[memoryview]) -> None:
        """Become what `snapshot` captured."""
        self._become(msgspec.msgpack.decode(b"".join(bytes(part) for part in parts), type=_Image))

    def apply(self, lsn: int, entries: list[memoryview]) -> None:
        """Take a frame that was read."""
        for entry in entries:
            self.take(lsn, decode(entry))

    def lost(self, first: int, end: int) -> None:
        """Learn that frames were given up: the events in them are settled as lost, and counted."""
        self.lost_frames += end - first

    def snapshot(self) -> Snapshot:
        """Capture the state."""
        image = _Image(
            self.begun,
            self.end,
            self.sent,
            self.epoch,
            self.sequences,
            self.cuts,
            self.partitions,
            self.appended_bytes,
            self.settled_bytes,
            self.failed,
            self.parked,
            self.parked_lsns,
            self.archived,
            self.places,
            self.lost_frames,
        )
        data = msgspec.msgpack.encode(image)
        return Snapshot([data], 1, len(data))

    def take(self, lsn: int, fact: Fact) -> None:
        """Let a fact be true."""
        if isinstance(fact, Appended):
            assert fact.first >= self.end, "events are numbered in order"
            if not self.places or self.appended_bytes - self._placed_bytes >= PLACE_BYTES:
                self.places.append((fact.first, lsn))
                self._placed_bytes = self.appended_bytes
            self._last = lsn
            self.end = fact.end
            self.appended_bytes += fact.size
        elif isinstance(fact, Sending):
            self.cuts, self.partitions = list(fact.throughs), fact.partitions
        elif isinstance(fact, Sent):
            for partition, count in fact.counts.items():
                self.sequences[partition] = self.sequences.get(partition, 0) + count
            self._settle(fact.through, fact.size)
        elif isinstance(fact, Parked):
            self.failed += 1
            self.parked = [*self.parked, fact][-MOST_SHOWN:]
            self.parked_lsns = sorted({*self.parked_lsns, self.place(fact.number)})
            self._settle(fact.number + 1, fact.size)
            self.epoch, self.sequences, self.cuts = fact.epoch, {}, []
        elif isinstance(fact, Renewed):
            self.epoch, self.sequences, self.cuts = fact.epoch, {}, []
        elif isinstance(fact, Archived):
            self.archived = fact.lsn
            self.parked_lsns = [place for place in self.parked_lsns if place >= fact.lsn]
        else:
            self.begun = fact

    def _settle(self, through: int, size: int) -> None:
        assert self.sent <= through <= self.end, "what is settled was appended, and is settled once"
        self.sent = through
        self.settled_bytes = self.appended_bytes if through == self.end else self.settled_bytes + size
        self.cuts = [cut for cut in self.cuts if cut > through]
        while len(self.places) > 1 and self.places[1][0] <= through:
            del self.places[0]
