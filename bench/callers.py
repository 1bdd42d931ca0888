"""Those who call a journal: a thread with frames in flight, and asyncio tasks that wait for their sync.

Thread   append, append, … ──▶ up to `in_flight` not yet synced, then it waits
Tasks    append ──▶ (LSN, future) ──▶ committer: told ──▶ one callback in the loop wakes all below `synced`
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable

from cordwood.errors import Preparing, Unavailable
from cordwood.journal.committer import Committer
from cordwood.journal.journal import Journal

RELEASE_EVERY = 32  # frames; small enough that a segment of 1 MiB frames is let go soon after it is full


class Thread:
    """A plain thread that keeps a bounded number of frames in flight."""

    def __init__(self, journal: Journal, *, releases: bool):
        self._releases = releases
        self._synced = journal.synced
        self._moved = threading.Condition()
        self._failure: Unavailable | None = None
        self.committer = Committer(journal, self._told, failed=self._failed).start()

    def send(self, piece: bytes, *, count: int, in_flight: int) -> None:
        """Append `count` frames, never more than `in_flight` unsynced; the last of them may still be."""
        for number in range(count):
            lsn = self.committer.append_when_room([piece])
            if self._releases and number % RELEASE_EVERY == 0:
                self.committer.release(self._synced)
            self.wait(lsn - in_flight + 1)

    def wait(self, lsn: int) -> None:
        """Return once frame `lsn` is synced."""
        with self._moved:
            self._moved.wait_for(lambda: self._synced > lsn or self._failure is not None)
        if self._failure is not None:
            raise self._failure

    def _append(self, piece: bytes) -> tuple[int, bool]:
        if self._tasks == 1:
            return self.committer.append_alone([piece])
        return self.committer.append([piece]), False

    def _release(self, synced: int) -> None:
        if synced - self._released >= 8192:
            self._released = synced
            self.committer.release(synced)

    def _told(self, _written: int, synced: int) -> None:
        with self._moved:
            self._synced = synced
            self._moved.notify()

    def _failed(self, error: Unavailable) -> None:
        with self._moved:
            self._failure = error
            self._moved.notify()


class Tasks:
    """So many asyncio tasks that append and await their sync. Make it inside the loop it serves."""

    def __init__(self, journal: Journal, tasks: int):
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._wanting_room: list[asyncio.Future[None]] = []
        self._released = 0
        self.syncs = 0  # told comes once for each commit, and each commit is one fdatasync
        self.committer = Committer(
            journal,
            self._told,
            failed=lambda error: self._in_loop(self._fail, error),
            room=lambda: self._in_loop(self._wake_for_room),
        ).start()

    async def write(self, piece: bytes) -> int:
        """Append a frame, wait until it is synced, and return its LSN."""
        while True:
            try:
                lsn, done = self._append(piece)
                break
            except Preparing:
                room = self._loop.create_future()
                self._wanting_room.append(room)
                await room
        if done:
            self._release(lsn)
            return lsn
        synced = self._loop.create_future()
        self._waiting.append((lsn, synced))
        await synced
        return lsn

    def _append(self, piece: bytes) -> tuple[int, bool]:
        if self._tasks == 1:
            return self.committer.append_alone([piece])
        return self.committer.append([piece]), False

    def _release(self, synced: int) -> None:
        if synced - self._released >= 8192:
            self._released = synced
            self.committer.release(synced)

    def _told(self, _written: int, synced: int) -> None:
        self.syncs += 1
        self._in_loop(self._wake_synced, synced)

    def _in_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _wake_synced(self, synced: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] < synced:
            _, future = waiting.popleft()
            if not future.done():
                future.set_result(None)
        self._release(synced)

    def _wake_for_room(self) -> None:
        wanting, self._wanting_room = self._wanting_room, []
        for future in wanting:
            if not future.done():
                future.set_result(None)

    def _fail(self, error: Unavailable) -> None:
        for future in [*(future for _, future in self._waiting), *self._wanting_room]:
            if not future.done():
                future.set_exception(error)
