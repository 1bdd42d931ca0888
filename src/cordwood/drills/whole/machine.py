"""What every pretended machine has: a clock that runs with the world and can be set, and a power that can go."""

from cordwood.sim.loop import Timeline

DAY_ZERO_MS = 1_700_000_000_000


class PowerCut(BaseException):
    """The process that does this is gone: killed, or without power."""


class MachineClock:
    """A machine's clock: it runs with the timeline; `jump_ms` sets the time of day, as an administrator does."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._day_ms = self._latest_ms = DAY_ZERO_MS

    def now_ms(self) -> int:
        return self._day_ms + self._timeline.now_us // 1000

    def monotonic_ms(self) -> int:
        return self._timeline.now_us // 1000

    def pass_ms(self, duration_ms: int) -> None:
        """Time passes by itself here; a store that is slow is slow because its threads are."""
        raise AssertionError("nobody lets time pass by hand")

    def jump_ms(self, difference_ms: int) -> None:
        """Set the time of day forward or back."""
        self._day_ms += difference_ms
        self._latest_ms = max(self._latest_ms, self._day_ms)

    def put_right(self) -> None:
        """Set it to the latest that it ever was: what was put off until a time of day is not put off for longer."""
        self._day_ms = self._latest_ms
