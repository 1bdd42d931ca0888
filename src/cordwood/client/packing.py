"""Rows to parcels: what was taken at once, by partition, in requests of a good size.

    pages    Python values, made Arrow all at once     a refusal may part them anywhere
    sheets   Arrow already                             a table's batch is never parted

A row that was claimed and is not written (`page`) makes Arrow stumble. Its thread is given a moment; if it was
interrupted in that very place, the message fails, and its future, if anybody has it, says so.
"""

import logging
import time
from collections.abc import Sequence
from itertools import chain
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cordwood import partition as partitions
from cordwood.client.columns import batch_of
from cordwood.client.page import EMPTY, Extra, Page, Rows, Sheet
from cordwood.client.parcel import BAD, Parcel, Take
from cordwood.errors import CordwoodError, Refused
from cordwood.record import Batch, sizes

Sources = Sequence[tuple[Rows, int, int]]
PATIENCE_S = 1.0  # for a thread between two steps; a thread that takes longer was interrupted there
_BINARY = pa.binary().id
log = logging.getLogger("cordwood.client")


def pack(sources: Sources, count: int, turn: int, most_rows: int, most_bytes: int) -> Take:
    """Return the rows as a take of parcels; messages that cannot be sent are in parcels that have failed already.

    `count` is the number of partitions; messages that have neither key nor partition all go to `turn`.
    """
    bad: dict[int, Refused] = {}
    asked: dict[int, int] = {}
    sheets = isinstance(sources[0][0], Sheet)
    if sheets:
        batches = [batch for rows, _, _ in sources if isinstance(rows, Sheet) for batch in rows.batches]
    elif (ready := _ready(sources)) is not None:
        batches = [ready]
    else:
        values, keys, extras = _values(sources)
        batch, bad = batch_of(values, keys, extras)
        if bad and not _written(sources, PATIENCE_S):
            log.warning("a thread was stopped in the middle of `send`; its message fails")
        if bad:  # the rows that were EMPTY are there now, and the others are bad as before
            values, keys, extras = _values(sources)
            batch, bad = batch_of(values, keys, extras)
        batches = [batch]
        asked = {row: extra.partition for row, extra in extras.items() if extra.partition is not None}
    take = Take([rows for rows, _, _ in sources], sum(batch.nbytes for batch in batches))
    if count == 1 and not bad and not asked and "partition" not in batches[0].schema.names:
        _fill(take, 0, batches, most_rows, most_bytes, divisible=not sheets)
    else:
        assigned = np.concatenate([_assign(batch, count, turn % count) for batch in batches])
        assigned[list(asked)] = list(asked.values())
        for row in np.flatnonzero(assigned >= count).tolist():
            bad[row] = Refused(f"the topic has partitions 0 to {count - 1}, not {assigned[row]}")
        assigned[list(bad)] = BAD
        take.assigned = assigned
        alike = all(batch.schema.equals(batches[0].schema) for batch in batches[1:])
        if alike and not bad and len(assigned) <= most_rows and take.size <= most_bytes:
            _group(take, batches, assigned, divisible=not sheets)
        else:
            for number, parts in _split(batches, assigned).items():
                _fill(take, number, parts, most_rows, most_bytes, divisible=not sheets)
        if bad:
            take.parcels[BAD] = [
                _failed(take, rank, [_row(batches, row)], bad[row]) for rank, row in enumerate(sorted(bad))
            ]
    _note(take, sources)
    return take


def refuse(sources: Sources, error: CordwoodError) -> Take:
    """Return the rows as a take that has failed."""
    take = Take([rows for rows, _, _ in sources], 0)
    parcel = _failed(take, 0, [], error)
    parcel.count = sum(end - first for _, first, end in sources)
    take.parcels[BAD] = [parcel]
    _note(take, sources)
    return take


def _ready(sources: Sources) -> Batch | None:
    """Return the batch of a whole page that was made already."""
    page, first, end = sources[0]
    if len(sources) == 1 and isinstance(page, Page) and page.batch is not None and end - first == page.batch.num_rows:
        return page.batch
    return None


def _values(sources: Sources) -> tuple[list[Any], list[Any], dict[int, Extra]]:
    if len(sources) == 1:
        page, first, end = sources[0]
        assert isinstance(page, Page), "a take is all pages or all sheets"
        if not page.extras:
            whole = first == 0 and end == len(page.values)  # then nothing need be copied
            return (page.values, page.keys, {}) if whole else (page.values[first:end], page.keys[first:end], {})
    values: list[Any] = []
    keys: list[Any] = []
    extras: dict[int, Extra] = {}
    for page, first, end in sources:
        assert isinstance(page, Page), "a take is all pages or all sheets"
        at = len(values)
        values += page.values[first:end]
        keys += page.keys[first:end]
        if page.extras:
            extras |= {row - first + at: x for row, x in tuple(page.extras.items()) if first <= row < end}
    return values, keys, extras


def _written(sources: Sources, patience_s: float) -> bool:
    """Wait for threads that were stopped between claiming a row and writing it; say whether all have written."""
    until = time.monotonic() + patience_s
    while any(value is EMPTY for page, first, end in sources for value in page.values[first:end]):  # type: ignore[attr-defined]
        if time.monotonic() > until:
            return False
        time.sleep(0.0001)
    return True


def _assign(batch: Batch, count: int, turn: int) -> npt.NDArray[np.int32]:
    names = batch.schema.names
    if "partition" in names and not batch.column("partition").null_count:
        asked = batch.column("partition").to_numpy(zero_copy_only=False)
        if asked.min(initial=0) >= 0:  # then nobody asks for the keys
            return np.asarray(asked, np.int32)
    assigned = np.full(batch.num_rows, partitions.NONE, np.int32)
    if "key" in names and count > 1:
        keys = batch.column("key")
        assigned = partitions.of_keys(keys if keys.type.id == _BINARY else keys.cast(pa.binary()), count)
    if "partition" in names:
        asked = batch.column("partition").fill_null(partitions.NONE).to_numpy(zero_copy_only=False)
        assigned = np.where(asked >= 0, asked, assigned)
    return np.where(assigned == partitions.NONE, turn, assigned).astype(np.int32)


def _group(take: Take, batches: list[Batch], assigned: npt.NDArray[np.int32], *, divisible: bool) -> None:
    """Make one parcel for each partition, all of them parts of one batch, so that they may travel together."""
    take.ends = np.cumsum([batch.num_rows for batch in batches])
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    if "partition" in batch.schema.names:
        batch = batch.drop_columns(["partition"])
    if (np.diff(assigned) < 0).any():
        batch = batch.take(pa.array(np.argsort(assigned, kind="stable")))
    take.grouped = batch
    at = 0
    for number, rows in enumerate(np.bincount(assigned).tolist()):
        if rows:
            take.parcels[number] = [Parcel.among(take, number, at, rows, divisible=divisible)]
            at += rows


def _split(batches: list[Batch], assigned: npt.NDArray[np.int32]) -> dict[int, list[Batch]]:
    found: dict[int, list[Batch]] = {}
    at = 0
    for batch in batches:
        numbers = assigned[at : at + batch.num_rows]
        at += batch.num_rows
        if "partition" in batch.schema.names:
            batch = batch.drop_columns(["partition"])
        for number, part in partitions.split(batch, numbers):
            if number != BAD:
                found.setdefault(number, []).append(part)
    return found


def _fill(take: Take, number: int, batches: list[Batch], most_rows: int, most_bytes: int, *, divisible: bool) -> None:
    """Put batches into as few parcels as hold them."""
    made = take.parcels.setdefault(number, [])
    waiting: list[Batch] = []
    rows = size = first = 0
    for batch in chain.from_iterable(_cuts(whole, most_rows, most_bytes) for whole in batches):
        if waiting and (rows + batch.num_rows > most_rows or size + batch.nbytes > most_bytes):
            made.append(Parcel(take, number, first, waiting, divisible=divisible))
            waiting, first, rows, size = [], first + rows, 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    made.append(Parcel(take, number, first, waiting, divisible=divisible))


def _cuts(batch: Batch, most_rows: int, most_bytes: int) -> list[Batch]:
    """Return the batch in as few slices as have so many rows and about so many bytes, all about the same size."""
    rows, size = batch.num_rows, batch.nbytes
    if rows <= most_rows and size <= most_bytes:
        return [batch]
    parts = max(ceil(size / most_bytes), ceil(rows / most_rows))
    ends = np.cumsum(sizes(batch) + 16)  # some weight for a row as such, so that empty ones count
    each = ceil(int(ends[-1]) / parts)
    found, at = [], 0
    while at < rows:
        before = int(ends[at - 1]) if at else 0
        fits = int(np.searchsorted(ends, before + each, side="right"))
        end = min(rows, at + most_rows, max(at + 1, fits))
        found.append(batch.slice(at, end - at))
        at = end
    return found


def _row(batches: list[Batch], row: int) -> Batch:
    for batch in batches:
        if row < batch.num_rows:
            return batch.slice(row, 1)
        row -= batch.num_rows
    raise AssertionError("every row is in a batch")


def _failed(take: Take, rank: int, batches: list[Batch], error: CordwoodError) -> Parcel:
    parcel = Parcel(take, BAD, rank, batches, divisible=False)
    parcel.error, parcel.settled = error, True
    return parcel


def _note(take: Take, sources: Sources) -> None:
    """Let the rows find their take, and let go of their values."""
    at = 0
    for rows, first, end in sources:
        rows.note(end, take, first - at)
        at += end - first
        if isinstance(rows, Page):
            rows.release(end)
        elif isinstance(rows, Sheet):
            rows.batches = []
