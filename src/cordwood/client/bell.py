"""What wakes a thread that waits for sockets."""

import os
from contextlib import suppress


class Bell:
    """A descriptor that becomes readable when somebody rings. `sleeping`: its owner waits for the next ring."""

    def __init__(self) -> None:
        self.sleeping = False
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def __del__(self) -> None:
        # Only here: a number that was closed earlier may be another file's when somebody rings late.
        os.close(self._fd)

    def fileno(self) -> int:
        """The descriptor to poll on."""
        return self._fd

    def ring(self) -> None:
        """Wake the owner, from any thread."""
        self.sleeping = False
        os.eventfd_write(self._fd, 1)

    def hear(self) -> None:
        """Forget the rings so far."""
        self.sleeping = False
        with suppress(BlockingIOError):  # nobody rang
            os.eventfd_read(self._fd)
