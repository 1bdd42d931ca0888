"""Rows: messages of one partition on their way into an object, or out of it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cordwood.record import Batch, concat

SMALL_BYTES = 512 << 10  # to copy so much takes as long as what is done for a batch, however small it is
JOINED_BYTES = 8 << 20  # a column of one batch cannot have more than 2 GiB


class Rows(NamedTuple):
    """A batch in the schema at rest, and the offset of each of its rows; they rise, and some may be missing."""

    offsets: npt.NDArray[np.int64]
    batch: Batch

    @classmethod
    def dense(cls, first: int, batch: Batch) -> "Rows":
        """Return the rows of a batch as the journal has it: with neighbouring offsets from `first` on."""
        return cls(np.arange(first, first + batch.num_rows, dtype=np.int64), batch)

    def runs(self) -> Iterator[tuple[int, Batch]]:
        """Yield the same rows as first offsets and batches with neighbouring offsets, without copying them."""
        offsets, rows = self.offsets, len(self.offsets)
        if rows and offsets[-1] - offsets[0] == rows - 1:  # by far the most frequent
            yield int(offsets[0]), self.batch
        elif rows:
            starts = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), rows]
            for start, end in pairwise(starts):
                yield int(offsets[start]), self.batch.slice(start, end - start)


def joined(pieces: Iterable[Rows]) -> Iterator[Rows]:
    """Yield the same rows in fewer pieces, where small ones follow each other; empty ones go."""
    waiting: list[Rows] = []
    size = 0
    for piece in pieces:
        assert len(piece.offsets) == piece.batch.num_rows, "one offset for each row"
        if not len(piece.offsets):
            continue
        more = piece.batch.nbytes
        if waiting and (more > SMALL_BYTES or size + more > JOINED_BYTES):
            yield _join(waiting)
            waiting, size = [], 0
        if more > SMALL_BYTES:
            yield piece
        else:
            waiting.append(piece)
            size += more
    if waiting:
        yield _join(waiting)


def _join(pieces: Sequence[Rows]) -> Rows:
    if len(pieces) == 1:
        return pieces[0]
    return Rows(np.concatenate([piece.offsets for piece in pieces]), concat([piece.batch for piece in pieces]))
