"""Keys and partitions."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood import partition
from cordwood.errors import Refused
from cordwood.record import Records
from cordwood.wire.intake import Limits, normalise

keys = st.lists(st.none() | st.binary(max_size=40) | st.binary(min_size=1000, max_size=1000), max_size=40)


def fnv1a(key: bytes) -> int:
    found = 2166136261
    for byte in key:
        found = (found ^ byte) * 16777619 % 2**32
    return found


def records(*rows: tuple[str | None, int | None]) -> Records:
    columns = {
        "value": [str(n) for n in range(len(rows))],
        "key": pa.array([key for key, _ in rows], pa.string()),
        "partition": pa.array([number for _, number in rows], pa.int32()),
    }
    return normalise(pa.RecordBatch.from_pydict(columns), 0, Limits())


@pytest.mark.parametrize(("key", "expected"), [(b"user:1", 1), (b"user:2", 0), (b"order-123", 1)])
def test_the_contracts_examples_hold(key: bytes, expected: int) -> None:
    assert partition.of_key(key, 3) == expected
    assert partition.of_keys(pa.array([key]), 3).tolist() == [expected]
    assert partition.of_keys(pa.array([key] * 100), 3).tolist() == [expected] * 100


@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 255, 1000, 32768, 32769, 70000])
def test_a_key_of_any_length_has_its_hash(length: int) -> None:
    key = random.Random(length).randbytes(length)
    assert partition.of_key(key, 2**31 - 1) == fnv1a(key) % (2**31 - 1)


@given(keys, st.integers(1, 1000), st.integers(0, 3))
def test_a_column_of_keys_is_hashed_as_each_of_them(found: list[bytes | None], count: int, skip: int) -> None:
    expected = [-1 if key is None else fnv1a(key) % count for key in found[skip:]]
    assert partition.of_keys(pa.array(found, pa.binary())[skip:], count).tolist() == expected


def test_many_keys_with_a_few_long_ones_have_their_hashes() -> None:
    dice = random.Random(1)
    found = [dice.randbytes(dice.choice([0, 3, 8, 200, 3000])) for _ in range(300)]
    assert partition.of_keys(pa.array(found), 1009).tolist() == [fnv1a(key) % 1009 for key in found]


def test_a_key_of_a_million_bytes_has_the_same_hash_as_byte_by_byte() -> None:
    key = bytes(range(256)) * 4096
    assert partition.of_keys(pa.array([key, b"user:1"]), 3).tolist() == [fnv1a(key) % 3, 1]


def test_the_partition_asked_for_goes_before_the_key() -> None:
    found = partition.assign(records(("user:1", None), ("user:1", 2), (None, 0), (None, None)), 3)
    assert found.tolist() == [1, 2, 0, partition.NONE]


def test_one_partition_takes_everything() -> None:
    assert partition.assign(records(("user:1", None), (None, None)), 1).tolist() == [0, 0]


@pytest.mark.parametrize("count", [1, 3])
def test_a_partition_that_is_not_there_is_refused(count: int) -> None:
    with pytest.raises(Refused, match=f"message 1 asks for partition 3; the topic has 0 to {count - 1}"):
        partition.assign(records((None, 0), (None, 3)), count)


@given(st.lists(st.integers(-1, 5), max_size=40))
def test_a_split_keeps_every_message_in_order(numbers: list[int]) -> None:
    batch = normalise(
        pa.RecordBatch.from_pydict({"value": pa.array(map(str, range(len(numbers))), pa.string())}), 0, Limits()
    ).batch
    parts = partition.split(batch, np.array(numbers, np.int32))
    assert [number for number, _ in parts] == sorted(set(numbers))
    for number, part in parts:
        expected = [b"%d" % n for n, one in enumerate(numbers) if one == number]
        assert part.column("value").to_pylist() == expected


def test_a_split_into_one_is_the_same_batch() -> None:
    batch = records(("a", None), ("b", None)).batch
    assert partition.split(batch, np.zeros(2, np.int32))[0][1] is batch


def test_headers_are_split_along() -> None:
    columns = {
        "value": ["0", "1", "2"],
        "headers": pa.array([[("a", "0")], None, [("b", "2")]], pa.map_(pa.string(), pa.string())),
    }
    batch = normalise(pa.RecordBatch.from_pydict(columns), 0, Limits()).batch
    parts = dict(partition.split(batch, np.array([1, 0, 1], np.int32)))
    assert parts[1].column("headers").to_pylist() == [[("a", b"0")], [("b", b"2")]]
    assert parts[0].column("headers").to_pylist() == [None]
