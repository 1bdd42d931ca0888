"""Tries against a plain dict from offsets to what is known of them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cordwood.broker.tries import NEVER, Change, Tries, Try

SPAN = st.tuples(st.integers(0, 40), st.integers(0, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def one_more(found: Try) -> Try:
    return Try(found.attempts + 1, 0, found.error)


def one_less(found: Try) -> Try:
    return Try(max(0, found.attempts - 1), found.until_ms, found.error)


def fails(found: Try) -> Try:
    return Try(found.attempts, 99, "boom")


def forgiven(found: Try) -> Try:
    return NEVER


CHANGES = st.sampled_from([one_more, one_more, one_less, fails, forgiven])
STEPS = st.lists(st.tuples(SPAN, CHANGES), max_size=25)


def known(tries: Tries) -> dict[int, Try]:
    return {offset: value for start, end, value in tries for offset in range(start, end)}


def changed(steps: list[tuple[tuple[int, int], Change]]) -> tuple[Tries, dict[int, Try]]:
    tries, model = Tries(), dict[int, Try]()
    for (first, end), change in steps:
        tries.change(first, end, change)
        for offset in range(first, end):
            value = change(model.pop(offset, NEVER))
            if value != NEVER:
                model[offset] = value
    return tries, model


@given(STEPS)
def test_each_offset_has_the_value_that_was_made_of_its_own(steps: list[tuple[tuple[int, int], Change]]) -> None:
    tries, model = changed(steps)
    assert known(tries) == model


@given(STEPS)
def test_runs_are_in_order_and_none_is_empty_or_says_nothing(steps: list[tuple[tuple[int, int], Change]]) -> None:
    runs = list(changed(steps)[0])
    assert all(start < end and value != NEVER for start, end, value in runs)
    assert all(before[1] <= after[0] for before, after in pairwise(runs))


@given(STEPS)
def test_runs_that_meet_and_are_alike_are_one(steps: list[tuple[tuple[int, int], Change]]) -> None:
    runs = list(changed(steps)[0])
    assert not [1 for before, after in pairwise(runs) if before[1] == after[0] and before[2] == after[2]]


@given(STEPS, SPAN)
def test_what_lies_within_covers_every_offset_once(
    steps: list[tuple[tuple[int, int], Change]], asked: tuple[int, int]
) -> None:
    tries, model = changed(steps)
    runs = list(tries.within(*asked))
    assert [o for start, end, _ in runs for o in range(start, end)] == list(range(*asked))
    assert {o: v for start, end, v in runs for o in range(start, end) if v != NEVER} == {
        offset: value for offset, value in model.items() if asked[0] <= offset < asked[1]
    }


@given(STEPS, st.integers(0, 50))
def test_what_is_below_the_floor_is_forgotten(steps: list[tuple[tuple[int, int], Change]], floor: int) -> None:
    tries, model = changed(steps)
    tries.drop_below(floor)
    assert known(tries) == {offset: value for offset, value in model.items() if offset >= floor}
    assert all(start < end for start, end, _ in tries)


def test_a_long_run_of_first_deliveries_is_one_entry() -> None:
    tries = Tries()
    for first in range(0, 100_000, 100):
        tries.change(first, first + 100, one_more)
    assert list(tries) == [(0, 100_000, Try(1))]
