"""A clock that a test holds."""


class SimClock:
    """Time that passes only when told to, and jumps when told to."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass."""
        assert duration_ms >= 0, "time that passes goes forward; `jump_ms` sets the wall clock back"
        self._now_ms += duration_ms
        self._monotonic_ms += duration_ms

    def jump_ms(self, difference_ms: int) -> None:
        """Set the wall clock forward or back, as an administrator or a time server does."""
        self._now_ms += difference_ms
