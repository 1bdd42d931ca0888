"""The two threads of a running journal: one commits, one makes room.

    append ──▶ queue ──▶ committer: commit, tell, commit, tell, …        never a timer to fill a group
                         preparer: spares, released segments             slow disk work that no commit waits for

    sync mode    a group is told     it is synced
    always       after fdatasync     before it is told
    interval     after write(2)      by a timer, also when no traffic follows
    never        after write(2)      when its segment is full or the journal is closed

After idling a moment the committer writes an empty frame: it carries the proof that the last group was synced.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

from cordwood.errors import Preparing, Unavailable
from cordwood.journal.journal import Journal, Lsn
from cordwood.machine.disk import Buffer

log = logging.getLogger("cordwood.journal")

SyncMode = Literal["always", "interval", "never"]
Told = Callable[[Lsn, Lsn], None]

IDLE_MS = 50  # long enough to stay out of a busy log, short enough that damage is soon told from a torn write
QUICK_SECONDS = 0.001  # a sync that an event loop may wait for
RETRY_MS = 1_000  # how often a full disk is asked again whether it has room


class Committer:
    """Commits what is appended and tells how far: `told(written, synced)`, from the thread that committed.

    `failed(error)` comes when the journal can no longer write; `room()` comes when an append that raised
    `Preparing` or `Full` may be tried again.
    """

    def __init__(
        self,
        journal: Journal,
        told: Told,
        *,
        failed: Callable[[Unavailable], None] = lambda error: None,
        room: Callable[[], None] = lambda: None,
        sync: SyncMode = "always",
        sync_interval_ms: int = 100,
    ):
        self.journal = journal
        self._told = told
        self._failed = failed
        self._room = room
        self._sync = sync
        self._sync_interval_ms = sync_interval_ms
        self._work = threading.Event()
        self._prepare = threading.Event()
        self._freed = threading.Event()
        self._stopping = False
        self._dozing = False  # the committing thread waits for work, however long that takes
        self._quick = False  # the last commit was
        self._threads = [
            threading.Thread(target=self._commit_for_ever, name="cordwood-committer", daemon=True),
            threading.Thread(target=self._prepare_for_ever, name="cordwood-preparer", daemon=True),
        ]

    def start(self) -> "Committer":
        """Begin; the first spares are prepared while the first frames come in."""
        for thread in self._threads:
            thread.start()
        return self

    def append(self, entries: Sequence[Buffer], *, reserve: bool = False, lone: bool = False) -> Lsn:
        """Append a frame and have it committed; like `Journal.append` it waits for nothing.

        `lone` says that nobody else waits for a sync. Then, with a disk that has been quick, the frame is committed
        right here: two switches between threads would cost as much as the sync.
        """
        try:
            lsn = self.journal.append(entries, reserve=reserve)
        except Unavailable:
            self._prepare.set()
            raise
        if not (lone and self._quick and self._commit_here()) and not self._work.is_set():
            self._work.set()
        return lsn

    def _commit_here(self) -> bool:
        begun = time.perf_counter()
        if not self.journal.commit_if_idle():
            return False
        self._quick = time.perf_counter() - begun < QUICK_SECONDS
        self._told(self.journal.written, self.journal.synced)
        # The thread is still needed for what may be queued behind, for the proof once all is quiet, and for room.
        return not (self._dozing or self.journal.queued or self.journal.wants_maintenance)

    def append_when_room(self, entries: Sequence[Buffer], *, reserve: bool = False) -> Lsn:
        """Append a frame, waiting while room is being made; for threads, not for an event loop."""
        while True:
            try:
                return self.append(entries, reserve=reserve)
            except Preparing:
                self.journal.maintain()

    def release(self, lsn: Lsn) -> None:
        """Say that no frame below `lsn` is needed any more, and have the files let go."""
        self.journal.release(lsn)
        self._prepare.set()
        self._freed.set()

    def stop(self) -> None:
        """Commit what was appended and end the threads. The journal stays open."""
        self._stopping = True
        self._work.set()
        self._prepare.set()
        self._freed.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _commit_for_ever(self) -> None:
        journal = self.journal
        always = self._sync == "always"
        due = None  # when what was written must be synced, in interval mode
        try:
            while not (self._stopping and not journal.queued):
                wait_ms = IDLE_MS if due is None else max(0, due - time.monotonic_ns() // 1_000_000)
                idle = not self._work.wait(wait_ms / 1000)
                self._work.clear()
                while journal.queued:
                    begun = time.perf_counter()
                    journal.commit(sync=always)
                    self._quick = always and time.perf_counter() - begun < QUICK_SECONDS
                    self._told(journal.written, journal.synced)
                    if journal.wants_maintenance:
                        self._prepare.set()
                now = time.monotonic_ns() // 1_000_000
                if self._sync == "interval" and journal.synced < journal.written:
                    due = now + self._sync_interval_ms if due is None else due
                    if now >= due:
                        journal.commit()
                        self._told(journal.written, journal.synced)
                        due = None
                elif idle:
                    self._dozing = True  # before looking: whoever commits from here on wakes this thread
                    if journal.synced == journal.written and journal.mark() is not None:
                        journal.commit()
                        self._told(journal.written, journal.synced)
                    else:
                        due = None
                        self._work.wait()
                    self._dozing = False
        except Exception as error:  # also one of the owner's `told`: nobody may be left waiting for ever
            self._fail(error)

    def _prepare_for_ever(self) -> None:
        try:
            while not self._stopping and self.journal.failure is None:
                if self.journal.maintain():
                    self._room()
                    self._prepare.wait()
                else:
                    # A full disk is not asked again for each append that it refuses.
                    self._freed.wait(RETRY_MS / 1000)
                self._prepare.clear()
                self._freed.clear()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.journal.fail(error)
        failure = self.journal.failure
        assert failure is not None, "a journal that failed says why"
        log.error("%s", failure, exc_info=None if isinstance(error, Unavailable) else error)
        self._failed(failure)
