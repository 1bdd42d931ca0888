"""How many messages a second, step by step, and as a picture of text. The picture is pure.

acknowledged  ▅▆▆▇▆▆         ▇█▆▆▆▆▆   12,100/s
delivered     ▄▆▆▆▆▆         ▂█▇▆▆▆▆   11,800/s
                    ╰─ kill ─╯
"""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from statistics import median

STEP_S = 0.25
BLOCKS = " ▁▂▃▄▅▆▇█"
PLAIN = " .:-=+*#@"  # where the terminal has no blocks
NAME_WIDTH = 14


class Pulse:
    """Counts what happens by steps of time; may be told by any thread."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._ended: float | None = None
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[int]] = {}
        self.marks: list[int] = []  # the steps in which the broker went and came back

    def beat(self, name: str, count: int = 1) -> None:
        """Count what happened now."""
        with self._lock:
            self._counts.setdefault(name, Counter())[self._step()] += count

    def mark(self) -> None:
        """Note that the broker went, or came back, now."""
        self.marks.append(self._step())

    def begin(self) -> None:
        """Have the first step begin now."""
        self._begun = time.monotonic()

    def end(self) -> None:
        """Have no step after this one."""
        self._ended = time.monotonic()

    def rates(self, name: str) -> list[float]:
        """Return how many a second there were, in each step until now; the last one may still grow."""
        with self._lock:
            counts = self._counts.get(name, Counter())
            return [counts[step] / STEP_S for step in range(self._step() + 1)]

    def _step(self) -> int:
        return int(((self._ended or time.monotonic()) - self._begun) / STEP_S)


def drawn(rates: Sequence[float], width: int, blocks: str = BLOCKS) -> str:
    """Return the newest `width` rates as one line of blocks, the highest of them at full height.

    More than twice the usual is drawn as twice the usual: a burst after the crash would flatten everything else.
    """
    shown = rates[-width:]
    at_work = [rate for rate in shown if rate]
    most = min(max(at_work), 2 * median(at_work)) if at_work else 1
    return "".join(blocks[_height(min(rate / most, 1), len(blocks) - 1)] for rate in shown)


def _height(share: float, most: int) -> int:
    return 0 if share <= 0 else max(1, round(share * most))


def bracket(marks: Sequence[int], length: int, width: int, *, plain: bool = False) -> str:
    """Return the line below: where in the newest `width` of `length` steps the broker was away."""
    first = max(0, length - width)
    left, middle, right = ("\\", "-", "/") if plain else ("╰", "─", "╯")
    line = [" "] * min(length, width)
    for gone, back in zip(marks[::2], [*marks[1::2], length][: len(marks[::2])], strict=True):
        for step in range(max(gone, first), min(back, length - 1) + 1):
            line[step - first] = left if step == gone else right if step == back else middle
    return "".join(line).rstrip()


def chart(pulse: Pulse, names: Sequence[str], width: int, *, plain: bool = False) -> list[str]:
    """Return a line for each name, and one that shows when the broker was away."""
    blocks = PLAIN if plain else BLOCKS
    lines, length = [], 0
    for name in names:
        rates = pulse.rates(name)
        length = max(length, len(rates))
        at_work = [rate for rate in rates if rate]
        mean = sum(at_work) / len(at_work) if at_work else 0
        lines.append(f"{name:<{NAME_WIDTH}}{drawn(rates, width, blocks)}  {mean:,.0f}/s")
    if pulse.marks:
        below = bracket(pulse.marks, length, width, plain=plain)
        lines.append(" " * NAME_WIDTH + below + (" kill -9" if below else ""))
    return lines
