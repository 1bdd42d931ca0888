"""The files of an open journal, in order: found by LSN, held while they are read, let go when released."""

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator

from cordwood.errors import Damage, Damaged, Refused
from cordwood.journal.frame import CHAIN_AT, Kind, unpack
from cordwood.journal.scan import Scan, Why, Window
from cordwood.journal.segment import Segment
from cordwood.journal.stretch import stretch
from cordwood.journal.verdict import REPAIR
from cordwood.machine.disk import Directory, File

READ_BYTES = 1 << 20
WARM = 4  # segments that stay in the system's memory, for readers that are not far behind


class Segments:
    """Every segment, oldest first; there is always one at least. Safe from any thread.

    The lock can be taken again by the thread that holds it: a reader that the garbage collector ends gives its
    segment back wherever that thread happens to be.
    """

    def __init__(self, directory: Directory, segments: list[Segment], open_files: int):
        self._directory = directory
        self._segments = segments
        self._open_files = open_files
        self._lock = threading.RLock()
        self._files: OrderedDict[str, File] = OrderedDict()
        self._in_use: dict[str, int] = {}

    @property
    def first(self) -> int:
        return self._segments[0].first

    @property
    def bytes_on_disk(self) -> int:
        with self._lock:
            return sum(segment.size for segment in self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def add(self, segment: Segment) -> None:
        """Add the newest. One that held no frame, and so has the same name, is replaced."""
        with self._lock:
            if self._segments[-1].first == segment.first:
                self._segments[-1] = segment
            else:
                self._segments.append(segment)

    def releasable(self, released: int) -> Segment | None:
        """Return the oldest segment if it may go: all of it below `released`, unread, not needed for a start.

        The newest snapshot and the segment before it are always kept: a flip in one snapshot must not be
        the end of everything that only snapshots carry.
        """
        with self._lock:
            segments = self._segments
            if len(segments) < 3 or segments[1].first > released or segments[0].readers:
                return None
            newest = next((i for i in reversed(range(len(segments))) if segments[i].header.has_snapshot), 0)
            return segments[0] if newest > 1 else None

    def cooling(self) -> Segment | None:
        """Return a segment that the system need not hold in memory any longer: the newer ones are enough."""
        with self._lock:
            at = len(self._segments) - 1 - WARM
            if at < 0 or self._segments[at].cold:
                return None
            while at > 0 and not self._segments[at - 1].cold:
                at -= 1
            return self._segments[at]

    def take(self, released: int) -> Segment | None:
        """Take the oldest segment out, if it may go; nobody reads it any more."""
        with self._lock:
            old = self.releasable(released)
            if old is not None:
                del self._segments[0]
                file = self._files.pop(old.name, None)
                if file is not None:
                    file.close()
            return old

    def frames(self, start: int, end: int) -> Iterator[tuple[int, list[memoryview]]]:
        """Yield (LSN, entries) from `start` to `end`, every bit checked; the entries are valid until the next step.

        A segment is held, and its file not used again, while it is being read.
        """
        window = Window(READ_BYTES)
        while start < end:
            segment = self._hold(start)
            try:
                stop = min(end, segment.end)
                yield from self._frames_of(segment, start, stop, window)
            finally:
                self._let_go(segment)
            start = stop

    def _frames_of(
        self, segment: Segment, start: int, stop: int, window: Window
    ) -> Iterator[tuple[int, list[memoryview]]]:
        lsn, position = segment.places.find(start)
        file = self._open(segment.name)
        try:
            # The first frame's own link stands in for the one before, which was checked when it was read.
            link = bytearray(8)
            file.read_into(memoryview(link), position + CHAIN_AT)
            chain = int.from_bytes(link, "little")
            identity = segment.header.identity
            scan = Scan(file, identity, position, lsn, chain, end=segment.size, stop_lsn=stop, window=window)
            for _, header, payload in scan:
                if header.kind == Kind.DATA:
                    yield header.lsn, unpack(payload)
            if scan.why is not Why.LIMIT:
                where = (segment.name, scan.position, scan.lsn, stop)
                raise Damaged([Damage(*where, str(scan.why), "it was synced", REPAIR)])
        finally:
            self._close(segment.name)

    def entries(self, start: int, end: int) -> Iterator[list[memoryview]]:
        """Yield the entries of the frames from `start` to `end`, or a few before, of many frames at once.

        Every bit is checked. They are valid until the next step.
        """
        buffer = memoryview(bytearray(READ_BYTES))
        while start < end:
            segment = self._hold(start)
            try:
                stop = min(end, segment.end)
                yield from self._entries_of(segment, start, stop, buffer)
            finally:
                self._let_go(segment)
            start = stop

    def _entries_of(self, segment: Segment, start: int, stop: int, buffer: memoryview) -> Iterator[list[memoryview]]:
        lsn, position = segment.places.find(start)
        identity = segment.header.identity
        file = self._open(segment.name)
        try:
            link = bytearray(8)
            file.read_into(memoryview(link), position + CHAIN_AT)  # as in `_frames_of`
            chain = int.from_bytes(link, "little")
            while lsn < stop:
                have = file.read_into(buffer[: max(0, min(len(buffer), segment.size - position))], position)
                found = stretch(buffer[:have], identity, lsn, chain, stop)
                if found.lsn > lsn:
                    yield found.entries
                    position, lsn, chain = position + found.at, found.lsn, found.chain
                    continue
                # A frame larger than the window, one that leads over what was given up, or damage.
                scan = Scan(file, identity, position, lsn, chain, end=segment.size, stop_lsn=stop)
                for _, header, payload in scan:
                    if header.kind == Kind.DATA:
                        yield unpack(payload)
                    break
                else:
                    where = (segment.name, scan.position, scan.lsn, stop)
                    raise Damaged([Damage(*where, str(scan.why), "it was synced", REPAIR)])
                position, lsn, chain = scan.position, scan.lsn, scan.chain
        finally:
            self._close(segment.name)

    def _hold(self, lsn: int) -> Segment:
        with self._lock:
            place = bisect_right(self._segments, lsn, key=lambda segment: segment.first)
            if place == 0:
                raise Refused(f"LSN {lsn} is gone; the log begins at {self.first}")
            segment = self._segments[place - 1]
            segment.readers += 1
            return segment

    def _let_go(self, segment: Segment) -> None:
        with self._lock:
            segment.readers -= 1

    def _open(self, name: str) -> File:
        """Return an open file to read from; up to `open_files` of them stay open between reads."""
        with self._lock:
            if name not in self._files:
                self._files[name] = self._directory.open(name, write=False)
            self._files.move_to_end(name)
            self._in_use[name] = self._in_use.get(name, 0) + 1
            return self._files[name]

    def _close(self, name: str) -> None:
        with self._lock:
            self._in_use[name] -= 1
            if not self._in_use[name]:
                del self._in_use[name]
            surplus = len(self._files) - self._open_files
            if surplus > 0:
                for other in [other for other in self._files if other not in self._in_use][:surplus]:
                    self._files.pop(other).close()

    def close(self) -> None:
        """Let go of every file."""
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()
