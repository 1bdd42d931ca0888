"""Events on their way: which partition each goes to, their numbers there, and the request's body.

    default key      every event of the execution in one partition        ?partition=3&sequence=40
    keys given       each to its key's partition                          columns `partition` and `sequence`

Pure: the same events, partition count and numbers give the same request, so one that is made again is a repeat.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cordwood.edge.event import Event, events_of
from cordwood.edge.log import Piece

_FNV_START, _FNV_PRIME = 2166136261, 16777619


@dataclass(slots=True)
class Batch:
    """Events `first` to `through` of one execution. `counts`: how many go to each partition."""

    execution: str
    producer: str
    topic: str | None
    first: int
    through: int
    pieces: list[Piece]
    partitions: int
    epoch: int
    counts: dict[int, int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)  # the first one's in each partition
    query: str = ""
    body: list[Any] = field(default_factory=list)
    course: int = 0  # of the delivery when it went out; an older one's answer says nothing any more

    @property
    def count(self) -> int:
        """How many events it has."""
        return sum(piece.end - piece.start for piece in self.pieces)

    @property
    def size(self) -> int:
        """About how many bytes these take."""
        return sum(piece.size for piece in self.pieces)

    def events(self) -> list[Event]:
        """Return them one by one."""
        return [
            event
            for piece in self.pieces
            for event in events_of(piece.appended, self.execution, piece.start, piece.end)
        ]

    def load(self, sequences: dict[int, int]) -> None:
        """Make the request, numbered from each partition's next number on."""
        import pyarrow as pa

        from cordwood.record import assemble, numbers_column
        from cordwood.wire.pieces import stream_pieces

        columns, keyed = _columns(self.pieces, self.execution)
        batch = assemble(columns)
        if not keyed or self.partitions == 1:
            place = partition_of(self.execution.encode(), self.partitions)
            self.counts = {place: self.count}
        else:
            from cordwood.partition import of_keys

            assigned = of_keys(columns["key"], self.partitions)
            numbers, self.counts = _numbered(assigned, sequences)
            place = int(assigned[0])
            if len(self.counts) > 1:
                columns_out = [
                    *batch.columns,
                    numbers_column(pa.int32(), assigned),
                    numbers_column(pa.int64(), numbers),
                ]
                schema = batch.schema.append(pa.field("partition", pa.int32())).append(
                    pa.field("sequence", pa.int64())
                )
                batch = pa.RecordBatch.from_arrays(columns_out, schema=schema)
        self.numbers = {place: sequences.get(place, 0) for place in self.counts}
        self.query = f"&epoch={self.epoch}"
        if len(self.counts) == 1:
            self.query = f"&partition={place}&epoch={self.epoch}&sequence={self.numbers[place]}"
        self.body = stream_pieces(batch.schema, (batch,))


def partition_of(key: bytes, count: int) -> int:
    """Return the partition, of `count`, of events with this key."""
    found = _FNV_START
    for byte in key if count > 1 else b"":
        found = ((found ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return found % count


def _numbered(assigned: Any, sequences: dict[int, int]) -> tuple[Any, dict[int, int]]:
    """Return each event's number in its partition, and how many go to each."""
    import numpy as np

    order = np.argsort(assigned, kind="stable")
    places, starts, counts = np.unique(assigned[order], return_index=True, return_counts=True)
    first = np.array([sequences.get(place, 0) for place in places.tolist()], np.int64)
    numbers = np.empty(len(assigned), np.int64)
    numbers[order] = np.arange(len(assigned)) - np.repeat(starts, counts) + np.repeat(first, counts)
    return numbers, dict(zip(places.tolist(), counts.tolist(), strict=True))


def _columns(pieces: Sequence[Piece], execution: str) -> tuple[dict[str, Any], bool]:
    """Return the events as columns at rest, and whether a key other than the execution's is among them."""
    import numpy as np
    import pyarrow as pa

    from cordwood.record import HEADERS, TIME, numbers_column

    times, lengths, values = [], [], []
    keyed = with_headers = False
    for piece in pieces:
        appended = piece.appended
        low, high = piece.start - appended.first, piece.end - appended.first
        times.append(appended.times[8 * low : 8 * high])
        lengths.append(appended.lengths[4 * low : 4 * high])
        values.append(_part(appended.lengths, appended.values, low, high))
        keyed = keyed or appended.key_lengths is not None
        with_headers = with_headers or appended.headers is not None
    count = sum(map(len, times)) // 8
    columns = {
        "timestamp": numbers_column(TIME, np.frombuffer(b"".join(times), np.int64)),
        "key": _keys(pieces, execution.encode()) if keyed else _same(execution.encode(), count),
        "value": _binary(np.frombuffer(b"".join(lengths), np.int32), b"".join(values)),
    }
    if with_headers:
        rows: list[Any] = []
        for piece in pieces:
            headers = piece.appended.headers
            low, high = piece.start - piece.appended.first, piece.end - piece.appended.first
            rows += headers[low:high] if headers is not None else [None] * (high - low)
        columns["headers"] = pa.array(rows, HEADERS)
        if columns["headers"].null_count == count:
            del columns["headers"]
    return columns, keyed


def _part(lengths: bytes, data: bytes, low: int, high: int) -> bytes:
    """Return the bytes of rows `low` to `high`."""
    if low == 0 and 4 * high == len(lengths):
        return data
    import numpy as np

    sizes = np.maximum(np.frombuffer(lengths, np.int32), 0)
    start = int(sizes[:low].sum(dtype=np.int64))
    return data[start : start + int(sizes[low:high].sum(dtype=np.int64))]


def _binary(lengths: Any, data: bytes) -> Any:
    import numpy as np
    import pyarrow as pa

    offsets = np.zeros(len(lengths) + 1, np.int32)
    valid = None
    nulls = int((lengths < 0).sum())
    if nulls:
        valid = pa.py_buffer(np.packbits(lengths >= 0, bitorder="little"))
        lengths = np.maximum(lengths, 0)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(lengths), [valid, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def _keys(pieces: Sequence[Piece], default: bytes) -> Any:
    import pyarrow as pa

    rows: list[bytes] = []
    for piece in pieces:
        low, high = piece.start - piece.appended.first, piece.end - piece.appended.first
        if piece.appended.key_lengths is None:
            rows += [default] * (high - low)
            continue
        at = 0
        for row, length in enumerate(memoryview(piece.appended.key_lengths).cast("i")):
            if low <= row < high:
                rows.append(default if length < 0 else (piece.appended.keys or b"")[at : at + length])
            at += max(0, length)
    return pa.array(rows, pa.binary())


@lru_cache(maxsize=4)
def _same(key: bytes, count: int) -> Any:
    """Return a column that has the same key in every row."""
    import numpy as np

    return _binary(np.full(count, len(key), np.int32), key * count)
