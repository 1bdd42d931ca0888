"""Times: when the few messages that are delayed, or that expire, are to be delivered and forgotten.

An object has no columns for them, so they rest in the file's metadata under `KEY`: base64 of an Arrow IPC stream,
compressed with zstd, with a row for each message that has one of the two:

    offset      int64 not null
    deliver_at  timestamp[us, UTC]
    expires_at  timestamp[us, UTC]
"""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from cordwood.record import TIME, Batch, Column
from cordwood.tier.rows import Rows

KEY = "cordwood.times"
NAMES = ("deliver_at", "expires_at")
_SCHEMA = pa.schema([pa.field("offset", pa.int64(), nullable=False), *(pa.field(name, TIME) for name in NAMES)])
_OPTIONS = ipc.IpcWriteOptions(compression="zstd")


def gather(pieces: Sequence[Rows]) -> Batch | None:
    """Return the times of the messages that have some, None where no message has."""
    found = []
    for offsets, batch in pieces:
        have = [name for name in NAMES if name in batch.schema.names]
        if not have:
            continue
        columns = [batch.column(name) if name in have else pa.nulls(batch.num_rows, TIME) for name in NAMES]
        rows = pa.RecordBatch.from_arrays([pa.array(offsets), *columns], schema=_SCHEMA)
        found.append(rows.filter(pc.or_(columns[0].is_valid(), columns[1].is_valid())))
    times = pa.concat_batches(found) if found else None
    return times if times is not None and times.num_rows else None


def encode(times: Batch) -> str:
    """Return the times as they rest in the metadata."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, _SCHEMA, options=_OPTIONS) as stream:
        stream.write_batch(times)
    return base64.b64encode(sink.getvalue()).decode()


def decode(text: bytes) -> Batch:
    """Return the times that `encode` wrote; raise one of ARROW_ERRORS where they are none."""
    with ipc.open_stream(base64.b64decode(text, validate=True)) as stream:
        if not stream.schema.equals(_SCHEMA):
            raise ValueError("the times are in another schema")
        return pa.concat_batches([pa.RecordBatch.from_pylist([], schema=_SCHEMA), *stream])


def columns_for(times: Batch, offsets: npt.NDArray[np.int64]) -> dict[str, Column]:
    """Return the times of messages with these offsets, which rise; a column that is null in every row is left out."""
    having = times.column("offset").to_numpy()
    start, end = np.searchsorted(having, (offsets[0], offsets[-1] + 1)).tolist()
    if start == end:
        return {}
    rows = np.searchsorted(offsets, having[start:end])
    places = np.zeros(len(offsets), np.int64)
    absent = np.ones(len(offsets), np.bool_)
    assert np.array_equal(offsets[rows], having[start:end]), "times are of messages that are there"
    places[rows] = np.arange(start, end)
    absent[rows] = False
    indices: Any = pa.array(places, mask=absent)
    columns = {name: times.column(name).take(indices) for name in NAMES}
    return {name: column for name, column in columns.items() if column.null_count < len(column)}
