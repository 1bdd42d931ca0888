"""One directory of files that survive, and the four things that make them survive.

    File.write          the bytes are in the kernel: they survive kill -9
    File.sync           every write and truncate of this file so far survives a power cut
    Directory.sync      every create, rename and remove in it so far survives a power cut
    Directory.lock      no other process has it

What was not synced may be lost, kept, or torn at any byte, in any order. A failed sync says nothing about
which of them happened, and a later sync that succeeds does not make up for it. Names are plain: there are no
folders inside a directory.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from cordwood.errors import Locked

Buffer: TypeAlias = bytes | bytearray | memoryview

# One writev takes at most this many buffers (IOV_MAX on Linux).
VECTOR_LIMIT = 1024
COPY_BYTES = 1 << 20


class File(Protocol):
    """An open file. Positions are absolute; there is no cursor."""

    def size(self) -> int:
        """Return the length in bytes."""

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from `position` and return how many bytes there were: fewer only at the file's end."""

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write the buffers one after the other and return how many bytes were taken, perhaps not all."""

    def truncate(self, size: int) -> None:
        """Cut the file, or lengthen it with zeros that have no blocks yet."""

    def sync(self) -> None:
        """Make all that was written to this file survive a power cut."""

    def cool(self) -> None:
        """Let the system give up the memory in which it holds what is synced of this file."""

    def warm(self) -> None:
        """Have the system read the file into memory, soon."""

    def close(self) -> None:
        """Let go of the file. It syncs nothing."""


class Directory(Protocol):
    """A flat directory of files."""

    @property
    def path(self) -> str:
        """The name to show to a person."""

    def names(self) -> list[str]:
        """Return the names of the files in it, sorted."""

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:
        """Open a file; `create` makes a new one, mode 0600, and fails if there is one already."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, atomically; what had that name is gone."""

    def remove(self, name: str) -> None:
        """Take a file's name away."""

    def sync(self) -> None:
        """Make every name as it is now survive a power cut."""

    def lock(self) -> None:
        """Take the directory for this process, or raise `Locked`."""

    def close(self) -> None:
        """Let go of the directory and its lock."""


def write_all(file: File, buffers: Sequence[Buffer], position: int) -> int:
    """Write every byte of `buffers` at `position` and return the position behind them."""
    for start in range(0, len(buffers), VECTOR_LIMIT):
        rest = buffers[start : start + VECTOR_LIMIT]
        wanted = sum(map(len, rest))
        while wanted:
            taken = file.write(rest, position)
            if taken <= 0:
                raise OSError(errno.EIO, "the disk took no bytes")
            position += taken
            wanted -= taken
            if wanted:
                rest = _drop(rest, taken)
    return position


def copy_bytes(source: File, start: int, end: int, target: File, position: int) -> int:
    """Copy the bytes from `start` to `end` into another file; return the position behind them there."""
    buffer = memoryview(bytearray(max(1, min(COPY_BYTES, end - start))))
    while start < end:
        have = source.read_into(buffer[: min(len(buffer), end - start)], start)
        if have == 0:
            break
        position = write_all(target, [buffer[:have]], position)
        start += have
    return position


def _drop(buffers: Sequence[Buffer], count: int) -> list[Buffer]:
    """Return the buffers without their first `count` bytes."""
    rest: list[Buffer] = []
    for buffer in buffers:
        view = memoryview(buffer)
        if count >= len(view):
            count -= len(view)
        else:
            rest.append(view[count:])
            count = 0
    return rest


class RealFile:
    """A file of the operating system."""

    def __init__(self, descriptor: int, name: str):
        self._descriptor = descriptor
        self._name = name

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_into(self, buffer: memoryview, position: int) -> int:
        done = 0
        while done < len(buffer):
            try:
                got = os.preadv(self._descriptor, [buffer[done:]], position + done)
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._name) from error
            if got == 0:
                break
            done += got
        return done

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwritev(self._descriptor, buffers, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def cool(self) -> None:
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def warm(self) -> None:
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RealDirectory:
    """A directory of the operating system.

    The lock is a `flock` on the directory itself: it needs no file that could be left behind, and it ends with
    the process.
    """

    def __init__(self, path: Path):
        self.path = str(path)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def names(self) -> list[str]:
        return sorted(os.listdir(self._descriptor))

    def open(self, name: str, *, create: bool = False, write: bool = True) -> RealFile:
        # A pipe with a segment's name must not make us wait for a writer.
        flags = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | (os.O_RDWR if write else os.O_RDONLY)
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        descriptor = os.open(name, flags, 0o600, dir_fd=self._descriptor)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "not a regular file", name)
            if create and stat.S_IMODE(mode) != 0o600:  # a umask that takes something from the owner, too
                os.fchmod(descriptor, 0o600)
        except BaseException:
            os.close(descriptor)
            raise
        return RealFile(descriptor, name)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def link(self, old: str, new: str) -> None:
        """Give a file another name as well; FileExistsError if something has it."""
        os.link(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked(f"{self.path} is in use by another process; stop that one first") from None

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def make_directory(path: Path) -> None:
    """Make a directory (mode 0700) and those above it, each of them durable before this returns."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    with contextlib.suppress(PermissionError):
        # The lowest one that is there may have been made by somebody who was killed before the sync.
        sync_path(path.parent)
    for new in reversed(missing):
        new_directory(new)
        sync_path(new.parent)


def new_directory(path: Path) -> None:
    """Make one directory (mode 0700, whatever the umask); it is not durable yet."""
    os.mkdir(path, 0o700)
    if stat.S_IMODE(os.stat(path).st_mode) != 0o700:  # a umask that takes something from the owner, too
        os.chmod(path, 0o700)


def sync_path(path: str | Path) -> None:
    """Make a file, or the names in a directory, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
