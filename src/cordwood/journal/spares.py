"""Files prepared ahead, so that a commit overwrites blocks instead of growing a file.

    fresh      N.tmp: zero-filled, synced ── rename ──▶ N.spare
    used       <first>.wal ── rename, sync the directory ──▶ N.tmp: lengthened, synced ── rename ──▶ N.spare

A used file is not zeroed again: the next use has another identity, and bytes without it are the end. The
directory is synced before anything in a used file is overwritten; else a power cut could bring its old name back
over new bytes. Whatever is still called `*.tmp` when a journal opens is unfinished and is removed.
"""

import errno
import logging
from collections.abc import Callable
from typing import NamedTuple

from cordwood.errors import Full
from cordwood.machine.disk import Directory, File, write_all

log = logging.getLogger("cordwood.journal")

SUFFIX = ".spare"
UNFINISHED = ".tmp"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

_ZEROS = bytes(1 << 20)


class Spare(NamedTuple):
    name: str
    size: int


class Spares:
    """The prepared files of one journal. Making them is slow and done by one thread; taking one is not."""

    def __init__(self, directory: Directory, least_bytes: int, new_number: Callable[[], int]):
        self._directory = directory
        self._new_number = new_number
        self.ready: list[Spare] = []
        for name in directory.names():
            if not name.endswith(SUFFIX):
                continue
            try:
                file = directory.open(name, write=False)
            except OSError as error:
                log.warning("%r is left alone: %s", name, error.strerror)
                continue
            size = file.size()
            file.close()
            if size >= least_bytes:
                self.ready.append(Spare(name, size))
            else:
                directory.remove(name)  # made when segments were smaller: no reserve for us

    def make(self, size: int) -> Spare:
        """Return a new prepared file, or raise `Full` and leave nothing."""
        unfinished = f"{self._new_number():016x}{UNFINISHED}"
        file = None
        try:
            file = self._directory.open(unfinished, create=True)
            lengthen(file, 0, size)
            file.sync()
        except OSError as error:
            if file is not None:
                self._directory.remove(unfinished)
            if error.errno in NO_ROOM:
                raise Full(f"no room for {size} bytes in {self._directory.path}: {error.strerror}") from error
            raise
        finally:
            if file is not None:
                file.close()
        return self._finish(unfinished, size)

    def retire(self, old: str) -> str:
        """Take a released segment's name away and return its new one; sync the directory before `recycle`."""
        unfinished = f"{self._new_number():016x}{UNFINISHED}"
        self._directory.rename(old, unfinished)
        return unfinished

    def recycle(self, unfinished: str, size: int, *, cold: bool = False) -> Spare:
        """Turn a retired segment into a prepared file of at least `size` bytes.

        A `cold` one is not in memory; each small write to it would wait for the disk.
        """
        file = self._directory.open(unfinished)
        try:
            if cold:
                file.warm()
            have = file.size()
            if have < size:
                lengthen(file, have, size)
                file.sync()
        except OSError as error:
            self._directory.remove(unfinished)
            if error.errno in NO_ROOM:
                raise Full(f"no room to lengthen a file in {self._directory.path}: {error.strerror}") from error
            raise
        finally:
            file.close()
        return self._finish(unfinished, max(have, size))

    def fitting(self, size: int) -> Spare | None:
        """Return the smallest prepared file of at least `size` bytes."""
        return min((spare for spare in self.ready if spare.size >= size), key=lambda s: s.size, default=None)

    def _finish(self, unfinished: str, size: int) -> Spare:
        name = unfinished.removesuffix(UNFINISHED) + SUFFIX
        self._directory.rename(unfinished, name)
        return Spare(name, size)


def lengthen(file: File, start: int, end: int) -> None:
    """Write zeros from `start` to `end`, so that the blocks are there and written."""
    while start < end:
        start = write_all(file, [memoryview(_ZEROS)[: min(len(_ZEROS), end - start)]], start)
