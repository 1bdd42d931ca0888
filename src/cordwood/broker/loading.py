"""The messages of a load, brought together in a thread while the broker goes on.

What is still in memory is taken from there, the rest is read from the journal: frames that are close to each other
at once, others one by one.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cordwood.broker.cache import Cache
from cordwood.broker.index import Index
from cordwood.record import Resting, decode_parts
from cordwood.tier.rows import Rows
from cordwood.tier.ship import Freight

AHEAD_BYTES = 1 << 20
CLOSE_BY = 16  # frames of others that are rather read along than skipped

Read = Callable[[int, int], Iterator[tuple[int, list[memoryview]]]]


class Load(NamedTuple):
    """Messages to be shipped, and what tells where they are, whatever comes after them."""

    freight: Freight
    where: Index
    cache: Cache

    def rows(self, read: Read) -> Iterator[Rows]:
        """Yield the messages, oldest first. `read` reads the journal; called in a thread."""
        places = self.where.places(self.freight.first, self.freight.end)
        place = next(places, None)
        from_disk: dict[tuple[int, int], Resting] = {}
        while place is not None:
            following = next(places, None)
            key = (place.lsn, place.payload)
            found = self.cache.peek(*key) or from_disk.get(key)
            if found is None:
                close = following is not None and following.lsn - place.lsn <= CLOSE_BY
                from_disk = {
                    (lsn, number): Resting(bytes(entries[1 + 2 * number]), bytes(entries[2 + 2 * number]))
                    for lsn, entries in read(place.lsn, AHEAD_BYTES if close else 1)
                    for number in range((len(entries) - 1) // 2)
                }
                found = from_disk[key]
            batch = decode_parts(found.head, found.body) if isinstance(found, Resting) else found
            yield Rows.dense(place.first, batch.slice(place.row, place.length))
            place = following
