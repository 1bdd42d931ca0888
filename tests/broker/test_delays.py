"""The time from a message to its ack, counted by pieces, against a count one by one."""

from bisect import bisect_left
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.broker import delays
from tests.broker.harness import Harness, times
from tests.broker.test_index import PIECES, Pieces, Plain

NOW_MS = 1_700_000_000_000


@given(PIECES, st.integers(0, 60), st.integers(0, 60))
def test_every_message_counts_with_the_time_of_its_piece(pieces: Pieces, first: int, end: int) -> None:
    plain = Plain(pieces)
    sizes, latest = plain.index.times(first, end)
    found = [time for size, time in zip(sizes, latest, strict=True) for _ in range(size)]
    assert found == [
        time for low, high, _, time in plain.pieces for offset in range(low, high) if first <= offset < end
    ]


@given(st.lists(st.tuples(st.just(0), st.integers(1, 5), st.just(1), st.integers(0, 10**12)), max_size=50))
def test_many_pieces_are_counted_as_few(pieces: Pieces) -> None:
    plain = Plain([(hole, count, size, NOW_MS * 1000 - ago_us) for hole, count, size, ago_us in pieces])
    end = plain.pieces[-1][1] if plain.pieces else 1
    found, wanted = delays.delays(), [0] * (len(delays.BOUNDS_S) + 1)
    delays.count(found, plain.index, [(0, end)], NOW_MS)
    for _, count, _, ago_us in pieces:
        wanted[bisect_left(delays.BOUNDS_S, ago_us / 1e6)] += count
    assert (found.counts, found.count) == (wanted, sum(wanted))
    assert found.sum == pytest.approx(sum(count * ago_us / 1e6 for _, count, _, ago_us in pieces))


def delay(harness: Harness, group: str) -> Any:
    return harness.do("group", "clicks", group).ack_delay


def test_acks_are_counted_once_and_only_those() -> None:
    harness = Harness()
    harness.do("create_topic", "clicks", 1, {})
    harness.produce("clicks", b"a", b"b", timestamp=times(NOW_MS, NOW_MS))
    harness.produce("clicks", b"c", timestamp=times(NOW_MS + 3_600_000))  # its producer's clock is ahead
    harness.sync()
    harness.lease("clicks", "mailer")
    assert delay(harness, "mailer").count == 0
    harness.pass_ms(2_000)
    harness.do("ack", "clicks", "mailer", 0, [(0, 1)])
    harness.do("ack", "clicks", "mailer", 0, [(0, 3)])
    harness.do("ack", "clicks", "mailer", 0, [(0, 3)])
    found = delay(harness, "mailer")
    assert (found.count, found.sum_ms) == (3, 4_000)
    counted = dict(zip(found.bounds_ms, found.counts, strict=False))
    assert {bound: count for bound, count in counted.items() if count} == {1: 1, 5_000: 2}
    harness.do("delete_group", "clicks", "mailer")
    assert harness.broker.counts.delays == {}
