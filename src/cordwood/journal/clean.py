"""The mark that a clean shutdown leaves: `journal/clean`, 32 bytes.

     0            8         12    16        24         32
     ┌────────────┬─────────┬─────┬─────────┬──────────┐
     │ "CWCLEAN1" │ version │ 0   │ end LSN │ checksum │     CRC-64/NVME over bytes 0 to 24
     └────────────┴─────────┴─────┴─────────┴──────────┘

While it is there, every frame below its end was synced and nothing follows. It is made in full under another
name, synced, renamed and the directory synced, so it is never torn; it goes, with a directory sync, before
the first append.
"""

import struct

from awscrt.checksums import crc64nvme

from cordwood.errors import OtherVersion
from cordwood.machine.disk import Directory, write_all

NAME = "clean"
UNFINISHED = "clean.tmp"
MAGIC = b"CWCLEAN1"
VERSION = 1
BYTES = 32

_CHECKED = struct.Struct("<8sIIQ")


def encode_clean(end: int) -> bytes:
    """Return the mark's bytes."""
    checked = _CHECKED.pack(MAGIC, VERSION, 0, end)
    return checked + struct.pack("<Q", crc64nvme(checked))


def decode_clean(data: bytes) -> int | None:
    """Return the end LSN, or None if the mark is damaged."""
    if len(data) < BYTES:
        return None
    magic, version, _, end = _CHECKED.unpack_from(data)
    if len(data) == BYTES and data == encode_clean(end):
        return int(end)
    if magic == MAGIC and version != VERSION and crc64nvme(data[:24]) == struct.unpack_from("<Q", data, 24)[0]:
        raise OtherVersion(f"{NAME} was written in format {version}; this Cordwood reads format {VERSION}")
    return None


def read_clean(directory: Directory) -> bytes | None:
    """Return the mark's bytes, or None where there is none. Longer files are read only a little beyond."""
    if NAME not in directory.names():
        return None
    file = directory.open(NAME, write=False)
    try:
        buffer = bytearray(BYTES + 1)
        return bytes(buffer[: file.read_into(memoryview(buffer), 0)])
    finally:
        file.close()


def leave_clean(directory: Directory, end: int) -> None:
    """Leave the mark: once this returns, whoever opens next knows that all below `end` was synced."""
    if UNFINISHED in directory.names():
        directory.remove(UNFINISHED)
    file = directory.open(UNFINISHED, create=True)
    try:
        write_all(file, [encode_clean(end)], 0)
        file.sync()
    finally:
        file.close()
    directory.rename(UNFINISHED, NAME)
    directory.sync()
