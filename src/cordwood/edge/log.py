"""One execution's log: events in, durable when `append` returns; read again for the sender; progress beside them.

    append ─┐
    append ─┼─▶ group ──▶ one frame, one sync ──▶ all of them return         whoever comes first commits for all
    append ─┘      while it is committed, the next group gathers

The state is changed under one lock with the journal's numbering. Nothing is read, sent or let go before it is synced.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from cordwood.edge.event import Draft, columns, merged
from cordwood.edge.facts import Appended, Archived, Begun, Fact, decode_events, encode
from cordwood.edge.state import State
from cordwood.errors import Full, Preparing, Unavailable
from cordwood.journal.journal import Journal
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.machine.clock import Clock
from cordwood.machine.disk import Directory

# `segment_bytes`: three files are made before the first event, so a short job should not wait for 200 MB of zeros.
LIMITS = Limits(segment_bytes=2 << 20, max_batch_bytes=4 << 20, spares=2, used_again=4, open_files=4)
GROUP_BYTES = 1 << 20  # then the next group begins, so that a frame stays about this large
RECENT_BYTES = 4 << 20  # what was appended last stays in memory, so that a sender that keeps up reads no disk
_ROOM_TRIES = 3


class Piece(NamedTuple):
    """Events `start` to `end` of one frame."""

    appended: Appended
    start: int
    end: int

    @property
    def size(self) -> int:
        """About how many bytes these take."""
        return self.appended.size * (self.end - self.start) // self.appended.count


class _Group:
    """Events that are committed together. `gate` opens when they are durable or have failed."""

    __slots__ = ("drafts", "error", "first", "gate", "size")

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.size = 0
        self.first = -1
        self.error: Exception | None = None
        self.gate = threading.Lock()
        self.gate.acquire()


class Log:
    """The open log of one execution. For any number of threads that append, and one that sends."""

    def __init__(
        self,
        directory: Directory,
        clock: Clock,
        random: Random,
        *,
        begun: Begun | None = None,
        limits: Limits = LIMITS,
        max_bytes: int = 1 << 30,
        recent_bytes: int = RECENT_BYTES,
    ):
        """Open what is in the directory; `begun` is written where nothing is. Raises as `open_journal` does."""
        self.directory = directory
        self.state = State()
        self.journal: Journal = open_journal(directory, self.state, limits, clock=clock, random=random)
        self.max_bytes = max_bytes
        self.short = False  # the disk had no room for an event
        self._sealed = False
        self._recent_bytes = recent_bytes
        self._lock = threading.Lock()  # numbering and state
        self._gathering = threading.Lock()
        self._committing = threading.Lock()
        self._group: _Group | None = None
        self._recent: deque[Appended] = deque()
        self._recent_size = 0
        self._durable = self.state.end
        self._ahead: Iterator[list[memoryview]] | None = None
        self._pool: deque[Appended] = deque()  # frames that were read and are not used up
        self._pool_at = -1  # the event that the pool begins with
        if self.state.archived:
            self.journal.release(self.state.archived)
        try:
            if self.state.begun is None:
                if begun is None:
                    raise Unavailable(f"{directory.path} holds no log that was begun")
                self.record([begun])
        except BaseException:
            self.journal.abandon()
            raise

    @property
    def begun(self) -> Begun:
        """Whose log this is."""
        assert self.state.begun is not None, "a log begins with that"
        return self.state.begun

    @property
    def durable(self) -> int:
        """Every event below is on disk."""
        return self._durable

    # Appending

    def append(self, drafts: Sequence[Draft]) -> int:
        """Return the first one's number once all of these are on disk, in this order and together.

        Raises `Full`, when so much is pending as may be or the disk has no room, and `Unavailable`; then none of them
        was appended.
        """
        size = sum([draft.size for draft in drafts])
        state = self.state
        if state.pending_bytes + size > self.max_bytes:
            raise Full(
                f"{state.pending} events ({state.pending_bytes} bytes) wait to be sent, {self.max_bytes} bytes may: "
                "append again when the broker has taken some"
            )
        mine = _Group()
        try:
            with self._gathering:
                group = self._group
                if group is None or group.size + size > GROUP_BYTES:
                    group = self._group = mine
                at = len(group.drafts)
                group.drafts += drafts
                group.size += size
            if group is mine:
                with self._committing:
                    self._shut(mine)
                    self._commit(mine)
        except BaseException as error:  # Ctrl-C, too: whoever waits must not wait for ever
            self._shut(mine)
            mine.error = error if isinstance(error, Exception) else Unavailable(f"the commit was stopped: {error!r}")
            raise
        finally:
            mine.gate.release()
        if group is not mine:
            with group.gate:  # it opens for one after the other
                pass
            if group.error is not None:
                kind = Full if isinstance(group.error, Full) else Unavailable
                raise kind(str(group.error)) from group.error
        return group.first + at

    def _shut(self, group: _Group) -> None:
        """Let nobody join this group any more."""
        with self._gathering:
            if self._group is group:
                self._group = None

    def seal(self) -> None:
        """Let nothing more be appended: once this returns, all that ever will be is on disk and in `durable`."""
        with self._committing:
            self._sealed = True

    def _commit(self, group: _Group) -> None:
        if self._sealed:
            raise Unavailable("the outbox is stopped; make another one")
        fact = columns(self.state.end, group.drafts)
        self._write([fact], reserve=False)
        with self._lock:
            self._durable = fact.end
            self._recent.append(fact)
            self._recent_size += fact.size
            while self._recent_size > self._recent_bytes and self._recent:
                self._recent_size -= self._recent.popleft().size
        group.first = fact.first

    def record(self, facts: Sequence[Fact]) -> None:
        """Let facts be true together, on disk when this returns; on a full disk there is a reserve for them."""
        self._write(facts, reserve=True)
        with self._lock:
            sent = self.state.sent
            while self._recent and self._recent[0].end <= sent:
                self._recent_size -= self._recent.popleft().size

    def _write(self, facts: Sequence[Fact], *, reserve: bool) -> None:
        entries = [encode(fact) for fact in facts]
        journal = self.journal
        tries = 0
        while True:
            try:
                with self._lock:
                    end = journal.end
                    try:
                        lsn = journal.append(entries, reserve=reserve)
                        for fact in facts:
                            self.state.take(lsn, fact)
                    except BaseException as error:
                        # Ctrl-C between the two: what is queued would be on disk, and its numbers be given again.
                        if journal.end != end and not isinstance(error, Preparing | Full):
                            journal.fail(error)
                        raise
                break
            except (Preparing, Full):
                tries += 1
                if tries == _ROOM_TRIES or (not journal.maintain() and tries > 1):
                    self.short = True
                    raise
        journal.sync(lsn)

    # Reading

    def read(self, start: int, most_events: int, most_bytes: int, end: int | None = None) -> list[Piece]:
        """Return durable events from `start` on: to `end` exactly, or as many as the limits allow; one at least.

        For one thread. Where an operator gave frames up there are fewer events; where nobody did, `Unavailable`.
        """
        exact = end is not None
        end = self._durable if end is None else min(end, self._durable)
        if self._pool_at != start:
            self._forget_pool()
        pool = self._pool
        pieces: list[Piece] = []
        left, room = most_events, most_bytes
        at = start
        while at < end:
            if not pool and not self._refill(at):
                break
            appended = pool[0]
            first, behind = appended.first, appended.end
            low, high = max(at, first), min(end, behind)
            if high <= low:
                break
            size = appended.size
            if not exact:
                if high - low > left:
                    high = low + left
                if size > room:
                    fits = room * appended.count // size
                    high = min(high, low + (fits if pieces else max(1, fits)))
                if high <= low:
                    break
                left -= high - low
                room -= size * (high - low) // appended.count
            pieces.append(Piece(appended, low, high))
            at = high
            if high == behind:
                pool.popleft()
        self._pool_at = at
        if at < end and (exact or not pieces) and not self.state.lost_frames:
            self._forget_pool()  # it must not be taken for sent: whoever asks again begins anew
            raise Unavailable(f"{self.directory.path} does not give event {at}, though it has those below {end}")
        return pieces

    def _refill(self, at: int) -> bool:
        """Get the frames from the one that holds event `at` on, some of them, from memory or from the disk."""
        pool = self._pool
        with self._lock:
            if self._recent and self._recent[0].first <= at:
                self._ahead = None
                pool.extend(merged([appended for appended in self._recent if appended.end > at]))
                return bool(pool)
        found = self._from_disk(at) or self._from_disk(at)
        pool.extend(merged(found))
        return bool(pool)

    def _from_disk(self, at: int) -> list[Appended]:
        """Return what the next frames hold from event `at` on; nothing, once, where an earlier reading ended."""
        if self._ahead is None:
            self._ahead = self.journal.entries(max(self.state.place(at), self.journal.first))
        for entries in self._ahead:
            found = [fact for fact in map(decode_events, entries) if fact is not None]
            if found and found[0].first < at:  # the first reading begins a little before
                found = [fact for fact in found if fact.end > at]
            if found:
                return found
        self._ahead = None  # it went as far as the log was synced when it began
        return []

    def _forget_pool(self) -> None:
        self._pool.clear()
        self._ahead = None

    # Room

    def maintain(self) -> None:
        """Prepare room ahead, so that nobody who appends has to."""
        if self.journal.wants_maintenance:
            self.journal.maintain()

    def mark(self) -> None:
        """Prove on disk that the last group was synced, so that damage to it is told from a torn write."""
        if self.journal.mark() is not None:
            self.journal.commit()

    def release(self, lsn: int) -> None:
        """Let the frames below go, which are archived or need not be."""
        self.record([Archived(lsn)])
        self.journal.release(lsn)
        if self.journal.maintain():
            self.short = False

    def close(self) -> None:
        """Leave the clean mark and let go of directory and lock."""
        self._forget_pool()
        self.journal.close()

    def abandon(self) -> None:
        """Let go of everything as a crash would."""
        self._forget_pool()
        self.journal.abandon()
