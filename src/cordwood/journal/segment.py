"""One file of the journal, `<first LSN, 20 digits>.wal`: a header, a snapshot, then frames.

     0            8         12      16         24      32      40     48        56         64
     ┌────────────┬─────────┬───────┬──────────┬───────┬───────┬──────┬─────────┬──────────┬──────────┬───────
     │ "CORDWOOD" │ version │ flags │ identity │ first │ chain │ body │ created │ header   │ snapshot │ frames
     │            │ u32 = 1 │ u32   │          │ LSN   │       │      │ ms      │ checksum │ …        │ …
     └────────────┴─────────┴───────┴──────────┴───────┴───────┴──────┴─────────┴──────────┴──────────┴───────
                                                                 └─ the position of ───────────────────┘

`identity` is drawn anew for each use of a file: bytes of an earlier use lack it and are simply the end.
`chain` is the header checksum of the frame before the first LSN, 0 before the very first. The snapshot is a run
of frames of kind SNAPSHOT from byte 64 to `body`; it is the owner's state after every frame below the first LSN.
Flag bit 0 says that it is there; without it the state comes from an earlier segment.

A file gets the name `*.wal` after its header and snapshot are synced. So the header of a `*.wal` is never
torn: if it does not hold, the disk changed it. When a segment is closed it is cut to its length, so that no byte
of it is outside a checksum.
"""

import struct
from array import array
from dataclasses import dataclass

from awscrt.checksums import crc64nvme

from cordwood.errors import OtherVersion
from cordwood.machine.disk import Buffer

MAGIC = b"CORDWOOD"
VERSION = 1
HEADER_BYTES = 64
HAS_SNAPSHOT = 1
SUFFIX = ".wal"

_CHECKED = struct.Struct("<8sIIQQQQQ")
_HEADER = struct.Struct("<8sIIQQQQQQ")


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The first bytes of a segment."""

    identity: int
    first: int
    chain: int
    body: int
    created_ms: int
    has_snapshot: bool

    def encode(self) -> bytes:
        """Return the 64 bytes."""
        flags = HAS_SNAPSHOT if self.has_snapshot else 0
        checked = _CHECKED.pack(
            MAGIC, VERSION, flags, self.identity, self.first, self.chain, self.body, self.created_ms
        )
        return checked + struct.pack("<Q", crc64nvme(checked))


def decode_segment_header(name: str, data: Buffer) -> SegmentHeader | None:
    """Return the header, or None if it is not whole; raise `OtherVersion` if it is another version's."""
    if len(data) < HEADER_BYTES:
        return None
    checked = bytes(data[:56])
    magic, version, flags, identity, first, chain, body, created_ms, checksum = _HEADER.unpack_from(data)
    if crc64nvme(checked) == checksum and magic == MAGIC and version == VERSION and flags <= HAS_SNAPSHOT:
        return SegmentHeader(identity, first, chain, body, created_ms, bool(flags & HAS_SNAPSHOT))
    if magic == MAGIC and version != VERSION and crc64nvme(checked) == checksum:
        raise OtherVersion(
            f"{name} was written in format {version}; this Cordwood reads format {VERSION}: "
            "use the version that wrote it"
        )
    return None


def segment_name(first: int) -> str:
    """Return the file name of the segment that begins with this LSN."""
    return f"{first:020d}{SUFFIX}"


def first_of(name: str) -> int | None:
    """Return the first LSN that a file name speaks of, or None if it is not a segment's name."""
    stem = name.removesuffix(SUFFIX)
    if stem == name or len(stem) != 20 or not (stem.isascii() and stem.isdecimal()):
        return None
    return int(stem) if int(stem) < 1 << 64 else None


class Places:
    """Where each frame of a segment begins; a run of lost frames has the place of the LOST frame before it."""

    __slots__ = ("_lost", "_positions", "end", "first")

    def __init__(self, first: int):
        self.first = first
        self.end = first
        self._positions = array("Q")
        self._lost: list[tuple[int, int, int]] = []  # (first, end, position), in order

    def add(self, *positions: int) -> None:
        """The next frames begin here."""
        self._positions.extend(positions)
        self.end += len(positions)

    def cut(self, end: int) -> None:
        """Forget the frames from `end` on; none of them is a lost one."""
        assert all(lost_end <= end for _, lost_end, _ in self._lost), "lost frames are below the proven point"
        keep = len(self._positions) - max(0, self.end - end)
        del self._positions[keep:]
        self.end = min(self.end, end)

    def lose(self, end: int, position: int) -> None:
        """The frames from here to `end` are lost; the frame that says so stands at `position`."""
        self._lost.append((self.end, end, position))
        self.end = end

    def find(self, lsn: int) -> tuple[int, int]:
        """Return the LSN and the position of the frame that holds `lsn` or says that it is lost."""
        assert self.first <= lsn < self.end, "the frame is in this segment"
        before = 0
        for first, end, position in self._lost:
            if lsn < first:
                break
            if lsn < end:
                return first, position
            before += end - first
        return lsn, self._positions[lsn - self.first - before]


@dataclass(slots=True)
class Segment:
    """What a running journal knows of one of its files. `size` is the position behind the last frame."""

    header: SegmentHeader
    places: Places
    size: int
    readers: int = 0
    cold: bool = False  # the system was told to forget it

    @property
    def name(self) -> str:
        return segment_name(self.header.first)

    @property
    def first(self) -> int:
        return self.header.first

    @property
    def end(self) -> int:
        return self.places.end
