"""How long a bar of a chart over time is. Pure."""

import re
from collections.abc import Sequence

from cordwood.errors import Refused

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# Each divides the next, so that bars can be joined to longer ones.
STEPS_MS: Sequence[int] = (
    10,
    100,
    *(seconds * 1_000 for seconds in (1, 5, 15, 60, 300, 900, 3_600, 21_600)),
    *(days * 86_400_000 for days in (1, 7, 28, 364, 3_640)),
)
MOST = 120  # bars that a person can tell apart
MOST_ASKED = 10_000  # bars that a person may ask for


def step_ms(first_ms: int, last_ms: int) -> int:
    """Return the length with which the time between two moments makes a good chart."""
    for step in STEPS_MS:
        if last_ms // step - first_ms // step < MOST:
            return step
    return STEPS_MS[-1]


def parse(text: str) -> int | None:
    """Return the milliseconds that "15s", "5m", "1h" or "1d" are, None for "auto"; refuse anything else."""
    if text == "auto":
        return None
    found = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", text.strip())
    if found is None or not int(found[1]):
        raise Refused(f"a bucket is auto, or a number with ms, s, m, h or d behind it, such as 15m; not {text!r}")
    return int(found[1]) * _UNITS_MS[found[2]]


def check(step: int, first_ms: int, last_ms: int) -> None:
    """Refuse more bars than anybody can look at."""
    count = last_ms // step - first_ms // step + 1
    if count > MOST_ASKED:
        raise Refused(f"that would be {count} buckets of {step} ms; at most {MOST_ASKED} are made")
