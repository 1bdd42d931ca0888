"""Rows to parcels."""

import threading
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood import partition
from cordwood.client import packing
from cordwood.client.columns import batches_of, encoded
from cordwood.client.future import Future, TableFuture
from cordwood.client.inlet import Inlet
from cordwood.client.page import Extra, Sheet
from cordwood.client.parcel import Take
from cordwood.errors import Refused, Unavailable

from .model import values_of


def pages(*messages: tuple[Any, Any, Extra | None]) -> tuple[Inlet, list[Future]]:
    inlet = Inlet(Future)
    return inlet, [inlet.put(encoded(value), key, extra, 0) for value, key, extra in messages]


def pack(inlet: Inlet, count: int = 1, turn: int = 0, most_rows: int = 1000, most_bytes: int = 1 << 20) -> Take:
    return packing.pack(inlet.take(1000, 1 << 30), count, turn, most_rows, most_bytes)


def store(take: Take, offset: int = 100) -> None:
    """Settle every parcel, each partition from its own offset on."""
    for number, parcels in take.parcels.items():
        at = offset * (number + 1)
        for parcel in parcels:
            if not parcel.settled:
                parcel.settled, parcel.first_offset = True, at
                at += parcel.count
    take.tell()


def test_bytes_text_and_tombstones_are_one_column() -> None:
    inlet, _ = pages((b"\xff", None, None), ("é", "k", None), (None, b"k", None), ({"a": [1]}, None, None))
    (parcel,) = pack(inlet).parcels[0]
    (batch,) = parcel.batches
    assert batch.column("value").to_pylist() == [b"\xff", "é".encode(), None, b'{"a":[1]}']
    assert batch.column("key").to_pylist() == [None, b"k", b"k", None]


def test_columns_that_nobody_uses_are_left_out() -> None:
    inlet, _ = pages((b"a", None, None))
    assert pack(inlet).parcels[0][0].batches[0].schema.names == ["value"]
    inlet, _ = pages((b"a", None, None), (b"b", "", Extra([("h", b"1")], 1, 2, 3)))
    batch = pack(inlet).parcels[0][0].batches[0]
    assert batch.schema.names == ["value", "key", "headers", "timestamp", "deliver_at", "expires_at"]
    assert batch.column("headers").to_pylist() == [None, [("h", b"1")]]
    assert batch.column("key").to_pylist() == [None, b""]


def test_a_key_decides_the_partition_and_every_future_finds_its_message() -> None:
    keys = [f"user:{n}" for n in range(50)]
    inlet, futures = pages(*[(key.encode(), key, None) for key in keys])
    take = pack(inlet, count=3)
    store(take)
    log = {number: [v for parcel in parcels for v in values_of(parcel)] for number, parcels in take.parcels.items()}
    for key, future in zip(keys, futures, strict=True):
        number, offset = future.result(0)
        assert number == partition.of_key(key.encode(), 3)
        assert offset is not None
        assert log[number][offset - 100 * (number + 1)] == key.encode()


def test_messages_without_a_key_go_to_the_partition_whose_turn_it_is() -> None:
    inlet, _ = pages((b"a", None, None), (b"b", None, None))
    assert list(pack(inlet, count=3, turn=5).parcels) == [2]


def test_a_partition_that_is_asked_for_counts_more_than_the_key() -> None:
    inlet, futures = pages((b"a", "user:1", Extra(partition=2)), (b"b", "user:1", None))
    store(pack(inlet, count=3))
    assert [future.result(0).partition for future in futures] == [2, 1]


def test_a_partition_that_is_not_there_fails_that_message_alone() -> None:
    inlet, futures = pages((b"a", None, Extra(partition=0)), (b"b", None, Extra(partition=9)))
    store(pack(inlet, count=2))
    assert futures[0].result(0).partition == 0
    with pytest.raises(Refused, match="partitions 0 to 1, not 9"):
        futures[1].result(0)


def test_a_key_that_is_no_key_fails_that_message_alone() -> None:
    inlet, futures = pages((b"a", "k", None), (b"b", 5, None), ("\ud800", None, None), (b"d", None, None))
    take = pack(inlet)
    store(take)
    assert [future.exception(0) is None for future in futures] == [True, False, False, True]
    assert values_of(take.parcels[0][0]) == [b"a", b"d"]
    assert futures[3].result(0).offset == 101
    with pytest.raises(Refused, match="key is not accepted"):
        futures[1].result(0)


def test_a_row_that_is_being_written_is_waited_for() -> None:
    inlet, _ = pages((b"a", None, None))
    future = next(inlet.claims)
    late = threading.Timer(0.01, lambda: future.page.values.__setitem__(future.row, b"late"))
    late.start()
    assert values_of(pack(inlet).parcels[0][0]) == [b"a", b"late"]
    late.join()


def test_a_row_that_is_never_written_fails_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PATIENCE_S", 0.0)
    inlet, (first,) = pages((b"a", None, None))
    lost = next(inlet.claims)
    (last,) = [inlet.put(b"c", None, None, 0)]
    store(pack(inlet))
    assert (first.result(0).offset, last.result(0).offset) == (100, 101)
    with pytest.raises(Refused):
        lost.result(0)


def test_too_much_for_one_request_becomes_several() -> None:
    inlet, futures = pages(*[(b"x" * 100, None, None) for _ in range(10)])
    take = pack(inlet, most_rows=4)
    assert sorted(parcel.count for parcel in take.parcels[0]) == [3, 3, 4]
    store(take)
    assert [future.result(0).offset for future in futures] == list(range(100, 110))
    inlet, _ = pages(*[(b"x" * 100, None, None) for _ in range(10)])
    assert [parcel.count for parcel in pack(inlet, most_bytes=250).parcels[0]] == [2] * 5


def test_a_message_larger_than_a_request_goes_alone() -> None:
    inlet, _ = pages((b"x" * 5000, None, None), (b"y", None, None))
    assert [parcel.count for parcel in pack(inlet, most_bytes=1000).parcels[0]] == [1, 1]


def test_a_table_is_split_by_key_and_its_future_says_where_each_run_is() -> None:
    inlet = Inlet(Future)
    keys = [f"user:{n}" for n in range(20)]
    batches = batches_of({"value": keys, "key": keys}, 8)
    assert [batch.num_rows for batch in batches] == [8, 8, 4]
    sheet = Sheet(batches, inlet.settling)
    inlet.put_sheet(sheet)
    future = TableFuture(sheet)
    assert not future.done()
    take = pack(inlet, count=3)
    store(take)
    found = future.result(0)
    assert sum(run.count for run in found) == 20
    expected = [partition.of_key(key.encode(), 3) for key in keys]
    assert {run.partition: run.count for run in found} == {n: expected.count(n) for n in set(expected)}


def test_a_partition_column_is_obeyed_and_not_sent() -> None:
    inlet = Inlet(Future)
    table = pa.table({"value": [b"a", b"b", b"c"], "partition": pa.array([1, None, 0], pa.int32())})
    inlet.put_sheet(Sheet(batches_of(table, 100), inlet.settling))
    take = pack(inlet, count=2, turn=1)
    assert {n: [v for p in parcels for v in values_of(p)] for n, parcels in take.parcels.items()} == {
        0: [b"c"],
        1: [b"a", b"b"],
    }
    assert take.parcels[0][0].batches[0].schema.names == ["value"]


def test_several_tables_in_one_take_have_each_its_own_future() -> None:
    inlet = Inlet(Future)
    sheets = [Sheet(batches_of({"value": [b"x"] * n}, 100), inlet.settling) for n in (2, 3)]
    for sheet in sheets:
        inlet.put_sheet(sheet)
    store(pack(inlet))
    found = [TableFuture(sheet).result(0) for sheet in sheets]
    assert [[(run.first_offset, run.count) for run in runs] for runs in found] == [[(100, 2)], [(102, 3)]]


@pytest.mark.parametrize("table", [{"value": [1], "extra": [2]}, {"key": [b"a"]}, 5])
def test_what_is_no_table_of_messages_is_refused(table: Any) -> None:
    with pytest.raises(Refused):
        batches_of(table, 100)


@pytest.mark.parametrize("value", [5, 1.5, ["list"], object()])
def test_a_value_is_bytes_text_dict_or_none(value: Any) -> None:
    with pytest.raises(TypeError, match="bytes, str, dict or None"):
        encoded(value)


def test_a_refused_take_fails_all_its_rows() -> None:
    inlet, futures = pages((b"a", None, None), (b"b", None, None))
    error = Unavailable("no broker")
    packing.refuse(inlet.take(10, 1 << 20), error)
    assert [future.exception(0) for future in futures] == [error, error]


def test_those_who_wait_are_called_when_their_message_is_settled() -> None:
    inlet, futures = pages((b"a", "user:1", None), (b"b", "user:2", None))
    called: list[Future] = []
    for future in futures:
        future.add_done_callback(called.append)
    take = pack(inlet, count=3)
    (parcel,) = take.parcels[partition.of_key(b"user:2", 3)]
    parcel.settled, parcel.first_offset = True, 0
    take.tell()
    assert called == [futures[1]]
    with pytest.raises(TimeoutError):
        futures[0].result(0.001)


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "c", None]), st.integers(0, 3)), min_size=1), st.data())
def test_halving_keeps_every_message_findable(rows: list[tuple[str | None, int]], data: st.DataObject) -> None:
    inlet, futures = pages(*[(b"%d" % n, key, None) for n, (key, _) in enumerate(rows)])
    take = pack(inlet, count=3, turn=1, most_rows=5)
    for number in list(take.parcels):
        for parcel in list(take.parcels[number]):
            if data.draw(st.booleans()):
                parcel.halves()
    store(take, offset=1000)
    log = {
        1000 * (n + 1) + place: value
        for n, parcels in take.parcels.items()
        for place, value in enumerate(v for parcel in parcels for v in values_of(parcel))
    }
    for n, future in enumerate(futures):
        offset = future.result(0).offset
        assert offset is not None
        assert log[offset] == b"%d" % n
