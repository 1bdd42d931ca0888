"""Fetching from the tier what `history` wants; in whichever thread has time for it."""

from typing import Any

from cordwood.broker.history import Since, Wanted
from cordwood.errors import CordwoodError, Unavailable
from cordwood.machine.objects.store import ObjectMissing, Objects
from cordwood.record import concat
from cordwood.tier import contents, reading
from cordwood.tier.contents import Contents
from cordwood.tier.damage import damaged
from cordwood.tier.descriptor import Descriptor

MOST_CONTENTS = 1_000  # footers that are kept


class Fetching:
    """Fetches from one store, and keeps the footers of the objects it read."""

    def __init__(self, objects: Objects):
        self._objects = objects
        self._contents: dict[Descriptor, Contents] = {}

    def fetch(self, wanted: Wanted) -> Any:
        """Return what `History.arrived` takes. Raises StoreUnavailable, ObjectMissing or Damaged."""
        found, inside = wanted.tiered.descriptor, self._inside(wanted)
        if isinstance(wanted, Since):
            return reading.since(self._objects, found, inside, wanted.time_us, wanted.first, found.end)
        rows = reading.read(self._objects, found, inside, wanted.first, wanted.end)
        return concat([piece.batch for piece in rows])

    def _inside(self, wanted: Wanted) -> Contents:
        found = wanted.tiered.descriptor
        inside = self._contents.get(found)
        if inside is None:
            inside = contents.fetch(self._objects, found, wanted.tiered.bytes)
            while len(self._contents) >= MOST_CONTENTS:
                self._contents.pop(next(iter(self._contents)), None)
            self._contents[found] = inside
        return inside


def told(wanted: Wanted, error: BaseException, *, read: bool) -> CordwoodError:
    """Return what those are told who wait for what could not be fetched; `read`: its object should be there."""
    if isinstance(error, ObjectMissing) and read:
        return damaged(wanted.tiered.descriptor, 0, "it is not there")
    if isinstance(error, ObjectMissing):
        return Unavailable(f"{error}: it was deleted just now; ask again")
    return error if isinstance(error, CordwoodError) else Unavailable(f"history cannot be read: {error}")
