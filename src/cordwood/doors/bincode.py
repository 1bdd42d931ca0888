"""bincode 2, standard configuration, read strictly: what its own writer would not write is refused.

    integer     0 … 250 in one byte; 251, 252, 253 and then u16, u32, u64, little-endian, never longer than needed
    string      its length, then UTF-8            bytes     their length, then they
    option      0, or 1 and the value             map       its count, then key and value in turn

The longer form of a short integer is refused: bincode never writes it, and strictness is all that tells the layouts
apart.
"""

import struct

_FORMS = {251: (struct.Struct("<H"), 251), 252: (struct.Struct("<I"), 1 << 16), 253: (struct.Struct("<Q"), 1 << 32)}
_EARLY = "the bytes end too early"


class NotBincode(Exception):
    """These bytes are not what was expected. It never leaves this package."""


class Reader:
    """Reads values one after another; raises NotBincode for anything that does not fit."""

    __slots__ = ("_data", "_place")

    def __init__(self, data: bytes | memoryview):
        self._data = bytes(data)
        self._place = 0

    @property
    def left(self) -> int:
        """How many bytes were not read."""
        return len(self._data) - self._place

    def integer(self, bits: int = 64) -> int:
        """Return an unsigned integer of at most so many bits."""
        place = self._place
        if place >= len(self._data):
            raise NotBincode(_EARLY)
        first = self._data[place]
        if first < 251:
            self._place = place + 1
            return first
        if first not in _FORMS:
            raise NotBincode(f"{first} begins no integer")
        form, least = _FORMS[first]
        behind = place + 1 + form.size
        if behind > len(self._data):
            raise NotBincode(_EARLY)
        value = int(form.unpack_from(self._data, place + 1)[0])
        if value < least or value >> bits:
            raise NotBincode(f"{value} is not written like this")
        self._place = behind
        return value

    def data(self) -> bytes:
        """Return a list of bytes."""
        count = self.integer()
        place = self._place
        if count > len(self._data) - place:
            raise NotBincode(_EARLY)
        self._place = place + count
        return self._data[place : place + count]

    def text(self) -> str:
        """Return a string."""
        try:
            return self.data().decode()
        except UnicodeDecodeError:
            raise NotBincode("a string is not UTF-8") from None

    def is_there(self) -> bool:
        """Whether an option has a value."""
        place = self._place
        if place >= len(self._data):
            raise NotBincode(_EARLY)
        mark = self._data[place]
        if mark > 1:
            raise NotBincode(f"an option is 0 or 1, not {mark}")
        self._place = place + 1
        return mark == 1

    def pairs(self) -> list[tuple[str, str]]:
        """Return a map of strings."""
        return [(self.text(), self.text()) for _ in range(self.integer())]
