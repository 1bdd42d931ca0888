"""Which of many offsets were refused."""

from hypothesis import given
from hypothesis import strategies as st

from cordwood.client.narrowing import narrow
from cordwood.client.ranges import Range


def offsets(ranges: list[Range]) -> set[int]:
    return {offset for first, end in ranges for offset in range(first, end)}


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30), min_size=1))
def test_the_refused_are_found_and_the_others_accepted(bad: set[int], asked: set[int]) -> None:
    ranges = [(offset, offset + 1) for offset in sorted(asked)]
    accepted: set[int] = set()

    def accept(some: list[Range]) -> bool:
        if offsets(some) & bad:
            return False
        accepted.update(offsets(some))
        return True

    done, refused = narrow(ranges, accept, most_tries=1000)
    if bad & asked:
        assert offsets(refused) == bad & asked
        assert offsets(done) == accepted == asked - bad


def test_the_number_of_tries_is_bounded() -> None:
    tries = 0

    def accept(some: list[Range]) -> bool:
        nonlocal tries
        tries += 1
        return False

    done, refused = narrow([(0, 1_000_000)], accept, most_tries=10)
    assert tries == 10
    assert not done
    assert offsets(refused) == set(range(1_000_000))
