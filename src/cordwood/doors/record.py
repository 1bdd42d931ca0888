"""What a foreign log holds: records, and places where something is wrong or missing.

Record     a message as its system wrote it
Topic      a topic that the log declares, with its partitions
Aside      what is neither: a group's offset, a retry, an idempotency key; shown, never imported
Place      torn       the last write was cut short; nothing says that it was acknowledged
           corrupt    bytes that were written whole are not what was written
           gap        numbers are missing between two whole records
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

LAST_MS = 253_402_300_799_999  # the end of the year 9999, the last time that a message can have


class Kind(StrEnum):
    """What is wrong at a place."""

    TORN = "torn"
    CORRUPT = "corrupt"
    GAP = "gap"


class Record(NamedTuple):
    """One message of a foreign log, its checksum verified. `topic` is None where the format has no topics."""

    position: int
    end: int
    format: str
    number: int
    value: bytes
    topic: str | None = None
    key: bytes | None = None
    time_ms: int | None = None
    partition: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that the log declares."""

    position: int
    end: int
    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Aside:
    """State of the other system that has no counterpart in a topic. `what` is its kind, in words."""

    position: int
    end: int
    what: str
    facts: tuple[tuple[str, str | int], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes `position` to `end` of a file, and what is wrong there."""

    kind: Kind
    file: str
    position: int
    end: int
    reason: str

    def __str__(self) -> str:
        file = self.file if self.file.isprintable() else repr(self.file)  # one line, whatever the name
        return f"{file}, byte {self.position}: {self.reason}"


Item: TypeAlias = Record | Topic | Aside | Place


def text(value: str | int) -> bytes:
    """Return a header's value."""
    return b"%d" % value if type(value) is int else str(value).encode("utf-8", "backslashreplace")
