"""Messages as record batches, and what is accepted as one."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood import record
from cordwood.errors import OtherVersion, Refused
from cordwood.record import FULL, HEADERS, TIME
from cordwood.wire.intake import Limits, TooLarge, normalise

NOW_MS = 1_700_000_000_000
LIMITS = Limits()
blobs = st.one_of(
    st.none(), st.binary(max_size=50), st.just(bytes(range(256))), st.just(b"\0" * 1000), st.just("🪵".encode())
)
headers = st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3)
times = st.none() | st.integers(0, 253_402_300_799_999_999)
rows = st.fixed_dictionaries(
    {
        "timestamp": st.integers(0, 2**50),
        "key": blobs,
        "value": blobs,
        "headers": headers,
        "deliver_at": times,
        "expires_at": times,
    }
)


def batch_of(found: list[dict[str, Any]]) -> Any:
    return pa.RecordBatch.from_arrays([pa.array([r[f.name] for r in found], f.type) for f in FULL], schema=FULL)


def at_rest(batch: Any) -> bytes:
    head, body = record.encode(batch)
    return head + body.to_pybytes()


def accepted(columns: dict[str, Any], limits: Limits = LIMITS) -> record.Records:
    return normalise(pa.RecordBatch.from_pydict(columns), NOW_MS, limits)


def test_a_batch_at_rest_has_golden_bytes() -> None:
    head, body = record.encode(batch_of([dict.fromkeys(FULL.names, None) | {"timestamp": 1, "key": b"k"}]))
    assert head == b"CWR1\x01\0\0\0"
    assert body.to_pybytes()[:4] == b"\xff\xff\xff\xff", "an encapsulated Arrow message"


@given(st.lists(rows, max_size=8))
def test_what_is_encoded_is_decoded(found: list[dict[str, Any]]) -> None:
    batch = batch_of(found)
    again = record.decode(memoryview(at_rest(batch)))
    again.validate(full=True)
    assert record.widen(again).equals(batch)


@given(st.lists(rows, min_size=2, max_size=8), st.data())
def test_a_slice_is_encoded_alone(found: list[dict[str, Any]], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(found)))
    batch = batch_of(found).slice(start)
    assert record.widen(record.decode(at_rest(batch))).equals(batch)
    assert len(at_rest(batch)) <= len(at_rest(batch_of(found[start:]))) + 64, "no neighbour comes along"


def test_no_byte_of_a_neighbour_is_encoded_with_a_slice() -> None:
    pairs = pa.array([[("n", b"neighbour")], [("o", b"own")]], HEADERS)
    batch = accepted({"value": ["neighbour", "own"], "key": ["neighbour", "own"], "headers": pairs}).batch
    assert b"neighbour" not in at_rest(batch.slice(1))


def test_columns_that_are_all_null_take_no_bytes() -> None:
    batch = accepted({"value": [b"x" * 100]}).batch
    assert batch.schema.names == ["timestamp", "value"]
    assert len(at_rest(batch)) == 336


def test_decoding_does_not_copy() -> None:
    data = at_rest(accepted({"value": [b"x" * 100_000]}).batch)
    values = record.decode(memoryview(data)).column("value").buffers()[2]
    start = pa.py_buffer(data).address
    assert start < values.address < start + len(data)


@given(st.binary(max_size=100), st.booleans())
def test_bytes_that_are_no_batch_are_one_named_error(data: bytes, prefix: bool) -> None:
    with pytest.raises((ValueError, OtherVersion)):
        record.decode(b"CWR1\0\0\0\0" + data if prefix else data)


def test_every_cut_batch_is_one_named_error() -> None:
    data = at_rest(accepted({"value": [b"abc", b"d"], "key": ["x", None]}).batch)
    for length in range(len(data) - 8):
        with pytest.raises(ValueError, match="batch"):
            record.decode(data[:length])


def test_a_batch_of_a_later_version_is_told_from_garbage() -> None:
    with pytest.raises(OtherVersion):
        record.decode(b"CWR2\0\0\0\0")


@given(st.lists(st.lists(rows, max_size=4), min_size=1, max_size=5))
def test_small_batches_become_one_in_order(groups: list[list[dict[str, Any]]]) -> None:
    lean = [record.decode(at_rest(batch_of(group))) for group in groups]
    whole = [row for group in groups for row in group]
    assert record.widen(record.concat(lean)).equals(batch_of(whole))


@given(st.lists(rows, min_size=1, max_size=8))
def test_a_message_is_as_large_as_its_key_value_and_headers(found: list[dict[str, Any]]) -> None:
    def size(row: dict[str, Any]) -> int:
        pairs = row["headers"] or []
        inner = sum(len(name.encode()) + len(value or b"") for name, value in pairs)
        return len(row["key"] or b"") + len(row["value"] or b"") + inner

    assert record.sizes(batch_of(found)).tolist() == [size(row) for row in found]
    assert record.sizes(batch_of(found)[1:]).tolist() == [size(row) for row in found[1:]]


def test_a_slice_counts_only_its_own_bytes() -> None:
    batch = accepted({"value": [b"x" * 1000] * 100}).batch
    assert batch.slice(5, 2).nbytes < 3000


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()],
    ids=str,
)
def test_every_kind_of_bytes_is_stored_as_binary(kind: Any) -> None:
    texts = ["", None, "a", "🪵" * 400]
    column = pa.array(texts, pa.string()).cast(kind)
    batch = accepted({"key": column, "value": column}).batch
    expected = [None if text is None else text.encode() for text in texts]
    assert batch.column("value").to_pylist() == batch.column("key").to_pylist() == expected
    assert batch.schema.field("value").type == pa.binary()


@pytest.mark.parametrize("name", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("item", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()], ids=str)
def test_headers_of_text_or_bytes_are_stored_as_bytes(name: Any, item: Any) -> None:
    column = pa.array([[("a", "x"), ("a", "y")], None, []], pa.map_(pa.string(), pa.string()))
    batch = accepted({"value": ["1", "2", "3"], "headers": column.cast(pa.map_(name, item))}).batch
    assert batch.column("headers").to_pylist() == [[("a", b"x"), ("a", b"y")], None, []]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_of_any_unit_and_zone_are_stored_in_utc_microseconds(unit: str, zone: str | None) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    column = pa.array([5 * per_second], pa.timestamp(unit, zone))
    batch = accepted({"value": ["x"], "timestamp": column, "deliver_at": column, "expires_at": column}).batch
    for name in ("timestamp", "deliver_at", "expires_at"):
        assert batch.column(name).type == TIME
        assert batch.column(name)[0].as_py() == datetime.fromtimestamp(5, UTC)


def test_what_is_finer_than_a_microsecond_is_cut() -> None:
    batch = accepted({"value": ["x"], "timestamp": pa.array([1999], pa.timestamp("ns"))}).batch
    assert batch.column("timestamp").view(pa.int64()).to_pylist() == [1]


def test_a_missing_time_is_now() -> None:
    stamps = accepted({"value": ["x", "y"], "timestamp": pa.array([7, None], TIME)}).batch.column("timestamp")
    assert stamps.view(pa.int64()).to_pylist() == [7, NOW_MS * 1000]
    stamps = accepted({"value": ["x"]}).batch.column("timestamp")
    assert stamps.view(pa.int64()).to_pylist() == [NOW_MS * 1000]


def test_a_tombstone_is_not_an_empty_value() -> None:
    assert accepted({"value": pa.array([None, b""])}).batch.column("value").to_pylist() == [None, b""]
    assert accepted({"value": pa.array([None], pa.binary())}).batch.column("value").to_pylist() == [None]


def test_the_partitions_asked_for_stand_beside_the_batch() -> None:
    found = accepted({"value": ["a", "b"], "partition": pa.array([3, None], pa.int64())})
    assert found.partitions.to_pylist() == [3, None]
    assert "partition" not in found.batch.schema.names


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"key": ["a"]}, "'value' is missing"),
        ({"value": ["a"], "colour": ["red"]}, "unknown column 'colour'"),
        ({"value": [1]}, "'value' is int64, not binary or string"),
        ({"value": [["a"]]}, "'value' is list"),
        ({"value": pa.array(["a"]).dictionary_encode()}, "'value' is dictionary"),
        ({"value": ["a"], "key": [1.0]}, "'key' is double"),
        ({"value": ["a"], "timestamp": [1]}, "'timestamp' is int64, not timestamp"),
        ({"value": ["a"], "headers": ["a"]}, "'headers' is string, not map"),
        ({"value": ["a"], "headers": pa.array([[(1, "a")]], pa.map_(pa.int32(), pa.string()))}, "'headers' is map"),
        ({"value": ["a"], "partition": ["0"]}, "'partition' is string, not int32"),
        ({"value": ["a", "b"], "partition": [0, -1]}, "message 1 asks for partition -1"),
        ({"value": ["a"], "partition": [2**31]}, "message 0 asks for partition 2147483648"),
        ({"value": ["a", "b"], "deliver_at": pa.array([0, -1], TIME)}, "message 1 has a deliver_at before 1970"),
        ({"value": ["a"], "expires_at": pa.array([2**60], pa.timestamp("s"))}, "'expires_at' has a time after"),
        ({"value": ["a"], "timestamp": pa.array([2**62], TIME)}, "message 0 has a timestamp"),
    ],
)
def test_what_is_not_accepted_is_refused_by_name(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words) as refusal:
        accepted(columns)
    assert "\n" not in str(refusal.value)


def test_a_column_that_comes_twice_is_refused() -> None:
    with pytest.raises(Refused, match="'value' comes twice"):
        normalise(pa.RecordBatch.from_arrays([pa.array(["a"])] * 2, names=["value", "value"]), NOW_MS, LIMITS)


def test_text_that_is_not_utf8_is_refused() -> None:
    raw = pa.array([b"\xff"])
    with pytest.raises(Refused, match="not valid"):
        accepted({"value": pa.StringArray.from_buffers(1, *raw.buffers()[1:])})


def test_offsets_that_lie_are_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 3, 1, 3], np.int32))  # the ends are right, so that only a full look finds it
    with pytest.raises(Refused, match="not valid"):
        accepted({"value": pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(b"abc")])})


@pytest.mark.parametrize("over", [0, 1])
def test_a_message_over_the_limit_is_refused_by_its_number(over: int) -> None:
    limits = Limits(max_message_bytes=30)
    pairs = pa.array([None, [("abc", b"x" * (7 + over)), ("", None)]], HEADERS)
    columns = {"value": [b"", b"v" * 10], "key": [b"", b"k" * 10], "headers": pairs}
    if not over:
        accepted(columns, limits)
        return
    with pytest.raises(TooLarge, match="message 1 has 31 bytes") as refusal:
        accepted(columns, limits)
    assert refusal.value.row == 1


def test_a_message_over_the_limit_is_found_in_a_later_chunk() -> None:
    table = pa.table({"value": pa.chunked_array([[b"a", b"b"], [b"c", b"d" * 11]])})
    with pytest.raises(TooLarge, match="message 3 has 11 bytes"):
        normalise(table, NOW_MS, Limits(max_message_bytes=10))


def test_too_many_messages_and_too_many_bytes_are_refused() -> None:
    with pytest.raises(TooLarge, match="3 messages"):
        accepted({"value": ["a"] * 3}, Limits(max_messages=2))
    with pytest.raises(TooLarge, match="30 bytes in one request"):
        accepted({"value": ["a" * 10] * 3}, Limits(max_message_bytes=10, max_request_bytes=29))


def test_views_of_one_megabyte_are_counted_each() -> None:
    _, view, data = pa.array([b"x" * 1_000_000], pa.binary_view()).buffers()
    again = pa.py_buffer(view.to_pybytes()[:16] * 100)
    views = pa.Array.from_buffers(pa.binary_view(), 100, [None, again, data])
    with pytest.raises(TooLarge, match="100000000 bytes in one request"):
        accepted({"value": views})


def test_a_table_of_many_chunks_is_one_batch() -> None:
    table = pa.table({"value": pa.chunked_array([["a"], ["b", "c"]])})
    assert normalise(table, NOW_MS, LIMITS).batch.column("value").to_pylist() == [b"a", b"b", b"c"]


def test_no_messages_are_accepted() -> None:
    assert len(accepted({"value": pa.array([], pa.string()), "key": pa.array([], pa.binary_view())})) == 0
    assert len(normalise(pa.schema([("value", pa.binary())]).empty_table(), NOW_MS, LIMITS)) == 0
