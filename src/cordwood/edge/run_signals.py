"""Signals, handed on to a command that runs in the same process group.

    who sent it                            who has it already     what is done
    the terminal: Ctrl-C, Ctrl-\\, hangup    the whole group        nothing, the command has it
    a process: kill, a supervisor          this process alone     it is sent to the command

The kernel says which it is (`si_code`), so Ctrl-C does not arrive twice. Who sends a signal to the whole group with
`kill -- -PGID` looks like the second, and the command gets it twice.

Only who waits for a signal with `sigtimedwait` learns that. The main thread does, while another one passes output on:
the kernel prefers the main thread as long as it waits, though libraries have threads that block nothing. A signal
that comes while it does not wait goes to a handler; there Ctrl-C is told by the terminal's foreground being ours.

A signal that comes when the command has ended means that nothing more is to be waited for.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
FROM_THE_KERNEL = 0x80  # SI_KERNEL of <asm-generic/siginfo.h>
_WAKE = signal.SIGCHLD  # what ends a wait when there is nothing more to wait for
_LOOK_S = 0.25  # how often the main thread lets handlers run


class Signals:
    """Holds signals back while it is entered, and hands them on to a command. For the main thread."""

    def __init__(self) -> None:
        self.before: set[int] = set()  # what was blocked before; the command shall have it so
        self.hurry = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # readable when nothing is to be waited for
        self._hurried = False
        self._command: int | None = None
        self._begun = False
        self._handlers: dict[int, Any] = {}
        self._early: int | None = None

    def __enter__(self) -> "Signals":
        self.before = set(signal.pthread_sigmask(signal.SIG_BLOCK, (*FORWARDED, _WAKE)))
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # what is ignored, the command shall ignore, too
                self._handlers[number] = signal.signal(number, self._caught)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while signal.sigtimedwait((*FORWARDED, _WAKE), 0) is not None:
            pass  # it came for a command that is over; after the unblocking it would end us with another code
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)
        os.close(self.hurry)

    @property
    def early(self) -> int | None:
        """The signal that came before there was a command, if one did."""
        self._look(0)
        return self._early

    @property
    def hurried(self) -> bool:
        """Whether a signal came after the command had ended."""
        self._look(0)
        return self._hurried

    def attend(self, command: int, work: Callable[[], None]) -> None:
        """Hand signals on to the process with this pidfd until `work`, in a thread of its own, is done."""
        self._command, self._begun = command, True
        main = threading.get_ident()
        failed: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as error:
                failed.append(error)
            finally:
                signal.pthread_kill(main, _WAKE)

        worker = threading.Thread(target=run, name="cordwood-pump", daemon=True)
        worker.start()
        while worker.is_alive():
            self._look(_LOOK_S)
        self._command = None
        if failed:
            raise failed[0]

    def ended(self) -> None:
        """Know that the command is over."""
        self._command = None

    def _look(self, wait_s: float) -> None:
        found = signal.sigtimedwait((*FORWARDED, _WAKE), wait_s)
        if found is not None and found.si_signo != _WAKE:
            self._deal(found.si_signo, everybody=found.si_code == FROM_THE_KERNEL)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        self._deal(number, everybody=number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground())

    def _deal(self, number: int, *, everybody: bool) -> None:
        command = self._command
        if not self._begun:
            self._early = number
        elif command is None:
            self._hurried = True
            os.eventfd_write(self.hurry, 1)
        elif not everybody:
            with suppress(OSError):  # it ended this moment
                signal.pidfd_send_signal(command, number)


def _in_foreground() -> bool:
    """Say whether our process group is the one that the terminal sends signals to."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False  # there is none
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
