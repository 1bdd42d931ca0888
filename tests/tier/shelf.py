"""An object in a store that counts what is asked of it."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from awscrt.checksums import crc64nvme
from hypothesis import strategies as st

from cordwood import record
from cordwood.machine.objects.memory import MemoryObjects
from cordwood.record import FULL
from cordwood.sim.clock import SimClock
from cordwood.tier import contents, parquet, reading
from cordwood.tier.descriptor import Descriptor
from cordwood.tier.rows import Rows

blobs = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.sampled_from([b"", b"\0", b"a\0b", bytes(range(256)), "🪵".encode(), b"x" * 3000]),
)
headers = st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=9)), max_size=3)
times = st.none() | st.integers(0, 253_402_300_799_999_999)
messages = st.fixed_dictionaries(
    {
        "timestamp": st.integers(0, 253_402_300_799_999_999),
        "key": blobs,
        "value": blobs,
        "headers": headers,
        "deliver_at": times,
        "expires_at": times,
    }
)


class Shelf(MemoryObjects):
    """A store in memory that notes each get, and whose objects a test may damage."""

    def __init__(self) -> None:
        super().__init__(SimClock())
        self.gets: list[tuple[int, int | None]] = []

    def get(self, name: str, first: int = 0, end: int | None = None) -> Any:
        self.gets.append((first, end))
        return super().get(name, first, end)

    def change(self, name: str, data: bytes) -> None:
        """Put other bytes where an object is."""
        self.delete([name])
        self.put(name, data)


def message(**columns: Any) -> dict[str, Any]:
    """Return a message with these columns, null in the others."""
    return dict.fromkeys(FULL.names, None) | {"timestamp": 0} | columns


def batch_of(found: Iterable[dict[str, Any]]) -> Any:
    """Return messages as a batch, as the journal has them."""
    found = list(found)
    arrays = [pa.array([row[f.name] for row in found], f.type) for f in FULL]
    head, body = record.encode(pa.RecordBatch.from_arrays(arrays, schema=FULL))
    return record.decode(head + body.to_pybytes())


def describe(pieces: list[Rows], data: bytes, **others: Any) -> Descriptor:
    """Return the name of an object with these rows."""
    facts: dict[str, Any] = {
        "topic": "shop/orders",
        "topic_id": "00000000000000aa",
        "partition": 0,
        "first": int(pieces[0].offsets[0]),
        "end": int(pieces[-1].offsets[-1]) + 1,
        "epoch": 1,
        "generation": 0,
        "count": sum(len(piece.offsets) for piece in pieces),
        "checksum": crc64nvme(data),
    }
    return Descriptor(**(facts | others))


def put(store: Any, pieces: list[Rows]) -> Descriptor:
    """Put an object with these rows and return what its name says."""
    data = parquet.write(pieces)
    descriptor = describe(pieces, data)
    assert store.put(descriptor.name, data)
    return descriptor


Read = list[tuple[int, dict[str, Any]]]


def read_all(store: Any, descriptor: Descriptor, first: int = 0, end: int = 1 << 62) -> Read:
    """Return offset and message of all that is read from `first` to `end`."""
    found = reading.read(store, descriptor, contents.fetch(store, descriptor), first, end)
    return [pair for rows in found for pair in zip(rows.offsets.tolist(), plain(rows.batch), strict=True)]


def plain(batch: Any) -> list[dict[str, Any]]:
    """Return the messages of a batch, with times as microseconds."""
    batch.validate(full=True)
    wide = record.widen(batch)
    columns = {}
    for field, column in zip(FULL, wide.columns, strict=True):
        columns[field.name] = (column.cast(pa.int64()) if field.type == record.TIME else column).to_pylist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
