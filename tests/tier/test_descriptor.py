"""Names of objects, and which of those that overlap count."""

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.tier.descriptor import (
    MAX_NUMBER,
    Descriptor,
    Span,
    counting,
    parse,
    partition_prefix,
    replaces,
    topic_prefix,
)

ORDERS = Descriptor("shop/orders", "0a1b2c3d4e5f6071", 3, 1000, 2000, 7, 0, 990, 0x9AE0DAAF0C5D3A21)
GOLDEN = (
    "topics/shop%2Forders/0a1b2c3d4e5f6071/partition=3/"
    "00000000000000001000-00000000000000002000-7-0-990-9ae0daaf0c5d3a21.parquet"
)
part = st.text("aZ0._-", min_size=1, max_size=5).filter(lambda text: text not in (".", ".."))
numbers = st.one_of(st.integers(0, 30), st.integers(0, MAX_NUMBER))


@st.composite
def descriptors(draw: st.DrawFn) -> Descriptor:
    first, end = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    return Descriptor(
        "/".join(draw(st.lists(part, min_size=1, max_size=3))),
        draw(part),
        draw(numbers),
        first,
        end,
        draw(numbers),
        draw(numbers),
        draw(st.integers(0, end - first)),
        draw(st.integers(0, 2**64 - 1)),
    )


def one(first: int, end: int, epoch: int = 1, generation: int = 0, **others: Any) -> Descriptor:
    return replace(
        ORDERS, first=first, end=end, epoch=epoch, generation=generation, **({"count": end - first} | others)
    )


def test_a_name_has_a_golden_spelling() -> None:
    assert ORDERS.name == GOLDEN
    assert parse(GOLDEN) == ORDERS


def test_prefixes_are_beginnings_of_names() -> None:
    assert topic_prefix("shop/orders") == "topics/shop%2Forders/"
    assert topic_prefix("shop/orders", ORDERS.topic_id) == "topics/shop%2Forders/0a1b2c3d4e5f6071/"
    assert GOLDEN.startswith(partition_prefix("shop/orders", ORDERS.topic_id, 3))
    assert partition_prefix("t", "i", 1) not in partition_prefix("t", "i", 10), "1 is not the beginning of 10"


@given(descriptors())
def test_what_is_written_is_read(descriptor: Descriptor) -> None:
    again = parse(descriptor.name)
    assert again == descriptor
    assert again is not None
    assert again.name == descriptor.name


@given(st.lists(descriptors(), max_size=5))
def test_names_of_a_partition_are_in_the_order_of_offsets(found: list[Descriptor]) -> None:
    same = [replace(one, topic="t", topic_id="i", partition=0) for one in found]
    assert [one.first for one in sorted(same, key=lambda one: one.name)] == sorted(one.first for one in same)


def test_any_number_of_digits_is_read_and_the_spelling_is_kept() -> None:
    short = GOLDEN.replace("0000000000000000", "")
    long = GOLDEN.replace("-7-", "-" + "0" * 40 + "7-")
    for name in (short, long):
        found = parse(name)
        assert found == ORDERS, "it is the same object"
        assert found is not None
        assert found.name == name, "and is fetched by the name it has"


@pytest.mark.parametrize(
    "name",
    [
        "",
        GOLDEN + "\n",
        GOLDEN + ".tmp",
        "x" + GOLDEN,
        GOLDEN.upper(),
        GOLDEN.replace("%2F", "/"),
        GOLDEN.replace("%2F", "%2f"),
        GOLDEN.replace("%2F", "%41"),
        GOLDEN.replace("shop%2F", "%2F"),
        GOLDEN.replace("shop%2F", "..%2F"),
        GOLDEN.replace("shop", "s" * 240),
        GOLDEN.replace("shop", "schöp"),
        GOLDEN.replace("0a1b2c3d4e5f6071", ".."),
        GOLDEN.replace("partition=3", "partition=-3"),
        GOLDEN.replace("partition=3", "partition="),
        GOLDEN.replace("partition=3", "partition=٣"),
        GOLDEN.replace("-7-", "--7-"),
        GOLDEN.replace("-7-", "- 7-"),
        GOLDEN.replace("-7-", "-7_0-"),
        GOLDEN.replace("-7-", f"-{MAX_NUMBER + 1}-"),
        GOLDEN.replace("-7-", "-" + "9" * 5000 + "-"),
        GOLDEN.replace("00000000000000002000", "00000000000000001000"),
        GOLDEN.replace("-990-", "-1001-"),
        GOLDEN.replace("9ae0daaf0c5d3a21", "9AE0DAAF0C5D3A21"),
        GOLDEN.replace("9ae0daaf0c5d3a21", "9ae0daaf0c5d3a2"),
        GOLDEN.replace("9ae0daaf0c5d3a21", "09ae0daaf0c5d3a21"),
    ],
)
def test_any_other_name_is_not_ours(name: str) -> None:
    assert parse(name) is None


@given(st.text(max_size=40), st.integers(0, len(GOLDEN)), st.integers(0, 3))
def test_no_name_is_an_error(text: str, at: int, gone: int) -> None:
    found = parse(GOLDEN[:at] + text + GOLDEN[at + gone :])
    assert found is None or parse(replace(found, spelling="").name) == found


def test_objects_side_by_side_all_count() -> None:
    found = counting([one(20, 30), one(0, 10), one(10, 20, epoch=2)])
    assert found.spans == [Span(0, 10, one(0, 10)), Span(10, 20, one(10, 20, epoch=2)), Span(20, 30, one(20, 30))]
    assert found.losers == []
    assert counting([]) == ([], [])


def test_a_gap_stays_a_gap() -> None:
    assert [(s.first, s.end) for s in counting([one(0, 10), one(1 << 40, (1 << 40) + 5)]).spans] == [
        (0, 10),
        (1 << 40, (1 << 40) + 5),
    ]


def test_the_higher_epoch_counts_whatever_the_generation() -> None:
    old, new = one(0, 10, epoch=1, generation=9), one(0, 10, epoch=2)
    assert counting([old, new]) == ([Span(0, 10, new)], [old])


def test_within_an_epoch_the_higher_generation_counts() -> None:
    small = [one(0, 5), one(5, 10)]
    large = one(0, 10, generation=1)
    assert counting([*small, large]) == ([Span(0, 10, large)], small)


def test_what_sticks_out_beyond_a_winner_counts() -> None:
    below, above, inside, around = one(0, 6), one(8, 20), one(5, 9, epoch=2), one(30, 40)
    assert counting([below, above, inside, around]).spans == [
        Span(0, 5, below),
        Span(5, 9, inside),
        Span(9, 20, above),
        Span(30, 40, around),
    ]
    whole, middle = one(0, 100), one(40, 60, epoch=2)
    assert counting([whole, middle]) == ([Span(0, 40, whole), Span(40, 60, middle), Span(60, 100, whole)], [])


def test_the_same_name_twice_is_one_object() -> None:
    again = parse(one(0, 10).name)
    assert again is not None
    assert counting([one(0, 10), again]) == ([Span(0, 10, again)], []), "a loser is deleted, and this is the winner"


ranges = st.tuples(st.integers(0, 12), st.integers(1, 8), st.integers(1, 3), st.integers(0, 2), st.integers(0, 1))


@given(st.lists(ranges, max_size=8), st.randoms())
def test_for_each_offset_the_best_object_that_has_it_counts(drawn: list[tuple[int, ...]], random: Random) -> None:
    objects = [one(first, first + n, epoch, generation, checksum=c) for first, n, epoch, generation, c in drawn]
    best = {}
    for offset in range(30):
        having = [o for o in objects if o.first <= offset < o.end]
        if having:
            best[offset] = max(having, key=lambda o: (o.epoch, o.generation, o.end, o.count, o.checksum))
    shuffled = list(objects)
    random.shuffle(shuffled)
    spans, losers = counting(shuffled)
    assert {at: span.descriptor for span in spans for at in range(span.first, span.end)} == best
    assert all(a.end <= b.first for a, b in pairwise(spans)), "in order, and none overlaps another"
    assert all(a.descriptor != b.descriptor or a.end < b.first for a, b in pairwise(spans))
    assert set(losers) == set(objects) - set(best.values())


def test_ten_thousand_objects_take_about_as_many_steps() -> None:
    class Steps(int):
        count = 0

        def __neg__(self) -> "Steps":
            return Steps(-int(self))

        def __lt__(self, other: int) -> bool:
            Steps.count += 1
            return int(self) < other

    objects = [one(at * 10, at * 10 + 1000, epoch=Steps(at % 7)) for at in range(10_000)]
    Random(1).shuffle(objects)
    spans, _ = counting(objects)
    assert spans[0].first == 0
    assert spans[-1].end == 9_999 * 10 + 1000
    assert 10_000 < Steps.count < 10_000 * 40, "a heap, not a comparison of each with each"


def test_one_object_replaces_a_run_over_exactly_its_range() -> None:
    run = [one(0, 5, generation=1), one(5, 10), one(10, 30, epoch=2, generation=2)]
    new = one(0, 30, epoch=2, generation=3)
    assert replaces(run, new)
    assert replaces(run[:1], one(0, 5, generation=2)), "a run of one, to put its messages anew"
    assert replaces(run, replace(new, count=4)), "some may be dropped"
    assert counting([*run, new]) == ([Span(0, 30, new)], run)


@pytest.mark.parametrize(
    "new",
    [
        one(0, 29, epoch=2, generation=3),
        one(0, 31, epoch=2, generation=3, count=30),
        one(1, 30, epoch=2, generation=3),
        one(0, 30, epoch=2, generation=2),
        one(0, 30, epoch=2, generation=4),
        one(0, 30, epoch=1, generation=3),
        one(0, 30, epoch=2, generation=3, partition=4),
        one(0, 30, epoch=2, generation=3, topic_id="0000000000000000"),
    ],
)
def test_nothing_else_replaces_a_run(new: Descriptor) -> None:
    assert not replaces([one(0, 5, generation=1), one(5, 10), one(10, 30, epoch=2, generation=2)], new)


def test_a_run_with_a_gap_or_more_messages_than_it_had_is_not_replaced() -> None:
    assert not replaces([], one(0, 10, generation=1))
    assert not replaces([one(0, 4), one(5, 10)], one(0, 10, generation=1, count=9)), "a gap"
    assert not replaces([one(5, 10), one(0, 5)], one(0, 10, generation=1)), "not in order"
    assert not replaces([one(0, 10, count=5)], one(0, 10, generation=1, count=6)), "messages come from nowhere"
