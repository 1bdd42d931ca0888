"""Contents: what the footer of an object says. It is small, does not change, and may be kept."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from cordwood.machine.disk import Buffer
from cordwood.machine.objects.store import Objects
from cordwood.record import ARROW_ERRORS, Batch, one_line
from cordwood.tier import guard, times
from cordwood.tier.damage import damaged
from cordwood.tier.descriptor import Descriptor
from cordwood.tier.parquet import SCHEMA, group_positions

TAIL_BYTES = 64 << 10  # holds the footer of 64 row groups; of more, or of many times, it takes a second get


class Group(NamedTuple):
    """A row group: its bytes, from `position` to `end_position`, and the messages in them."""

    number: int
    position: int
    end_position: int
    checksum: int
    rows: int
    first: int
    end: int
    earliest_us: int
    latest_us: int


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The row groups of an object in the order of their offsets, and the times of those messages that have some."""

    groups: tuple[Group, ...]
    times: Batch | None
    metadata: Any  # as pyarrow wants it back
    bytes: int  # of memory, about

    def groups_for(self, first: int, end: int) -> list[Group]:
        """Return the groups with messages from `first` to `end`: neighbours, in the object too."""
        return [group for group in self.groups if group.first < end and first < group.end]

    def groups_since(self, time_us: int) -> Iterator[Group]:
        """Yield the groups with a message at or after a time."""
        return (group for group in self.groups if group.latest_us >= time_us)


def fetch(objects: Objects, descriptor: Descriptor, size: int | None = None) -> Contents:
    """Return the contents of an object, with two gets at most; raise Damaged where they are not what its name says.

    `size` is the object's, where a listing said it; else the store is asked.
    """
    size = objects.size(descriptor.name) if size is None else size
    start = max(0, size - TAIL_BYTES)
    tail = get(objects, descriptor, start, size)
    try:
        needed = guard.needed_from(size, tail)
    except ValueError as error:
        raise damaged(descriptor, start, str(error)) from None
    if needed < start:
        tail = b"".join((get(objects, descriptor, needed, start), tail))
        start = needed
    try:
        return _parse(descriptor, size, tail)
    except ARROW_ERRORS as error:
        raise damaged(descriptor, start, one_line(error)) from None


def get(objects: Objects, descriptor: Descriptor, position: int, end_position: int) -> Buffer:
    """Return these bytes of an object, all of them; raise Damaged where it has fewer."""
    if position == end_position:
        return b""
    data = objects.get(descriptor.name, position, end_position)
    if len(data) != end_position - position:
        raise damaged(descriptor, position + len(data), f"it ends there, and had {end_position} bytes at least")
    return data


def _parse(descriptor: Descriptor, size: int, tail: Buffer) -> Contents:
    """Return what a tail says that holds guard and footer; one of ARROW_ERRORS says what is wrong with it."""
    guarded = guard.open_(size, tail)
    metadata = parquet.read_metadata(pa.BufferReader(pa.py_buffer(tail)))
    if not metadata.schema.to_arrow_schema().equals(SCHEMA):
        raise ValueError("its columns are not those of messages")
    groups = tuple(_groups(metadata, guarded))
    rows = sum(group.rows for group in groups)
    if rows != descriptor.count:
        raise ValueError(f"it has {rows} messages, its name says {descriptor.count}")
    bounds = [descriptor.first, *(at for group in groups for at in (group.first, group.end)), descriptor.end]
    if bounds != sorted(bounds):
        raise ValueError("its offsets are not those that its name says")
    text = (metadata.metadata or {}).get(times.KEY.encode())
    found = None if text is None else times.decode(text)
    memory = 4 * metadata.serialized_size + (0 if found is None else found.nbytes)
    return Contents(groups, found, metadata, memory)


def _groups(metadata: Any, guarded: guard.Guard) -> Iterator[Group]:
    starts = group_positions(metadata)
    if len(starts) != len(guarded.checksums):
        raise ValueError("the guard is of other row groups")
    ends = [*starts, guarded.position][1:]
    if any(start < 0 or start > end for start, end in zip(starts, ends, strict=True)):
        raise ValueError("its row groups are not one behind the other")
    for number, (start, end, checksum) in enumerate(zip(starts, ends, guarded.checksums, strict=True)):
        group = metadata.row_group(number)
        offset, timestamp = (group.column(column).statistics for column in (0, 1))
        if offset is None or timestamp is None:
            raise ValueError(f"row group {number} has no statistics")
        # Raw: as a datetime, pyarrow cannot say a year above 9999.
        yield Group(
            number,
            start,
            end,
            checksum,
            group.num_rows,
            offset.min_raw,
            offset.max_raw + 1,
            timestamp.min_raw,
            timestamp.max_raw,
        )
