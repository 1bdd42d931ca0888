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
from cordwood.journal.room import RETRY_MS
from cordwood.machine.disk import Buffer

log = logging.getLogger("cordwood.journal")

SyncMode = Literal["always", "interval", "never"]
Told = Callable[[Lsn, Lsn], None]
Observe = Callable[[int, float], None]

IDLE_MS = 50  # long enough to stay out of a busy log, short enough that damage is soon told from a torn write
QUICK_SECONDS = 0.001  # a sync that an event loop may wait for


class Committer:
    """Commits what is appended and tells how far: `told(written, synced)`, from its own thread.

    `failed(error)` comes once, when the journal can no longer write; `room()` comes when an append that raised
    `Preparing` or `Full` may be tried again. `observe(frames, seconds)` comes after each commit, from the thread that
    did it.
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
        observe: Observe = lambda frames, seconds: None,
    ):
        self.journal = journal
        self._observe = observe
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
        self._telling = threading.Lock()
        self._told_of = journal.written  # how far `told` has been, or a lone caller knows
        self._told_synced = journal.synced
        self._told_failure = False
        self._threads = [
            threading.Thread(target=self._commit_for_ever, name="cordwood-committer", daemon=True),
            threading.Thread(target=self._prepare_for_ever, name="cordwood-preparer", daemon=True),
        ]

    def start(self) -> "Committer":
        """Begin; the first spares are prepared while the first frames come in."""
        for thread in self._threads:
            thread.start()
        return self

    def append(self, entries: Sequence[Buffer], *, reserve: bool = False) -> Lsn:
        """Append a frame and have it committed; like `Journal.append` it waits for nothing."""
        lsn = self._append(entries, reserve)
        if not self._work.is_set():
            self._work.set()
        return lsn

    def append_alone(self, entries: Sequence[Buffer], *, reserve: bool = False) -> tuple[Lsn, bool]:
        """Append a frame for a caller beside whom nobody waits; return its LSN, and whether it is synced already.

        With a disk that has been quick it is committed right here, because two switches between threads would cost
        as much as the sync; then `told` says nothing of it. A rotation is left to the committer.
        """
        lsn = self._append(entries, reserve)
        return lsn, self.commit_pushed(lsn, lsn + 1, here=True)

    def push(self, entries: Sequence[Buffer], *, reserve: bool = False) -> Lsn:
        """Append a frame that `commit_pushed` has committed, with others that come before it."""
        return self._append(entries, reserve)

    def commit_pushed(self, first: Lsn, end: Lsn, *, here: bool) -> bool:
        """Have the frames that were pushed committed; say whether they are synced already.

        `here` is for little that nobody else waits beside: with a disk that has been quick it is committed in this
        very call.
        """
        done = here and self._quick and self._commit_here(first, end)
        if not done and not self._work.is_set():
            self._work.set()
        return done

    def _append(self, entries: Sequence[Buffer], reserve: bool) -> Lsn:
        try:
            return self.journal.append(entries, reserve=reserve)
        except Unavailable:
            if self.journal.failure is not None:
                self._tell_failure()
            self._prepare.set()
            raise

    def _commit_here(self, first: Lsn, end: Lsn) -> bool:
        journal = self.journal
        before, begun = journal.written, time.perf_counter()
        try:
            if not journal.commit_if_idle():
                return False
        except Exception:
            self._tell_failure()  # others may wait for what was lost with it
            raise
        seconds = time.perf_counter() - begun
        self._quick = seconds < QUICK_SECONDS
        self._observe(journal.written - before, seconds)
        if journal.wants_maintenance:
            self._prepare.set()
        with self._telling:
            if self._told_of == self._told_synced == first:
                self._told_of = self._told_synced = end  # the caller learns it from us
            others = journal.written > self._told_of
        if self._dozing or others:
            # The thread tells those who were committed along, and brings the proof once all is quiet.
            self._work.set()
        return journal.synced >= end

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
        due: int | None = None  # when what was written must be synced, in interval mode
        try:
            while not (self._stopping and not journal.queued) and journal.failure is None:
                wait_ms = IDLE_MS if due is None else max(0, due - _now_ms())
                idle = not self._work.wait(wait_ms / 1000)
                self._work.clear()
                while journal.queued:
                    due = self._commit(due)
                if due is not None and _now_ms() >= due:
                    due = self._commit(due)
                self._tell()
                if idle and due is None:
                    self._doze()
            if journal.failure is not None:
                self._tell_failure()
        except Exception as error:  # also one of the owner's `told`: nobody may be left waiting for ever
            self._fail(error)

    def _commit(self, due: int | None) -> int | None:
        """Commit a group, sync it if it is time, tell; return when what is not synced must be."""
        journal = self.journal
        before, begun = journal.written, time.perf_counter()
        always = self._sync == "always"
        journal.commit(sync=always or (due is not None and _now_ms() >= due))
        seconds = time.perf_counter() - begun
        self._quick = always and seconds < QUICK_SECONDS
        self._observe(journal.written - before, seconds)
        self._tell()
        if journal.wants_maintenance:
            self._prepare.set()
        if self._sync != "interval" or journal.synced == journal.written:
            return None
        return due if due is not None else _now_ms() + self._sync_interval_ms

    def _doze(self) -> None:
        """Bring the proof of the last group, or, if that is done, wait for work however long it takes."""
        journal = self.journal
        self._dozing = True  # before looking: whoever commits from here on wakes this thread
        if journal.synced == journal.written and journal.mark() is not None:
            journal.commit()
            self._tell()
        elif not self._stopping:  # whoever stops says so before it wakes this thread
            self._work.wait()
        self._dozing = False

    def _tell(self) -> None:
        """Tell how far it is, if it is farther than was told."""
        with self._telling:
            written, synced = self.journal.written, self.journal.synced
            news = written + synced > self._told_of + self._told_synced
            self._told_of, self._told_synced = written, synced
        if news:
            self._told(written, synced)

    def _prepare_for_ever(self) -> None:
        try:
            while not self._stopping and self.journal.failure is None:
                made = self.journal.maintain()
                self._room()  # also when there is none: then whoever waits for it is told
                if made:
                    self._prepare.wait()
                else:
                    # A full disk is not asked again for each append that it refuses.
                    self._freed.wait(RETRY_MS / 1000)
                self._prepare.clear()
                self._freed.clear()
            if self.journal.failure is not None:
                self._tell_failure()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.journal.fail(error)
        if not isinstance(error, Unavailable):
            log.error("the journal fails because its owner did", exc_info=error)
        self._tell_failure()

    def _tell_failure(self) -> None:
        """Tell, once, that the journal can no longer write."""
        failure = self.journal.failure
        assert failure is not None, "a journal that failed says why"
        with self._telling:
            again, self._told_failure = self._told_failure, True
        if not again:
            log.error("%s", failure)
            self._prepare.set()
            self._freed.set()
            self._work.set()
            self._failed(failure)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
