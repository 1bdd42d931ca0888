"""Planning: values in, tasks out. Every message is in exactly one task, whatever the broker says."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import Refused
from cordwood.spark import pace, places, plan
from cordwood.spark.extent import DataLost, Extent, Loss, Range, advance, cut, judge, messages
from cordwood.spark.options import EARLIEST, LATEST, Bound
from cordwood.spark.plan import Held, Span

MIB = 1 << 20


def extent(number: int, start: int, end: int, *holes: tuple[int, int]) -> Extent:
    return Extent("t", "id", number, start, end, holes)


@st.composite
def extents(draw: st.DrawFn) -> list[Extent]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        marks = sorted(draw(st.lists(st.integers(0, 60), min_size=2, max_size=6, unique=True)))
        holes = [(low, high) for low, high in zip(marks[1:-1:2], marks[2:-1:2], strict=False)]
        found.append(extent(number, marks[0], marks[-1], *holes))
    return found


def offsets(one: Extent, start: int, end: int) -> set[int]:
    inside = range(max(start, one.start), min(end, one.end))
    return {at for at in inside if not any(low <= at < high for low, high in one.holes)}


def rows(spans: list[Span] | tuple[Span, ...]) -> list[tuple[int, int]]:
    return [(span.partition, at) for span in spans for at in range(span.start, span.end)]


# What is there


@given(extents(), st.integers(0, 70), st.integers(0, 70))
def test_a_cut_has_every_message_that_is_there_and_reports_the_rest(found: list[Extent], low: int, high: int) -> None:
    low, high = min(low, high), max(low, high)
    ranges, losses = cut(found, {one.key: low for one in found}, {one.key: high for one in found})
    have = {(one.partition, at) for one in ranges for at in range(one.start, one.end)}
    assert have == {(one.partition, at) for one in found for at in offsets(one, low, high)}
    assert sum(one.end - one.start for one in ranges) == len(have)
    lost = {(one.partition, at) for one in losses for at in range(one.start, one.end)}
    for one in found:
        for at in range(low, high):
            hole = any(first <= at < end for first, end in one.holes)
            assert hole or ((one.partition, at) in have) != ((one.partition, at) in lost)


def test_an_expired_start_and_an_end_that_is_not_there_yet_are_losses() -> None:
    one = extent(0, 10, 20)
    _, losses = cut([one], {one.key: 5}, {one.key: 25})
    assert losses == [
        Loss("t", 0, 5, 10, "retention took them"),
        Loss("t", 0, 20, 25, "the partition ends at 20"),
    ]
    _, losses = cut([one], {one.key: 30}, {one.key: 20})
    assert losses == [Loss("t", 0, 20, 30, "the partition ends at 20")]


def test_a_loss_fails_the_query_or_is_said_with_its_offsets(caplog: pytest.LogCaptureFixture) -> None:
    loss = Loss("t", 0, 5, 10, "retention took them")
    with pytest.raises(DataLost, match=r"offsets 5 to 10 of t/0: retention took them.*failOnDataLoss=false"):
        judge([loss, loss], fail=True)
    assert caplog.text == ""
    judge([loss], fail=False)
    assert "offsets 5 to 10 of t/0" in caplog.text


@given(extents(), st.integers(0, 70), st.integers(0, 70))
def test_advancing_by_the_messages_that_are_left_comes_to_the_last(
    found: list[Extent], start: int, count: int
) -> None:
    for one in found:
        left = messages(one, start, one.end)
        assert left == len(offsets(one, start, one.end))
        end = advance(one, start, min(count, left))
        assert messages(one, start, end) == min(count, left)


# Where to begin and end


def test_words_and_numbers_become_offsets() -> None:
    found = [extent(0, 5, 20), extent(1, 0, 3)]
    assert places.begin(Bound(everywhere=EARLIEST), found, {}, "error") == {("t", 0): 5, ("t", 1): 0}
    assert places.finish(Bound(everywhere=LATEST), found, {}) == {("t", 0): 20, ("t", 1): 3}
    asked = Bound(offsets={"t": {0: -2, 1: 2}})
    assert places.begin(asked, found, {}, "error") == {("t", 0): 5, ("t", 1): 2}
    assert places.finish(Bound(offsets={"t": {0: -1, 1: 2}}), found, {}) == {("t", 0): 20, ("t", 1): 2}


@pytest.mark.parametrize(
    ("given_", "said"), [({"t": {0: 1}}, "lacks partition 1 of 't'"), ({"t": {0: 1, 1: 1, 2: 1}}, "has partition 2")]
)
def test_offsets_are_for_exactly_the_partitions_that_are_read(given_: dict[str, dict[int, int]], said: str) -> None:
    found = [extent(0, 0, 9), extent(1, 0, 9)]
    with pytest.raises(Refused, match=said):
        places.begin(Bound(offsets=given_), found, {}, "error")
    with pytest.raises(Refused, match=said):
        places.times(Bound(times_ms=given_), "starting", found)


def test_a_starting_time_behind_the_last_message_is_an_error_or_the_end() -> None:
    found = [extent(0, 0, 9), extent(1, 0, 9)]
    since = {("t", 0): 4, ("t", 1): 9}
    bound = Bound(time_ms=1)
    assert places.times(bound, "starting", found) == {("t", 0): 1, ("t", 1): 1}
    with pytest.raises(Refused, match=r"t/1.*Strategy=latest"):
        places.begin(bound, found, since, "error")
    assert places.begin(bound, found, since, "latest") == since
    assert places.finish(bound, found, since) == since


# From ranges to tasks


@st.composite
def ranges(draw: st.DrawFn) -> list[Range]:
    found = []
    for number in range(draw(st.integers(1, 3))):
        marks = sorted(draw(st.sets(st.integers(0, 200), min_size=2, max_size=6)))
        found += [Range("t", "id", number, *run) for run in zip(marks[::2], marks[1::2], strict=False)]
    return found


@st.composite
def holdings(draw: st.DrawFn) -> list[Held]:
    found = []
    for number in range(3):
        marks = sorted(draw(st.sets(st.integers(0, 200), max_size=6)))
        for run in pairwise(marks):
            name = draw(st.sampled_from([None, "object"]))
            found.append(Held(number, *run, draw(st.integers(0, 3 * MIB)), name))
    return found


@given(
    ranges(),
    holdings(),
    st.integers(1, 9),
    st.booleans(),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 40),
)
def test_every_message_is_in_exactly_one_task_in_order(
    wanted: list[Range], held: list[Held], cores: int, stream: bool, least: int | None, most: int | None
) -> None:
    spans = plan.locate(wanted, plan.by_topic({"t": held}))
    expected = [(one.partition, at) for one in wanted for at in range(one.start, one.end)]
    assert rows(spans) == expected
    for span in spans:
        assert span.object is None or any(
            (one.partition, one.object) == (span.partition, span.object) and one.start <= span.start < one.end
            for one in held
        )
    shared = plan.tasks(spans, cores, stream=stream, least=least, most_rows=most)
    assert [row for task in shared for row in rows(task)] == expected
    assert all(shared)
    assert all(most is None or sum(span.rows for span in task) <= most for task in shared)
    assert shared == plan.tasks(spans, cores, stream=stream, least=least, most_rows=most)


def test_an_object_that_begins_later_counts_from_there_on() -> None:
    held = [Held(0, 0, 100, 100, "a"), Held(0, 40, 60, 20, "b")]
    spans = plan.locate([Range("t", "id", 0, 10, 120)], plan.by_topic({"t": held}))
    assert [(span.start, span.end, span.object) for span in spans] == [
        (10, 40, "a"),
        (40, 60, "b"),
        (60, 120, None),
    ]


def test_tasks_are_even_by_bytes() -> None:
    spans = [Span("t", "id", n, 0, 1000 * (n + 1), 100 * MIB * (n + 1)) for n in range(4)]
    shared = plan.tasks(spans, 2, stream=False)
    sizes = [sum(span.bytes for span in task) for task in shared]
    assert len(shared) == 16
    assert max(sizes) < 1.15 * min(sizes)


def test_a_stream_has_a_task_for_each_core_at_most_and_a_small_trigger_one() -> None:
    large = [Span("t", "id", n, 0, 1000, 256 * MIB) for n in range(8)]
    assert len(plan.tasks(large, 2, stream=True)) == 2
    small = [Span("t", "id", n, 0, 10, 1000) for n in range(8)]
    assert len(plan.tasks(small, 2, stream=True)) == 1
    assert len(plan.tasks(small, 2, stream=False)) == 1
    assert len(plan.tasks(small, 2, stream=True, least=4)) == 4


def test_no_messages_are_no_tasks() -> None:
    assert plan.tasks([], 4, stream=False, least=3, most_rows=1) == []


# How far a trigger goes


@given(extents(), st.integers(0, 70), st.integers(1, 100))
def test_a_trigger_has_as_many_messages_as_it_may(found: list[Extent], start: int, most: int) -> None:
    starts = {one.key: min(start, one.end) for one in found}
    ends = pace.by_rows(found, starts, most)
    there = {one.key: messages(one, starts[one.key], one.end) for one in found}
    taken = {one.key: messages(one, starts[one.key], ends[one.key]) for one in found}
    assert sum(taken.values()) == min(most, sum(there.values()))
    assert all(starts[key] <= ends[key] for key in starts)
    if sum(there.values()) <= most:
        assert ends == {one.key: one.end for one in found}
    else:  # each its share, to a message
        total = sum(there.values())
        assert all(abs(taken[key] - most * there[key] / total) < 1 for key in there)


@given(ranges(), holdings(), st.integers(1, 4 * MIB))
def test_a_trigger_by_bytes_moves_and_is_about_as_large_as_it_may(
    wanted: list[Range], held: list[Held], most: int
) -> None:
    spans = plan.locate(wanted, plan.by_topic({"t": held}))
    reached = pace.by_bytes(spans, most)
    size = taken = 0
    for span in spans:
        count = max(0, min(span.end, reached["t", span.partition]) - span.start)
        taken += count
        size += span.bytes * count // span.rows
    assert taken > 0
    assert size <= most or taken == 1


def test_a_trigger_goes_on_behind_a_hole() -> None:
    one = extent(0, 0, 1 << 40, (10, (1 << 40) - 5))
    assert pace.by_rows([one], {one.key: 0}, 12) == {one.key: (1 << 40) - 3}
    assert pace.by_rows([one], {one.key: 10}, 100) == {one.key: 1 << 40}
