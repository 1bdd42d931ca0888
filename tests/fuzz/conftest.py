"""No file of these tests makes the process much larger than it was."""

import resource
from collections.abc import Iterator

import pytest

MOST_KIB = 768 << 10  # what a hostile length would ask for is far above, all that is honest far below


@pytest.fixture(autouse=True, scope="module")
def bounded_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KIB
