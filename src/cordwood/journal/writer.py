"""Writing one segment: begin it, give it its name, append frames, seal it.

    step       what is done                                            after a power cut behind it
    begin      header and snapshot into a prepared file                a spare with odd bytes in it
    publish    sync, rename to *.wal, sync the directory               a segment
    write      frames behind each other                                any part of them, in any order
    sync       fdatasync                                               all of them
    seal       cut to its length, sync                                 a segment with nothing behind its end

Nothing is acknowledged from a segment before `publish` has returned.
"""

from collections.abc import Iterable, Sequence

from cordwood.journal.fold import Snapshot
from cordwood.journal.frame import Kind, Payload, encode_header, payload_of
from cordwood.journal.segment import HEADER_BYTES, Places, Segment, SegmentHeader
from cordwood.machine.disk import Buffer, Directory, File, write_all

_JOIN_BYTES = 256 << 10  # below this, copying into one buffer is cheaper than a long vector


class Writer:
    """The one who appends to a segment. Not for several threads at once."""

    def __init__(self, directory: Directory, file: File, segment: Segment, chain: int):
        self.segment = segment
        self.file = file
        self.chain = chain
        self._directory = directory

    @classmethod
    def begin(
        cls,
        directory: Directory,
        prepared: str,
        *,
        first: int,
        chain: int,
        snapshot: Snapshot | None,
        identity: int,
        created_ms: int,
    ) -> "Writer":
        """Make a prepared file into the segment from LSN `first` on; it gets its name with `publish`."""
        file = directory.open(prepared)
        try:
            after, position = chain, HEADER_BYTES
            if snapshot is not None:
                after, position = write_snapshot(file, snapshot.parts, first, identity, chain)
            header = SegmentHeader(identity, first, chain, position, created_ms, snapshot is not None)
            write_all(file, [header.encode()], 0)
        except BaseException:
            file.close()
            raise
        return cls(directory, file, Segment(header, Places(first), position), after)

    def publish(self, prepared: str) -> None:
        """Make the segment part of the journal: once this returns it is found by every opening."""
        self.file.sync()
        self._directory.rename(prepared, self.segment.name)
        self._directory.sync()

    def write(self, frames: Sequence[tuple[int, Payload]], synced: int) -> None:
        """Append frames (kind, payload), each saying that all below `synced` is synced."""
        segment = self.segment
        identity, chain = segment.header.identity, self.chain
        lsn, position = segment.end, segment.size
        buffers: list[Buffer] = []
        positions = []
        for kind, payload in frames:
            header, chain = encode_header(kind, lsn, synced, identity, chain, payload.length, payload.checksum)
            buffers.append(header)
            buffers.extend(payload.buffers)
            positions.append(position)
            position += len(header) + payload.length
            lsn += 1
        start = segment.size
        if position - start <= _JOIN_BYTES:
            buffers = [b"".join(buffers)]
        behind = write_all(self.file, buffers, start)
        assert behind == position, "the frames written are as long as their headers say"
        segment.places.add(*positions)
        segment.size = position
        self.chain = chain

    def sync(self) -> None:
        """Make every frame written so far survive a power cut."""
        self.file.sync()

    def seal(self) -> None:
        """Close the segment: cut it to its length and sync it, whatever the mode."""
        self.file.truncate(self.segment.size)
        self.file.sync()


def write_snapshot(file: File, parts: Iterable[Buffer], first: int, identity: int, chain: int) -> tuple[int, int]:
    """Write a snapshot behind the header; return the chain and the position behind it."""
    position = HEADER_BYTES
    for number, part in enumerate(parts):
        payload = payload_of([part])
        header, chain = encode_header(Kind.SNAPSHOT, number, first, identity, chain, payload.length, payload.checksum)
        position = write_all(file, [header, *payload.buffers], position)
    return chain, position
