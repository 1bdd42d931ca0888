"""Bytes of a stream as lines, the same ones however the bytes were cut into chunks.

    ab\\n cd\\r\\n \\n ef        ab  cd\\r  (empty)  ef, which no newline ends

Only a newline ends a line, and only it is taken off: a carriage return before it belongs to the value. A line that is
too long becomes several parts, all but the last as long as may be. So the values, each with a newline behind it where
one ended it, are the stream again, to the byte.
"""

from typing import NamedTuple

MOST_BYTES = 200 << 10  # of one line; with what is around it, it fits into a broker's message of 256 KiB


class Line(NamedTuple):
    """A line, or the `part`-th part of one that was cut, counted from 1. `ended`: a newline stood behind it."""

    value: bytes
    part: int = 0
    ended: bool = True


class Lines:
    """Cuts one stream. Holds what no newline has ended yet: at most `most_bytes` of it."""

    def __init__(self, most_bytes: int = MOST_BYTES):
        self._most_bytes = most_bytes
        self._rest = bytearray()
        self._part = 0

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the lines, and the parts of long ones, that are complete with these bytes."""
        found: list[Line] = []
        *ended, rest = chunk.split(b"\n")
        for text in ended:
            if self._rest or len(text) > self._most_bytes:
                self._rest += text
                self._cut(found)
                found.append(self._last(ended=True))
            else:
                found.append(Line(text))
        self._rest += rest
        self._cut(found)
        return found

    def end(self) -> list[Line]:
        """Return what is left when the stream ends: a last line without a newline, or nothing."""
        return [self._last(ended=False)] if self._rest else []

    def _cut(self, found: list[Line]) -> None:
        """Cut parts off until the rest is short enough. It is not empty then, so the last part never is."""
        while len(self._rest) > self._most_bytes:
            self._part += 1
            found.append(Line(bytes(self._rest[: self._most_bytes]), self._part, ended=False))
            del self._rest[: self._most_bytes]

    def _last(self, *, ended: bool) -> Line:
        line = Line(bytes(self._rest), self._part + 1 if self._part else 0, ended)
        self._rest.clear()
        self._part = 0
        return line
