"""What came back for a batch, and what that means.

STORED     2xx                 the broker has it
BAD        400, 413            it will never take this: find the one event, park it, go on
GONE       404                 there is no such topic, yet or any more
CONFLICT   409                 the numbers do not fit; nothing was stored
LATER      401, 403, 429, 507  decided before anything is numbered: nothing was stored; the same again, later
UNSURE     every other         it may be stored or not, as when the answer is lost: the same again, later
"""

from enum import Enum
from typing import NamedTuple


class Means(Enum):
    STORED = "stored"
    BAD = "bad"
    GONE = "gone"
    CONFLICT = "conflict"
    LATER = "later"
    UNSURE = "unsure"


class Answer(NamedTuple):
    """What came back. `wait_ms` is how long the broker asks to wait, `epoch` the highest that it knows."""

    means: Means
    reason: str = ""
    wait_ms: int = 0
    epoch: int = -1


STORED = Answer(Means.STORED)
_MEANINGS = {
    400: Means.BAD,
    413: Means.BAD,
    404: Means.GONE,
    409: Means.CONFLICT,
    401: Means.LATER,
    403: Means.LATER,
    429: Means.LATER,
    507: Means.LATER,
}


def meaning(status: int) -> Means:
    """Return what an answer with this status means for the batch."""
    if 200 <= status < 300:
        return Means.STORED
    return _MEANINGS.get(status, Means.UNSURE)
