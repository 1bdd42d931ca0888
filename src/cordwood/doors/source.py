"""Where foreign logs are: the files of a path, put together to sources that only ever grow at their end.

a file             one source, whatever its format
a directory        every directory below it with wal.log, wal.<n>.log or *.dnb1 is a Danube topic, one source;
                   every other file that is recognised is a source of its own
a source's name    its real path; or NAME, and NAME/<path below the directory> for those inside
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path

from cordwood.doors.numbering import checked
from cordwood.doors.recognise import DANUBE, Door, begins_otherwise, is_object, recognise, rotation
from cordwood.doors.record import Item, Kind, Place
from cordwood.errors import Refused, Unavailable

MOST_FILES = 100_000  # below one directory; more is a wrong path


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was when it was found; what is appended later is for the next time.

    `open` gives its bytes. It is called for each reading, so that a thousand files are not held open at once.
    """

    name: str
    size: int
    open: Callable[[], memoryview]


@dataclass(frozen=True, slots=True)
class Source:
    """One log: its files, in the order in which they were written."""

    name: str
    door: Door
    files: tuple[File, ...]

    @property
    def bytes(self) -> int:
        """How many bytes the files have."""
        return sum(file.size for file in self.files)

    def items(self) -> Iterator[tuple[str, Item]]:
        """Yield (file, what is in it), in order. May be asked for again, and is the same then."""
        return checked(self._items()) if self.door.numbered else self._items()

    def _items(self) -> Iterator[tuple[str, Item]]:
        for number, file in enumerate(self.files):
            behind = any(later.size for later in self.files[number + 1 :])
            for item in self.door.records(file.open(), file.name):
                if behind and isinstance(item, Place) and item.kind is Kind.TORN:
                    # The file that follows was begun when this one was complete.
                    item = replace(item, kind=Kind.CORRUPT, reason=f"{item.reason}, and another file follows")
                yield file.name, item


@dataclass(frozen=True, slots=True)
class Found:
    """The sources of a path, and the files in which nothing was recognised."""

    sources: tuple[Source, ...]
    others: tuple[str, ...]


def find(path: Path, name: str | None = None) -> Found:
    """Return the foreign logs at a path; none is not an error. Raises Refused for a path that is not there."""
    if not path.exists():
        raise Refused(f"{path} does not exist")
    top = Path(os.path.realpath(path))
    base = _text(top) if name is None else name
    if not top.is_dir():
        if not top.is_file():
            raise Refused(f"{path} is not a regular file")
        file = _file(top)
        door = DANUBE if is_object(top.name) else recognise(file.open())
        return Found((Source(base, door, (file,)),) if door else (), () if door else (top.name,))
    sources: list[Source] = []
    others: list[str] = []
    seen = 0
    for folder, folders, names in os.walk(top, onerror=_raised):
        folders.sort()
        seen += len(names)
        if seen > MOST_FILES:
            raise Refused(f"{path} has more than {MOST_FILES} files below it; give the directory of the log")
        below = Path(folder).relative_to(top)
        files = [_file(Path(folder, one), below) for one in sorted(names) if Path(folder, one).is_file()]
        orders = {file.name: order for file in files if (order := _order(file)) is not None}
        if orders:
            danubes = sorted((file for file in files if file.name in orders), key=lambda file: orders[file.name])
            sources.append(Source(_inside(base, below), DANUBE, tuple(danubes)))
        for file in files:
            if file.name in orders:
                continue
            door = recognise(file.open())
            if door is None:
                others.append(file.name)
            else:
                sources.append(Source(_inside(base, Path(file.name)), door, (file,)))
    return Found(tuple(sources), tuple(others))


def _raised(error: OSError) -> None:
    """Let a directory that cannot be read be an error: what is in it would be missing, and nobody told."""
    raise error


def _order(file: File) -> tuple[int, int] | None:
    """Return where a file comes in a Danube topic's directory: objects, oldest first, then what is not yet in one."""
    name = Path(file.name).name
    turn = rotation(name)
    if (turn is None and not is_object(name)) or begins_otherwise(file.open()):
        return None
    return (0, int.from_bytes(file.open()[:8], "little")) if turn is None else (1, turn)


def _inside(base: str, below: Path) -> str:
    return base if below == Path(".") else f"{base}/{_text(below)}"


def _text(path: Path) -> str:
    return str(path).encode("utf-8", "backslashreplace").decode()  # a path may be bytes that are no text


def _file(path: Path, below: Path = Path()) -> File:
    size = path.stat().st_size
    return File(_text(below / path.name), size, partial(_open, path, size))


def _open(path: Path, size: int) -> memoryview:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < size:
            raise Unavailable(f"{path} became shorter while it was read; stop what writes it, and run this again")
        return memoryview(mmap(file.fileno(), size, access=ACCESS_READ)) if size else memoryview(b"")
