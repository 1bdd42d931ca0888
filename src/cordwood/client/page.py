"""Rows of messages, written by any thread without a lock.

    values  a b c · e · · ·         · : EMPTY
    keys    k l m · o · · ·         taken ≤ filled ≤ claimed

A row is claimed by one step of an iterator, which the interpreter never divides between threads, and which makes
the row's future in the same step. Then its thread, and no other, writes the key, and last the value: from then on
the row is filled. Rows are taken from the front as far as they are filled, so messages of one thread keep their
order. A claimed row that stays EMPTY belongs to a thread that was stopped between two steps; see `packing`.
"""

import logging
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import repeat
from operator import length_hint
from typing import Any, NamedTuple

from cordwood.record import Batch

log = logging.getLogger("cordwood.client")

FIRST_ROWS = 64
MOST_ROWS = 8192  # a page of these is a batch by itself, and is filled in about two milliseconds
SAMPLE = 16  # every so many rows are measured to estimate the bytes of a page
LARGE_BYTES = 1024  # a value longer than this is counted by itself
PAGE_BYTES = 1 << 20  # of large values, then the page is full


class _Empty:
    """Not yet written; Arrow takes it for no value."""


EMPTY = _Empty()


class Extra(NamedTuple):
    """What few messages have; times are milliseconds."""

    headers: list[tuple[str, bytes | None]] | None = None
    timestamp: int | None = None
    deliver_at: int | None = None
    expires_at: int | None = None
    partition: int | None = None


class Rows(ABC):
    """Where rows went once they are taken, and who waits to hear of it. `lock` guards only those who wait."""

    __slots__ = ("bytes", "ends", "lock", "taken", "takes", "waiting")

    def __init__(self, lock: threading.Lock):
        self.taken = 0
        self.bytes = 0  # an estimate, made when no row can follow
        self.ends: list[int] = []  # of the rows in each of `takes`
        self.takes: list[tuple[Any, int]] = []  # (Take, what to subtract from a row to have its place in the take)
        self.waiting: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self.lock = lock

    @property
    @abstractmethod
    def claimed(self) -> int:
        """How many rows there are."""

    def note(self, end: int, take: Any, shift: int) -> None:
        """Let the rows up to `end`, which were taken last, find their take."""
        self.takes.append((take, shift))
        self.ends.append(end)  # last: who finds an end finds the take

    def find(self, row: int) -> tuple[Any, int] | None:
        """Return the take of a row and its place there, None when it is not taken."""
        n = bisect_right(self.ends, row)
        if n == len(self.ends):
            return None
        take, shift = self.takes[n]
        return take, row - shift

    def when(self, fact: Callable[[], bool], call: Callable[[], None]) -> None:
        """Call `call` once `fact` is true; at once if it is."""
        with self.lock:
            if not fact():
                self.waiting.append((fact, call))
                return
        call()

    def tell(self) -> int:
        """Call those whose fact has become true; return how many."""
        if not self.waiting:
            return 0
        ready, others = [], []
        with self.lock:
            for fact, call in self.waiting:
                if fact():
                    ready.append(call)
                else:
                    others.append((fact, call))
            self.waiting = others
        for call in ready:
            try:
                call()
            except Exception:  # everybody else must still hear of it
                log.exception("a callback of a message failed")
        return len(ready)


class Page(Rows):
    """Rows of single messages."""

    __slots__ = ("_end", "_numbers", "batch", "extras", "keys", "large_bytes", "length", "values")

    def __init__(self, rows: int, lock: threading.Lock):
        super().__init__(lock)
        self.length = rows
        self.values: list[Any] = [EMPTY] * rows
        self.keys: list[Any] = [None] * rows
        self.extras: dict[int, Extra] = {}
        self.large_bytes = 0
        self.batch: Batch | None = None  # all rows as Arrow, if somebody had time to make it
        self._numbers = iter(range(rows))
        self._end: int | None = None

    def claims(self, future: Callable[["Page", int], Any]) -> Iterator[Any]:
        """Yield a future for each row, until the page is full or closed."""
        return map(future, repeat(self), self._numbers)

    @property
    def claimed(self) -> int:
        return self.length - length_hint(self._numbers) if self._end is None else self._end

    @property
    def full(self) -> bool:
        """Whether no row can follow."""
        return self._end is not None or not length_hint(self._numbers) or self.large_bytes > PAGE_BYTES

    def release(self, end: int) -> None:
        """Let go of the values when the last row is taken: a future that is kept must not keep a page of them."""
        if end == self.length or end == self._end:
            self.values, self.keys, self.extras, self.batch = [], [], {}, None

    def close(self) -> None:
        """Let no row follow; those that are claimed may still be written."""
        self._end = self.claimed  # at least these; once the numbers are used up, they no longer tell
        rest = list(self._numbers)  # in one step, as a claim is
        self._end = self.length - len(rest)
        sample = [value for value in self.values[: self._end : SAMPLE] if isinstance(value, bytes | str)]
        small = [len(value) for value in sample if len(value) <= LARGE_BYTES]
        self.bytes = self.large_bytes + self._end * (16 + sum(small) // max(1, len(small)))


class Sheet(Rows):
    """Rows that came as Arrow batches, all of one schema."""

    __slots__ = ("_count", "batches")

    def __init__(self, batches: list[Batch], lock: threading.Lock):
        super().__init__(lock)
        self.batches = batches
        self.bytes = sum(batch.nbytes for batch in batches)
        self._count: int = sum(batch.num_rows for batch in batches)

    @property
    def claimed(self) -> int:
        return self._count
