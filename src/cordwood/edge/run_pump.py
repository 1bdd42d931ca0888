"""Output passed on as it comes: bytes from a command's pipes to our own streams, each in its order.

    reading ──▶ a chunk ──▶ passing on, as fast as the target takes it ──▶ heard, reading again

One thread for all streams. A target that takes nothing holds up its own stream and no other. A target that is gone
(`| head`) closes the command's pipe, so that the command learns of it as it would without us.

When the command has ended, everything that it had written is passed on. Children of it that keep the pipe open are
listened to until nothing has come for 0.2 s, for 1 s at most.
"""

import errno
import fcntl
import os
import selectors
import stat
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress

from cordwood.machine.clock import Clock

CHUNK_BYTES = 64 << 10  # as much as a pipe holds
AT_ONCE_BYTES = 4096  # what a pipe that polls as writable takes without blocking: PIPE_BUF
QUIET_MS = 200
AFTER_MS = 1_000


class Stream:
    """One stream's way: from the pipe `source` to our `target`."""

    def __init__(self, name: str, source: int, target: int):
        self.name, self.source, self.target = name, source, target
        self.chunk = b""  # what was read
        self.passed = 0  # so much of it is passed on
        self.owed = 0  # so much that the command itself wrote is still in the pipe when it has ended
        self.read_at_ms = 0
        self.open = True
        self._at_once = CHUNK_BYTES if stat.S_ISREG(os.fstat(target).st_mode) else AT_ONCE_BYTES

    @property
    def passing(self) -> bool:
        """Whether something that was read is not passed on yet."""
        return self.passed < len(self.chunk)

    def read(self) -> bool:
        """Read what is there; False at the end."""
        self.chunk, self.passed = os.read(self.source, CHUNK_BYTES), 0
        self.owed -= len(self.chunk)
        return bool(self.chunk)

    def pass_on(self) -> None:
        """Write as much as the target takes now."""
        with suppress(BlockingIOError):  # somebody made it non-blocking, and it is full
            self.passed += os.write(self.target, self.chunk[self.passed : self.passed + self._at_once])

    def waits(self) -> int:
        """Return how many bytes are in the pipe."""
        answer = fcntl.ioctl(self.source, termios.FIONREAD, b"\0\0\0\0")
        return int.from_bytes(answer, "little")


class Pump:
    """Passes streams on until they end, or the command has. `heard` is called with each chunk that was passed on."""

    def __init__(
        self,
        streams: Sequence[Stream],
        clock: Clock,
        heard: Callable[[str, bytes, int], None],
        tell: Callable[[str], None],
    ):
        self._streams = streams
        self._clock = clock
        self._heard = heard
        self._tell = tell
        self._selector = selectors.PollSelector()  # not epoll: that does not take regular files
        self._quiet_at_ms = 0
        self._over_at_ms = 0

    def run(self, command: int, hurry: int, ended: Callable[[], None]) -> None:
        """Return when all is passed on and the process with the pidfd `command` has ended; `ended` is called then.

        Sooner when `hurry` becomes readable.
        """
        select = self._selector
        select.register(command, selectors.EVENT_READ, "command")
        select.register(hurry, selectors.EVENT_READ, "hurry")
        for stream in self._streams:
            select.register(stream.source, selectors.EVENT_READ, stream)
        lives = True
        while lives or not self._drained():
            for key, _ in select.select(None if lives else QUIET_MS / 1000 / 4):
                stream = key.data
                if stream == "hurry":
                    self._close_all()
                    return
                if stream == "command":
                    lives = False
                    select.unregister(command)
                    self._command_ended()
                    ended()
                elif stream.open:
                    self._step(stream)
        self._close_all()

    def _step(self, stream: Stream) -> None:
        if not stream.passing:
            if not stream.read():
                self._close(stream)
                return
            stream.read_at_ms = self._clock.now_ms()
            self._quiet_at_ms = self._clock.monotonic_ms() + QUIET_MS
            self._selector.unregister(stream.source)
            self._selector.register(stream.target, selectors.EVENT_WRITE, stream)
            return
        try:
            stream.pass_on()
        except OSError as error:
            if error.errno != errno.EPIPE:
                self._tell(f"{stream.name} cannot be written, and is closed for the command: {error.strerror}")
            self._heard(stream.name, stream.chunk, stream.read_at_ms)
            self._close(stream)
            return
        if not stream.passing:
            self._selector.unregister(stream.target)
            self._selector.register(stream.source, selectors.EVENT_READ, stream)
            self._heard(stream.name, stream.chunk, stream.read_at_ms)

    def _command_ended(self) -> None:
        now = self._clock.monotonic_ms()
        self._quiet_at_ms, self._over_at_ms = now + QUIET_MS, now + AFTER_MS
        for stream in self._streams:
            stream.owed = stream.waits() if stream.open else 0

    def _drained(self) -> bool:
        """Say whether the command's own output is passed on, and nobody else's is to be waited for."""
        rest = [stream for stream in self._streams if stream.open]
        if any(stream.passing or stream.owed > 0 for stream in rest):
            return False
        now = self._clock.monotonic_ms()
        return not rest or now >= self._quiet_at_ms or now >= self._over_at_ms

    def _close(self, stream: Stream) -> None:
        self._selector.unregister(stream.target if stream.passing else stream.source)
        stream.open = False
        os.close(stream.source)

    def _close_all(self) -> None:
        for stream in self._streams:
            if stream.open:
                self._close(stream)
        self._selector.close()
