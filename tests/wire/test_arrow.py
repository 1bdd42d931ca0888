"""Arrow streams, good and hostile."""

import random
import struct
import subprocess
import sys
import textwrap
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import ipc

from cordwood.errors import Refused
from cordwood.record import FULL, TIME, Resting, decode_parts, encode, widen
from cordwood.wire import arrow
from cordwood.wire.intake import Limits, TooLarge
from cordwood.wire.metadata import check_schema_head, decoded_bytes
from cordwood.wire.run import Run

LIMITS = Limits()
MAP = pa.map_(pa.string(), pa.binary())


def stream(*batches: Any, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batches[0].schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def sample(rows: int = 20) -> Any:
    return pa.record_batch(
        {
            "value": pa.array([None if n % 7 == 3 else b"v%d" % n * (n % 5) for n in range(rows)], pa.binary()),
            "key": pa.array([f"key-{n}" for n in range(rows)], pa.string_view()),
            "headers": pa.array([[("a", b"%d" % n)] if n % 3 else None for n in range(rows)], MAP),
            "timestamp": pa.array(range(rows), pa.timestamp("ms")),
            "partition": pa.array([n % 2 for n in range(rows)], pa.int32()),
        }
    )


def read(body: bytes, limits: Limits = LIMITS) -> Any:
    return arrow.read(body, 0, limits).records


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_a_stream_of_batches_is_one_request(compression: str | None) -> None:
    found = read(stream(sample(3), sample(5), compression=compression))
    assert found.batch.column("key").to_pylist() == [b"key-%d" % n for n in [*range(3), *range(5)]]
    assert found.partitions.to_pylist() == [0, 1, 0, 0, 1, 0, 1, 0]


def test_a_stream_without_its_end_mark_is_read() -> None:
    assert len(read(stream(sample())[:-8])) == 20


def test_a_stream_without_batches_is_no_messages() -> None:
    assert len(read(bytes(sample().schema.serialize()))) == 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"garbage garbage garbage", "not an Arrow stream"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f", "not an Arrow stream"),
        (stream(sample())[:-100], "not an Arrow stream"),
        (stream(pa.record_batch({"value": pa.array(["a"]).dictionary_encode()})), "'value' is dictionary"),
        (stream(pa.record_batch({"value": [[1]]})), "'value' is list"),
        (stream(pa.record_batch({"value": ["a"], "struct": [{"a": 1}]})), "unknown column 'struct'"),
        (bytes(sample().serialize()), "another message where a schema was expected"),
        (stream(sample())[:-8] + bytes(sample().schema.serialize()), "another message where a record batch"),
    ],
    ids=range(9),
)
def test_what_is_no_stream_of_messages_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(Refused, match=words):
        read(body)


def test_an_old_metadata_version_is_refused() -> None:
    sink = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(metadata_version=ipc.MetadataVersion.V4)
    with ipc.new_stream(sink, sample().schema, options=options) as writer:
        writer.write_batch(sample())
    with pytest.raises(Refused, match="older than Arrow"):
        read(bytes(sink.getvalue()))


@pytest.mark.parametrize("endianness", [0, 1])
def test_big_endian_data_is_refused(endianness: int) -> None:
    vtable, table = struct.pack("<5H", 10, 12, 4, 6, 8), struct.pack("<ihBxI", 12, 4, 1, 16)
    schema = struct.pack("<3H6xih", 6, 8, 4, 12, endianness)
    metadata = struct.pack("<I", 16) + vtable + b"\0\0" + table + schema + b"\0\0"
    if not endianness:
        check_schema_head(metadata)
        return
    with pytest.raises(Refused, match="big-endian"):
        check_schema_head(metadata)


@given(st.binary(max_size=80), st.binary(max_size=40), st.integers(0, 200), st.integers(0, 255))
def test_any_head_of_a_message_is_accepted_or_refused(data: bytes, body: bytes, place: int, byte: int) -> None:
    good = bytearray(ipc.MessageReader.open_stream(sample().serialize()).read_next_message().metadata)
    good[place % len(good)] = byte
    for metadata in (data, bytes(good), bytes(good[:place])):
        with suppress(Refused):
            check_schema_head(metadata)
        with suppress(Refused):
            decoded_bytes(metadata, body)


def test_every_limit_is_kept() -> None:
    body = stream(sample(), sample())
    with pytest.raises(TooLarge, match="the body has"):
        read(body, Limits(max_request_bytes=len(body) - 1))
    with pytest.raises(TooLarge, match="more than 1 batches"):
        read(body, Limits(max_batches=1))
    with pytest.raises(TooLarge, match="more than 39 messages"):
        read(body, Limits(max_messages=39))
    with pytest.raises(TooLarge, match="message 2 has 11 bytes"):
        read(body, Limits(max_message_bytes=10))
    assert len(read(body, Limits(max_request_bytes=len(body), max_batches=2, max_messages=40))) == 40


def test_a_compressed_body_is_measured_before_it_is_decompressed() -> None:
    body = stream(pa.record_batch({"value": [b"x" * 1_000_000] * 40}), compression="zstd")
    assert len(body) < 100_000
    with pytest.raises(TooLarge, match="decompress to more"):
        read(body)


@pytest.mark.parametrize("size", [2**40, 2**62, 2**63 - 1, -2, -(2**63)])
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_buffer_that_lies_about_its_size_is_refused(size: int, codec: str) -> None:
    body = stream(pa.record_batch({"value": [b"x" * 100_000]}), compression=codec)
    place = body.rindex(struct.pack("<q", 100_000))  # the first one is the last offset
    lie = body[:place] + struct.pack("<q", size) + body[place + 8 :]
    with pytest.raises(Refused, match="decompress to more" if size > 0 else "negative size"):
        read(lie)


def test_a_bomb_stays_within_the_memory_of_its_process() -> None:
    script = """
        import resource, struct, sys
        import pyarrow as pa
        from pyarrow import ipc
        from cordwood.errors import Refused
        from cordwood.wire import arrow
        from cordwood.wire.intake import Limits

        sink = pa.BufferOutputStream()
        batch = pa.record_batch({"value": [b"x" * (1 << 29)]})
        with ipc.new_stream(sink, batch.schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_batch(batch)
        body = bytes(sink.getvalue())
        assert len(body) < 1 << 20
        del batch, sink, writer
        pa.default_memory_pool().release_unused()
        pages = int(open("/proc/self/statm").read().split()[0])
        most = pages * resource.getpagesize() + (64 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        place = body.rindex(struct.pack("<q", 1 << 29))
        for said in (1 << 29, 1 << 40):
            try:
                arrow.read(body[:place] + struct.pack("<q", said) + body[place + 8 :], 0, Limits())
            except Refused as refusal:
                print(refusal)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("decompress to more than the 33554432 bytes accepted") == 2


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_stream_is_accepted_or_refused(seed: int, compression: str | None) -> None:
    dice = random.Random(f"{seed} {compression}")
    original = stream(sample(), sample(3), compression=compression)
    extremes = [b"\xff" * 8, b"\xff\xff\xff\x7f", bytes(8), b"\0\0\0\x80", struct.pack("<q", 2**40), b"\x01\0\0\0"]
    accepted = refused = 0
    for n in range(700):
        body = bytearray(original)
        for _ in range(dice.choice([1, 1, 2, 5])):
            place = dice.randrange(len(body))
            kind = dice.randrange(5)
            if kind == 0:
                body[place] ^= 1 << dice.randrange(8)
            elif kind == 1:
                extreme = dice.choice(extremes)
                place -= place % 4
                body[place : place + len(extreme)] = extreme
            elif kind == 2:
                body[place] = dice.randrange(256)
            elif kind == 3 and len(body) > 100:
                del body[place : place + dice.choice([1, 8, 64])]
            else:
                other = dice.randrange(len(body))
                body[place : place + 8] = body[other : other + 8]
        try:
            found = read(bytes(body))
        except Refused:
            refused += 1
            continue
        except BaseException as error:
            raise AssertionError(f"seed {seed}, {compression}, round {n}") from error
        accepted += 1
        found.batch.validate(full=True)
        found.batch.to_pylist()
    assert accepted
    assert refused


def test_a_stream_out_is_read_by_arrow() -> None:
    batch = read(stream(sample())).batch
    first, second = arrow.write(Run(batch, 3, 7, 2)), arrow.write(Run(batch[:1], 4, 0, [9]))
    body = b"".join(map(bytes, [arrow.HEAD, *first, *second, arrow.END]))
    reader = ipc.open_stream(body)
    assert reader.schema.names == ["partition", "offset", "attempts", *FULL.names]
    assert [str(reader.schema.field(n).type) for n in ("partition", "offset", "attempts")] == [
        "int32",
        "int64",
        "int32",
    ]
    assert reader.schema.field("timestamp").type == TIME
    table = reader.read_all()
    table.validate(full=True)
    assert table["offset"].to_pylist() == [*range(7, 27), 0]
    assert table["partition"].to_pylist() == [3] * 20 + [4]
    assert table["attempts"].to_pylist() == [2] * 20 + [9]
    assert table.select(FULL.names).slice(0, 20).to_batches()[0].equals(widen(batch))


def test_a_stream_in_pieces_is_the_same_and_does_not_copy_what_is_large() -> None:
    values = pa.array([b"%d" % n * 100 for n in range(1000)], pa.binary())
    batch = read(stream(pa.record_batch({"value": values}))).batch
    runs = [Run(batch, 3, 7, 2), Run(batch.slice(10, 500), 3, 1007, 1)]
    pieces = arrow.pieces(runs)
    whole = b"".join(map(bytes, [arrow.HEAD, *(piece for run in runs for piece in arrow.write(run)), arrow.END]))
    assert b"".join(map(bytes, pieces)) == whole
    data = batch.column("value").buffers()[2]
    inside = [p for p in pieces if isinstance(p, pa.Buffer) and data.address <= p.address < data.address + data.size]
    assert len(inside) == len(runs), "the values themselves are sent, not a copy of them"


def test_a_stream_out_without_messages_is_whole() -> None:
    assert ipc.open_stream(arrow.HEAD + arrow.END).read_all().num_rows == 0


def test_what_comes_out_without_its_numbers_goes_in_again() -> None:
    out = arrow.out_batch(Run(read(stream(sample())).batch, 3, 7))
    assert read(stream(out.select(FULL.names))).batch.equals(read(stream(sample())).batch)


def at_rest(rows: int, *, key: bool = True, headers: bool = False, nulls: bool = False) -> Any:
    """Return a batch whose columns have the order and the types in which messages rest."""
    columns = {"timestamp": pa.array(range(1, rows + 1), TIME)}
    if key:
        columns["key"] = pa.array([None if nulls or n % 3 == 1 else b"k%d" % n for n in range(rows)], pa.binary())
    columns["value"] = pa.array([None if n % 5 == 4 else b"v" * n for n in range(rows)], pa.binary())
    if headers:
        columns["headers"] = pa.array([[("a", b"%d" % n)] for n in range(rows)], MAP)
    return pa.record_batch(list(columns.values()), schema=pa.schema([FULL.field(name) for name in columns]))


@given(st.integers(1, 50), st.booleans(), st.booleans())
def test_a_batch_in_the_schema_at_rest_is_stored_as_it_came(rows: int, key: bool, headers: bool) -> None:
    batch = at_rest(rows, key=key and rows > 1, headers=headers)
    body = stream(batch)
    found = read(body)
    assert found.resting is not None
    assert bytes(found.resting.body) in body, "not a copy in other words"
    resting = Resting(found.resting.head, found.resting.body)  # what is read when it is no longer in memory
    assert resting.batch.equals(found.batch)
    assert found.batch.equals(batch)


@pytest.mark.parametrize(
    ("why", "body"),
    [
        ("a column without anything in it is left out", stream(at_rest(3, nulls=True))),
        ("compressed", stream(at_rest(3), compression="zstd")),
        ("another order", stream(at_rest(3).select(["value", "key", "timestamp"]))),
        ("two batches", stream(at_rest(3), at_rest(2))),
        ("another type", stream(at_rest(3).set_column(2, "value", pa.array(["a", "b", "c"])))),
        ("times that are to be filled in", stream(pa.record_batch({"value": pa.array([b"a"], pa.binary())}))),
        ("partitions", stream(at_rest(3).append_column("partition", pa.array([0, 0, 0], pa.int32())))),
    ],
)
def test_every_other_batch_is_written_anew_and_says_the_same(why: str, body: bytes) -> None:
    found = read(body)
    assert found.resting is None, why
    sent = ipc.open_stream(body).read_all()["value"].cast(pa.binary())
    assert found.batch.column("value").to_pylist() == sent.to_pylist()
    assert decode_parts(*encode(found.batch)).column("value").to_pylist() == sent.to_pylist()


def test_a_null_timestamp_in_the_schema_at_rest_is_filled_in() -> None:
    schema = pa.schema([pa.field("timestamp", TIME), pa.field("value", pa.binary())])
    batch = pa.record_batch([pa.array([1, None], TIME), pa.array([b"a", b"b"], pa.binary())], schema=schema)
    found = arrow.read(stream(batch), 7, LIMITS).records
    assert found.resting is None
    assert found.batch.column("timestamp").cast(pa.int64()).to_pylist() == [1, 7_000]


@pytest.mark.parametrize("time_us", [-1, 253_402_300_800_000_000])
def test_a_time_that_no_calendar_has_is_refused_in_the_schema_at_rest_too(time_us: int) -> None:
    batch = at_rest(2).set_column(0, FULL.field("timestamp"), pa.array([1, time_us], TIME))
    with pytest.raises(Refused, match="message 1 has a timestamp"):
        read(stream(batch))
