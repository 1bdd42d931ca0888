"""How long to wait before the next try: 1 s, doubling to 60 s, each time half as much more or less; without end."""

from collections.abc import Callable

FIRST_MS = 1_000
MOST_MS = 60_000


def wait_ms(failures: int, random: Callable[[], float]) -> int:
    """Return how long to wait after so many failures in a row; `random` gives 0 to 1.

    ±50 %, so that a thousand workers that lost their broker together do not come back together.
    """
    if failures <= 0:
        return 0
    return int(min(MOST_MS, FIRST_MS * 2 ** min(failures - 1, 16)) * (0.5 + random()))
