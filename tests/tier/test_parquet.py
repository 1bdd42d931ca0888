"""Messages go into an object and come out as they were; and any engine can open it."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pyarrow_parquet

from cordwood import record
from cordwood.machine.objects.directory import open_directory
from cordwood.record import HEADERS, TIME
from cordwood.tier import contents, parquet, reading, rows, times
from cordwood.tier.rows import Rows
from tests.tier.shelf import Shelf, batch_of, describe, message, messages, plain, put, read_all

pieces_drawn = st.lists(st.tuples(st.integers(0, 3), st.lists(messages, max_size=5)), min_size=1, max_size=5)


def placed(drawn: list[tuple[int, list[dict[str, Any]]]], first: int = 0) -> list[Rows]:
    """Return the messages with offsets from `first` on, and a hole of so many before each piece."""
    found = []
    for hole, piece in drawn:
        first += hole
        if piece:
            found.append(Rows.dense(first, batch_of(piece)))
        first += len(piece)
    return found


def expected(pieces: list[Rows]) -> list[tuple[int, dict[str, Any]]]:
    return [pair for piece in pieces for pair in zip(piece.offsets.tolist(), plain(piece.batch), strict=True)]


@given(pieces_drawn, st.sampled_from([0, 7, 2**62]))
def test_what_is_written_is_read(drawn: list[tuple[int, list[dict[str, Any]]]], first: int) -> None:
    pieces = placed(drawn, first)
    if pieces:
        store = Shelf()
        assert read_all(store, put(store, pieces), 0, 2**63 - 1) == expected(pieces)


@given(pieces_drawn, st.integers(0, 30), st.integers(0, 30), st.integers(1, 4))
@settings(max_examples=60)
@example([(0, [message(value=b"%d" % number) for number in range(6)])], 1, 2, 4)
def test_a_range_is_read_from_its_first_offset_up_to_its_end(
    drawn: list[tuple[int, list[dict[str, Any]]]], first: int, length: int, group_rows: int
) -> None:
    pieces = placed(drawn)
    if pieces:
        store = Shelf()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parquet, "GROUP_ROWS", group_rows)
            descriptor = put(store, pieces)
        wanted = [pair for pair in expected(pieces) if first <= pair[0] < first + length]
        assert read_all(store, descriptor, first, first + length) == wanted


def test_null_and_empty_stay_apart_and_every_byte_is_kept() -> None:
    every = bytes(range(256))
    pairs = [("a", b"1"), ("a", b""), ("", None), ("🪵", every)]
    found = [
        message(value=None, key=None, headers=None),
        message(value=b"", key=b"", headers=[]),
        message(value=every, key=b"\0", headers=pairs),
        message(value=b"\0" * 9, key=b"a\0b", headers=[("a", None)]),
    ]
    store = Shelf()
    descriptor = put(store, [Rows.dense(0, batch_of(found))])
    assert read_all(store, descriptor) == list(enumerate(found))


def test_batches_come_out_in_the_schema_at_rest() -> None:
    store = Shelf()
    pieces = [Rows.dense(0, batch_of([message(value=b"x", timestamp=5)] * 3))]
    descriptor = put(store, pieces)
    (found,) = reading.read(store, descriptor, contents.fetch(store, descriptor), 0, 3)
    assert found.batch.schema.equals(pieces[0].batch.schema), "columns that are null in every row are left out"
    assert record.encode(found.batch) == record.encode(pieces[0].batch)


def test_holes_are_kept_and_split_into_runs() -> None:
    batch = batch_of([message(value=b"%d" % at) for at in range(6)])
    store = Shelf()
    descriptor = put(store, [Rows(np.array([3, 4, 7, 20, 21, 22], np.int64), batch)])
    assert (descriptor.first, descriptor.end, descriptor.count) == (3, 23, 6)
    (found,) = reading.read(store, descriptor, contents.fetch(store, descriptor), 0, 100)
    assert [(first, [row["value"] for row in plain(run)]) for first, run in found.runs()] == [
        (3, [b"0", b"1"]),
        (7, [b"2"]),
        (20, [b"3", b"4", b"5"]),
    ]
    assert [first for first, _ in Rows.dense(9, batch).runs()] == [9]
    assert list(Rows.dense(9, batch.slice(0, 0)).runs()) == []


def test_an_object_may_have_no_messages() -> None:
    data = parquet.write([])
    store = Shelf()
    descriptor = describe([Rows.dense(4, batch_of([message()]))], data, end=9, count=0)
    store.put(descriptor.name, data)
    assert read_all(store, descriptor) == []
    assert contents.fetch(store, descriptor).groups == ()


def test_offsets_that_do_not_rise_are_not_written() -> None:
    batch = batch_of([message(), message()])
    for offsets in ([1, 1], [2, 1]):
        with pytest.raises(AssertionError, match="rise"):
            parquet.write([Rows(np.array(offsets, np.int64), batch)])
    with pytest.raises(AssertionError, match="rise"):
        parquet.write([Rows.dense(0, batch), Rows.dense(1, batch)])
    with pytest.raises(AssertionError, match="one offset for each row"):
        parquet.write([Rows(np.array([1], np.int64), batch)])


@given(st.lists(st.lists(messages, max_size=3), max_size=6), st.integers(1, 4000))
def test_small_batches_are_joined_without_a_change(drawn: list[list[dict[str, Any]]], most: int) -> None:
    pieces = placed([(1, piece) for piece in drawn])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "JOINED_BYTES", most)
        patch.setattr(rows, "SMALL_BYTES", most // 2)
        assert expected(list(rows.joined(pieces))) == expected(pieces)


def test_delays_and_expiry_survive() -> None:
    found = [message(value=b"%d" % at) for at in range(10)]
    found[2]["deliver_at"] = 1_700_000_000_000_001
    found[5] |= {"deliver_at": 3, "expires_at": 253_402_300_799_999_999}
    found[9]["expires_at"] = 0
    store = Shelf()
    descriptor = put(store, [Rows.dense(0, batch_of(found[:4])), Rows.dense(4, batch_of(found[4:]))])
    assert read_all(store, descriptor) == list(enumerate(found))
    assert read_all(store, descriptor, 5, 6) == [(5, found[5])]
    known = contents.fetch(store, descriptor)
    assert known.times.column("offset").to_pylist() == [2, 5, 9], "only of those that have some"
    metadata = pyarrow_parquet.read_metadata(pa.BufferReader(store.get(descriptor.name)))
    assert times.decode(metadata.metadata[b"cordwood.times"]).equals(known.times)


def test_without_delays_there_is_no_metadata_of_ours() -> None:
    data = parquet.write([Rows.dense(0, batch_of([message(value=b"x")]))])
    assert set(pyarrow_parquet.read_metadata(pa.BufferReader(data)).metadata or {}) == {b"ARROW:schema"}


def many(count: int, size: int = 100) -> Rows:
    values = pa.array([b"%0*d" % (size, at) for at in range(count)], pa.binary())
    stamps = pa.array(np.arange(count, dtype=np.int64) * 1_000).cast(TIME)
    return Rows.dense(0, record.assemble({"timestamp": stamps, "value": values}))


def test_row_groups_are_bounded_in_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 1000)
    store = Shelf()
    descriptor = put(store, [many(2500)])
    assert [group.rows for group in contents.fetch(store, descriptor).groups] == [1000, 1000, 500]
    monkeypatch.setattr(parquet, "GROUP_BYTES", 25_000)
    store = Shelf()
    assert [group.rows for group in contents.fetch(store, put(store, [many(600)])).groups] == [250, 250, 100]
    store = Shelf()
    found = contents.fetch(store, put(store, [many(3, 30_000)]))
    assert [group.rows for group in found.groups] == [1, 1, 1], "one that is larger is alone"


def test_a_range_fetches_only_its_row_groups_with_one_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 1000)
    store = Shelf()
    descriptor = put(store, [many(10_000)])
    known = contents.fetch(store, descriptor)
    assert len(store.gets) == 1, "the footer comes with the guess"
    store.gets.clear()
    found = list(reading.read(store, descriptor, known, 2_999, 5_001))
    assert [len(rows.offsets) for rows in found] == [1, 1000, 1000, 1]
    groups = known.groups
    assert store.gets == [(groups[2].position, groups[5].end_position)]
    store.gets.clear()
    list(reading.read(store, descriptor, known, 3_000, 4_000))
    assert store.gets == [(groups[3].position, groups[3].end_position)], "an end is exclusive"
    store.gets.clear()
    assert list(reading.read(store, descriptor, known, 10_000, 20_000)) == []
    assert store.gets == []


def test_what_is_in_memory_at_a_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 1000)
    store = Shelf()
    descriptor = put(store, [many(10_000)])
    known = contents.fetch(store, descriptor)
    size = known.groups[0].end_position - known.groups[0].position
    monkeypatch.setattr(reading, "FETCH_BYTES", 3 * size + size // 2)
    store.gets.clear()
    assert sum(len(rows.offsets) for rows in reading.read(store, descriptor, known, 0, 10_000)) == 10_000
    assert len(store.gets) == 4
    assert all(end is not None and end - first <= 4 * size for first, end in store.gets)


def test_a_footer_larger_than_the_guess_takes_two_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Shelf()
    monkeypatch.setattr(parquet, "GROUP_ROWS", 10)
    descriptor = put(store, [many(1000)])
    size = store.size(descriptor.name)
    whole = contents.fetch(store, descriptor).groups
    for tail in (8, 9, 100, 5_000, size - 100, size, 2 * size):
        monkeypatch.setattr(contents, "TAIL_BYTES", tail)
        store.gets.clear()
        assert contents.fetch(store, descriptor, size).groups == whole
        assert len(store.gets) <= 2


def test_a_time_leads_to_the_first_message_at_or_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 3)
    stamps = [5, 1, 9, 2, 2, 2, 8, 30, 10, 253_402_300_799_999_999]
    store = Shelf()
    descriptor = put(store, [Rows.dense(100, batch_of([message(timestamp=at) for at in stamps]))])
    known = contents.fetch(store, descriptor)
    for first in (0, 100, 102, 103, 107, 110):
        for end in (100, 105, 110, 1000):
            for time in (0, 5, 6, 9, 10, 30, 31, 2**60):
                wanted = [100 + n for n, at in enumerate(stamps) if at >= time and first <= 100 + n < end]
                found = reading.since(store, descriptor, known, time, first, end)
                assert found == (wanted[0] if wanted else None)
    store.gets.clear()
    reading.since(store, descriptor, known, 30, 0, 1000)
    assert len(store.gets) == 1, "statistics say where not to look"


def test_a_dictionary_is_for_what_comes_often() -> None:
    def encodings(**columns: Any) -> dict[str, bool]:
        arrays = {"timestamp": pa.array(np.zeros(1000, np.int64)).cast(TIME), **columns}
        data = parquet.write([Rows.dense(0, record.assemble(arrays))])
        group = pyarrow_parquet.read_metadata(pa.BufferReader(data)).row_group(0)
        found = (group.column(at) for at in range(group.num_columns))
        return {column.path_in_schema.split(".")[0]: column.has_dictionary_page for column in found}

    often, once = (pa.array([b"%d" % (at % n) for at in range(1000)], pa.binary()) for n in (250, 251))
    assert encodings(key=often, value=once) == {n: n == "key" for n in parquet.SCHEMA.names}
    assert encodings(key=once, value=often) == {n: n == "value" for n in parquet.SCHEMA.names}
    pairs = pa.array([[("trace", b"a")]] * 1000, HEADERS)
    assert encodings(value=once, headers=pairs)["headers"]


ROWS = [
    message(timestamp=1_700_000_000_000_001, key=b"k", value=b"v", headers=[("a", b"1"), ("a", b"2"), ("", None)]),
    message(timestamp=0, key=b"\0", value=bytes(range(256)), headers=[]),
    message(timestamp=1, value=None),
    message(timestamp=253_402_300_799_999_999, key=b"", value=b"", deliver_at=5, headers=[("🪵", b"\0\xff")]),
]


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """An object in a directory, as a user finds it."""
    store = open_directory(tmp_path)
    descriptor = put(store, [Rows.dense(0, batch_of(ROWS[:2])), Rows.dense(5, batch_of(ROWS[2:]))])
    return tmp_path / descriptor.name


WANTED = [
    (offset, row["timestamp"], row["key"], row["value"], row["headers"])
    for offset, row in zip([0, 1, 5, 6], ROWS, strict=True)
]


def test_pyarrow_opens_an_object(opened: Path) -> None:
    table = pyarrow_parquet.ParquetFile(opened, page_checksum_verification=True).read()
    assert table.schema.names == ["offset", "timestamp", "key", "value", "headers"]
    assert table.schema.types == [pa.int64(), TIME, pa.binary(), pa.binary(), HEADERS]
    columns = [column.cast(pa.int64()) if column.type == TIME else column for column in table.columns]
    assert list(zip(*(column.to_pylist() for column in columns), strict=True)) == WANTED


def test_duckdb_opens_an_object(opened: Path) -> None:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = database.sql(
            'SELECT "offset", epoch_us(timestamp), key, value, map_keys(headers), map_values(headers)'
            f" FROM '{opened}' ORDER BY ALL"
        )
        got = [(*row[:4], None if row[4] is None else list(zip(*row[4:], strict=True))) for row in found.fetchall()]
        whole = database.sql(f"FROM '{opened}'")
        types = [(name, str(kind)) for name, kind in zip(whole.columns, whole.types, strict=True)]
        least = database.sql(f"SELECT stats_min FROM parquet_metadata('{opened}')").fetchone()
    assert got == WANTED
    assert types == [
        ("offset", "BIGINT"),
        ("timestamp", "TIMESTAMP WITH TIME ZONE"),
        ("key", "BLOB"),
        ("value", "BLOB"),
        ("headers", "MAP(VARCHAR, BLOB)"),
        ("partition", "BIGINT"),  # which it takes from the folder's name
    ]
    assert least == ("0",), "the first column has statistics"


def test_polars_opens_an_object(opened: Path) -> None:
    for frame in (
        polars.read_parquet(opened),
        polars.scan_parquet(opened).filter(polars.col("offset") >= 0).collect(),
    ):
        assert frame.schema == {
            "offset": polars.Int64,
            "timestamp": polars.Datetime("us", "UTC"),
            "key": polars.Binary,
            "value": polars.Binary,
            "headers": polars.List(polars.Struct({"key": polars.String, "value": polars.Binary})),
        }
        got = [
            (*row[:4], None if row[4] is None else [(pair["key"], pair["value"]) for pair in row[4]])
            for row in frame.with_columns(polars.col("timestamp").to_physical()).rows()
        ]
        assert got == WANTED


def test_every_engine_finds_all_rows_of_many_row_groups(tmp_path: Path) -> None:
    store = open_directory(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "GROUP_ROWS", 1000)
        path = tmp_path / put(store, [many(4_321)]).name
    with duckdb.connect() as database:
        assert database.sql(f'SELECT count(*), sum("offset") FROM \'{path}\' WHERE "offset" < 4000').fetchone() == (
            4000,
            7_998_000,
        )
    assert polars.scan_parquet(path).select(polars.len()).collect().item() == 4_321
    assert pyarrow_parquet.read_table(path)["value"].to_pylist() == many(4_321).batch.column("value").to_pylist()
