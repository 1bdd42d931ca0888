"""Where a message went, once that is known.

A future is only a page and a row, because one is made for every message: 50 ns. All that it can say it finds in the
take that its row went into, when somebody asks.
"""

from _thread import allocate_lock
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec

from cordwood.client.page import Page, Rows, Sheet
from cordwood.client.parcel import Parcel, Take
from cordwood.errors import CordwoodError


class Sent(NamedTuple):
    """Where a message is. The offset is None where the broker no longer knows it (an old repeat)."""

    partition: int
    offset: int | None


class Stored(msgspec.Struct, frozen=True):
    """Where neighbouring messages of one partition are: `count` of them from `first_offset` on."""

    partition: int
    first_offset: int | None
    count: int


class Future(msgspec.Struct, gc=False, frozen=True, eq=False, repr_omit_defaults=True):
    """One message on its way. `gc=False`: a page never points back to a future, so there is no circle to collect."""

    page: Page
    row: int

    def result(self, timeout: float | None = None) -> Sent:
        """Return where the message is, once it is durable.

        Raises the error that it failed with, or TimeoutError after `timeout` seconds; then it is still on its way.
        """
        parcel, rank = self._wait(timeout)
        if parcel.error is not None:
            raise parcel.error
        first = parcel.first_offset
        return Sent(parcel.partition, None if first is None else first + rank)

    def exception(self, timeout: float | None = None) -> CordwoodError | None:
        """Return the error that the message failed with, None when it is durable; TimeoutError as `result`."""
        return self._wait(timeout)[0].error

    def done(self) -> bool:
        """Whether it is durable or has failed."""
        found = self._find()
        return found is not None and found[0].settled

    def add_done_callback(self, call: Callable[["Future"], Any]) -> None:
        """Call `call(future)` when it is done, on the producer's thread; at once if it is done. Do not wait there."""
        self.page.when(self.done, partial(call, self))

    def _find(self) -> tuple[Parcel, int] | None:
        found = self.page.find(self.row)
        if found is None:
            return None
        take: Take = found[0]
        return take.find(found[1])

    def _wait(self, timeout: float | None) -> tuple[Parcel, int]:
        found = self._find()
        if found is None or not found[0].settled:
            wait(self.page, self.done, timeout)
            found = self._find()
        assert found is not None, "what is done was taken"
        return found


class TableFuture:
    """Many messages on their way: those of one `send_table`."""

    __slots__ = ("_sheet",)

    def __init__(self, sheet: Sheet):
        self._sheet = sheet

    def result(self, timeout: float | None = None) -> list[Stored]:
        """Return where the messages are, once all are durable; raises the first error, or TimeoutError."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        found: list[Stored] = []
        for stored in self._stored():
            last = found[-1] if found else None
            if (
                last is not None
                and last.partition == stored.partition
                and last.first_offset is not None
                and last.first_offset + last.count == stored.first_offset
            ):
                found[-1] = Stored(last.partition, last.first_offset, last.count + stored.count)
            else:
                found.append(stored)
        return found

    def exception(self, timeout: float | None = None) -> CordwoodError | None:
        """Return the first error that messages failed with, None when all are durable; TimeoutError as `result`."""
        wait(self._sheet, self.done, timeout)
        if all(take.stored for take, _ in self._sheet.takes):
            return None
        return next((parcel.error for parcel, _, _ in self._runs() if parcel.error is not None), None)

    def done(self) -> bool:
        """Whether all are durable or have failed."""
        sheet = self._sheet
        if not sheet.claimed:
            return True
        if sheet.find(sheet.claimed - 1) is None:
            return False
        return all(take.settled for take, _ in sheet.takes) or all(parcel.settled for parcel, _, _ in self._runs())

    def add_done_callback(self, call: Callable[["TableFuture"], Any]) -> None:
        """Call `call(future)` when it is done, on the producer's thread; at once if it is done. Do not wait there."""
        self._sheet.when(self.done, partial(call, self))

    def _stored(self) -> Iterator[Stored]:
        for parcel, first, end in self._runs():
            offset = parcel.first_offset
            yield Stored(parcel.partition, None if offset is None else offset + first, end - first)

    def _runs(self) -> Iterator[tuple[Parcel, int, int]]:
        """Yield which messages of which parcels are ours, by partition."""
        begin = 0
        for end, (take, shift) in zip(self._sheet.ends, self._sheet.takes, strict=False):
            yield from take.runs(begin - shift, end - shift)
            begin = end


def wait(rows: Rows, fact: Callable[[], bool], timeout: float | None) -> None:
    """Return when `fact` about these rows is true; raise TimeoutError after `timeout` seconds."""
    if fact():
        return
    gate = allocate_lock()  # what threading.Event is made of, without the rest of it
    gate.acquire()
    rows.when(fact, gate.release)
    if not gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
        raise TimeoutError(f"not done within {timeout} s; it is still on its way")
