"""How long to wait before trying again, and what an answer means for that.

STORED    2xx                     it is done
LATER     408, 429, 5xx           the same bytes may succeed later
CONFLICT  409                     the numbers do not fit; nothing was stored
REFUSED   every other             the same bytes will never succeed
"""

from collections.abc import Callable
from dataclasses import dataclass

STORED, LATER, CONFLICT, REFUSED = "stored", "later", "conflict", "refused"


def meaning(status: int) -> str:
    """Return what an answer with this status means for the request."""
    if 200 <= status < 300:
        return STORED
    if status == 409:
        return CONFLICT
    if status in (408, 429) or status >= 500:
        return LATER
    return REFUSED


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double from `first_s` to `most_s`, each between half of that and all of it."""

    first_s: float = 0.1
    most_s: float = 5.0

    def wait_s(self, failures: int, random: Callable[[], float]) -> float:
        """Return how long to wait after so many failures in a row; `random` gives 0 to 1."""
        if failures <= 0:
            return 0.0
        return min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 60)) * (0.5 + random() / 2)
