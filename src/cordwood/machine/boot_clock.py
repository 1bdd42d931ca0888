"""Time that also passes while this process is stopped or the computer sleeps."""

import time


class BootClock:
    """A steady clock for promises made to others, such as a claim: it counts what this process did not live through.

    CLOCK_MONOTONIC stands still while the computer is suspended. A broker that woke up would believe that its
    claim is fresh, when another one has taken over long ago.
    """

    def monotonic_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
