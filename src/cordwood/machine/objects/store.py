"""What we ask of an object store.

    put returned True       the bytes are under that name, whole, and survive
    put returned False      the name was taken, by bytes that are whole and survive: another's, or ours, when the
                            answer to an earlier try was lost
    put raised              nothing is known: the bytes are there whole, or not there, now or a little later
    list showed it          it survives

Nothing overwrites. A name is never the folder of another name.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from cordwood.errors import NotFound, Refused, Unavailable
from cordwood.machine.disk import Buffer

# S3 takes keys of 1,024 bytes, and a filesystem takes 255 for each part.
NAME_BYTES = 1024
PART_BYTES = 255


class ObjectMissing(NotFound):
    """There is no object of this name."""

    def __init__(self, name: str, url: str):
        super().__init__(f"{url} has no object {name}")
        self.name = name


class StoreUnavailable(Unavailable):
    """The store did not do it, or did not say so: try again later. `cause` says why, in words."""

    def __init__(self, url: str, cause: str):
        super().__init__(f"{url} cannot be used now: {cause}")
        self.cause = cause


class Entry(NamedTuple):
    """An object in a listing; `modified_ms` is by the store's own clock, which need not be ours."""

    name: str
    size: int
    modified_ms: int


class Objects(Protocol):
    """A store of objects. Calls block, for a bounded time, and may come from several threads.

    Every call may raise `StoreUnavailable`.
    """

    @property
    def url(self) -> str:
        """The store as a person may see it: no secrets."""

    def put(self, name: str, data: Buffer) -> bool:
        """Put an object if the name is free, and return whether this call did; either way the name survives."""

    def get(self, name: str, first: int = 0, end: int | None = None) -> Buffer:
        """Return the bytes from `first` to `end`, fewer only at the object's end, or raise `ObjectMissing`."""

    def size(self, name: str) -> int:
        """Return the length in bytes, or raise `ObjectMissing`."""

    def list(self, prefix: str) -> Iterator[Entry]:
        """Return the objects in a folder and below it, in the order of their names.

        `prefix` is empty or ends with "/". What changes meanwhile may be seen or not.
        """

    def delete(self, names: Iterable[str]) -> None:
        """Take objects away; one that is missing is fine. After an error, some may be gone."""


def check_name(name: str) -> str:
    """Return a name that every kind of store takes, or refuse it.

    Names whose first part begins with a dot are a directory's own.
    """
    if not name.isprintable() or "\\" in name or len(name.encode()) > NAME_BYTES:
        raise Refused(f"{name[:80]!r} is no object name: it is too long or has characters that not every store takes")
    parts = name.split("/")
    if name.startswith(".") or any(part in ("", ".", "..") or len(part.encode()) > PART_BYTES for part in parts):
        raise Refused(f"{name[:80]!r} is no object name: it begins with a dot, or a part is empty, '..' or too long")
    return name


def check_prefix(prefix: str) -> str:
    """Return a prefix that names a whole folder, or refuse it."""
    if prefix and not prefix.endswith("/"):
        raise Refused(f"{prefix[:80]!r} is no folder: it must end with '/'")
    if prefix:
        check_name(prefix[:-1])
    return prefix


def check_range(first: int, end: int | None) -> None:
    """Refuse a range that is none."""
    if first < 0 or (end is not None and end < first):
        raise Refused(f"bytes {first} to {end} are no range")
