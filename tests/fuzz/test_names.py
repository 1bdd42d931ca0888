"""Names of objects, topics and groups: one spelling, and nothing that is none."""

import re
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from cordwood.broker.names import MAX_CHARACTERS, check_group, check_topic
from cordwood.errors import Refused
from cordwood.tier import state
from cordwood.tier.descriptor import MAX_NUMBER, Descriptor, counting, parse
from tests.fuzz.mutation import mutated
from tests.fuzz.profile import fuzzed

TOPIC = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,12}(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,12}){0,3}", fullmatch=True)
NUMBER = st.integers(0, MAX_NUMBER) | st.integers(0, 50)


@st.composite
def descriptors(draw: st.DrawFn) -> Descriptor:
    first, end = sorted(draw(st.lists(NUMBER, min_size=2, max_size=2, unique=True)))
    count = draw(st.integers(0, end - first))
    numbers = draw(NUMBER), draw(NUMBER), count, draw(st.integers(0, (1 << 64) - 1))
    return Descriptor(
        draw(TOPIC), draw(st.sampled_from(("0a1b2c3d4e5f6071", "b"))), draw(NUMBER), first, end, *numbers
    )


@fuzzed(60)
@given(descriptors())
def test_a_descriptor_printed_and_parsed_is_the_same(one: Descriptor) -> None:
    found = parse(one.name)
    assert found == one
    assert found is not None
    assert found.name == one.name


NAME = Descriptor("shop/orders", "0a1b2c3d4e5f6071", 3, 1000, 2000, 7, 0, 1000, 0x9AE0DAAF0C5D3A21).name


@fuzzed(160)
@given(st.text(max_size=80) | mutated(NAME.encode(), most=2).map(lambda data: data.decode("latin-1")))
@example(NAME + "\n")
@example(NAME.replace("partition=3", "partition=" + "0" * 5000 + "3"))
@example(NAME.replace("-7-", "-٧-"))
@example(NAME.replace("shop%2Forders", "a/../b"))
def test_any_other_text_is_no_object_or_one_under_this_name(name: str) -> None:
    found = parse(name)
    assert found is None or found.name == name
    if found is not None:
        assert check_topic(found.topic) == found.topic


@fuzzed(25)
@given(st.lists(st.tuples(*[st.integers(0, 12)] * 4), max_size=8))
def test_spans_never_overlap_and_miss_nothing(many: list[tuple[int, int, int, int]]) -> None:
    objects = [
        Descriptor("t", "i", 0, min(a, b), max(a, b), epoch, generation, max(a, b) - min(a, b), n)
        for n, (a, b, epoch, generation) in enumerate(many)
        if a != b
    ]
    spans = counting(objects).spans
    assert all(one.end <= other.first for one, other in pairwise(spans))
    covered = {offset for span in spans for offset in range(span.first, span.end)}
    assert covered == {offset for one in objects for offset in range(one.first, one.end)}


@fuzzed(120)
@given(st.text(max_size=260) | TOPIC | st.text("ab./-_\n %é\0", max_size=12))
@example("a\n")
@example("a/../b")
@example("а")  # Cyrillic
@example("\ud800")
def test_a_topics_name_is_one_or_refused(name: str) -> None:
    for check in (check_topic, check_group):
        try:
            assert check(name) == name
        except Refused:
            continue
        parts = name.split("/")
        assert len(name) <= MAX_CHARACTERS
        assert all(re.fullmatch(r"[A-Za-z0-9._-]+", part) and part not in (".", "..") for part in parts)
        assert not name.endswith("\n")


@fuzzed(25)
@given(st.integers(0, 10**19), st.integers(0, 10**19 - 1), st.booleans())
def test_a_marks_name_is_read_as_it_was_written(epoch: int, lsn: int, clean: bool) -> None:
    name = state.Mark(epoch, lsn, clean).name
    found = state._NAME.fullmatch(name)
    assert found is not None
    assert (int(found[1]), *divmod(int(found[2]), 2)) == (epoch, lsn, clean)
