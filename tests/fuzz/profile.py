"""How many examples a fuzz test tries, and whether they are the same each time."""

import os

from hypothesis import HealthCheck, settings

LONG = int(os.environ.get("FUZZ_EXAMPLES", "0"))


def fuzzed(examples: int = 60) -> settings:
    """Return the settings of one fuzz test: `examples` of them where nobody asks for more."""
    return settings(
        max_examples=LONG or examples,
        derandomize=not LONG,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
