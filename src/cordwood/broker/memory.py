"""A journal without a disk: for tests, notebooks, and whoever says `--memory`."""

from collections.abc import Iterator, Sequence

from cordwood.errors import Refused
from cordwood.machine.disk import Buffer


class MemoryLog:
    """Frames in memory; what is appended counts as durable at once, and is gone with the process."""

    def __init__(self) -> None:
        self._frames: dict[int, list[memoryview]] = {}
        self._first = 0
        self.end = 0
        self.bytes = 0

    def append(self, entries: Sequence[Buffer], *, reserve: bool = False) -> int:
        """Number a frame and keep it."""
        kept = [memoryview(entry).cast("B") for entry in entries]
        self._frames[self.end] = kept
        self.bytes += sum(map(len, kept))
        self.end += 1
        return self.end - 1

    def read(self, lsn: int, most_bytes: int) -> Iterator[tuple[int, list[memoryview]]]:
        """Yield a frame; here nothing is gained by reading ahead."""
        found = self._frames.get(lsn)
        if found is None:
            raise Refused(f"LSN {lsn} is gone; the log begins at {self._first}")
        yield lsn, found

    def release(self, lsn: int) -> None:
        """Let the frames below `lsn` go."""
        for number in range(self._first, min(lsn, self.end)):
            self.bytes -= sum(map(len, self._frames.pop(number)))
        self._first = max(self._first, min(lsn, self.end))
