"""One request to the broker: a parcel by itself, or small ones of several partitions together.

    parcels   partition 7: sequence 40 41 42 · partition 9: sequence 5        of one take, one of each lane
    body      the same rows, with columns `partition` and `sequence`          stored all or none

What is refused as a whole is sent again parcel by parcel, which tells who is at fault.
"""

from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from cordwood.client.lane import Lane
from cordwood.client.parcel import Parcel
from cordwood.record import numbers_column
from cordwood.wire.pieces import stream_pieces

MOST_ROWS = 100_000  # what the broker takes


class Shipment:
    """What is sent as one request, and answered at once."""

    __slots__ = ("_rows", "_sealed", "parts", "pieces", "size")

    def __init__(self, lane: Lane, parcel: Parcel):
        self.parts: list[tuple[Lane, Parcel]] = [(lane, parcel)]
        self.pieces: list[Any] = []
        self.size = 0
        self._rows = parcel.count
        self._sealed = lane.alone or parcel.take.grouped is None

    def takes(self, lane: Lane, parcel: Parcel) -> bool:
        """Put a parcel in, too, if it may be; a lane comes with one, or with several in a row."""
        first = self.parts[0][1]
        rows = self._rows + parcel.count
        fits = not self._sealed and parcel.take is first.take and parcel.epoch == first.epoch and rows <= MOST_ROWS
        if not fits or lane.alone or lane is self.parts[-1][0]:
            return False
        self.parts.append((lane, parcel))
        self._rows = rows
        return True

    def encode(self) -> int:
        """Make the bytes of the request's body; return how many there are."""
        if len(self.parts) == 1:
            parcel = self.parts[0][1]
            parcel.encode()
            self.pieces, self.size = parcel.pieces, parcel.size
            return self.size
        parcels = sorted((parcel for _, parcel in self.parts), key=attrgetter("partition"))
        batch = parcels[0].take.grouped
        assert batch is not None, "only parts of one batch travel together"
        if self._rows < batch.num_rows:
            batch = pa.concat_batches([batch for parcel in parcels for batch in parcel.batches])
        counts = [parcel.count for parcel in parcels]
        ends = np.cumsum(counts)
        places = np.repeat(np.array([parcel.partition for parcel in parcels], np.int32), counts)
        # How far the numbers of a parcel are ahead of its rows
        ahead = np.array([parcel.sequence for parcel in parcels]) - (ends - counts)
        sequences = np.arange(ends[-1]) + np.repeat(ahead, counts)
        columns = [*batch.columns, numbers_column(pa.int32(), places), numbers_column(pa.int64(), sequences)]
        schema = batch.schema.append(pa.field("partition", pa.int32())).append(pa.field("sequence", pa.int64()))
        self.pieces = stream_pieces(schema, (pa.RecordBatch.from_arrays(columns, schema=schema),))
        self.size = sum(map(len, self.pieces))
        return self.size

    @property
    def numbers(self) -> str:
        """What the query says of it."""
        parcel = self.parts[0][1]
        if len(self.parts) > 1:
            return f"&epoch={parcel.epoch}"
        return f"&partition={parcel.partition}&epoch={parcel.epoch}&sequence={parcel.sequence}"
