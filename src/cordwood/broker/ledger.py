"""The state and the journal together: what is written becomes true at once in here, and outside once it is durable.

    write(ops) ──▶ journal.append ──▶ state.apply      head: what the next request is judged by
    told(written, synced)                              replies go out, messages become visible

    sync mode    a reply goes out when    messages are shown when
    always       synced                   synced
    interval     written                  synced
    never        written                  written

After a failure head is thrown away: the state is folded again from what the journal holds for sure, and only reads
go on.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from cordwood.broker import ops, snapshot
from cordwood.broker.cache import Cache
from cordwood.broker.history import History
from cordwood.broker.index import Place
from cordwood.broker.state import Partition, State
from cordwood.errors import CordwoodError, Unavailable
from cordwood.journal.fold import Snapshot
from cordwood.machine.disk import Buffer
from cordwood.record import Batch, Resting, decode_parts

log = logging.getLogger("cordwood.broker")

Then = Callable[[Any], None]
READ_AHEAD_BYTES = 1 << 20  # what the journal reads from the disk at once
HISTORY_SHARE = 4  # of the room for new messages there is so much more for old ones from the tier: a quarter
LEAST_HISTORY_BYTES = 32 << 20  # a few row groups


class Log(Protocol):
    """What the ledger asks of a journal."""

    def append(self, entries: Sequence[Buffer], *, reserve: bool = False) -> int:
        """Number a frame; raises `Preparing` or `Full` when there is no room, and then nothing was numbered."""

    def read(self, lsn: int, most_bytes: int) -> Iterator[tuple[int, list[memoryview]]]:
        """Yield a durable frame and those behind it, about this many bytes; each is valid until the next."""


class Ledger:
    """Holds the state, and everybody who waits for a part of it to become durable. It is the journal's fold."""

    def __init__(self, cache_bytes: int, sync: str = "always"):
        self.state = State()
        self.cache = Cache(cache_bytes)
        self.history = History(max(cache_bytes // HISTORY_SHARE, LEAST_HISTORY_BYTES))
        self.failure: Unavailable | None = None
        self.end = 0  # the LSN that the next frame gets
        self.replied = 0  # replies that rest on frames below are out
        self.shown = 0  # frames below are visible
        self.synced = 0  # frames below survive a power cut
        self.pending_bytes = 0  # of payloads that are not yet replied to
        self.written_bytes = 0  # of all payloads since the start
        # (topic, partition) that got messages since somebody looked; a dict, so that one seed gives one history
        self.fresh: dict[tuple[str, int], None] = {}
        # (topic, partition) that may have messages in the journal which are not in the tier
        self.untiered: dict[tuple[str, int], None] = {}
        self.changed: set[str] = set()  # topics that got visible messages since somebody looked
        self._sync = sync
        self._log: Log | None = None
        self._replies: deque[tuple[int, Then, Any, int]] = deque()
        self._visible: deque[tuple[int, Then, Any]] = deque()
        self._synced: deque[tuple[int, Then, Any]] = deque()

    # The journal's fold

    def restore(self, parts: Iterable[memoryview]) -> None:
        """Become what a snapshot says."""
        self.state = snapshot.restore(parts)

    def apply(self, lsn: int, entries: list[memoryview]) -> None:
        """Take a frame from the disk into the state."""
        self.state.apply(lsn, ops.unpack(entries[0]))

    def lost(self, first: int, end: int) -> None:
        """Forget the messages of frames that an operator gave up, and say which they were."""
        for topic, partition, low, high in self.state.lose(first, end):
            log.warning("lost: topic %s, partition %d, offsets %d to %d", topic, partition, low, high - 1)

    def snapshot(self) -> Snapshot:
        """Capture the state as it is after the last frame that was appended."""
        return snapshot.capture(self.state)

    # Writing

    def attach(self, journal: Log, end: int) -> None:
        """Go on from an opened journal: all that it holds is durable."""
        self._log = journal
        self.end = self.replied = self.shown = self.synced = end
        self.show_all()
        for topic in self.state.topics.values():
            for number, partition in enumerate(topic.partitions):
                if partition.index.journal_first is not None:
                    self.untiered[(topic.name, number)] = None

    def show_all(self) -> None:
        """Let every message be seen: all of them are durable."""
        for topic in self.state.topics.values():
            for partition in topic.partitions:
                partition.shown = partition.end

    def check_writable(self) -> None:
        """Raise `Unavailable` after a failure."""
        if self.failure is not None:
            raise self.failure

    def write(
        self, facts: Sequence[ops.Op], payloads: Sequence[Batch | Resting] = (), *, reserve: bool = False
    ) -> int:
        """Append a frame and make it true in here; return its LSN. What it raises, nothing came of."""
        self.check_writable()
        assert self._log is not None, "attach comes first"
        entries = ops.pack(facts, payloads)
        lsn = self._log.append(entries, reserve=reserve)
        for number, payload in enumerate(payloads):
            size = len(entries[2 + 2 * number])
            self.cache.keep(lsn, number, payload, size)
            self.written_bytes += size
        self.state.apply(lsn, facts)
        self.end = lsn + 1
        for op in facts:
            if isinstance(op, ops.Appended | ops.AppendedAcross):
                topic = self.state.topics[op.topic]
                for piece in op.pieces:
                    self._show_later(topic.name, piece.partition, topic.partitions[piece.partition])
            elif isinstance(op, ops.Published):
                for name, partition, _, _ in self.state.writers[op.writer].results:
                    self._show_later(name, partition, self.state.topics[name].partitions[partition])
            elif isinstance(op, ops.TopicDeleted):  # one of the same name may have fewer partitions
                self.fresh = {place: None for place in self.fresh if place[0] != op.topic}
        return lsn

    def reply(self, then: Then, result: Any, size: int = 0) -> None:
        """Call `then(result)` when all that was written so far is as durable as a reply must be."""
        if self.replied >= self.end and not self._replies:
            then(result)
        else:
            self.pending_bytes += size
            self._replies.append((self.end - 1, then, result, size))

    def show(self, then: Then, result: Any) -> None:
        """Call `then(result)` when all that was written so far may be seen by others."""
        if self.shown >= self.end and not self._visible:
            then(result)
        else:
            self._visible.append((self.end - 1, then, result))

    def when_synced(self, then: Then, result: Any) -> None:
        """Call `then(result)` when all that was written so far is synced, in every mode; never after a failure."""
        if self.synced >= self.end and not self._synced:
            then(result)
        else:
            self._synced.append((self.end - 1, then, result))

    def _show_later(self, topic: str, number: int, partition: Partition) -> None:
        self.fresh[(topic, number)] = self.untiered[(topic, number)] = None
        self._visible.append((self.end - 1, self._shown, (topic, partition, partition.end)))

    def _shown(self, what: tuple[str, Partition, int]) -> None:
        topic, partition, end = what
        partition.shown = end
        self.changed.add(topic)

    # What the journal tells

    def told(self, written: int, synced: int) -> None:
        """Let out all that rests on frames that are durable now."""
        if self.failure is not None:
            return
        self.synced = max(self.synced, synced)
        self.replied = max(self.replied, synced if self._sync == "always" else written)
        self.shown = max(self.shown, written if self._sync == "never" else synced)
        visible, replies = self._visible, self._replies
        while visible and visible[0][0] < self.shown:
            _, then, result = visible.popleft()
            then(result)
        while replies and replies[0][0] < self.replied:
            _, then, result, size = replies.popleft()
            self.pending_bytes -= size
            then(result)
        while self._synced and self._synced[0][0] < synced:
            _, then, result = self._synced.popleft()
            then(result)
        self.cache.evict(synced)  # only what is synced can be read again

    def failed(self, error: Unavailable, durable: State | None) -> None:
        """Tell everybody who waits; go on with `durable`, what the journal holds for sure, for reads alone."""
        if self.failure is not None:
            return
        self.failure = error
        waiting: list[Then] = [then for _, then, _, _ in self._replies]
        waiting += [then for _, then, _ in self._visible if then != self._shown]
        self._replies.clear()
        self._visible.clear()
        self._synced.clear()
        self.pending_bytes = 0
        self.end = self.replied = self.shown  # nothing is under way any more: what is asked is answered at once
        if durable is not None:
            self.state = durable
            self.show_all()
        for then in waiting:
            then(error)

    # Reading

    def fetch(self, place: Place) -> Batch:
        """Return the messages of a place, from memory or from the journal; raise `Away` for the tier's."""
        if place.tiered is not None:
            return self.history.fetch(place)
        found = self.cache.get(place.lsn, place.payload)
        if found is None:
            found = self._read(place)
        return found.slice(place.row, place.length)

    def _read(self, place: Place) -> Batch:
        """Read a payload from the journal, and those behind it, which are likely to be wanted next."""
        assert self._log is not None, "attach comes first"
        wanted: Batch | None = None
        for lsn, entries in self._log.read(place.lsn, READ_AHEAD_BYTES):
            for number in range((len(entries) - 1) // 2):
                if lsn == place.lsn or (lsn, number) not in self.cache:
                    batch = decode_parts(entries[1 + 2 * number], bytes(entries[2 + 2 * number]))
                    self.cache.keep_cold(lsn, number, batch)
                    if (lsn, number) == (place.lsn, place.payload):
                        wanted = batch
        assert wanted is not None, "the index points to payloads that are there"
        return wanted


def refused(error: Any) -> bool:
    """Say whether what a callback got is an error."""
    return isinstance(error, CordwoodError)
