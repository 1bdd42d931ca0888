"""The owner of a journal: whoever turns its frames into state."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from cordwood.machine.disk import Buffer


class Snapshot(NamedTuple):
    """Captured state: `parts`, drawn later in another thread, and bounds of their number and their bytes together.

    The bounds are asked for because room is decided before a frame is numbered, and the parts come after.
    """

    parts: Iterable[Buffer]
    most_parts: int
    most_bytes: int


class Fold(Protocol):
    """State that is a fold of the log. The views it is given are valid only during the call."""

    def restore(self, parts: Iterable[memoryview]) -> None:
        """Become what `snapshot` captured, whatever there was before."""

    def apply(self, lsn: int, entries: list[memoryview]) -> None:
        """Take the next frame into the state."""

    def lost(self, first: int, end: int) -> None:
        """Learn that the frames from `first` to `end` were given up by an operator."""

    def snapshot(self) -> Snapshot | None:
        """Capture the state now, cheaply: as it is after every frame that was appended so far.

        It is called inside `append`, so an owner with several threads holds a lock of its own over `append` and
        `apply`. None says that the state cannot be captured, and so that every frame must be kept.
        """


class Blank:
    """An owner without state: it keeps every frame and looks at none."""

    def restore(self, parts: Iterable[memoryview]) -> None:
        for _ in parts:
            pass

    def apply(self, lsn: int, entries: list[memoryview]) -> None:
        pass

    def lost(self, first: int, end: int) -> None:
        pass

    def snapshot(self) -> Snapshot | None:
        return None
