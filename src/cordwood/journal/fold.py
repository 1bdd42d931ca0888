"""The owner of a journal: whoever turns its frames into state."""

from collections.abc import Iterable
from typing import Protocol

from cordwood.machine.disk import Buffer


class Fold(Protocol):
    """State that is a fold of the log. The views it is given are valid only during the call."""

    def restore(self, parts: Iterable[memoryview]) -> None:
        """Become what `snapshot` captured, whatever there was before."""

    def apply(self, lsn: int, entries: list[memoryview]) -> None:
        """Take the next frame into the state."""

    def lost(self, first: int, end: int) -> None:
        """Learn that the frames from `first` to `end` were given up by an operator."""

    def snapshot(self) -> Iterable[Buffer] | None:
        """Capture the state now, cheaply; the parts (each bounded) are drawn later in another thread.

        None says that the state cannot be captured, and so that every frame must be kept.
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

    def snapshot(self) -> Iterable[Buffer] | None:
        return None
