"""Reading a run of frames, checking every bit of them, and saying where good bytes end and why.

It reports and never decides: that a frame does not hold may mean the end, a torn write or a damaged disk, and
`verdict` knows which. Memory stays bounded by one window or the largest frame.
"""

from collections.abc import Iterator
from enum import StrEnum

from awscrt.checksums import crc64nvme

from cordwood.journal.frame import (
    HEADER,
    HEADER_BYTES,
    IDENTITY_AT,
    MAGIC,
    MAX_PAYLOAD_BYTES,
    Header,
    Kind,
    decode_header,
    read_lost,
)
from cordwood.machine.disk import File

WINDOW_BYTES = 1 << 20  # stays in the processor's cache
SEARCH_BYTES = 256 << 10

_LOG_KINDS = frozenset((Kind.DATA, Kind.MARK, Kind.LOST))
_SNAPSHOT_KINDS = frozenset((Kind.SNAPSHOT,))


class Why(StrEnum):
    """Why a scan stopped."""

    LIMIT = "the scan's limit is reached"
    EOF = "the file ends"
    STRANGE = "no frame of this segment begins here"
    HEADER = "the frame's header does not match its checksum"
    NUMBER = "a frame with another number stands here"
    CHAIN = "the frame does not chain to the one before"
    SHORT = "the file ends inside the frame"
    PAYLOAD = "the frame's payload does not match its checksum"
    KIND = "a frame of another kind stands here"


class Window:
    """A reusable view of a file: fresh memory is dear, so one window serves a whole survey."""

    def __init__(self, size: int = WINDOW_BYTES) -> None:
        self._size = size
        self._view = memoryview(bytearray(0))

    def at_least(self, size: int, rest: int) -> memoryview:
        """Return memory for `size` bytes of a file that has `rest` bytes left."""
        if len(self._view) < size:
            self._view = memoryview(bytearray(max(size, min(self._size, rest))))
        return self._view


class Scan:
    """Iterate over (position, header, payload) of the good frames; afterwards say where and why it stopped.

    The payload is valid until the next step. `lsn` and `chain` are what the next frame had to carry, `synced` is
    the highest "synced" that a good frame carried. Whatever is in the file, a scan ends and raises nothing but
    the disk's own errors.
    """

    def __init__(
        self,
        file: File,
        identity: int,
        position: int,
        lsn: int,
        chain: int,
        *,
        end: int | None = None,
        stop_lsn: int | None = None,
        snapshot: bool = False,
        window: Window | None = None,
    ):
        self.position = position
        self.lsn = lsn
        self.chain = chain
        self.synced = 0
        self.why = Why.LIMIT
        self._file = file
        self._identity = identity
        self._end = file.size() if end is None else min(end, file.size())
        self._stop_lsn = stop_lsn
        self._kinds = _SNAPSHOT_KINDS if snapshot else _LOG_KINDS
        self._window = window or Window()

    def __iter__(self) -> Iterator[tuple[int, Header, memoryview]]:
        unpack, size, identity, kinds = HEADER.unpack_from, self._end, self._identity, self._kinds
        position, lsn, chain, stop_lsn = self.position, self.lsn, self.chain, self._stop_lsn
        view = memoryview(b"")
        base, have = position, 0  # the window shows the file from `base`, `have` bytes of it
        while True:
            self.position, self.lsn, self.chain = position, lsn, chain
            if stop_lsn is not None and lsn >= stop_lsn:
                self.why = Why.LIMIT
                return
            if size - position < HEADER_BYTES:
                self.why = Why.EOF if position >= size else Why.STRANGE
                return
            at = position - base
            if have - at < HEADER_BYTES:
                view, base, at, have = self._fill(position, HEADER_BYTES, view[at:have])
                if have < HEADER_BYTES:
                    self.why = Why.EOF if have == 0 else Why.STRANGE
                    return
            fields = unpack(view, at)
            magic, kind, zeros, number, synced, whose, link, length, payload_checksum, checksum = fields
            if magic != MAGIC or whose != identity:
                # Ours with the mark or the identity damaged, or bytes that were never ours: no telling here.
                self.why = Why.STRANGE
                return
            if crc64nvme(view[at : at + 56]) != checksum or zeros != b"\0\0\0" or length > MAX_PAYLOAD_BYTES:
                self.why = Why.HEADER
                return
            if kind not in kinds:
                self.why = Why.KIND
                return
            if number != lsn:
                self.why = Why.NUMBER
                return
            if link != chain:
                self.why = Why.CHAIN
                return
            frame_bytes = HEADER_BYTES + length
            if size - position < frame_bytes:
                self.why = Why.SHORT
                return
            if have - at < frame_bytes:
                view, base, at, have = self._fill(position, frame_bytes, view[at:have])
                if have < frame_bytes:
                    self.why = Why.SHORT
                    return
            payload = view[at + HEADER_BYTES : at + frame_bytes]
            if (crc64nvme(payload) if length else 0) != payload_checksum:
                self.why = Why.PAYLOAD
                return
            lsn, chain = lsn + 1, checksum
            if kind == Kind.LOST:
                try:
                    lost = read_lost(payload)
                except ValueError:
                    lost = None
                if lost is None or lost.end < number:
                    self.why = Why.PAYLOAD
                    return
                lsn, chain = lost.end, lost.chain
            self.synced = max(self.synced, synced)
            found = Header(kind, number, synced, whose, link, length, payload_checksum, checksum)
            here, position = position, position + frame_bytes
            self.position, self.lsn, self.chain = position, lsn, chain
            yield here, found, payload

    def _fill(self, position: int, wanted: int, left: memoryview) -> tuple[memoryview, int, int, int]:
        """Show the file from `position` on; what was read already, `left`, is moved and not read again."""
        rest = self._end - position
        view = self._window.at_least(min(wanted, rest), rest)
        kept = len(left)
        view[:kept] = left
        have = kept + self._file.read_into(view[kept : min(len(view), rest)], position + kept)
        return view, position, 0, have


def search(file: File, identity: int, position: int) -> Iterator[tuple[int, Header | None]]:
    """Yield every place from `position` on that carries this identity where a header would, oldest first.

    The header is None where its checksum does not hold. What a whole header says was true when it was written,
    wherever its bytes stand now, because nobody else knows the identity.
    """
    pattern = identity.to_bytes(8, "little")
    size = file.size()
    data = bytearray(max(0, min(SEARCH_BYTES, size - position)))
    view = memoryview(data)
    while size - position >= HEADER_BYTES:
        have = file.read_into(view[: min(len(view), size - position)], position)
        if have < HEADER_BYTES:
            return
        found = data.find(pattern, IDENTITY_AT, have)
        while found >= 0:
            start = found - IDENTITY_AT
            if start + HEADER_BYTES <= have:
                yield position + start, decode_header(data, start)
            found = data.find(pattern, found + 1, have)
        if position + have >= size:
            return
        position += have - (HEADER_BYTES - 1)
