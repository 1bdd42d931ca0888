"""Time, asked for by whoever needs it and handed in, so that a test can hold it."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return milliseconds since 1970. It may jump: never measure a duration with it."""

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back. Only differences mean anything."""


class SystemClock:
    """The computer's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
