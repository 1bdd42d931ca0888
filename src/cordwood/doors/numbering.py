"""Whether the numbers of a log follow each other, where no checksum covers them.

3 4 5 9      a gap: 6 to 8 are not there, and no damage says why. Told, not an error: a file may have been tidied away
3 4 9 6      corrupt: numbers rise. The records are whole all the same, and are kept with the number they have
"""

from collections.abc import Iterable, Iterator

from cordwood.doors.record import Item, Kind, Place, Record


def checked(file_items: Iterable[tuple[str, Item]]) -> Iterator[tuple[str, Item]]:
    """Yield the same, and a place before each record whose number does not come next."""
    last: int | None = None
    explained = True  # whether damage accounts for numbers that are missing
    for file, item in file_items:
        if isinstance(item, Place):
            explained = True
        elif isinstance(item, Record):
            if last is not None and item.number <= last:
                reason = f"record {item.number} stands behind record {last}; one of the numbers is damaged"
                yield file, Place(Kind.CORRUPT, file, item.position, item.position + 8, reason)
            elif last is not None and item.number > last + 1 and not explained:
                reason = f"record {item.number} stands behind record {last}; what was between is not there"
                yield file, Place(Kind.GAP, file, item.position, item.position, reason)
            last, explained = item.number, False
        yield file, item
