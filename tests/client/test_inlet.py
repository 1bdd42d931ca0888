"""Rows between the threads that send and the one that takes."""

import sys
import threading
from typing import Any

import pyarrow as pa
import pytest

from cordwood.client.future import Future
from cordwood.client.inlet import JOINED_BYTES, Inlet
from cordwood.client.page import FIRST_ROWS, LARGE_BYTES, PAGE_BYTES, Extra, Page, Sheet
from cordwood.errors import Unavailable


def values(taken: list[tuple[Any, int, int]]) -> list[Any]:
    return [value for page, first, end in taken for value in page.values[first:end]]


def put(inlet: Inlet, *some: Any) -> list[Future]:
    return [inlet.put(value, None, None, 0) for value in some]


def sheet(inlet: Inlet, rows: int = 2) -> Sheet:
    return Sheet([pa.record_batch({"value": pa.array([b"t"] * rows, pa.binary())})], inlet.settling)


def test_rows_are_taken_once_and_in_order() -> None:
    inlet = Inlet(Future)
    put(inlet, b"a", b"b")
    assert inlet.rows == 2
    assert values(inlet.take(10, 1 << 20)) == [b"a", b"b"]
    put(inlet, b"c")
    assert values(inlet.take(10, 1 << 20)) == [b"c"]
    assert (inlet.take(10, 1 << 20), inlet.rows) == ([], 0)


def test_a_full_page_is_followed_by_a_longer_one() -> None:
    inlet = Inlet(Future)
    sent = [b"%d" % n for n in range(5 * FIRST_ROWS)]
    futures = put(inlet, *sent)
    assert len({id(future.page) for future in futures}) == 3
    assert [futures[0].page.length, futures[-1].page.length] == [FIRST_ROWS, 4 * FIRST_ROWS]
    taken = []
    while some := inlet.take(100, 1 << 20):
        taken += values(some)
    assert taken == sent


def test_large_values_fill_a_page_by_their_bytes() -> None:
    inlet = Inlet(Future)
    big = b"x" * (PAGE_BYTES // 4)
    pages = {id(inlet.put(big, None, None, len(big)).page) for _ in range(11)}
    assert len(pages) > 1
    assert inlet.bytes > PAGE_BYTES


def test_bytes_that_wait_are_estimated() -> None:
    inlet = Inlet(Future)
    put(inlet, *[b"x" * LARGE_BYTES] * (FIRST_ROWS + 1))
    assert FIRST_ROWS * LARGE_BYTES <= inlet.bytes <= 2 * FIRST_ROWS * LARGE_BYTES
    while inlet.take(1000, 1 << 30):
        pass
    assert inlet.bytes == 0


def test_a_table_comes_behind_what_was_sent_before_it_and_before_what_was_sent_after() -> None:
    inlet = Inlet(Future)
    put(inlet, b"a")
    table = sheet(inlet)
    inlet.put_sheet(table)
    put(inlet, b"b")
    first, second, third = (inlet.take(10, 1 << 20) for _ in range(3))
    assert (values(first), second, values(third)) == ([b"a"], [(table, 0, 2)], [b"b"])


def test_small_tables_are_taken_together_and_a_table_is_never_cut() -> None:
    inlet = Inlet(Future)
    tables = [sheet(inlet, 4) for _ in range(3)]
    for table in tables:
        inlet.put_sheet(table)
    assert [rows for rows, _, _ in inlet.take(10, 1 << 20)] == tables[:2]
    assert [rows for rows, _, _ in inlet.take(1, 1 << 20)] == tables[2:]


def test_a_page_that_is_turned_while_it_is_taken_keeps_its_order() -> None:
    inlet = Inlet(Future)
    put(inlet, *[b"1"] * (FIRST_ROWS - 1))
    inlet.take(10, 1 << 20)
    put(inlet, b"2", b"3")
    taken = []
    while some := inlet.take(FIRST_ROWS, 1 << 20):
        taken += values(some)
    assert taken == [b"1"] * (FIRST_ROWS - 11) + [b"2", b"3"]


def test_nothing_is_claimed_after_the_end() -> None:
    inlet = Inlet(Future)
    put(inlet, b"a")
    inlet.close()
    assert next(inlet.claims, None) is None
    with pytest.raises(Unavailable):
        put(inlet, b"b")
    with pytest.raises(Unavailable):
        inlet.put_sheet(sheet(inlet))
    assert values(inlet.take(10, 1 << 20)) == [b"a"]


def test_extras_stay_with_their_row() -> None:
    inlet = Inlet(Future)
    put(inlet, b"a")
    future = inlet.put(b"b", b"k", Extra(timestamp=5), 0)
    assert isinstance(future.page, Page)
    assert future.page.extras == {1: Extra(timestamp=5)}
    assert future.page.keys[1] == b"k"


def test_many_threads_lose_nothing_and_each_keeps_its_order() -> None:
    inlet = Inlet(Future)
    threads, each = 8, 3000
    taken: list[bytes] = []
    finished = threading.Event()

    def send(name: int) -> None:
        for n in range(each):
            for future in inlet.claims:
                future.page.keys[future.row] = None
                future.page.values[future.row] = b"%d %d" % (name, n)
                break
            else:
                put(inlet, b"%d %d" % (name, n))

    def take() -> None:
        while not (finished.is_set() and not inlet.rows):
            for page, first, end in inlet.take(500, 1 << 30):
                assert isinstance(page, Page)
                for row in range(first, end):
                    while not isinstance(page.values[row], bytes):
                        pass  # claimed, and about to be written
                    taken.append(page.values[row])

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        taker = threading.Thread(target=take)
        taker.start()
        senders = [threading.Thread(target=send, args=(name,)) for name in range(threads)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        finished.set()
        taker.join()
    finally:
        sys.setswitchinterval(before)
    for name in range(threads):
        mine = [value for value in taken if value.startswith(b"%d " % name)]
        assert mine == [b"%d %d" % (name, n) for n in range(each)]


def test_tables_are_joined_up_to_a_mebibyte_and_a_larger_one_goes_alone() -> None:
    inlet = Inlet(Future)
    rows = JOINED_BYTES // sheet(inlet, 1000).bytes * 1000  # one of these is nearly as much as is joined
    for count in (rows // 2, rows // 4, rows, 4 * rows, 1):
        inlet.put_sheet(sheet(inlet, count))
    taken = []
    while some := inlet.take(10 * rows, 16 * JOINED_BYTES):
        taken.append([end - first for _, first, end in some])
    assert taken == [[rows // 2, rows // 4], [rows], [4 * rows], [1]]
