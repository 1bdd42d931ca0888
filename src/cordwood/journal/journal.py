"""The journal: append, sync, acknowledge, in that order.

    append   numbers a frame and queues it; decides here, before numbering, whether there is room
    commit   writes all that is queued as one group and syncs it: one fdatasync for everybody
    rotate   when a segment is full: seal it, begin the next with a snapshot, publish it
    maintain makes spare files and takes back released segments; slow, so in another thread

`end` is what has been appended, `written` what the kernel has, `synced` what a power cut leaves; each is the LSN
behind the last such frame, and end ≥ written ≥ synced always. After a write or sync that failed the journal only
reads: what was not acknowledged is cut back, and every append and every wait raises `Unavailable`.

Threads: `append` from any; `commit` from any, one at a time; `maintain` from any, one at a time. The owner's
`snapshot` is called inside `append`.
"""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from cordwood.errors import Full, Preparing, Refused, Unavailable
from cordwood.journal import clean
from cordwood.journal.fold import Fold, Snapshot
from cordwood.journal.frame import EMPTY, HEADER_BYTES, Kind, Payload, pack
from cordwood.journal.limits import Limits
from cordwood.journal.room import Room
from cordwood.journal.scan import Scan
from cordwood.journal.segment import HEADER_BYTES as SEGMENT_HEADER_BYTES
from cordwood.journal.segment import Segment
from cordwood.journal.segments import Segments
from cordwood.journal.spares import NO_ROOM, Spare, Spares
from cordwood.journal.writer import Writer
from cordwood.machine.clock import Clock
from cordwood.machine.disk import Buffer, Directory

log = logging.getLogger("cordwood.journal")

Lsn = int


class _Rotation(NamedTuple):
    first: Lsn
    spare: Spare
    snapshot: Snapshot | None
    planned: int  # bytes set aside for the snapshot when the frames behind were let in


class Journal:
    """An open journal. `opening.open_journal` makes one."""

    def __init__(
        self,
        directory: Directory,
        fold: Fold,
        limits: Limits,
        clock: Clock,
        random: Random,
        segments: list[Segment],
        writer: Writer,
        spares: Spares,
    ):
        self.torn_bytes = 0  # how much the opening cut, for whoever counts
        self._directory = directory
        self._fold = fold
        self._limits = limits
        self._clock = clock
        self._random = random
        self._segments = Segments(directory, segments, limits.open_files)
        self._writer = writer
        self._queue: deque[tuple[int, Payload] | _Rotation] = deque()
        self._numbering = threading.Lock()
        self._committing = threading.Lock()
        self._failure: str | None = None
        self._closing = False
        self._end = self._written = self._synced = writer.segment.end
        self._acknowledged_position = writer.segment.size
        # Frames that an opening wrote again are served, so they want their proof as new ones do.
        self._marked = writer.segment.first
        self._fill = writer.segment.size
        self._capacity = max(writer.file.size(), writer.segment.size)
        self._close_at_ms = clock.monotonic_ms() + limits.segment_max_age_ms
        self._rotations_queued = 0
        snapshot_bytes = writer.segment.header.body - SEGMENT_HEADER_BYTES
        self._room = Room(directory, self._segments, spares, limits, clock, snapshot_bytes)

    @property
    def end(self) -> Lsn:
        """The LSN that the next frame gets."""
        return self._end

    @property
    def written(self) -> Lsn:
        """Every frame below survives kill -9."""
        return self._written

    @property
    def synced(self) -> Lsn:
        """Every frame below survives a power cut."""
        return self._synced

    @property
    def failure(self) -> Unavailable | None:
        """Why the journal only reads, or None while it writes."""
        return None if self._failure is None else Unavailable(self._failure)

    @property
    def first(self) -> Lsn:
        """The lowest LSN that can still be read."""
        return self._segments.first

    @property
    def bytes_on_disk(self) -> int:
        """The bytes in all segments, without spares."""
        return self._segments.bytes_on_disk

    @property
    def queued(self) -> bool:
        """Whether something waits for a commit."""
        return bool(self._queue)

    # Appending

    def append(self, entries: Sequence[Buffer], *, reserve: bool = False) -> Lsn:
        """Number a frame of entries that become true together, and queue it; it is not yet durable.

        Raises `Full` when the disk has no room and `Preparing` when room is just being made (call again after
        `maintain`); then nothing was numbered. `reserve` lets in what must go on when the disk is full: use it
        for what is small and frees space. The buffers must not change until the frame is synced.
        """
        payload = pack(entries)
        with self._numbering:
            return self._enqueue(payload, reserve)

    def mark(self) -> Lsn | None:
        """Queue an empty frame, so that the last group's sync is proven on disk; None if that is needless."""
        with self._numbering:
            if self._failure or self._closing or self._marked == self._end or self._synced < self._end:
                return None
            if self._fill + HEADER_BYTES > self._capacity:
                return None
            self._queue.append((Kind.MARK, EMPTY))
            self._fill += HEADER_BYTES
            self._end += 1
            self._marked = self._end
            return self._end - 1

    def _enqueue(self, payload: Payload, reserve: bool) -> Lsn:
        self._check_writable()
        size = HEADER_BYTES + payload.length
        # Each segment keeps room for a mark: the last frame in it wants its proof, too.
        if self._fill + size + HEADER_BYTES > self._capacity:
            self._plan_rotation(size + HEADER_BYTES, reserve)
        else:
            self._room.check(reserve=reserve)
            if self._clock.monotonic_ms() >= self._close_at_ms:
                # Its age alone refuses nothing: where there is nothing to go on in, it goes on.
                with contextlib.suppress(Unavailable):
                    self._plan_rotation(size + HEADER_BYTES, reserve)
        lsn = self._end
        self._queue.append((Kind.DATA, payload))
        self._fill += size
        self._end = lsn + 1
        return lsn

    def _plan_rotation(self, size: int, reserve: bool) -> None:
        """Queue a rotation before the frame of `size` bytes, or raise because there is no room for it."""
        self._room.check_rotation(reserve=reserve)
        snapshot = self._fold.snapshot()
        planned = 0 if snapshot is None else snapshot.most_bytes + HEADER_BYTES * snapshot.most_parts
        spare = self._room.claim(planned, size, reserve=reserve)
        self._queue.append(_Rotation(self._end, spare, snapshot, planned))
        self._rotations_queued += 1
        self._fill = SEGMENT_HEADER_BYTES + planned
        self._capacity = spare.size
        self._close_at_ms = self._clock.monotonic_ms() + self._limits.segment_max_age_ms

    # Committing

    def commit(self, *, sync: bool = True) -> Lsn:
        """Write everything queued, up to `max_batch_bytes`, as one group; sync it; return `synced`.

        With nothing queued it syncs what was written and not yet synced.
        """
        with self._committing:
            self._commit_group_or_fail(sync)
            return self._synced

    def commit_if_idle(self) -> bool:
        """Commit here and now, unless somebody else is committing or it is more than a frame or two."""
        if self._rotations_queued or len(self._queue) > 4 or not self._committing.acquire(blocking=False):
            return False
        try:
            self._commit_group_or_fail(True)
        finally:
            self._committing.release()
        return True

    def sync(self, lsn: Lsn) -> None:
        """Return once frame `lsn` is synced; whoever comes first commits for all who wait."""
        while self._synced <= lsn:
            with self._committing:
                if self._synced > lsn:
                    return
                if lsn >= self._end:
                    self._check_writable()
                    raise ValueError(f"LSN {lsn} was never appended; the log ends at {self._end}")
                self._commit_group_or_fail(True)

    def write(self, entries: Sequence[Buffer], *, reserve: bool = False) -> Lsn:
        """Append, make room if need be, sync, and return the LSN: for callers without a committer thread."""
        asked = False
        while True:
            try:
                lsn = self.append(entries, reserve=reserve)
                break
            except Preparing:
                if not self.maintain():
                    self._check_writable()
                    raise self._room.missing() from None
            except Full:
                if asked or not self.maintain():
                    raise
                asked = True  # space may have been freed; if not, it is full
        self.sync(lsn)
        return lsn

    def _commit_group_or_fail(self, sync: bool) -> None:
        self._check_open()
        try:
            self._commit_group(sync)
        except BaseException as error:
            # Whatever it was, a failed disk or Ctrl-C: frames were numbered that are not where they belong.
            self._fail(error)
            if isinstance(error, Exception):
                raise Unavailable(self._failure) from error
            raise

    def _commit_group(self, sync: bool) -> None:
        queue = self._queue
        while queue and isinstance(queue[0], _Rotation):
            self._rotate(queue[0])
            queue.popleft()
        group: list[tuple[int, Payload]] = []
        size = 0
        while queue:
            item = queue[0]
            if isinstance(item, _Rotation) or (group and size + item[1].length > self._limits.max_batch_bytes):
                break
            group.append(item)
            queue.popleft()
            size += HEADER_BYTES + item[1].length
        if group:
            self._writer.write(group, self._synced)
            self._written += len(group)
            if not sync:
                self._acknowledged_position = self._writer.segment.size
        if sync and self._written > self._synced:
            self._writer.sync()
            self._acknowledged_position = self._writer.segment.size
            self._synced = self._written

    def _rotate(self, rotation: _Rotation) -> None:
        """Go over to the next segment. What was written to the old one is synced here in every mode."""
        old = self._writer
        old.seal()
        self._synced = self._written
        assert rotation.first == self._written, "a segment begins where the one before ends"
        writer = Writer.begin(
            self._directory,
            rotation.spare.name,
            first=rotation.first,
            chain=old.chain if old.segment.end > old.segment.first else old.segment.header.chain,
            snapshot=rotation.snapshot,
            identity=self._random.getrandbits(64),
            created_ms=self._clock.now_ms(),
        )
        try:
            writer.publish(rotation.spare.name)
        except BaseException:
            writer.file.close()
            raise
        old.file.close()
        self._segments.add(writer.segment)
        with self._numbering:
            self._writer = writer
            self._acknowledged_position = writer.segment.size
            self._room.snapshot_bytes = writer.segment.header.body - SEGMENT_HEADER_BYTES
            self._rotations_queued -= 1
            if self._rotations_queued == 0:
                self._fill += self._room.snapshot_bytes - rotation.planned

    def fail(self, error: BaseException) -> None:
        """Stop writing for good: for whoever finds that nobody can be told any more."""
        with self._committing:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Stop writing for good, and cut back what nobody was told is there."""
        what = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        with self._numbering:
            if self._failure is not None:
                return
            self._failure = f"a write failed ({what}): the journal only reads until it is opened again"
            self._queue.clear()
        with contextlib.suppress(OSError):
            # The disk may refuse this too. Then the frames are found whole or torn at the next opening, and
            # nobody was told that they are there.
            self._writer.file.truncate(self._acknowledged_position)
            self._writer.sync()

    # Room

    def release(self, lsn: Lsn) -> None:
        """Say that no frame below `lsn` is needed any more. `maintain` lets the files go."""
        self._room.release(min(lsn, self._synced))

    def maintain(self) -> bool:
        """Let released segments go and prepare spares; slow. Say whether there is room."""
        return self._room.make(lambda: not self._closing and self._failure is None)

    @property
    def wants_maintenance(self) -> bool:
        """Whether `maintain` has something to do."""
        return self._room.wants_work

    # Reading

    def read(self, lsn: Lsn) -> list[memoryview]:
        """Return the entries of a synced frame, every bit of it checked."""
        for number, entries in self.frames(lsn, lsn + 1):
            if number == lsn:
                return entries
        raise Refused(f"LSN {lsn} holds no entries")

    def read_ahead(self, lsn: Lsn, most_bytes: int) -> Iterator[tuple[Lsn, list[memoryview]]]:
        """Yield the synced frame `lsn` and those behind it, until they have about this many bytes together."""
        size = 0
        for number, entries in self.frames(lsn):
            yield number, entries
            size += HEADER_BYTES + sum(map(len, entries))
            if size >= most_bytes:
                return

    def frames(self, start: Lsn, end: Lsn | None = None) -> Iterator[tuple[Lsn, list[memoryview]]]:
        """Yield (LSN, entries) of the synced frames from `start` to `end`, oldest first.

        The entries are valid until the next step. While a segment is being read its file is not used again.
        """
        end = self._synced if end is None else min(end, self._synced)
        return self._segments.frames(start, end)

    def entries(self, start: Lsn) -> Iterator[list[memoryview]]:
        """Yield the entries of the synced frames from `start` on, or a few before, those of many frames at once.

        They are valid until the next step, and do not say which frame they are of.
        """
        return self._segments.entries(start, self._synced)

    def refold(self, fold: Fold) -> None:
        """Bring a fresh fold to the last synced frame, from the newest segment's snapshot on: after a failure."""
        segment = self._writer.segment
        header = segment.header
        assert header.has_snapshot or segment.first == self.first, "a fold begins with a snapshot, or with the log"
        if header.has_snapshot:
            file = self._directory.open(segment.name, write=False)
            try:
                parts = Scan(
                    file, header.identity, SEGMENT_HEADER_BYTES, 0, header.chain, end=header.body, snapshot=True
                )
                fold.restore(payload for _, _, payload in parts)
            finally:
                file.close()
        for lsn, entries in self.frames(segment.first, self._synced):
            fold.apply(lsn, entries)

    # Closing

    def close(self) -> None:
        """Finish what was appended, leave the clean mark and let go of the directory. Twice is once.

        A journal that failed leaves no mark.
        """
        with self._numbering:
            if self._closing:
                return
            self._closing = True  # from here on nothing is numbered
        try:
            with self._committing, self._room.at_rest():
                while self._failure is None and (self._queue or self._synced < self._written):
                    self._commit_group_or_fail(True)
                if self._failure is None:
                    self._leave_clean()
        finally:
            self._let_go()

    def _leave_clean(self) -> None:
        assert self._written == self._end, "every numbered frame is written"
        try:
            self._writer.seal()
            clean.leave_clean(self._directory, self._end)
        except OSError as error:
            if error.errno not in NO_ROOM:
                self._fail(error)
                raise Unavailable(self._failure) from error
            # All is synced; only the mark has no room. The next opening reads the log as after a kill.
            log.warning("no room for the clean mark in %s; nothing is lost", self._directory.path)

    def abandon(self) -> None:
        """Let go of every file and the lock, and leave the rest as a crash would."""
        with self._numbering:
            self._closing = True
        with self._committing, self._room.at_rest():
            self._let_go()

    def _let_go(self) -> None:
        self._writer.file.close()
        self._segments.close()
        self._directory.close()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise Unavailable(self._failure)

    def _check_writable(self) -> None:
        self._check_open()
        if self._closing:
            raise Unavailable("the journal is closed")

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
