"""The bytes that a file of some formats begins with, always the same.

A header holds nothing that the records need, so damage to it is reported and they are read all the same: each of them
has its own checksum.
"""

from collections.abc import Iterator

from cordwood.doors.record import Kind, Place

MAGIC_BYTES = 8
_ENOUGH = 6  # of its eight bytes; random ones agree in so many once in 10¹³ files


def resembles(head: bytes, header: bytes) -> bool:
    """Whether a file begins with this magic, whole, cut short, or with a byte or two damaged."""
    have = head[:MAGIC_BYTES]
    if len(have) < MAGIC_BYTES:
        return bool(have) and header.startswith(have)
    return sum(one == other for one, other in zip(have, header, strict=False)) >= _ENOUGH


def check(data: memoryview, file: str, header: bytes) -> Iterator[Place]:
    """Yield what is wrong with the header."""
    have = bytes(data[: len(header)])
    if have == header:
        return
    wrong = next((place for place, byte in enumerate(have) if byte != header[place]), None)
    if wrong is not None:
        where = "magic" if wrong < MAGIC_BYTES else "version" if wrong < MAGIC_BYTES + 4 else "reserve"
        yield Place(Kind.CORRUPT, file, wrong, len(have), f"the header's {where} is not that of version 1")
    if len(have) < len(header):
        reason = f"the header has {len(header)} bytes, the file {len(have)}"
        yield Place(Kind.TORN, file, 0, len(have), reason)
