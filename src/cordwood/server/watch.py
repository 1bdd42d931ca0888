"""Looks at files that may change while the broker runs: the tokens, the certificate."""

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger("cordwood.watch")

EVERY_S = 1.0  # how late a revoked token is noticed, at most; to look costs some microseconds


class Watch:
    """Calls each of `looks` now and then, from `start` to `stop`."""

    def __init__(self, *looks: Callable[[], None]):
        self._looks = looks
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look from here on."""
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._again)

    def look(self) -> None:
        """Look now."""
        for look in self._looks:
            try:
                look()
            except Exception:  # or nobody would look again
                log.exception("looking failed")

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _again(self) -> None:
        self.look()
        self.start()
