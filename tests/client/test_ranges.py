"""Sets of offsets, compared with Python's own sets."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cordwood.client.ranges import Ranges, runs

SPANS = st.tuples(st.integers(0, 40), st.integers(0, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def offsets(ranges: Ranges) -> set[int]:
    return {offset for first, end in ranges for offset in range(first, end)}


@given(st.lists(st.tuples(st.booleans(), SPANS)))
def test_ranges_are_a_set(steps: list[tuple[bool, tuple[int, int]]]) -> None:
    ranges, plain = Ranges(), set[int]()
    for adds, (first, end) in steps:
        if adds:
            ranges.add(first, end)
            plain |= set(range(first, end))
        else:
            ranges.remove(first, end)
            plain -= set(range(first, end))
        assert offsets(ranges) == plain
        assert ranges.total == len(plain)
        pairs = list(ranges)
        assert all(first < end for first, end in pairs)
        assert all(end < start for (_, end), (start, _) in pairwise(pairs)), "none touch"


@given(st.lists(SPANS), SPANS)
def test_within_is_what_is_there_between_two_offsets(spans: list[tuple[int, int]], window: tuple[int, int]) -> None:
    ranges = Ranges(spans)
    found = {offset for first, end in ranges.within(*window) for offset in range(first, end)}
    assert found == offsets(ranges) & set(range(*window))


@given(st.lists(st.integers(0, 50)))
def test_offsets_in_any_order_become_runs(numbers: list[int]) -> None:
    assert offsets(Ranges(runs(np.array(numbers, np.int64)))) == set(numbers)
    assert runs(np.array(numbers, np.int64)) == list(Ranges((n, n + 1) for n in numbers))
