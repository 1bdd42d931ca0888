"""What the machine can do: plain loops over system calls, with nothing of Cordwood in them.

    write_rate       pwrite + fdatasync, one after the other: pieces a second
    write_times      the same: the seconds of each
    read_checked     read files in pieces into one buffer, checksum each piece: seconds

Writes overwrite a file whose blocks are there and written, like the journal's prepared segments; growing a file
would make every sync write the file's metadata too, and the ratio look better than it is.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from awscrt.checksums import crc64nvme

_ZEROS = bytes(1 << 20)


class Prepared:
    """A zero-filled, synced file to be overwritten from its beginning, and again when its end is reached."""

    def __init__(self, path: Path, size: int):
        self._size = size
        self._position = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        for start in range(0, size, len(_ZEROS)):
            os.pwrite(self._descriptor, _ZEROS[: size - start], start)
        os.fsync(self._descriptor)

    def write(self, piece: bytes) -> None:
        """Write the piece behind the one before, and return when it is synced."""
        if self._position + len(piece) > self._size:
            self._position = 0
        os.pwrite(self._descriptor, piece, self._position)
        os.fdatasync(self._descriptor)
        self._position += len(piece)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> "Prepared":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def write_rate(file: Prepared, piece: bytes, *, count: int) -> float:
    """Return how many pieces a second are written and synced, one at a time."""
    began = perf_counter()
    for _ in range(count):
        file.write(piece)
    return count / (perf_counter() - began)


def write_rate_for(file: Prepared, piece: bytes, *, seconds: float) -> float:
    """Return the same, measured for so long instead of so often."""
    count = 0
    began = perf_counter()
    while perf_counter() < began + seconds:
        file.write(piece)
        count += 1
    return count / (perf_counter() - began)


def write_times(file: Prepared, piece: bytes, *, count: int) -> list[float]:
    """Return the seconds that each of `count` writes and syncs took."""
    times = []
    for _ in range(count):
        began = perf_counter()
        file.write(piece)
        times.append(perf_counter() - began)
    return times


def read_checked(paths: Sequence[Path], piece_bytes: int) -> float:
    """Return the seconds to read these files whole, in pieces, and checksum every piece."""
    began = perf_counter()
    buffer = memoryview(bytearray(piece_bytes))
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            position = 0
            while have := os.preadv(descriptor, [buffer], position):
                crc64nvme(buffer[:have])
                position += have
        finally:
            os.close(descriptor)
    return perf_counter() - began
