"""A disk, pretended: a directory of files, what a power cut leaves of them, and how they fail.

    what may happen at a crash                         to what
    lost, kept, or kept in pieces cut at any byte      each write and truncate of a file that was not synced
    lost or kept, each by itself                       each create, link, rename, remove since the directory's sync
    nothing                                            what was synced

    what may happen at an operation                    how
    it fails                                           `faults` raises OSError (EIO, ENOSPC, …)
    a write takes only some bytes                      `faults` returns how many
    a sync fails                                       what it should have synced stays readable, and no later sync
                                                       makes it durable; at a crash it may be there or not
    the disk is full                                   `capacity_bytes`

Kept pieces never change order where they overlap: a later write to the same bytes was made over the earlier one.
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from cordwood.errors import Locked
from cordwood.machine.disk import Buffer

# (operation, file name, bytes) → None, or for a write how many bytes it takes; raises OSError to fail.
Faults = Callable[[str, str, int], int | None]
# (operation, file name), called before each operation that changes something.
Watch = Callable[[str, str], None]

_TRUNCATE = -1


@dataclass(slots=True)
class _Inode:
    cache: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    # (position, bytes) of a write, or (_TRUNCATE, size); in limbo: a sync for these has failed
    pending: list[tuple[int, bytes | int]] = field(default_factory=list)
    limbo: list[tuple[int, bytes | int]] = field(default_factory=list)


def _perform(content: bytearray, operation: tuple[int, bytes | int]) -> None:
    position, what = operation
    if isinstance(what, int):
        if what <= len(content):
            del content[what:]
        else:
            content.extend(bytes(what - len(content)))
    else:
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + len(what)] = what


@dataclass(slots=True)
class CrashImage:
    """What the disk held at one moment: enough to draw any of the states that a power cut there may leave."""

    names: dict[str, int]
    renames: list[tuple[str | None, str | None, int]]
    files: dict[int, tuple[bytes, list[tuple[int, bytes | int]]]]
    now: dict[str, bytes]  # what a process sees

    def after_power_cut(self, random: Random, keep: float | None = None) -> "SimDirectory":
        """Return a disk as the power cut may have left it; `keep` is the share of what was not synced."""
        if keep is None:
            keep = random.choice((0.0, 0.5, 0.9, 1.0, random.random()))
        names = dict(self.names)
        for old, new, inode in self.renames:
            if random.random() < keep:
                if old is not None and names.get(old) == inode:
                    del names[old]
                if new is not None:
                    names[new] = inode
        disk = SimDirectory()
        made: dict[int, _Inode] = {}
        for name, inode in names.items():
            if inode not in made:
                content = self._content(inode, keep, random)
                made[inode] = _Inode(bytearray(content), content)
            disk._names[name] = made[inode]
        disk._durable_names = dict(disk._names)
        return disk

    def _content(self, inode: int, keep: float, random: Random) -> bytearray:
        durable, unsynced = self.files[inode]
        content = bytearray(durable)
        for position, what in unsynced:
            if isinstance(what, int):
                if random.random() < keep:
                    _perform(content, (position, what))
                continue
            cuts = sorted(random.randrange(len(what) + 1) for _ in range(random.choice((0, 0, 1, 2, 5))))
            for start, end in zip([0, *cuts], [*cuts, len(what)], strict=True):
                if start < end and random.random() < keep:
                    _perform(content, (position + start, what[start:end]))
        return content

    def after_kill(self) -> "SimDirectory":
        """Return the disk as the next process finds it when only the process died: all writes are there."""
        disk = SimDirectory()
        disk._names = {name: _Inode(bytearray(data), bytearray(data)) for name, data in self.now.items()}
        disk._durable_names = dict(disk._names)
        return disk


class SimFile:
    """An open file of a pretended directory."""

    def __init__(self, disk: "SimDirectory", name: str, inode: _Inode):
        self._disk = disk
        self._name = name
        self._inode = inode

    def size(self) -> int:
        return len(self._inode.cache)

    def read_into(self, buffer: memoryview, position: int) -> int:
        data = self._inode.cache[position : position + len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        data = b"".join(buffers)
        taken = self._disk._operation("write", self._name, len(data))
        if taken is not None:
            data = data[:taken]
        inode = self._inode
        grows = max(0, position + len(data) - len(inode.cache))
        room = self._disk.room_bytes()
        if grows > room:
            data = data[: len(data) - (grows - room)]
            if not data:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _perform(inode.cache, (position, data))
        inode.pending.append((position, data))
        return len(data)

    def truncate(self, size: int) -> None:
        self._disk._operation("truncate", self._name, 0)
        _perform(self._inode.cache, (_TRUNCATE, size))
        self._inode.pending.append((_TRUNCATE, size))

    def sync(self) -> None:
        inode = self._inode
        try:
            self._disk._operation("sync", self._name, 0)
        except OSError:
            inode.limbo.extend(inode.pending)
            inode.pending.clear()
            raise
        for operation in inode.pending:
            _perform(inode.durable, operation)
        inode.pending.clear()
        # The kernel took the pages of the failed sync for clean: what they held is not on the disk.
        inode.limbo.clear()

    def cool(self) -> None:
        """Nothing is told from memory here."""

    def warm(self) -> None:
        """The same."""

    def close(self) -> None:
        pass


class SimDirectory:
    """A pretended directory. `watch` sees each operation before it happens, `faults` may make it fail."""

    path = "the pretended disk"

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.watch: Watch | None = None
        self.faults: Faults | None = None
        self.operations = 0
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._renames: list[tuple[str | None, str | None, _Inode]] = []
        self._locked = False

    def _operation(self, operation: str, name: str, size: int) -> int | None:
        self.operations += 1
        if self.watch is not None:
            self.watch(operation, name)
        return self.faults(operation, name, size) if self.faults is not None else None

    def room_bytes(self) -> int:
        """How many bytes can still be allocated."""
        if self.capacity_bytes is None:
            return 1 << 62
        return max(0, self.capacity_bytes - sum(len(inode.cache) for inode in self._names.values()))

    def names(self) -> list[str]:
        return sorted(self._names)

    def open(self, name: str, *, create: bool = False, write: bool = True) -> SimFile:
        if create:
            if name in self._names:
                raise FileExistsError(errno.EEXIST, "there is one already", name)
            self._operation("create", name, 0)
            inode = self._names[name] = _Inode()
            self._renames.append((None, name, inode))
        elif name not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        return SimFile(self, name, self._names[name])

    def rename(self, old: str, new: str) -> None:
        self._operation("rename", new, 0)
        inode = self._names.pop(old)
        self._names[new] = inode
        self._renames.append((old, new, inode))

    def link(self, old: str, new: str) -> None:
        """Give a file another name as well; FileExistsError if something has it."""
        self._operation("link", new, 0)
        if new in self._names:
            raise FileExistsError(errno.EEXIST, "there is one already", new)
        inode = self._names[new] = self._names[old]
        self._renames.append((None, new, inode))

    def remove(self, name: str) -> None:
        self._operation("remove", name, 0)
        self._renames.append((name, None, self._names.pop(name)))

    def sync(self) -> None:
        self._operation("sync directory", "", 0)
        self._durable_names = dict(self._names)
        self._renames.clear()

    def lock(self) -> None:
        if self._locked:
            raise Locked(f"{self.path} is in use; stop the other one first")
        self._locked = True

    def close(self) -> None:
        self._locked = False

    def after_kill(self) -> "SimDirectory":
        """Return the same disk for the next process: what was written and not synced is there, and still not synced.

        The one before it is dead: what it does from here on changes the same files, so let its `watch` raise.
        """
        disk = SimDirectory(self.capacity_bytes)
        disk._names, disk._durable_names, disk._renames = self._names, self._durable_names, self._renames
        return disk

    def image(self) -> CrashImage:
        """Capture what is on the disk now, synced and not."""
        inodes = {id(inode): inode for inode in self._durable_names.values()}
        inodes.update({id(inode): inode for _, _, inode in self._renames})
        return CrashImage(
            {name: id(inode) for name, inode in self._durable_names.items()},
            [(old, new, id(inode)) for old, new, inode in self._renames],
            {key: (bytes(inode.durable), inode.limbo + inode.pending) for key, inode in inodes.items()},
            {name: bytes(inode.cache) for name, inode in self._names.items()},
        )
