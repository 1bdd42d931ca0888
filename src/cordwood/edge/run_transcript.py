"""What a command did, as events in order: its start, the lines it wrote, its exit.

    header    value
    stream    start, stdout, stderr or exit
    seq       0, 1, 2, …: one count for all of them, so that a gap shows what was not recorded
    cut       1, 2, …: which part of a line this is that was too long
    newline   no: none stands behind this value, because more of the line follows, or the output ended

Start and exit have a JSON object as their value, all others the line's bytes. Pure: times are handed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cordwood.edge.event import Draft, Pairs
from cordwood.edge.run_lines import Line, Lines

STREAMS = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Started:
    """A command that was started, or could not be: then it has no `pid`."""

    command: Sequence[str]
    pid: int | None
    directory: str
    host: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended: `code` as a shell says it, 128 + n for signal n, whose name is `signal`."""

    command: Sequence[str]
    code: int
    signal: str | None
    duration_ms: int
    error: str | None = None


class Transcript:
    """Turns what happens into events."""

    def __init__(self) -> None:
        self._lines = {stream: Lines() for stream in STREAMS}
        self._seq = 0

    def started(self, started: Started, now_ms: int) -> Draft:
        """Return the first event."""
        value = {
            "command": printable(started.command),
            "pid": started.pid,
            "directory": printable([started.directory])[0],
            "host": started.host,
        }
        return self._event("start", msgspec.json.encode(value), now_ms)

    def wrote(self, stream: str, chunk: bytes, now_ms: int) -> list[Draft]:
        """Return the events for the lines that these bytes complete."""
        return [self._line(stream, line, now_ms) for line in self._lines[stream].feed(chunk)]

    def ended(self, ended: Ended, now_ms: int) -> list[Draft]:
        """Return the last events: lines without a newline, then the exit."""
        found = [self._line(stream, line, now_ms) for stream in STREAMS for line in self._lines[stream].end()]
        value: dict[str, object] = {
            "command": printable(ended.command),
            "code": ended.code,
            "signal": ended.signal,
            "duration_ms": ended.duration_ms,
        }
        if ended.error is not None:
            value["error"] = ended.error
        return [*found, self._event("exit", msgspec.json.encode(value), now_ms)]

    def _line(self, stream: str, line: Line, now_ms: int) -> Draft:
        more: Pairs = []
        if line.part:
            more.append(("cut", b"%d" % line.part))
        if not line.ended:
            more.append(("newline", b"no"))
        return self._event(stream, line.value, now_ms, more)

    def _event(self, stream: str, value: bytes, now_ms: int, more: Pairs | None = None) -> Draft:
        headers: Pairs = [("stream", stream.encode()), ("seq", b"%d" % self._seq), *(more or ())]
        self._seq += 1
        return Draft(now_ms * 1000, None, value, headers)


def printable(words: Sequence[str]) -> list[str]:
    """Return words as Unicode has them; bytes of a command line that are none are shown as `\\xff`."""
    return [word.encode(errors="surrogateescape").decode(errors="backslashreplace") for word in words]
