"""Any command, run with its output passed on unchanged, and all it does recorded in an outbox.

    signals ──▶ command ──▶ pump ──▶ our own stdout and stderr, byte for byte
                              └────▶ recorder ──▶ outbox ──▶ broker, now or later

The main thread waits for signals, one passes output on, one records, one sends.

The command has our stdin, our environment, our process group and every other open file that we were given. Its stdout
and stderr are pipes, never a terminal. Whatever happens to outbox and broker, it runs, and its exit code is ours.
"""

import errno
import os
import shutil
import signal
import socket
from collections.abc import Callable, Sequence

from cordwood.edge.outbox import STOP_S, Outbox
from cordwood.edge.run_pump import Pump, Stream
from cordwood.edge.run_recorder import Recorder
from cordwood.edge.run_signals import Signals
from cordwood.edge.run_transcript import Ended, Started
from cordwood.machine.clock import Clock, SystemClock

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as a shell says it
SIGNALLED = 128
SHELL = "/bin/sh"


def run(
    command: Sequence[str],
    open_outbox: Callable[[], Outbox],
    tell: Callable[[str], None],
    *,
    clock: Clock | None = None,
    wait_s: float = STOP_S,
) -> int:
    """Run a command to its end and return its exit code, 128 + n when signal n ended it.

    `tell` gets what a person should know, a line at a time. What `open_outbox` raises is raised before the command
    is started. At the end the broker is tried at once and waited for, `wait_s` at most, but not if it is not there.
    """
    clock = clock or SystemClock()
    _have_three_files()
    os.close(os.pidfd_open(os.getpid()))  # where this is forbidden, it is better known now
    with Signals() as signals:
        outbox = open_outbox()
        if (early := signals.early) is not None:
            outbox.stop(0)
            return SIGNALLED + early
        recorder = Recorder(outbox.append_drafts, clock, tell)
        code = _Run(command, recorder, signals, clock, tell).code()
        _end_stdout()
        recorded = recorder.finish(lambda: signals.hurried)
        outbox.send_now(wait_s, lambda: signals.hurried)
        left = outbox.stop(0)
        if recorder.lost or not recorded:
            tell(f"{recorder.lost or 'some'} events of {outbox.execution} were not recorded")
        if left:
            why = f" ({outbox.last_error})" if outbox.last_error else ""
            tell(
                f"{left} events of {outbox.execution} are kept in {outbox.root} and not sent yet{why}; "
                "the next run, or `cordwood outbox send`, sends them"
            )
        return code


class _Run:
    """One command from its start to its end."""

    def __init__(
        self,
        command: Sequence[str],
        recorder: Recorder,
        signals: Signals,
        clock: Clock,
        tell: Callable[[str], None],
    ):
        self._command = command
        self._recorder = recorder
        self._signals = signals
        self._clock = clock
        self._tell = tell
        self._began_ms = clock.monotonic_ms()
        self._over_ms: int | None = None  # when it had ended; what it wrote may take longer to be passed on

    def code(self) -> int:
        """Run it, and return its exit code."""
        streams, theirs = [], []
        for name, target in (("stdout", 1), ("stderr", 2)):
            source, end = os.pipe()
            streams.append(Stream(name, source, target))
            theirs.append(end)
        try:
            pid = self._spawn(theirs)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the command line
            for stream in streams:
                os.close(stream.source)
            return self._not_started(error)
        finally:
            for end in theirs:
                os.close(end)
        self._put_started(pid)
        child = os.pidfd_open(pid)
        pump = Pump(streams, self._clock, self._heard, self._tell)
        try:
            self._signals.attend(child, lambda: pump.run(child, self._signals.hurry, self._over))
        finally:
            os.close(child)
        return self._ended(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    def _over(self) -> None:
        self._over_ms = self._clock.monotonic_ms()
        self._signals.ended()

    def _heard(self, stream: str, chunk: bytes, now_ms: int) -> None:
        self._recorder.put((stream, chunk), now_ms)

    def _spawn(self, theirs: Sequence[int]) -> int:
        # Python ignores these two for itself; the command shall not.
        ours = [signal.SIGPIPE, signal.SIGXFSZ]
        actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs, 1)]

        def spawned(words: Sequence[str]) -> int:
            return os.posix_spawnp(
                words[0],
                list(words),
                os.environ,
                file_actions=actions,
                setsigmask=list(self._signals.before),
                setsigdef=ours,
            )

        try:
            return spawned(self._command)
        except OSError as error:
            script = shutil.which(self._command[0])
            if error.errno != errno.ENOEXEC or script is None:
                raise
            return spawned([SHELL, script, *self._command[1:]])  # a script that does not say whose, as execvp(3) does

    def _put_started(self, pid: int | None) -> None:
        now = self._clock.now_ms()
        self._recorder.put(Started(self._command, pid, _directory(), socket.gethostname()), now)

    def _not_started(self, error: OSError | ValueError) -> int:
        missing = isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENOTDIR)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        code = NOT_FOUND if missing else NOT_EXECUTABLE
        self._tell(f"{self._command[0]}: {'command not found' if missing else reason}")
        self._put_started(None)
        self._recorder.put(Ended(self._command, code, None, 0, reason), self._clock.now_ms())
        return code

    def _ended(self, code: int) -> int:
        over_ms = self._clock.monotonic_ms() if self._over_ms is None else self._over_ms
        duration_ms = over_ms - self._began_ms
        name = _signal_name(-code) if code < 0 else None
        shown = code if code >= 0 else SIGNALLED - code
        self._recorder.put(Ended(self._command, shown, name, duration_ms), self._clock.now_ms())
        return shown


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time one


def _have_three_files() -> None:
    """Let 0, 1 and 2 be open, so that no pipe and no log gets one of these numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free: this one
            os.set_inheritable(number, True)


def _end_stdout() -> None:
    """Let whoever reads our stdout see its end now, and not when the broker has everything."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""  # it was removed
