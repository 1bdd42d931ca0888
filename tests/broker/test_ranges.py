"""Ranges against a plain set of numbers."""

import sys
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cordwood.broker import ranges as module
from cordwood.broker.ranges import Ranges

SPAN = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def numbers(ranges: Ranges) -> set[int]:
    return {number for first, end in ranges for number in range(first, end)}


def check(ranges: Ranges, model: set[int]) -> None:
    assert numbers(ranges) == model
    assert ranges.total == len(model)
    pieces = list(ranges)
    assert all(first < end for first, end in pieces), "none is empty"
    assert all(before[1] < after[0] for before, after in pairwise(pieces)), "none touch"
    assert ranges._heads == [starts[0] for starts in ranges._starts]


@given(st.lists(st.tuples(st.booleans(), SPAN), max_size=60), st.integers(2, 5))
def test_it_is_a_set_of_numbers(steps: list[tuple[bool, tuple[int, int]]], block: int) -> None:
    before, module.BLOCK = module.BLOCK, block  # so small that blocks are split and emptied
    try:
        ranges, model = Ranges(), set[int]()
        for adds, (first, end) in steps:
            span = set(range(first, end))
            if adds:
                assert ranges.add(first, end) == len(span - model)
                model |= span
            else:
                assert ranges.remove(first, end) == len(span & model)
                model -= span
            check(ranges, model)
        for number in range(-1, 80):
            assert (number in ranges) == (number in model)
    finally:
        module.BLOCK = before


@given(st.lists(SPAN, max_size=20), SPAN)
def test_what_is_there_and_what_is_missing_make_the_whole(
    spans: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    ranges = Ranges(spans)
    there = {n for first, end in ranges.within(*asked) for n in range(first, end)}
    missing = {n for first, end in ranges.gaps(*asked) for n in range(first, end)}
    assert there == numbers(ranges) & set(range(*asked))
    assert there | missing == set(range(*asked))
    assert not there & missing


def test_runs_that_meet_become_one() -> None:
    ranges = Ranges([(0, 3), (5, 8)])
    assert ranges.add(3, 5) == 2
    assert list(ranges) == [(0, 8)]


def test_the_worst_order_takes_few_bytes_for_each_range() -> None:
    ranges = Ranges()
    offsets = list(range(0, 200_000, 2))
    Random(1).shuffle(offsets)
    for offset in offsets:
        ranges.add(offset, offset + 1)
    assert len(ranges) == 100_000
    size = sum(sys.getsizeof(block) for block in [*ranges._starts, *ranges._ends])
    assert size / len(ranges) < 40
    assert ranges.add(0, 200_000) == 100_000
    assert list(ranges) == [(0, 200_000)]
