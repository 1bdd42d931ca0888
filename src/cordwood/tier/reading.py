"""Reading messages from an object, and no more of it than the row groups they are in."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from awscrt.checksums import crc64nvme
from pyarrow import parquet

from cordwood.machine.disk import Buffer
from cordwood.machine.objects.store import Objects
from cordwood.record import ARROW_ERRORS, Batch, assemble, one_line, times_us
from cordwood.tier import times
from cordwood.tier.contents import Contents, Group, get
from cordwood.tier.damage import damaged
from cordwood.tier.descriptor import Descriptor
from cordwood.tier.parquet import COLUMNS
from cordwood.tier.rows import Rows

FETCH_BYTES = 32 << 20  # in one get: of an object however large, this much is in memory at a time


def read(
    objects: Objects,
    descriptor: Descriptor,
    contents: Contents,
    first: int,
    end: int,
    columns: Collection[str] = COLUMNS,
) -> Iterator[Rows]:
    """Yield the messages from `first` to `end` that the object has, oldest first, a row group at a time.

    Row groups are neighbours in the object, so they come with one get, as long as they fit in `FETCH_BYTES`. Raises
    Damaged, before any of its messages is yielded, for a row group that is not as it was written. Of messages only
    some `columns` may be wanted; the others are not decoded.
    """
    for groups in _fetches(contents.groups_for(first, end)):
        position, end_position = groups[0].position, groups[-1].end_position
        data = memoryview(get(objects, descriptor, position, end_position))
        file = _open(data, position, contents)
        for group in groups:
            _check_bytes(descriptor, group, data[group.position - position : group.end_position - position])
            for rows in _decode(descriptor, contents, file, group, columns):
                kept = _cut(rows, first, end)
                if len(kept.offsets):
                    yield kept


def since(
    objects: Objects, descriptor: Descriptor, contents: Contents, time_us: int, first: int, end: int
) -> int | None:
    """Return the first offset from `first` to `end` of a message at or after a time, None where there is none."""
    for group in contents.groups_since(time_us):
        for offsets, batch in read(objects, descriptor, contents, max(first, group.first), min(end, group.end)):
            found = np.flatnonzero(times_us(batch, "timestamp") >= time_us)
            if len(found):
                return int(offsets[found[0]])
    return None


def _fetches(groups: Sequence[Group]) -> Iterator[list[Group]]:
    """Yield the groups that are fetched together; one at least."""
    together: list[Group] = []
    for group in groups:
        if together and group.end_position - together[0].position > FETCH_BYTES:
            yield together
            together = []
        together.append(group)
    if together:
        yield together


def _check_bytes(descriptor: Descriptor, group: Group, data: Buffer) -> None:
    if crc64nvme(data) != group.checksum:
        reason = f"the checksum of the {len(data)} bytes from there on does not hold"
        raise damaged(descriptor, group.position, reason, group.first, group.end)


def _decode(
    descriptor: Descriptor, contents: Contents, file: Any, group: Group, columns: Collection[str]
) -> list[Rows]:
    """Return the messages of a row group; raise Damaged where they are not those that the footer promises."""
    try:
        # One thread: the other columns are small beside the values, and the broker's other core has its own work.
        wanted = None if columns is COLUMNS else ["offset", *columns]
        batches = file.read_row_group(group.number, wanted, use_threads=False).to_batches()
    except ARROW_ERRORS as error:
        raise damaged(descriptor, group.position, one_line(error), group.first, group.end) from None
    pieces = [(batch.column(0).to_numpy(), batch) for batch in batches]
    offsets = np.concatenate([piece[0] for piece in pieces]) if len(pieces) != 1 else pieces[0][0]
    if (
        len(offsets) != group.rows
        or (offsets[0], offsets[-1] + 1) != (group.first, group.end)
        or not np.all(offsets[1:] > offsets[:-1])
    ):
        raise damaged(descriptor, group.position, "its offsets are not as promised", group.first, group.end)
    return [Rows(numbers, _at_rest(contents.times, numbers, batch)) for numbers, batch in pieces]


def _at_rest(known: Batch | None, offsets: Any, batch: Batch) -> Batch:
    """Return the batch in the schema at rest, with the times that are known, without what is null in every row."""
    columns = {name: batch.column(name) for name in batch.schema.names if name in COLUMNS}
    for name in ("key", "headers"):
        if name in columns and columns[name].null_count == len(offsets):
            del columns[name]
    if known is not None:
        columns |= times.columns_for(known, offsets)
    return assemble(columns)


def _cut(rows: Rows, first: int, end: int) -> Rows:
    """Return those rows whose offsets are from `first` to `end`."""
    start, stop = np.searchsorted(rows.offsets, (first, end)).tolist()
    if stop - start == len(rows.offsets):
        return rows
    return Rows(rows.offsets[start:stop], rows.batch.slice(start, stop - start))


def _open(data: memoryview, position: int, contents: Contents) -> Any:
    """Return the object as pyarrow wants it, of which only these bytes are there."""
    part = pa.PythonFile(_Part(data, position), mode="r")
    return parquet.ParquetFile(part, metadata=contents.metadata, page_checksum_verification=True)


class _Part:
    """A file for reading of which only some bytes are there: `data`, at `position`.

    pyarrow asks for a column of a row group at a time, and what it gets it does not copy.
    """

    closed = False

    def __init__(self, data: memoryview, position: int):
        self._data = data
        self._position = position
        self._at = 0

    def seek(self, to: int, whence: int = 0) -> int:
        self._at = to + (0, self._at, self._position + len(self._data))[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> memoryview:
        start = self._at - self._position
        if not 0 <= start <= start + size <= len(self._data):
            raise OSError(f"bytes {self._at} to {self._at + size} are not in this row group")
        self._at += size
        return self._data[start : start + size]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is held."""
