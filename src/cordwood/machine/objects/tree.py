"""A directory with folders in it: what a directory store asks of the filesystem.

    File.sync         every write of this file so far survives a power cut
    sync_folder       every name in that folder (not below it) so far survives a power cut
    lock              no other process has it

Paths are relative to the tree, with "/" between their parts; the tree itself is the folder "".
"""

import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import NamedTuple, Protocol

from cordwood.errors import Locked
from cordwood.machine.disk import File, RealDirectory

LOCK = ".lock"


class Found(NamedTuple):
    """A name in a folder; a folder's own ends with "/"."""

    name: str
    size: int
    modified_ms: int


class Tree(Protocol):
    """A directory and the folders in it."""

    @property
    def path(self) -> str:
        """The name to show to a person."""

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:
        """Open a file; `create` makes a new one, mode 0600, and fails if there is one already."""

    def link(self, old: str, new: str) -> None:
        """Give a file a second name, atomically, or raise FileExistsError."""

    def remove(self, name: str) -> None:
        """Take a file's name away."""

    def make_folder(self, folder: str) -> None:
        """Make a folder, mode 0700, in one that is there, or raise FileExistsError."""

    def names_in(self, folder: str) -> list[Found]:
        """Return what is in a folder, not below it, sorted by name."""

    def sync_folder(self, folder: str) -> None:
        """Make every name in a folder, as it is now, survive a power cut."""

    def lock(self) -> None:
        """Take the tree for this process, or raise `Locked`. It ends with the process."""

    def unlock(self) -> None:
        """Let go of the lock, if it is held."""

    def close(self) -> None:
        """Let go of the tree and its lock."""


class RealTree(RealDirectory):
    """A directory of the operating system, with its folders.

    The lock is a `flock` on a file in it: NFS does not lock a directory. The file stays, and means nothing.
    """

    def __init__(self, path: Path):
        super().__init__(path)
        self._lock_descriptor = -1

    def link(self, old: str, new: str) -> None:
        os.link(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor, follow_symlinks=False)

    def make_folder(self, folder: str) -> None:
        os.mkdir(folder, 0o700, dir_fd=self._descriptor)

    def names_in(self, folder: str) -> list[Found]:
        descriptor = self._open_folder(folder)
        try:
            found = []
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    try:
                        about = entry.stat()
                    except FileNotFoundError:
                        continue  # it went while we looked
                    name = entry.name + "/" if stat.S_ISDIR(about.st_mode) else entry.name
                    found.append(Found(name, about.st_size, about.st_mtime_ns // 1_000_000))
        finally:
            os.close(descriptor)
        return sorted(found)

    def sync_folder(self, folder: str) -> None:
        descriptor = self._open_folder(folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _open_folder(self, folder: str) -> int:
        return os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)

    def lock(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(LOCK, flags, 0o600, dir_fd=self._descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno != errno.EWOULDBLOCK:
                raise
            raise Locked(f"{self.path} is in use by another process; stop that one first") from None
        self._lock_descriptor = descriptor

    def unlock(self) -> None:
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1

    def close(self) -> None:
        self.unlock()
        super().close()
