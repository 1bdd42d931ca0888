"""What travels together: a take of rows, split into numbered parcels, one partition each.

    rows ──▶ take ──▶ parcel (partition 0, rows 0 2 5) · parcel (partition 3, rows 1 3 4)

A message is found again by its place in the take: its partition, and its rank among the rows of that partition.
Both follow from one array that is looked at only when somebody asks.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cordwood.client.page import Rows
from cordwood.errors import CordwoodError
from cordwood.record import Batch
from cordwood.wire.pieces import stream_pieces

BAD = -2  # the partition of rows that cannot be sent


class Parcel:
    """Messages of one partition, sent as one request; settled once, by an offset or by an error.

    `first` is the rank of its first message among the take's of this partition. `sendings` counts how often it was
    sent with the numbers that it has now.
    """

    __slots__ = (
        "_at",
        "_batches",
        "count",
        "deadline",
        "divisible",
        "epoch",
        "error",
        "first",
        "first_offset",
        "in_flight",
        "partition",
        "pieces",
        "sendings",
        "sequence",
        "settled",
        "size",
        "take",
    )

    def __init__(self, take: "Take", partition: int, first: int, batches: list[Batch], *, divisible: bool):
        self.take = take
        self.partition = partition
        self.first = first
        self._batches = batches
        self._at = 0
        self.count = sum(batch.num_rows for batch in batches)
        self.divisible = divisible
        self.pieces: list[Any] = []
        self.size = 0
        self.epoch = self.sequence = 0
        self.sendings = 0
        self.in_flight = False
        self.deadline = 0.0
        self.settled = False
        self.first_offset: int | None = None
        self.error: CordwoodError | None = None

    @classmethod
    def among(cls, take: "Take", partition: int, at: int, count: int, *, divisible: bool) -> "Parcel":
        """Return the parcel of these rows of the take's one batch."""
        found = cls(take, partition, 0, [], divisible=divisible)
        found._at, found.count = at, count
        return found

    @property
    def batches(self) -> list[Batch]:
        """The messages, until they are settled. Where a take travels as one, nobody asks for those of a parcel."""
        if not self._batches and self.take.grouped is not None:
            self._batches = [self.take.grouped.slice(self._at, self.count)]
        return self._batches

    def release(self) -> None:
        """Let go of the messages."""
        self._batches, self.pieces = [], []

    def encode(self) -> None:
        """Make the bytes of the request's body, once; a retry sends the very same."""
        if not self.pieces:
            # Many batches are joined here, because the broker would have to, and it has more to do.
            batch = self.batches[0] if len(self.batches) == 1 else pa.concat_batches(self.batches)
            self.pieces = stream_pieces(batch.schema, (batch,))
            self.size = sum(map(len, self.pieces))

    def halves(self) -> "tuple[Parcel, Parcel] | None":
        """Return two parcels in place of this one, None when it cannot be parted.

        Together they have its rows, its order and its numbers. A table's batch stays whole; many small ones part.
        """
        cuts = [] if self.divisible else self.take.cuts(self.partition)
        inside = [cut - self.first for cut in cuts if self.first < cut < self.first + self.count]
        if len(self.batches) > 1:
            middle = len(self.batches) // 2
            parts = [self.batches[:middle], self.batches[middle:]]
        elif inside:
            batch, middle = self.batches[0], inside[len(inside) // 2]
            parts = [[batch.slice(0, middle)], [batch.slice(middle)]]
        elif self.divisible and self.count > 1:
            batch, middle = self.batches[0], self.count // 2
            parts = [[batch.slice(0, middle)], [batch.slice(middle)]]
        else:
            return None
        one = Parcel(self.take, self.partition, self.first, parts[0], divisible=self.divisible)
        two = Parcel(self.take, self.partition, self.first + one.count, parts[1], divisible=self.divisible)
        for half, before in ((one, 0), (two, one.count)):
            half.epoch, half.sequence, half.deadline = self.epoch, self.sequence + before, self.deadline
        among = self.take.parcels[self.partition]
        at = among.index(self)
        among[at : at + 1] = [one, two]
        return one, two


class Take:
    """Rows that were taken at once. `parcels` has, for each partition, its parcels in the order of their rows."""

    __slots__ = ("_ranks", "_settled", "_stored", "assigned", "ends", "grouped", "parcels", "size", "sources")

    def __init__(self, sources: list[Rows], size: int):
        self.sources = sources
        self.size = size
        self.assigned: npt.NDArray[np.int32] | None = None  # None: all rows are in one partition
        self.parcels: dict[int, list[Parcel]] = {}
        self.grouped: Batch | None = None  # all rows by partition, where the parcels are parts of one batch
        self.ends: npt.NDArray[np.int64] | None = None  # then: of the batches that were sent
        self._ranks: npt.NDArray[np.int64] | None = None
        self._settled = self._stored = False

    def find(self, index: int) -> tuple[Parcel, int]:
        """Return the parcel of the take's row `index`, and which of its messages that is."""
        if self.assigned is None:
            (among,) = self.parcels.values()
            rank = index
        else:
            among = self.parcels[int(self.assigned[index])]
            rank = int(self.ranks()[index])
        for parcel in among:
            if rank < parcel.first + parcel.count:
                return parcel, rank - parcel.first
        raise AssertionError("every row is in a parcel")

    def runs(self, begin: int, end: int) -> Iterator[tuple[Parcel, int, int]]:
        """Yield which messages of which parcels the rows from `begin` to `end` are, by partition."""
        if self.assigned is None:
            ((number, _),) = self.parcels.items()
            found = [(number, begin, end)]
        else:
            places, ranks = self.assigned[begin:end], self.ranks()[begin:end]
            counts = np.bincount(places - BAD)
            numbers = np.flatnonzero(counts)
            first = np.empty(len(counts), np.int64)
            first[places[::-1] - BAD] = ranks[::-1]  # that of the first row stays; those behind it are its neighbours
            ends = first[numbers] + counts[numbers]
            found = list(zip((numbers + BAD).tolist(), first[numbers].tolist(), ends.tolist(), strict=True))
        for number, first_rank, last in found:
            for parcel in list(self.parcels[number]):
                low, high = max(first_rank, parcel.first), min(last, parcel.first + parcel.count)
                if low < high:
                    yield parcel, low - parcel.first, high - parcel.first

    def cuts(self, number: int) -> list[int]:
        """Return the ranks in a partition at which another batch begins, of those that became one."""
        if self.ends is None or self.assigned is None:
            return []
        return sorted(set(np.searchsorted(np.flatnonzero(self.assigned == number), self.ends[:-1]).tolist()))

    def ranks(self) -> npt.NDArray[np.int64]:
        """Return, for each row, how many rows of its partition are before it."""
        if self._ranks is None:
            assert self.assigned is not None, "in one partition a row's rank is its place"
            rows = len(self.assigned)
            order = np.argsort(self.assigned, kind="stable")
            _, starts, counts = np.unique(self.assigned[order], return_index=True, return_counts=True)
            ranks = np.empty(rows, np.int64)
            ranks[order] = np.arange(rows) - np.repeat(starts, counts)
            self._ranks = ranks
        return self._ranks

    @property
    def settled(self) -> bool:
        """Whether all parcels are."""
        if not self._settled:
            self._settled = all(parcel.settled for among in self.parcels.values() for parcel in among)
        return self._settled

    @property
    def stored(self) -> bool:
        """Whether all parcels are, and none has failed."""
        if not self._stored:
            self._stored = self.settled and not any(p.error for among in self.parcels.values() for p in among)
        return self._stored

    def release(self) -> None:
        """Let go of the rows; where they went is kept."""
        self.grouped = None
        for among in self.parcels.values():
            for parcel in among:
                parcel.release()

    def tell(self) -> int:
        """Call those who wait for one of these rows, if what they wait for has come; return how many."""
        return sum(rows.tell() for rows in self.sources)
