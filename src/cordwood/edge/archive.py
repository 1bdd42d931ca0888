"""Archives: what was sent, compressed, verified, and read again.

    <execution, quoted>.wal.zst        the next ones of the same execution: .2.wal.zst, .3.wal.zst, …

Decompressed it is one segment of a journal (docs/format.md) without a snapshot: a first frame that says whose log it
was, then frames as they stood in the log. So `zstd -d` and `cordwood wal inspect` read it, too. A long run has
several archives, each of some 16 MiB; where two of them overlap, because power was lost between, events have the same
numbers in both.

    temporary file ─▶ sync ─▶ read back, decompress, compare ─▶ link ─▶ sync the directory ─▶ the source may go
"""

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from cordwood.edge.event import Event, events_of
from cordwood.edge.facts import Appended, Begun, Parked, decode, encode
from cordwood.edge.log import Log
from cordwood.edge.names import ARCHIVE, execution_of, quoted
from cordwood.errors import CordwoodError, Damage, Damaged, Full
from cordwood.journal.frame import HEADER_BYTES as FRAME_HEADER_BYTES
from cordwood.journal.frame import Kind, encode_header, pack, unpack
from cordwood.journal.scan import Scan, Why
from cordwood.journal.segment import HEADER_BYTES, SegmentHeader, decode_segment_header
from cordwood.journal.spares import NO_ROOM
from cordwood.machine.clock import Clock, SystemClock
from cordwood.machine.disk import Buffer, Directory, File, RealDirectory, make_directory, write_all

SUFFIX = ".wal.zst"
UNFINISHED = ".tmp"
PART_BYTES = 16 << 20  # so much of what was sent goes into one archive; it is held in memory while it is written
LEVEL = 3
DAY_MS = 86_400_000
KEPT_MS = 30 * DAY_MS
_CHUNK_BYTES = 1 << 20
_BEGINNING_BYTES = HEADER_BYTES + 4096  # the first frame is in it: a name has 200 bytes at most, a topic 240
_PACKED_BYTES = 256 << 10  # compressed, that beginning is in it: one block of zstd's has 128 KiB
_MOST_BYTES = 256 << 20  # an archive that claims more is not one of ours


class Shelf(Directory, Protocol):
    """A directory in which a file can get a second name."""

    def link(self, old: str, new: str) -> None:
        """Give a file another name as well; FileExistsError if something has it."""


def open_shelf(root: Path) -> RealDirectory:
    """Return the directory of the archives of this root, made if there is none."""
    make_directory(root / ARCHIVE)
    return RealDirectory(root / ARCHIVE)


# Writing


def put(log: Log, shelf: Shelf, through: int) -> list[str]:
    """Archive the frames below LSN `through` that are in no archive yet; return the archives' names.

    Raises `Full` when there is no room; what was archived before stays.
    """
    names = []
    at = log.state.archived
    while at < min(through, log.journal.synced):
        name, at = put_part(log, shelf, at, through)
        names += [name] if name else []
    return names


def put_part(log: Log, shelf: Shelf, start: int, through: int) -> tuple[str | None, int]:
    """Archive frames from LSN `start` on, some 16 MiB of them; return the archive's name, and the LSN behind them."""
    frames: list[list[bytes]] = []
    size = 0
    for lsn, entries in log.journal.frames(max(start, log.journal.first), through):
        frames.append([bytes(entry) for entry in entries])
        size += sum(map(len, entries)) + FRAME_HEADER_BYTES
        if size >= PART_BYTES:
            through = lsn + 1
            break
    return _put(shelf, log.begun, frames) if frames else None, through


def segment_of(begun: Begun, frames: Iterable[list[bytes]]) -> bytes:
    """Return the segment that holds these frames; the same frames give the same bytes."""
    identity = int.from_bytes(begun.producer.encode()[:8].ljust(8, b"-"), "little")
    pieces: list[Buffer] = [SegmentHeader(identity, 0, 0, HEADER_BYTES, begun.created_ms, False).encode()]
    chain = 0
    for lsn, entries in enumerate([[encode(begun)], *frames]):
        payload = pack(entries)
        header, chain = encode_header(Kind.DATA, lsn, lsn, identity, chain, payload.length, payload.checksum)
        pieces += [header, *payload.buffers]
    return b"".join(pieces)


def _put(shelf: Shelf, begun: Begun, frames: list[list[bytes]]) -> str:
    stem = quoted(begun.execution)
    raw = segment_of(begun, frames)
    last = 0
    for number in _numbers(stem, shelf.names()):
        name = archive_name(stem, number)
        head = _beginning(shelf, name)
        last = number if _whose(name, head) == begun.execution else last
        # The head is compared first: of a long run there are many, and each takes a while to be read.
        if head == raw[:_BEGINNING_BYTES] and _is(shelf, name, raw):
            shelf.sync()  # it may have been linked by somebody who was killed before the sync
            return name
    unfinished = f"{secrets.token_hex(8)}{UNFINISHED}"
    try:
        file = shelf.open(unfinished, create=True)
        try:
            write_all(file, _compressed(raw), 0)
            file.sync()
        finally:
            file.close()
        if contents(shelf, unfinished) != raw:
            raise OSError(f"what was written to {shelf.path} does not read back as it was written")
        name = _link(shelf, unfinished, stem, last + 1)
        shelf.sync()
    except OSError as error:
        _discard(shelf, unfinished)
        if error.errno in NO_ROOM:
            raise Full(f"no room in {shelf.path} for an archive: {error.strerror}") from error
        raise
    _discard(shelf, unfinished)
    return name


def _link(shelf: Shelf, unfinished: str, stem: str, number: int) -> str:
    """Give it the first name from this number on that is free, and return it.

    The number is behind all that are there, so that their order stays when old ones were cleaned away.
    """
    while True:
        name = archive_name(stem, number)
        try:
            shelf.link(unfinished, name)
            return name
        except FileExistsError:
            number += 1


def archive_name(stem: str, number: int) -> str:
    """Return the name of the n-th archive of an execution, counted from 1."""
    return f"{stem}{SUFFIX}" if number == 1 else f"{stem}.{number}{SUFFIX}"


def _numbers(stem: str, names: Iterable[str]) -> list[int]:
    """Return which archives of an execution are there, by their names, in order."""
    form = re.compile(rf"{re.escape(stem)}(?:\.([1-9]\d*))?{re.escape(SUFFIX)}", re.ASCII)
    return sorted(int(found[1] or 1) for name in names if (found := form.fullmatch(name)))


def _is(shelf: Shelf, name: str, raw: bytes) -> bool:
    """Say whether an archive has exactly this content: somebody was killed before he could remove the source."""
    try:
        return contents(shelf, name) == raw
    except (Damaged, FileNotFoundError):
        return False  # it stays as it is, and does not count


def _discard(shelf: Shelf, name: str) -> None:
    if name in shelf.names():
        shelf.remove(name)


def _compressed(raw: bytes) -> list[Buffer]:
    """Return the bytes as zstd frames, one behind the other."""
    import pyarrow as pa

    codec = pa.Codec("zstd", LEVEL)
    view = memoryview(raw)
    return [
        codec.compress(pa.py_buffer(view[at : at + _CHUNK_BYTES]), asbytes=True)
        for at in range(0, len(raw), _CHUNK_BYTES)
    ]


# Reading


@dataclass(frozen=True, slots=True)
class Archive:
    """What one archive holds."""

    begun: Begun
    parked: tuple[Parked, ...]
    events: tuple[Event, ...]


def read(path: str | Path) -> Iterator[Event]:
    """Yield the events of one archive, in order. Raises `Damaged` where it is not as it was written."""
    yield from open_archive(path).events


def open_archive(path: str | Path) -> Archive:
    """Return what is in an archive, every bit of it checked. Raises `Damaged`."""
    path = Path(path)
    directory = RealDirectory(path.parent)
    try:
        return _archive(path.name, contents(directory, path.name))
    finally:
        directory.close()


def contents(directory: Directory, name: str) -> bytes:
    """Return the segment that an archive holds."""
    import pyarrow as pa

    file = directory.open(name, write=False)
    try:
        packed = bytearray(file.size())
        have = file.read_into(memoryview(packed), 0)
    finally:
        file.close()
    try:
        raw: bytes = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packed[:have])), "zstd").read(_MOST_BYTES)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(name, 0, f"it does not decompress: {' '.join(str(error).split())}") from None
    return raw


def _archive(name: str, raw: bytes) -> Archive:
    header = decode_segment_header(name, raw)
    if header is None:
        raise _damaged(name, 0, "the segment's header does not match its checksum")
    scan = Scan(cast(File, _Bytes(raw)), header.identity, header.body, 0, 0)
    begun: Begun | None = None
    parked: list[Parked] = []
    events: list[Event] = []
    try:
        for _, _, payload in scan:
            for entry in unpack(payload):
                fact = decode(entry)
                if isinstance(fact, Begun):
                    begun = fact
                elif isinstance(fact, Appended) and begun is not None:
                    events += events_of(fact, begun.execution, fact.first, fact.end)
                elif isinstance(fact, Parked):
                    parked.append(fact)
    except (ValueError, LookupError, TypeError, RuntimeError) as error:  # whole, and still no events
        raise _damaged(name, scan.position, f"a frame that is whole says nothing of an outbox: {error!r}") from None
    if begun is None or scan.why is not Why.EOF:
        raise _damaged(name, scan.position, str(scan.why))
    return Archive(begun, tuple(parked), tuple(events))


def read_execution(root: str | Path, execution: str) -> Iterator[Event]:
    """Yield every event in the archives of an execution, run by run, each once."""
    shelf = Path(root) / ARCHIVE
    stem = quoted(execution)
    seen: set[tuple[str, int]] = set()
    for number in _numbers(stem, [path.name for path in shelf.iterdir()] if shelf.is_dir() else []):
        archive = open_archive(shelf / archive_name(stem, number))
        for event in archive.events:
            place = (archive.begun.producer, event.number)
            if archive.begun.execution == execution and place not in seen:
                seen.add(place)
                yield event


class _Bytes:
    """Bytes that are read like a file."""

    def __init__(self, data: bytes):
        self._data = memoryview(data)

    def size(self) -> int:
        return len(self._data)

    def read_into(self, buffer: memoryview, position: int) -> int:
        data = self._data[position : position + len(buffer)]
        buffer[: len(data)] = data
        return len(data)


def _damaged(name: str, position: int, reason: str) -> Damaged:
    remedy = "The broker has these events; nothing was changed."
    return Damaged([Damage(name, position, 0, 0, reason, "it was verified when it was written", remedy)])


def archives(root: str | Path, execution: str | None = None) -> list[tuple[str, Path]]:
    """Return the archives of a root, or of one execution in it, each with its execution."""
    return archives_in(Path(root) / ARCHIVE, execution)


def archives_in(shelf: Path, execution: str | None = None) -> list[tuple[str, Path]]:
    """Return the archives in a directory, or those of one execution in it, each with its execution.

    The file says whose it is, not its name: `a.2.wal.zst` may be the second of `a` or the first of `a.2`. For a
    damaged one the name has to do.
    """
    start = "" if execution is None else f"{quoted(execution)}."
    found = []
    for path in sorted(shelf.iterdir()) if shelf.is_dir() else ():
        if path.name.endswith(SUFFIX) and path.name.startswith(start):
            directory = RealDirectory(shelf)
            try:
                whose = _whose(path.name, _beginning(directory, path.name))
            finally:
                directory.close()
            if execution is None or whose == execution:
                found.append((whose, path))
    return found


def _beginning(directory: Directory, name: str) -> bytes:
    """Return the first bytes of the segment that an archive holds; none where they cannot be read."""
    import pyarrow as pa

    try:
        file = directory.open(name, write=False)
        try:
            packed = bytearray(min(file.size(), _PACKED_BYTES))
            have = file.read_into(memoryview(packed), 0)
        finally:
            file.close()
        stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packed[:have])), "zstd")
        return bytes(stream.read(_BEGINNING_BYTES))
    except (OSError, pa.ArrowException):
        return b""  # whoever opens it is told


def _whose(name: str, raw: bytes) -> str:
    """Return the execution that the first frame names, or else the archive's name."""
    with suppress(CordwoodError, ValueError):  # whoever opens it is told
        header = decode_segment_header(name, raw)
        if header is not None:
            for _, _, payload in Scan(cast(File, _Bytes(raw)), header.identity, header.body, 0, 0, stop_lsn=1):
                for entry in unpack(payload):
                    fact = decode(entry)
                    if isinstance(fact, Begun):
                        return fact.execution
    return execution_of(name.removesuffix(SUFFIX))


# Cleaning


def clean(
    root: str | Path, older_than_ms: int = KEPT_MS, *, dry_run: bool = False, clock: Clock | None = None
) -> list[Path]:
    """Remove the archives that are older than that, and return them; with `dry_run` only return them."""
    now_ms = (clock or SystemClock()).now_ms()
    shelf = Path(root) / ARCHIVE
    found = []
    for path in sorted(shelf.iterdir()) if shelf.is_dir() else ():
        age_ms = now_ms - int(path.lstat().st_mtime * 1000)
        if path.name.endswith(SUFFIX) and age_ms > older_than_ms:
            found.append(path)
            if not dry_run:
                path.unlink(missing_ok=True)
        elif path.name.endswith(UNFINISHED) and age_ms > DAY_MS and not dry_run:
            path.unlink(missing_ok=True)  # of somebody who was killed while writing
    return found
