"""The numbers of a producer against a plain list of where each sequence is."""

from hypothesis import given
from hypothesis import strategies as st

from cordwood.broker import numbers as module
from cordwood.broker.numbers import Numbers

# (what others wrote before it, messages) of each request
REQUESTS = st.lists(st.tuples(st.sampled_from((0, 0, 1, 4)), st.integers(1, 4)), max_size=30)


def told(requests: list[tuple[int, int]]) -> tuple[Numbers, list[int]]:
    found, offsets, end = Numbers(3), list[int](), 0
    for at, (others, count) in enumerate(requests):
        end += others
        found.stored(len(offsets), end, count, 1_000 + at)
        offsets += range(end, end + count)
        end += count
    return found, offsets


@given(REQUESTS)
def test_every_sequence_is_found_where_it_was_stored(requests: list[tuple[int, int]]) -> None:
    found, offsets = told(requests)
    assert [found.offset(sequence) for sequence in range(found.next)] == offsets
    assert (found.epoch, found.next) == (3, len(offsets))
    assert found.used_ms == (999 + len(requests) if requests else 0)


@given(REQUESTS)
def test_a_turn_is_kept_only_where_somebody_else_wrote(requests: list[tuple[int, int]]) -> None:
    found, _ = told(requests)
    breaks = sum(others > 0 for others, _ in requests[1:])
    assert len(found.turns) == (1 + breaks if requests else 0)


def test_only_the_last_turns_are_remembered_and_older_places_are_unknown() -> None:
    found, offsets = told([(1, 1)] * (module.MOST_TURNS + 5))
    assert len(found.turns) == module.MOST_TURNS
    known = [found.offset(sequence) for sequence in range(found.next)]
    assert known[:5] == [None] * 5
    assert known[5:] == offsets[5:]
    assert found.next == len(offsets), "an older repeat is still known to be one"


@given(REQUESTS, st.data())
def test_what_was_lost_and_came_again_is_where_it_is_now(
    requests: list[tuple[int, int]], data: st.DataObject
) -> None:
    found, offsets = told(requests)
    end = max(offsets, default=0) + 100
    for at in range(data.draw(st.integers(0, 5)) if offsets else 0):
        first = data.draw(st.integers(0, len(offsets) - 1))
        count = data.draw(st.integers(1, len(offsets) - first))
        found.stored(first, end, count, 5_000 + at)
        offsets[first : first + count] = range(end, end + count)
        end += count + data.draw(st.sampled_from((0, 3)))
    assert [found.offset(sequence) for sequence in range(found.next)] == offsets
    assert found.next == len(offsets)
