"""The thread that records what a command does, so that no disk is waited for where output is passed on.

    started ─┐
    wrote   ─┼─▶ queue, 64 MiB at most ──▶ transcript ──▶ batches ──▶ append, durable
    ended   ─┘

Batches that are full when the disk is done with the last append go in one: a command that is faster than the disk's
syncs does not wait for one of them per batch. Where there is no room for all, each is tried by itself.

When the outbox takes nothing, that is told once, the events are counted as lost, and the next batch is tried again. A
disk that is slower than the command holds it up only when the queue is full, and for ten seconds at most: then no
more is recorded.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from cordwood.edge.event import Draft
from cordwood.edge.run_batches import MOST_BYTES, Batches
from cordwood.edge.run_transcript import Ended, Started, Transcript
from cordwood.errors import CordwoodError, Full
from cordwood.machine.clock import Clock

MOST_QUEUED_BYTES = 64 << 20
PATIENCE_S = 10.0  # how long a full queue holds the command up
CHUNK_BYTES = 128  # what a chunk costs beside its own bytes, about: many small ones are limited, too

What = Started | Ended | tuple[str, bytes]


class Recorder:
    """Records in a thread of its own. `put` is for one other thread; `lost`: events that were not recorded."""

    def __init__(
        self,
        append: Callable[[Sequence[Draft]], int],
        clock: Clock,
        tell: Callable[[str], None],
        *,
        most_bytes: int = 0,
    ):
        self.lost = 0
        self._append = append
        self._clock = clock
        self._tell = tell
        self._told = False
        self._most_bytes = most_bytes or MOST_QUEUED_BYTES
        self._queue: deque[tuple[int, What]] = deque()
        self._bytes = 0
        self._given_up = False
        self._changed = threading.Condition()
        self._transcript = Transcript()
        self._batches = Batches()
        self._full: list[list[Draft]] = []  # batches that go in the next append
        self._full_bytes = 0
        self._thread = threading.Thread(target=self._run, name="cordwood-run", daemon=True)
        self._thread.start()

    def put(self, what: What, now_ms: int) -> None:
        """Have this recorded; what was put before is recorded before it."""
        with self._changed:
            if isinstance(what, tuple) and not self._has_room():
                self.lost += what[1].count(b"\n")
                return
            self._queue.append((now_ms, what))
            self._bytes += _size(what)
            self._changed.notify_all()

    def _has_room(self) -> bool:
        """Wait for room while that has a prospect, and say whether there is some; if not, there will be none."""
        if not self._given_up and self._bytes > self._most_bytes:
            self._given_up = not self._changed.wait_for(lambda: self._bytes <= self._most_bytes, PATIENCE_S)
            if self._given_up:
                self._complain(f"the disk took nothing for {PATIENCE_S:.0f} s")
        return not self._given_up

    def finish(self, hurried: Callable[[], bool]) -> bool:
        """Wait until all is recorded, or until somebody is in a hurry; say whether it is."""
        while self._thread.is_alive() and not hurried():
            self._thread.join(0.05)
        return not self._thread.is_alive()

    def _run(self) -> None:
        ended = False
        while not ended:
            taken = self._take()
            if taken is not None:
                ended = isinstance(taken[1], Ended)
                now_ms = self._clock.monotonic_ms()
                for event in self._events(*taken):
                    for batch in self._batches.add(event, now_ms):
                        self._gather(batch)
            last = self._batches.take() if ended else self._batches.due(self._clock.monotonic_ms())
            if last:
                self._gather(last)
            if last or ended or not self._queue:
                self._record()

    def _gather(self, batch: list[Draft]) -> None:
        """Let a batch go with those that are full already, 256 KiB of them at most."""
        size = sum([event.size for event in batch])
        if self._full_bytes + size > MOST_BYTES:
            self._record()
        self._full.append(batch)
        self._full_bytes += size

    def _take(self) -> tuple[int, What] | None:
        """Return what is next, or None when a batch is due first."""
        with self._changed:
            due = self._batches.due_at_ms
            wait_s = None if due is None else max(0, due - self._clock.monotonic_ms()) / 1000
            if not self._changed.wait_for(lambda: bool(self._queue), wait_s):
                return None
            taken = self._queue.popleft()
            self._bytes -= _size(taken[1])
            self._changed.notify_all()
            return taken

    def _events(self, now_ms: int, what: What) -> list[Draft]:
        if isinstance(what, Started):
            return [self._transcript.started(what, now_ms)]
        if isinstance(what, Ended):
            return self._transcript.ended(what, now_ms)
        return self._transcript.wrote(*what, now_ms)

    def _record(self) -> None:
        batches, self._full, self._full_bytes = self._full, [], 0
        try:
            if batches:
                self._append([event for batch in batches for event in batch])
        except Full as error:  # nothing of it was appended; where there is no room for all, there may be for some
            if len(batches) == 1:
                self._lose(batches[0], error)
                return
            for batch in batches:
                self._full = [batch]
                self._record()
        except Exception as error:  # a fault of ours, too: it is told, and the next batch is tried
            self._lose([event for batch in batches for event in batch], error)

    def _lose(self, events: list[Draft], error: Exception) -> None:
        self.lost += len(events)
        self._complain(str(error) if isinstance(error, CordwoodError | OSError) else repr(error))

    def _complain(self, reason: str) -> None:
        if not self._told:
            self._told = True
            self._tell(f"the command goes on, but not all it writes can be recorded: {reason}")


def _size(what: What) -> int:
    return CHUNK_BYTES + len(what[1]) if isinstance(what, tuple) else CHUNK_BYTES
