"""Which objects count."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from cordwood.machine.objects.store import Objects


class Catalogue(Protocol):
    """The names of a store's objects that count, kept by whoever has the claim.

    Every call may raise `StoreUnavailable`; `record` and `forget` raise `ClaimLost` and do nothing when another has
    the claim.
    """

    def record(self, name: str) -> None:
        """Make an object count. It is put, and read back, before."""

    def forget(self, names: Iterable[str]) -> None:
        """Make objects count no more. They are deleted after; a name that does not count is fine."""

    def names(self, prefix: str) -> Iterator[str]:
        """Return the names in a folder and below it, in order."""


class ListedCatalogue:
    """A store that is its own catalogue: what is there counts, so that there is nothing to record."""

    def __init__(self, objects: Objects):
        self._objects = objects

    def record(self, name: str) -> None:
        pass

    def forget(self, names: Iterable[str]) -> None:
        pass

    def names(self, prefix: str) -> Iterator[str]:
        return (entry.name for entry in self._objects.list(prefix))
