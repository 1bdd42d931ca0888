"""bincode 2, standard configuration, read strictly: what its own writer would not write is refused.

    integer     0 … 250 in one byte; 251, 252, 253 and then u16, u32, u64, little-endian, never longer than needed
    string      its length, then UTF-8            bytes     their length, then they
    option      0, or 1 and the value             map       its count, then key and value in turn

The longer form of a short integer is refused: bincode never writes it, and strictness is all that tells the layouts
apart.
"""

import struct

_FORMS = {251: (struct.Struct("<H"), 251), 252: (struct.Struct("<I"), 1 << 16), 253: (struct.Struct("<Q"), 1 << 32)}


class NotBincode(Exception):
    """These bytes are not what was expected. It never leaves this package."""


class Reader:
    """Reads values one after another; raises NotBincode for anything that does not fit."""

    __slots__ = ("_data", "_place")

    def __init__(self, data: memoryview):
        self._data = data
        self._place = 0

    @property
    def left(self) -> int:
        """How many bytes were not read."""
        return len(self._data) - self._place

    def integer(self, bits: int = 64) -> int:
        """Return an unsigned integer of at most so many bits."""
        first = self._take(1)[0]
        if first < 251:
            return first
        if first not in _FORMS:
            raise NotBincode(f"{first} begins no integer")
        form, least = _FORMS[first]
        value = int(form.unpack(self._take(form.size))[0])
        if value < least or value >> bits:
            raise NotBincode(f"{value} is not written like this")
        return value

    def data(self) -> bytes:
        """Return a list of bytes."""
        return bytes(self._take(self.integer()))

    def text(self) -> str:
        """Return a string."""
        try:
            return self.data().decode()
        except UnicodeDecodeError:
            raise NotBincode("a string is not UTF-8") from None

    def is_there(self) -> bool:
        """Whether an option has a value."""
        mark = self._take(1)[0]
        if mark > 1:
            raise NotBincode(f"an option is 0 or 1, not {mark}")
        return mark == 1

    def pairs(self) -> list[tuple[str, str]]:
        """Return a map of strings."""
        return [(self.text(), self.text()) for _ in range(self.integer())]

    def _take(self, count: int) -> memoryview:
        place = self._place
        if count > len(self._data) - place:
            raise NotBincode("the bytes end too early")
        self._place = place + count
        return self._data[place : place + count]
