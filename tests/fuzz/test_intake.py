"""What producers send: Arrow streams, NDJSON and JSON."""

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import ipc

from cordwood import record
from cordwood.errors import Refused
from cordwood.wire import arrow, json, ndjson
from cordwood.wire.intake import Limits
from cordwood.wire.run import Run
from tests.fuzz.mutation import HOSTILE_WIDE, mutated
from tests.fuzz.profile import fuzzed
from tests.wire.test_arrow import sample, stream

KEPT = Path(__file__).parent / "kept"
LIMITS = Limits(max_message_bytes=1 << 16, max_messages=500, max_request_bytes=1 << 20, max_text_bytes=1 << 18)
SMALL = pa.record_batch({"value": pa.array([b"a", None], pa.binary())})
VIEWS = pa.record_batch({"value": pa.array([b"x" * 40, b"y"], pa.binary_view())})
RESTING = record.assemble(
    {"timestamp": pa.array([1, 2], record.TIME), "value": pa.array([b"a", b"b"], pa.binary())},
)
STREAMS = (
    stream(sample(4)),
    stream(SMALL),
    stream(VIEWS),
    stream(RESTING),
    stream(SMALL, SMALL),
    stream(sample(30), compression="zstd"),
    stream(sample(30), compression="lz4"),
)


def take(body: bytes) -> record.Records | None:
    """Return the messages of an Arrow stream, and see that they can be stored and given out again."""
    try:
        found = arrow.read(body, 5, LIMITS).records
    except Refused:
        return None
    check(found)
    return found


def check(found: record.Records) -> None:
    batch = found.batch
    batch.validate(full=True)
    assert len(found) <= LIMITS.max_messages
    assert all(size <= LIMITS.max_message_bytes for size in record.sizes(batch))
    if found.resting is not None:
        assert record.decode_parts(found.resting.head, memoryview(found.resting.body)).equals(batch)
    head, body = record.encode(batch)
    again = record.decode(head + body.to_pybytes())
    assert again.num_rows == batch.num_rows
    record.summary(batch)
    if batch.num_rows:
        b"".join(map(bytes, arrow.write(Run(again, 0, 7))))
        ndjson.write(Run(again, 0, 7))


@fuzzed(140)
@given(mutated(*STREAMS))
def test_a_changed_arrow_stream_is_whole_or_refused(body: bytes) -> None:
    take(body)


@pytest.mark.parametrize("path", sorted(KEPT.glob("arrow-*.bin")), ids=lambda path: path.stem)
def test_what_once_broke_the_arrow_intake_is_refused(path: Path) -> None:
    assert take(path.read_bytes()) is None


_META = [data.index(b"\xff\xff\xff\xff", 4) for data in STREAMS]  # where the first batch's message begins


@fuzzed(140)
@given(
    st.integers(0, len(STREAMS) - 1),
    st.lists(
        st.tuples(st.integers(0, 400), st.sampled_from((1, 2, 4, 8)), st.sampled_from(HOSTILE_WIDE)),
        min_size=1,
        max_size=3,
    ),
)
def test_numbers_of_the_metadata_may_say_anything(which: int, edits: list[tuple[int, int, int]]) -> None:
    body = bytearray(STREAMS[which])
    for at, width, number in edits:
        place = _META[which] + 8 + at * width
        if place + width <= len(body):
            body[place : place + width] = (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    take(bytes(body))


KINDS = st.recursive(
    st.sampled_from(
        [
            pa.binary(),
            pa.string(),
            pa.large_binary(),
            pa.large_string(),
            pa.binary_view(),
            pa.string_view(),
            pa.int8(),
            pa.int32(),
            pa.int64(),
            pa.uint64(),
            pa.float64(),
            pa.bool_(),
            pa.null(),
            pa.timestamp("s"),
            pa.timestamp("ns", "Europe/Vienna"),
            pa.timestamp("ms", "no such zone"),
            pa.date32(),
            pa.decimal128(9, 2),
            pa.binary(4),
            pa.map_(pa.string(), pa.binary()),
            pa.map_(pa.large_string(), pa.large_string()),
            pa.map_(pa.int32(), pa.binary()),
        ]
    ),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda kind: pa.struct([("a", kind)])),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        inner.map(lambda kind: pa.list_(kind, 2)),
    ),
    max_leaves=4,
)
NAMES = st.sampled_from(
    ("value", "key", "headers", "timestamp", "deliver_at", "expires_at", "partition", "sequence", "x")
)


@fuzzed(60)
@given(st.lists(st.tuples(NAMES, KINDS), min_size=1, max_size=5), st.integers(0, 3))
def test_any_schema_is_ours_or_refused(columns: list[tuple[str, Any]], rows: int) -> None:
    schema = pa.schema([pa.field(name, kind) for name, kind in columns])
    take(stream(pa.RecordBatch.from_arrays([pa.nulls(rows, kind) for _, kind in columns], schema=schema)))


@fuzzed(25)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "value": st.none() | st.binary(max_size=20),
                "key": st.none() | st.binary(max_size=9),
                "headers": st.none()
                | st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3),
                "timestamp": st.none() | st.integers(0, 253_402_300_799_999_999),
                "expires_at": st.none() | st.integers(0, 253_402_300_799_999_999),
            }
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from((None, "zstd", "lz4")),
)
def test_messages_come_out_as_they_went_in(rows: list[dict[str, Any]], compression: str | None) -> None:
    kinds = {"value": pa.binary(), "key": pa.binary(), "headers": record.HEADERS, "timestamp": record.TIME}
    columns = {name: pa.array([row[name] for row in rows], kinds.get(name, record.TIME)) for name in rows[0]}
    found = take(stream(pa.record_batch(columns), compression=compression))
    assert found is not None
    wide = record.widen(found.batch)
    for name in ("value", "key", "expires_at"):
        assert wide.column(name).equals(columns[name])
    assert wide.column("headers").to_pylist() == columns["headers"].to_pylist()
    times = wide.column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [5000 if row["timestamp"] is None else row["timestamp"] for row in rows]


def test_a_deep_schema_is_refused() -> None:
    kind = pa.int32()
    for _ in range(60):
        kind = pa.list_(kind)
    assert take(stream(pa.RecordBatch.from_arrays([pa.nulls(0, kind)], ["value"]))) is None


def test_dictionaries_are_refused() -> None:
    assert take(stream(pa.record_batch({"value": pa.array(["a", "b"]).dictionary_encode()}))) is None


def with_body(schema: Any, count: int) -> bytes:
    """Return a schema's message that claims a body, which no schema has, of so many bytes; and the body."""
    old = schema.serialize().to_pybytes()[8:]
    root = struct.unpack_from("<I", old)[0]
    vtable = root - struct.unpack_from("<i", old, root)[0]
    header = root + struct.unpack_from("<H", old, vtable + 8)[0]
    target = header + struct.unpack_from("<I", old, header)[0]
    # A new message in front: its vtable, then the table (version, type, header, body length), then the old bytes.
    new = struct.pack("<I4x", 24) + struct.pack("<HHHHHHxxxx", 12, 24, 16, 18, 20, 8)
    table = struct.pack("<i4xqhBxI", 16, count, 4, 1, 0)
    start = len(new) + len(table)
    table = table[:-4] + struct.pack("<I", start + target - (len(new) + 20))
    metadata = new + table + old
    metadata += bytes(-len(metadata) % 8)
    return b"\xff\xff\xff\xff" + struct.pack("<I", len(metadata)) + metadata + bytes(count)


def test_a_schema_with_a_body_is_refused_and_not_kept() -> None:
    body = with_body(SMALL.schema, 1 << 16)
    assert ipc.read_schema(ipc.read_message(pa.py_buffer(body))).equals(SMALL.schema)
    rest = stream(SMALL)[len(SMALL.schema.serialize()) :]
    before = arrow._schema.cache_info().currsize
    with pytest.raises(Refused, match="schema"):
        arrow.read(body + rest, 0, LIMITS)
    assert arrow._schema.cache_info().currsize == before


# Text

NUMBERS = st.sampled_from(
    ("0", "-0", "1e999", "-1e999", "1E400", "NaN", "Infinity", "01", "9" * 5000, "1." + "0" * 400, "-", "1_0")
)
VALUE = st.recursive(
    st.one_of(
        NUMBERS,
        st.sampled_from(
            ('"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '"\\u0022"', '"a\tb"', '"', "null", "true", "{", "[1,]")
        ),
        st.text(max_size=6).map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'),
        st.integers(-(1 << 70), 1 << 70).map(str),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + ",".join(items) + "]"),
        st.lists(st.tuples(st.sampled_from(('"a"', '"base64"', '"\\u0061"')), inner), max_size=3).map(
            lambda items: "{" + ",".join(f"{name}:{value}" for name, value in items) + "}"
        ),
    ),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    [
        "value",
        "value",
        "value",
        "value_base64",
        "key",
        "key_base64",
        "headers",
        "topic",
        "partition",
        "timestamp",
        "deliver_at",
        "delay_ms",
        "expires_at",
        "idempotency_key",
        "producer_id",
        "epoch",
        "sequence",
        "qos",
        "x",
    ]
).map(lambda name: f'"{name}"')
LINE = st.lists(st.tuples(FIELDS, VALUE), max_size=5).map(
    lambda pairs: "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"
)
GOOD = (
    b'{"key":"k","value":{"a":[1,2.5,"\\u00e9"]},"timestamp":5,'
    b'"headers":{"h":"v","b":{"base64":"/w=="},"m":["1",null]}}'
)
OTHER = b'{"value":"t","topic":"t","partition":1,"producer_id":"p","epoch":1,"sequence":0,"qos":1,"delay_ms":9}'


def take_text(body: bytes) -> None:
    found = None
    try:
        found = json.read(body, 5, LIMITS).records
    except Refused:
        pass
    else:
        assert len(found) == 1
        check(found)
    try:
        lines = ndjson.read(body, 5, LIMITS).records
    except Refused:
        # What is one message is one line too, unless it is written over several.
        assert found is None or b"\n" in body.strip()
        return
    check(lines)
    # Each line is read as it would be alone, whatever stands beside it.
    assert len(lines) == sum(1 for line in body.split(b"\n") if line.strip(b" \t\r\n\x0b\x0c"))


@fuzzed(120)
@given(LINE.map(lambda text: text.encode("utf-8", "surrogatepass")) | mutated(GOOD, OTHER, most=2))
@example(b'{"value":' + b"[" * 100_000)
@example(b'{"value":' + b"[" * 5_000 + b"]" * 5_000 + b"}")
@example(b'{"headers":' + b'{"a":' * 5_000 + b"}" * 5_000 + b"}")
@example(b'{"value":' + b"9" * 100_000 + b"}")
@example(b'{"value":1e999}')
@example(b'{"value":NaN}')
@example(b'{"value":"\\ud800"}')
@example(b'{"value":"\xff"}')
@example(b'{"value":{"a":"\xff"}}')
@example(b'{"value":1,"value":2}')
@example(b'{"value":1,"\\u0076alue":2}')
@example(b'{"value":"a\x00b"}')
@example(b'{"value":"a\\u0000b"}')
@example(b'\xef\xbb\xbf{"value":1}')
@example(b'{"value":1}\x00')
@example(b'{"value":null}{"value":null}')
@example(b'{"value_base64":"===="}')
@example(b'{"value":1,"partition":99999999999999999999}')
@example(b'{"value":1,"timestamp":1e3}')
def test_any_text_is_messages_or_refused(body: bytes) -> None:
    take_text(body)


@fuzzed(40)
@given(
    st.lists(
        LINE.map(lambda text: text.encode("utf-8", "replace")) | st.just(OTHER.replace(b',"sequence":0', b"")),
        max_size=4,
    ),
    st.sampled_from((b"\n", b"\r\n", b"\n\n", b" \n")),
)
def test_any_lines_are_messages_or_refused(lines: list[bytes], between: bytes) -> None:
    take_text(between.join(lines))


@fuzzed(40)
@given(
    st.text(max_size=30).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)), st.binary(max_size=30)
)
def test_text_and_bytes_come_out_as_they_went_in(text: str, data: bytes) -> None:
    import base64

    import msgspec

    line = msgspec.json.encode(
        {"value": text, "key_base64": base64.b64encode(data).decode(), "headers": {text: {"base64": data}}}
    )
    batch = json.read(line, 0, LIMITS).records.batch
    assert batch.column("value").to_pylist() == [text.encode()]
    assert batch.column("key").to_pylist() == [data]
    assert batch.column("headers").to_pylist() == [[(text, data)]]
