"""SQLite, in this process: a table, a transaction a batch.

Write-ahead logging is faster here than a rollback journal, and pages of 16 KiB than smaller ones. With
`synchronous=FULL` each commit is one fsync of the write-ahead log, with NORMAL only a checkpoint syncs. The
default is a rollback journal: several fsyncs a commit.
"""

import itertools
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

from cordwood.bench.load import Clock, Load, Message
from cordwood.bench.modes import SQLITE, Mode
from cordwood.bench.peers.peer import FETCH_AHEAD, FILL_BATCH, LOOP_FLUSH

_INSERT = "INSERT INTO message (value, key) VALUES (?, ?)"
_OLDEST = "SELECT id, key, value FROM message ORDER BY id LIMIT ?"


_PRAGMAS = {  # by mode
    "safe": ("page_size=16384", "journal_mode=WAL", "synchronous=FULL"),
    "default": ("page_size=4096", "journal_mode=DELETE", "synchronous=FULL"),
    "NORMAL": ("page_size=16384", "journal_mode=WAL", "synchronous=NORMAL"),
}


class Sqlite:
    name = "SQLite"

    def __init__(self, mode: Mode = SQLITE[0]) -> None:
        self.mode = mode

    def start(self, directory: Path) -> None:
        self._directory = directory / "queue"
        self.version = sqlite3.sqlite_version

    def stop(self) -> None:
        pass

    def _queue(self) -> "_Queue":
        return _Queue(self._directory, _PRAGMAS[self.mode.name])

    def produce_batches(self, load: Load, batch: int) -> float:
        with self._queue() as queue:
            clock = Clock(load)
            for messages in load.batches(batch):
                queue.add(messages)
                if not clock.goes_on(batch):
                    break
            rate = clock.rate()
            queue.check_count(clock.count)
            return rate

    def produce_loop(self, load: Load) -> float:
        with self._queue() as queue:
            execute = queue.database.execute
            clock = Clock(load)
            for messages in load.batches(LOOP_FLUSH):
                execute("BEGIN")
                for message in messages:
                    execute(_INSERT, message)
                execute("COMMIT")
                if not clock.goes_on(len(messages)):
                    break
            rate = clock.rate()
            queue.check_count(clock.count)
            return rate

    def singles(self, load: Load, callers: int) -> float:
        """A database has one writer at a time, so the callers share a connection and take turns."""
        with self._queue() as queue:
            turn = threading.Lock()
            clock = Clock(load)

            def call(place: int) -> None:
                for message in itertools.cycle(load.messages[place::callers]):
                    with turn:
                        queue.database.execute(_INSERT, message)
                        if not clock.goes_on(1):
                            return

            threads = [threading.Thread(target=call, args=(place,), daemon=True) for place in range(callers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rate = clock.rate()
            queue.check_count(clock.count)
            return rate

    def consume_batches(self, load: Load, batch: int) -> float:
        with self._queue() as queue:
            queue.fill(load)
            execute = queue.database.execute
            clock = Clock(load)
            while True:
                execute("BEGIN IMMEDIATE")
                rows = execute(_OLDEST, (batch,)).fetchall()
                if rows:
                    execute("DELETE FROM message WHERE id BETWEEN ? AND ?", (rows[0][0], rows[-1][0]))
                execute("COMMIT")
                if not rows or not clock.goes_on(len(rows)):
                    return clock.rate()

    def consume_each(self, load: Load) -> float:
        with self._queue() as queue:
            queue.fill(load)
            execute = queue.database.execute
            clock = Clock(load)
            while True:
                execute("BEGIN IMMEDIATE")
                rows = execute(_OLDEST, (FETCH_AHEAD,)).fetchall()
                for number, _key, _value in rows:
                    execute("DELETE FROM message WHERE id = ?", (number,))
                execute("COMMIT")
                if not rows or not clock.goes_on(len(rows)):
                    return clock.rate()


class _Queue:
    """An empty table in a new database, which is deleted in the end."""

    def __init__(self, directory: Path, pragmas: Sequence[str]):
        self._directory = directory
        directory.mkdir()
        self.database = sqlite3.connect(directory / "queue.db", isolation_level=None, check_same_thread=False)
        for pragma in pragmas:
            self.database.execute(f"PRAGMA {pragma}")
        self.database.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, key BLOB, value BLOB NOT NULL)")

    def add(self, messages: Sequence[Message]) -> None:
        self.database.execute("BEGIN IMMEDIATE")
        self.database.executemany(_INSERT, messages)
        self.database.execute("COMMIT")

    def fill(self, load: Load) -> None:
        clock = Clock(load)
        for messages in load.batches(FILL_BATCH):
            self.add(messages)
            if not clock.goes_on(FILL_BATCH):
                return

    def check_count(self, count: int) -> None:
        ((stored,),) = self.database.execute("SELECT count(*) FROM message")
        assert stored == count, "every message is there"

    def __enter__(self) -> "_Queue":
        return self

    def __exit__(self, *error: object) -> None:
        self.database.close()
        shutil.rmtree(self._directory)
