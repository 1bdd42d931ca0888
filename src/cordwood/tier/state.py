"""Snapshots of the broker's state in the store, so that a broker on an empty disk finds everything again.

    state/<epoch>-<number>.snapshot     both with 20 digits; the greatest is the newest

    "CWS1" │ CRC-64/NVME of all behind it, u64 │ then each part: length u32, bytes

The number is twice the LSN; odd, it says that the broker stopped after this: nothing was acknowledged later.
"""

import logging
import re
import struct
from collections.abc import Iterable
from typing import NamedTuple

from awscrt.checksums import crc64nvme

from cordwood.errors import OtherVersion
from cordwood.machine.disk import Buffer
from cordwood.machine.objects.store import ObjectMissing, Objects, StoreUnavailable

log = logging.getLogger("cordwood.tier")

FOLDER = "state/"
KEPT = 2  # a flipped bit in one must not be the end of every floor
_NAME = re.compile(r"state/([0-9]{20})-([0-9]{20})\.snapshot")
_MAGIC = b"CWS1"
_HEAD = struct.Struct("<4sQ")
_LENGTH = struct.Struct("<I")


class Mark(NamedTuple):
    """Which snapshot it is: of the state before frame `lsn`, under a claim; the clean one is the last of all."""

    epoch: int
    lsn: int
    clean: bool

    @property
    def name(self) -> str:
        """The name in the store."""
        return f"{FOLDER}{self.epoch:020}-{2 * self.lsn + self.clean:020}.snapshot"


class Stored(NamedTuple):
    """A snapshot that was read."""

    mark: Mark
    parts: list[bytes]


def encode(parts: Iterable[Buffer]) -> bytes:
    """Return the bytes of a snapshot."""
    pieces: list[Buffer] = []
    for part in parts:
        pieces += (_LENGTH.pack(len(part)), part)
    body = b"".join(pieces)
    return _HEAD.pack(_MAGIC, crc64nvme(body)) + body


def decode(data: Buffer) -> list[bytes]:
    """Return the parts. Raises ValueError where it is not what was written."""
    view = memoryview(data)
    if len(view) < _HEAD.size:
        raise ValueError(f"{len(view)} bytes are no snapshot")
    magic, checksum = _HEAD.unpack_from(view)
    if magic[:3] == _MAGIC[:3] and magic != _MAGIC:
        raise OtherVersion(f"a snapshot of version {magic[3:]!r}; this Cordwood reads {_MAGIC[3:]!r}")
    body = view[_HEAD.size :]
    if magic != _MAGIC or crc64nvme(body) != checksum:
        raise ValueError("its checksum does not hold")
    parts = []
    at = 0
    while at < len(body):
        start = at + _LENGTH.size
        end = start + int.from_bytes(body[at:start], "little")
        if end > len(body):
            raise ValueError("it ends inside a part")
        parts.append(bytes(body[start:end]))
        at = end
    return parts


def marks(objects: Objects) -> list[Mark]:
    """Return all snapshots in a store, the newest first."""
    found = (_NAME.fullmatch(entry.name) for entry in objects.list(FOLDER))
    numbers = [(int(one[1]), *divmod(int(one[2]), 2)) for one in found if one is not None]
    return sorted((Mark(epoch, lsn, bool(clean)) for epoch, lsn, clean in numbers), reverse=True)


def put(objects: Objects, mark: Mark, data: bytes) -> None:
    """Put a snapshot, read it back, and let the oldest go. Raises StoreUnavailable."""
    objects.put(mark.name, data)
    try:
        decode(objects.get(mark.name))
    except (ValueError, OtherVersion) as error:
        objects.delete([mark.name])  # or it would be in the way of the next try
        raise StoreUnavailable(objects.url, f"{mark.name} did not come back: {error}") from None
    objects.delete([old.name for old in marks(objects)[KEPT:]])


IDENTITY = f"{FOLDER}store"


def identity(objects: Objects, new: str) -> str:
    """Return the name that a store was given once and for ever; `new` if it has none yet."""
    objects.put(IDENTITY, new.encode())
    return bytes(objects.get(IDENTITY)).decode()


def newest(objects: Objects) -> Stored | None:
    """Return the newest snapshot that is whole, None where there is none.

    The last word of a broker that stopped is clean only where no other one came after it, whole or not.
    """
    found = marks(objects)
    for mark in found:
        try:
            return Stored(mark._replace(clean=mark.clean and mark == found[0]), decode(objects.get(mark.name)))
        except ValueError as error:
            log.warning("%s is damaged, the one before it is used: %s", mark.name, error)
        except ObjectMissing:
            continue  # it was one too many, just now
    return None
