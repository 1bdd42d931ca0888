"""What a frame says, packed and unpacked; the bytes themselves are pinned in tests/formats."""

from typing import get_args

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.broker import ops
from cordwood.errors import OtherVersion
from cordwood.record import TIME, assemble, decode_parts
from tests.formats.test_golden import ACROSS, FACTS, TIER_FACTS

RANGES = st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)), max_size=5)
NAME = st.text(max_size=20)


def test_every_fact_comes_back_as_it_was() -> None:
    assert ops.unpack(ops.pack(FACTS)[0]) == FACTS


def test_the_golden_bytes_have_every_kind_of_fact() -> None:
    assert {type(fact) for fact in [*FACTS, *TIER_FACTS, ACROSS]} == set(get_args(ops.Op))


@given(NAME, NAME, st.integers(0, 2**31), RANGES, st.integers(0, 2**62))
def test_any_names_and_ranges_come_back(
    topic: str, group: str, partition: int, ranges: list[tuple[int, int]], at: int
) -> None:
    facts: list[ops.Op] = [
        ops.Done(topic, group, partition, ranges, at),
        ops.Failed(topic, group, partition, ranges, at, group),
    ]
    assert ops.unpack(memoryview(ops.pack(facts)[0])) == facts


def test_messages_stand_behind_the_facts() -> None:
    batch = assemble({"timestamp": pa.array([1, 2], TIME), "value": pa.array([b"a", b"b"], pa.binary())})
    entries = ops.pack(FACTS[:1], [batch, batch.slice(1, 1)])
    assert len(entries) == 5
    assert decode_parts(entries[1], entries[2]).column("value").to_pylist() == [b"a", b"b"]
    assert decode_parts(entries[3], entries[4]).column("value").to_pylist() == [b"b"]


def test_numbers_of_facts_are_given_once() -> None:
    tags = [msgspec.inspect.type_info(kind).tag for kind in get_args(ops.Op)]  # type: ignore[union-attr]
    assert sorted(tags) == list(range(1, len(tags) + 1))


def test_a_frame_of_another_version_is_told_from_damage() -> None:
    with pytest.raises(OtherVersion):
        ops.unpack(msgspec.msgpack.encode([2, []]))
    with pytest.raises(OtherVersion):
        ops.unpack(msgspec.msgpack.encode([2, [[99, "unknown"]]]))
    for damaged in (b"", b"\xc1", msgspec.msgpack.encode([1, [[99, "unknown"]]]), msgspec.msgpack.encode("text")):
        with pytest.raises(ValueError, match="not a frame"):
            ops.unpack(damaged)


def test_a_field_that_is_added_at_the_end_is_not_missed() -> None:
    short = msgspec.msgpack.encode([1, [[4, "t", 0, [], 5]]])  # appended, without the fields that came later
    assert ops.unpack(short) == [ops.Appended("t", 0, [], 5, None, [])]
