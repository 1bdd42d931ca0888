"""Which of many offsets the broker refuses, found by halving. Pure.

The broker takes ranges all or none. When it refuses some, half of them is tried, and half of that, until what is at
fault stands alone, or enough has been tried.
"""

from collections.abc import Callable, Iterable

from cordwood.client.ranges import Range

MOST_TRIES = 64


def narrow(
    ranges: Iterable[Range], accept: Callable[[list[Range]], bool], most_tries: int = MOST_TRIES
) -> tuple[list[Range], list[Range]]:
    """Return what was accepted and what was not; `ranges` as a whole were refused already."""
    waiting = [list(ranges)]
    good: list[Range] = []
    bad: list[Range] = []
    tries = 0
    while waiting:
        refused = waiting.pop()
        halves = _halves(refused)
        if halves is None or tries >= most_tries:
            bad += refused
            continue
        answers = [accept(half) for half in halves]
        tries += 2
        for half, accepted in zip(halves, answers, strict=True):
            if accepted:
                good += half
            else:
                waiting.append(half)
    return sorted(good), sorted(bad)


def _halves(ranges: list[Range]) -> tuple[list[Range], list[Range]] | None:
    if len(ranges) > 1:
        middle = len(ranges) // 2
        return ranges[:middle], ranges[middle:]
    (first, end) = ranges[0]
    if end - first < 2:
        return None
    middle = (first + end) // 2
    return [(first, middle)], [(middle, end)]
