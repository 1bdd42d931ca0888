"""Messages that were sent and not yet taken, oldest first.

    queue [ page │ sheet │ page ]   page, being written

Any thread puts rows in, one thread takes them out. `_lock` is for turning pages, once in thousands of messages.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from cordwood.client.columns import batch_of
from cordwood.client.page import FIRST_ROWS, LARGE_BYTES, MOST_ROWS, Extra, Page, Rows, Sheet
from cordwood.errors import Unavailable

FEW_TAKES = 4

LARGE_SHEET_BYTES = 64 << 10  # what a request costs by itself is little beside so many
JOINED_BYTES = 1 << 20  # tables are joined up to this: joining more costs a copy, and no gain was seen


class Inlet:
    """What was sent and not yet taken, oldest first."""

    __slots__ = ("_closed", "_future", "_lock", "_put_bytes", "_taken_bytes", "claims", "page", "queue", "settling")

    def __init__(self, future: Callable[[Page, int], Any]):
        self.settling = threading.Lock()
        self.queue: deque[Rows] = deque()
        self.page = Page(FIRST_ROWS, self.settling)
        self.claims = self.page.claims(future)
        self._future = future
        self._lock = threading.Lock()
        self._closed = False
        self._put_bytes = 0  # of what is in the queue or was; written under the lock
        self._taken_bytes = 0  # of that, what left it; the taker's

    # Any thread's

    def put(self, value: Any, key: Any, extra: Extra | None, size: int) -> Any:
        """Write a row and return its future; `size` counts when it is large."""
        while True:
            if self.page.full:
                self.turn()
            for future in self.claims:
                page, row = future.page, future.row
                if extra is not None:
                    page.extras[row] = extra
                if size > LARGE_BYTES:
                    page.large_bytes += size  # two threads may lose one of two sums; it is a guide, not an account
                page.keys[row] = key
                page.values[row] = value
                return future
            self.turn()

    def put_sheet(self, sheet: Sheet) -> None:
        """Write many rows behind all others."""
        with self._lock:
            self._check_open()
            if self.page.claimed:
                self._turn()
            self._put_bytes += sheet.bytes
            self.queue.append(sheet)

    def turn(self) -> None:
        """Begin a new page if this one is full.

        When the taker is behind, the full page is made Arrow here: in one thread that would otherwise send on, and
        not in the one that has to ask for the interpreter each time it has waited for the network.
        """
        with self._lock:
            self._check_open()
            page = self.page
            if not page.full:
                return
            self._turn()
            behind = len(self.queue) > 1
        if behind and not page.taken and not page.extras:
            batch, bad = batch_of(page.values[: page.claimed], page.keys[: page.claimed], {})
            page.batch = None if bad else batch

    def close(self) -> None:
        """Let no row follow, by whatever way; `put` raises Unavailable from here on."""
        with self._lock:
            self._closed = True
            self.page.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the producer has ended")

    def _turn(self) -> None:
        page = self.page
        rows = page.length
        page.close()
        self._put_bytes += page.bytes
        if (
            page.claimed == rows
        ):  # a page that was taken little by little was too long, one that was taken whole too short
            rows = min(2 * rows, MOST_ROWS) if len(page.takes) <= FEW_TAKES else max(rows // 2, FIRST_ROWS)
        fresh = Page(rows, self.settling)
        self.queue.append(page)
        self.page = fresh
        self.claims = fresh.claims(self._future)

    # The taker's

    @property
    def bytes(self) -> int:
        """About how many bytes wait in the queue, the page that is being written left out."""
        return self._put_bytes - self._taken_bytes

    @property
    def has_large_sheet(self) -> bool:
        """Whether a table is next, and large enough to be worth a request of its own."""
        queue = self.queue
        return bool(queue) and isinstance(queue[0], Sheet) and queue[0].bytes >= LARGE_SHEET_BYTES

    @property
    def rows(self) -> int:
        """How many rows wait."""
        page = self.page
        waiting = page.claimed - page.taken
        for rows in tuple(self.queue):
            if rows is not page:
                waiting += rows.claimed - rows.taken
        return waiting

    def take(self, most_rows: int, most_bytes: int) -> list[tuple[Rows, int, int]]:
        """Return the oldest rows as (page, first, end), all from pages or all from sheets; a sheet is never cut.

        The page is read before the queue: what is found in it afterwards is next in order, even if it was turned
        meanwhile, because then it is the oldest in the queue.
        """
        page = self.page
        found: list[tuple[Rows, int, int]] = []
        size = 0
        enough = most_rows // 2  # rather a page by itself, which may be Arrow already, than one and some rows
        while self.queue:
            rows = self.queue[0]
            claimed = rows.claimed
            if found and (type(rows) is not type(found[0][0]) or size + rows.bytes > most_bytes):
                return found
            if found and isinstance(rows, Sheet) and size + rows.bytes > JOINED_BYTES:
                return found
            if found and claimed - rows.taken > most_rows:
                return found  # rather two batches than a page that is cut
            first, end = rows.taken, claimed if isinstance(rows, Sheet) else min(claimed, rows.taken + most_rows)
            if end > first:
                found.append((rows, first, end))
                rows.taken = end
                most_rows -= end - first
                size += rows.bytes
            if end < claimed:
                return found
            self.queue.popleft()
            self._taken_bytes += rows.bytes
            if most_rows < enough:
                return found
        if not found or type(found[0][0]) is Page:
            first, end = page.taken, min(page.claimed, page.taken + most_rows)
            if end > first and (not found or page.claimed - first <= most_rows):
                page.taken = end
                found.append((page, first, end))
        return found
