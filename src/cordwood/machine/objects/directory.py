"""A directory as an object store: what was put survives a power cut.

    .lock                     who has it (flock)
    .tmp/<random>             an object that is being written; what a crash left there the next owner removes
    <folder>/…/<name>         an object

    put             what is there after a power cut behind this step
    write .tmp/x    perhaps some of .tmp/x
    sync  .tmp/x    perhaps .tmp/x, whole
    link            perhaps the object, whole
    sync  folder    the object, whole
    remove .tmp/x   the same

The bytes are synced before the object has its name, so a name never has half an object; `link` takes no name that
is taken; and folders are made, and synced in the one above, before anything is in them.
"""

import contextlib
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from cordwood.machine.disk import Buffer, make_directory, write_all
from cordwood.machine.objects.store import (
    Entry,
    ObjectMissing,
    StoreUnavailable,
    check_name,
    check_prefix,
    check_range,
)
from cordwood.machine.objects.tree import RealTree, Tree

TEMPORARY = ".tmp"


class DirectoryObjects:
    """Objects in a directory, each a file of the same name."""

    def __init__(self, tree: Tree):
        self.url = f"file://{tree.path}"
        self._tree = tree
        self._folders: set[str] = set()  # those that we know to survive

    def put(self, name: str, data: Buffer) -> bool:
        check_name(name)
        temporary = f"{TEMPORARY}/{secrets.token_hex(8)}"
        folder = name.rpartition("/")[0]
        try:
            self._make(TEMPORARY)
            self._make(folder)
            try:
                self._write(temporary, data)
                written = self._link(temporary, name)
                # Also for a name that was taken: whoever took it may have been killed before this sync.
                self._tree.sync_folder(folder)
            finally:
                # A name that stays behind is only a leftover, and must not hide what went wrong.
                with contextlib.suppress(OSError):
                    self._tree.remove(temporary)
        except OSError as error:
            self._folders.clear()  # somebody may have removed one
            raise self._unavailable(error) from error
        return written

    def get(self, name: str, first: int = 0, end: int | None = None) -> Buffer:
        check_range(first, end)
        try:
            file = self._tree.open(check_name(name), write=False)
            try:
                size = file.size()
                buffer = bytearray(max(0, (size if end is None else min(end, size)) - first))
                return memoryview(buffer)[: file.read_into(memoryview(buffer), first)]
            finally:
                file.close()
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissing(name, self.url) from None
        except OSError as error:
            raise self._unavailable(error) from error

    def size(self, name: str) -> int:
        try:
            file = self._tree.open(check_name(name), write=False)
            try:
                return file.size()
            finally:
                file.close()
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissing(name, self.url) from None
        except OSError as error:
            raise self._unavailable(error) from error

    def list(self, prefix: str) -> Iterator[Entry]:
        return self._walk(check_prefix(prefix)[:-1])

    def delete(self, names: Iterable[str]) -> None:
        folders = set()
        try:
            for name in names:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self._tree.remove(check_name(name))
                    folders.add(name.rpartition("/")[0])
            for folder in sorted(folders):
                self._tree.sync_folder(folder)
        except OSError as error:
            raise self._unavailable(error) from error

    def lock(self) -> None:
        """Take the store for this process, or raise `Locked`; remove what a dead one left half written."""
        try:
            self._tree.lock()
            with contextlib.suppress(FileNotFoundError):
                for left in self._tree.names_in(TEMPORARY):
                    with contextlib.suppress(FileNotFoundError):
                        self._tree.remove(f"{TEMPORARY}/{left.name}")
        except OSError as error:
            self._tree.unlock()
            raise self._unavailable(error) from error

    def unlock(self) -> None:
        """Let another process have the store."""
        self._tree.unlock()

    def close(self) -> None:
        """Let go of the directory and its lock."""
        self._tree.close()

    def _make(self, folder: str) -> None:
        """Return when a folder and those above it are there and survive."""
        if not folder or folder in self._folders:
            return
        above = folder.rpartition("/")[0]
        self._make(above)
        with contextlib.suppress(FileExistsError):
            self._tree.make_folder(folder)
        # Also for one that was there: whoever made it may have been killed before this sync.
        self._tree.sync_folder(above)
        self._folders.add(folder)

    def _write(self, temporary: str, data: Buffer) -> None:
        file = self._tree.open(temporary, create=True)
        try:
            write_all(file, [data], 0)
            file.sync()
        finally:
            file.close()

    def _link(self, temporary: str, name: str) -> bool:
        try:
            self._tree.link(temporary, name)
        except FileExistsError:
            return False
        return True

    def _walk(self, folder: str) -> Iterator[Entry]:
        try:
            found = self._tree.names_in(folder)
            # Whoever linked these may have been killed before the sync, and what we show may be built upon.
            self._tree.sync_folder(folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._unavailable(error) from error
        for name, size, modified_ms in found:
            path = f"{folder}/{name}" if folder else name
            if path.startswith("."):
                continue
            if name.endswith("/"):
                yield from self._walk(path[:-1])
            else:
                yield Entry(path, size, modified_ms)

    def _unavailable(self, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(self.url, error.strerror or str(error))


def open_directory(path: Path) -> DirectoryObjects:
    """Open a directory as a store; it is made if there is none, and survives."""
    path = path.absolute()
    try:
        make_directory(path)
        return DirectoryObjects(RealTree(path))
    except OSError as error:
        raise StoreUnavailable(f"file://{path}", f"{error.strerror}: {error.filename}") from error
