"""The journal: append, sync, acknowledge, in that order.

    append   numbers a frame and queues it; decides here, before numbering, whether there is room
    commit   writes all that is queued as one group and syncs it: one fdatasync for everybody
    rotate   when a segment is full: seal it, begin the next with a snapshot, publish it
    maintain makes spare files and takes back released segments; slow, so in another thread

`end` is what has been appended, `written` what the kernel has, `synced` what a power cut leaves; each is the LSN
behind the last such frame, and end ≥ written ≥ synced always. After a write or sync that failed the journal only
reads: what was not acknowledged is cut back, and every append and every wait raises `Unavailable`.

Threads: `append` from any; `commit` from any, one at a time; `maintain` from one. The owner's `snapshot` is
called inside `append`, by the thread that appends, when its state is that of every frame below.
"""

import contextlib
import threading
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from cordwood.errors import CordwoodError, Damage, Damaged, Full, Preparing, Refused, Unavailable
from cordwood.journal import clean
from cordwood.journal.fold import Fold
from cordwood.journal.frame import EMPTY, HEADER_BYTES, Kind, Payload, pack, unpack
from cordwood.journal.limits import Limits
from cordwood.journal.scan import Scan, Why, Window
from cordwood.journal.segment import HEADER_BYTES as SEGMENT_HEADER_BYTES
from cordwood.journal.segment import Segment
from cordwood.journal.spares import Spare, Spares
from cordwood.journal.verdict import REPAIR
from cordwood.journal.writer import Writer
from cordwood.machine.clock import Clock
from cordwood.machine.disk import Buffer, Directory, File

Lsn = int


class _Rotation(NamedTuple):
    first: Lsn
    spare: Spare
    snapshot: Iterable[Buffer] | None
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
        self._segments = segments
        self._writer = writer
        self._spares = spares
        self._queue: deque[tuple[int, Payload] | _Rotation] = deque()
        self._numbering = threading.Lock()
        self._committing = threading.Lock()
        self._maintaining = threading.Lock()
        self._failure: Unavailable | None = None
        self._closed = False
        self._end = self._written = self._synced = writer.segment.end
        self._acknowledged_position = writer.segment.size
        self._marked = writer.segment.end
        self._released = 0
        self._keeps_all = False  # a released file did not surely go
        self._fill = writer.segment.size
        self._capacity = max(writer.file.size(), writer.segment.size)
        self._snapshot_bytes = writer.segment.header.body - SEGMENT_HEADER_BYTES
        self._rotations_queued = 0
        self._wanted_bytes = 0  # a frame waits for a spare as large as this
        self._room_trouble: CordwoodError | None = None
        self._files: OrderedDict[str, File] = OrderedDict()
        self._in_use: dict[str, int] = {}

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
        return self._failure

    @property
    def first(self) -> Lsn:
        """The lowest LSN that can still be read."""
        return self._segments[0].first

    @property
    def bytes_on_disk(self) -> int:
        """The bytes in all segments, without spares."""
        return sum(segment.size for segment in list(self._segments))

    # Appending

    def append(self, entries: Sequence[Buffer], *, reserve: bool = False) -> Lsn:
        """Number a frame of entries that become true together, and queue it; it is not yet durable.

        Raises `Full` when the disk has no room and `Preparing` when room is just being made (call again after
        `maintain`); then nothing was numbered. `reserve` lets in what must go on when the disk is full: use it
        for what is small and frees space. The buffers must not change until the frame is synced.
        """
        payload = pack(entries)
        with self._numbering:
            return self._enqueue(Kind.DATA, payload, reserve)

    def mark(self) -> Lsn | None:
        """Queue an empty frame, so that the last group's sync is proven on disk; None if that is needless."""
        with self._numbering:
            needless = self._marked == self._end or self._fill + HEADER_BYTES > self._capacity
            if self._failure or self._closed or needless:
                return None
            lsn = self._enqueue(Kind.MARK, EMPTY, True)
            self._marked = self._end
            return lsn

    def _enqueue(self, kind: Kind, payload: Payload, reserve: bool) -> Lsn:
        self._check_writable()
        size = HEADER_BYTES + payload.length
        if self._fill + size > self._capacity:
            self._plan_rotation(size, reserve)
        elif not reserve and not self._spares.ready:
            raise self._no_room()
        lsn = self._end
        self._queue.append((kind, payload))
        self._fill += size
        self._end = lsn + 1
        return lsn

    def _plan_rotation(self, size: int, reserve: bool) -> None:
        """Queue a rotation before the frame of `size` bytes, or raise because there is no room for it."""
        eighth = self._limits.segment_bytes // 8
        planned = min(max(eighth, 2 * self._snapshot_bytes), self._limits.segment_bytes // 2)
        needed = SEGMENT_HEADER_BYTES + planned + size
        spare = self._spares.fitting(needed)
        if spare is None:
            # It may be too large for an ordinary segment: then it gets one of its own.
            self._wanted_bytes = max(self._wanted_bytes, needed)
            raise self._no_room()
        if not reserve and len(self._spares.ready) < 2:
            raise self._no_room()
        snapshot = self._fold.snapshot()
        self._spares.ready.remove(spare)
        self._queue.append(_Rotation(self._end, spare, snapshot, planned))
        self._rotations_queued += 1
        self._fill = SEGMENT_HEADER_BYTES + planned
        self._capacity = spare.size

    def _no_room(self) -> CordwoodError:
        if self._room_trouble is not None:
            return self._room_trouble
        return Preparing("the next segment is being prepared; try again in a moment")

    # Committing

    def commit(self, *, sync: bool = True) -> Lsn:
        """Write everything queued, up to `max_batch_bytes`, as one group; sync it; return `synced`.

        With nothing queued it syncs what was written and not yet synced.
        """
        with self._committing:
            self._commit_group_or_fail(sync)
            return self._synced

    def _commit_group_or_fail(self, sync: bool) -> None:
        self._check_writable()
        try:
            self._commit_group(sync)
        except Exception as error:
            # Not only the disk: an owner whose snapshot raises must not leave frames waiting for ever.
            raise self._fail(error) from error

    def _commit_group(self, sync: bool) -> None:
        queue = self._queue
        while queue and isinstance(queue[0], _Rotation):
            self._rotate(queue[0])
            queue.popleft()
        group: list[tuple[int, Payload]] = []
        size = 0
        while queue and size < self._limits.max_batch_bytes:
            item = queue[0]
            if isinstance(item, _Rotation):
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
            chain=old.chain if len(old.segment.positions) else old.segment.header.chain,
            snapshot=rotation.snapshot,
            identity=self._random.getrandbits(64),
            created_ms=self._clock.now_ms(),
        )
        writer.publish(rotation.spare.name)
        old.file.close()
        with self._numbering:
            self._writer = writer
            if self._segments[-1].first == writer.segment.first:
                self._segments.pop()  # it held no frame, and the new one took its name
            self._segments.append(writer.segment)
            self._acknowledged_position = writer.segment.size
            self._snapshot_bytes = writer.segment.header.body - SEGMENT_HEADER_BYTES
            self._rotations_queued -= 1
            if self._rotations_queued == 0:
                self._fill += self._snapshot_bytes - rotation.planned

    def _fail(self, error: Exception) -> Unavailable:
        """Stop writing for good, and cut back what nobody was told is there."""
        what = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        self._failure = Unavailable(f"a write failed ({what}): the journal only reads until it is opened again")
        self._queue.clear()
        with contextlib.suppress(OSError):
            # The disk may refuse this too. Then the frames are found whole or torn at the next opening, and
            # nobody was told that they are there.
            self._writer.file.truncate(self._acknowledged_position)
            self._writer.sync()
        return self._failure

    def sync(self, lsn: Lsn) -> None:
        """Return once frame `lsn` is synced; whoever comes first commits for all who wait."""
        while self._synced <= lsn:
            with self._committing:
                if self._synced > lsn:
                    return
                self._commit_group_or_fail(True)

    @property
    def queued(self) -> bool:
        """Whether something waits for a commit."""
        return bool(self._queue)

    def write(self, entries: Sequence[Buffer], *, reserve: bool = False) -> Lsn:
        """Append, make room if need be, sync, and return the LSN: for callers without a committer thread."""
        while True:
            try:
                lsn = self.append(entries, reserve=reserve)
                break
            except (Preparing, Full):
                if not self.maintain():
                    raise self._no_room() from None
        self.sync(lsn)
        return lsn

    # Room

    def release(self, lsn: Lsn) -> None:
        """Say that no frame below `lsn` is needed any more. `maintain` lets the files go."""
        with self._numbering:
            self._released = max(self._released, min(lsn, self._synced))

    def maintain(self) -> bool:
        """Let released segments go and prepare spares, until there is nothing to do; say whether there is room.

        A disk that is full is not an error here: `append` tells, and the next call tries again.
        """
        with self._maintaining:
            if self._closed or self._failure:
                return False
            try:
                while self._step():
                    pass
            except Full as error:
                self._room_trouble = error
                return False
            except OSError as error:
                self._room_trouble = Unavailable(f"cannot prepare a segment: {error.strerror or error}")
                return False
            self._room_trouble = None
            return True

    @property
    def wants_maintenance(self) -> bool:
        """Whether `maintain` has something to do."""
        return self._lacks_spares() or self._releasable() is not None

    def _lacks_spares(self) -> bool:
        return len(self._spares.ready) < self._limits.spares or self._wanted_bytes > 0

    def _step(self) -> bool:
        old = self._take_released()
        if old is not None:
            self._let_file_go(old)
            return True
        if self._lacks_spares():
            self._add(self._spares.make(max(self._limits.segment_bytes, self._wanted_bytes)))
            return True
        return False

    def _let_file_go(self, old: Segment) -> None:
        """Use a released file again, or remove it: one at a time, oldest first, each made durable.

        A power cut must not leave a hole between two that are still there. So, when one did not surely go, no
        later one goes before the journal is opened again.
        """
        self._forget_file(old.name)
        self._keeps_all = True
        size = self._limits.segment_bytes
        # A short file costs as much to lengthen as a new one; an overlong one wastes room.
        if self._lacks_spares() and size // 2 <= old.size <= 2 * size:
            try:
                self._add(self._spares.recycle(old.name, size))
            except Full:
                self._keeps_all = False  # it went; only lengthening it failed
                raise
        else:
            self._directory.remove(old.name)
            self._directory.sync()
        self._keeps_all = False

    def _add(self, spare: Spare) -> None:
        with self._numbering:
            self._spares.ready.append(spare)
            if spare.size >= self._wanted_bytes:
                self._wanted_bytes = 0

    def _releasable(self) -> Segment | None:
        """Return the oldest segment if it may go: all of it released, unread, and not needed for a start.

        The newest snapshot and the segment before it are always kept: a flip in one snapshot must not be
        the end of everything that only snapshots carry.
        """
        segments = self._segments
        oldest = segments[0]
        if self._keeps_all or len(segments) < 3 or segments[1].first > self._released or oldest.readers:
            return None
        newest = next((i for i in reversed(range(len(segments))) if segments[i].header.has_snapshot), 0)
        return oldest if newest > 1 else None

    def _take_released(self) -> Segment | None:
        with self._numbering:
            old = self._releasable()
            if old is not None:
                del self._segments[0]
            return old

    # Reading

    def read(self, lsn: Lsn) -> list[memoryview]:
        """Return the entries of a synced frame, every bit of it checked."""
        for number, entries in self.frames(lsn, lsn + 1):
            if number == lsn:
                return entries
        raise Refused(f"LSN {lsn} holds no entries")

    def frames(self, start: Lsn, end: Lsn | None = None) -> Iterator[tuple[Lsn, list[memoryview]]]:
        """Yield (LSN, entries) of the synced frames from `start` to `end`, oldest first.

        The entries are valid until the next step. While a segment is being read its file is not used again.
        """
        end = self._synced if end is None else min(end, self._synced)
        if start < self.first:
            raise Refused(f"LSN {start} is gone; the log begins at {self.first}")
        window = Window(1 << 20)
        while start < end:
            segment = self._hold(start)
            try:
                stop = min(end, segment.end)
                yield from self._frames_of(segment, start, stop, window)
            finally:
                self._let_go(segment)
            start = stop

    def _frames_of(
        self, segment: Segment, start: Lsn, stop: Lsn, window: Window
    ) -> Iterator[tuple[Lsn, list[memoryview]]]:
        position = segment.positions[start - segment.first]
        after = stop - segment.first
        end = segment.positions[after] if after < len(segment.positions) else segment.size
        file = self._open_file(segment.name)
        try:
            # The first frame's own link stands in for the one before, which was checked when it was read.
            link = bytearray(8)
            file.read_into(memoryview(link), position + 32)
            scan = Scan(
                file,
                segment.header.identity,
                position,
                start,
                int.from_bytes(link, "little"),
                end=end,
                stop_lsn=stop,
                window=window,
            )
            for _, header, payload in scan:
                if header.kind == Kind.DATA:
                    yield header.lsn, unpack(payload)
            if scan.lsn < stop or scan.why is not Why.LIMIT:
                raise Damaged(
                    [
                        Damage(
                            segment.name,
                            scan.position,
                            scan.lsn,
                            stop,
                            str(scan.why),
                            "it was synced",
                            REPAIR,
                        )
                    ]
                )
        finally:
            self._close_file(segment.name)

    def _hold(self, lsn: Lsn) -> Segment:
        with self._numbering:
            place = bisect_right(self._segments, lsn, key=lambda segment: segment.first)
            if place == 0:
                raise Refused(f"LSN {lsn} is gone; the log begins at {self.first}")
            segment = self._segments[place - 1]
            segment.readers += 1
            return segment

    def _let_go(self, segment: Segment) -> None:
        with self._numbering:
            segment.readers -= 1

    def _open_file(self, name: str) -> File:
        """Return an open file to read from; up to `open_files` of them stay open between reads."""
        with self._numbering:
            if name not in self._files:
                self._files[name] = self._directory.open(name, write=False)
            self._files.move_to_end(name)
            self._in_use[name] = self._in_use.get(name, 0) + 1
            return self._files[name]

    def _close_file(self, name: str) -> None:
        with self._numbering:
            self._in_use[name] -= 1
            if not self._in_use[name]:
                del self._in_use[name]
            idle = [other for other in self._files if other not in self._in_use]
            for other in idle[: max(0, len(self._files) - self._limits.open_files)]:
                self._files.pop(other).close()

    def _forget_file(self, name: str) -> None:
        with self._numbering:
            file = self._files.pop(name, None)
            if file is not None:
                file.close()

    # Closing

    def close(self) -> None:
        """Finish what was appended, leave the clean mark and let go of the directory. Twice is once.

        A journal that failed leaves no mark.
        """
        if self._closed:
            return
        try:
            while self._failure is None and (self._queue or self._synced < self._written):
                self.commit()
            with self._committing, self._maintaining:
                self._closed = True
                if self._failure is None:
                    try:
                        self._writer.seal()
                        clean.leave_clean(self._directory, self._end)
                    except OSError as error:
                        raise self._fail(error) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of every file and the lock, and leave the rest as a crash would."""
        self._closed = True
        self._writer.file.close()
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._directory.close()

    def _check_writable(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise Unavailable("the journal is closed")

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
