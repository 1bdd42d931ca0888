"""The messages of a load: the same, whether they are in memory, on the disk, or partly here and there."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood import record
from cordwood.broker.cache import Cache
from cordwood.broker.index import Index
from cordwood.broker.loading import AHEAD_BYTES, CLOSE_BY, Load
from cordwood.record import Batch, Resting
from cordwood.tier.ship import Freight
from tests.broker.harness import records

Frame = list[tuple[int, int]]  # of each payload: its messages, and how many of their neighbours come before them


class Journal:
    """Frames of which some payloads are this partition's; says what was read."""

    def __init__(self, frames: list[Frame], kept: set[int]):
        self.index = Index()
        self.cache = Cache(0)
        self.frames: dict[int, list[memoryview]] = {}
        self.values: list[str] = []
        self.asked: list[tuple[int, int]] = []
        for lsn, frame in enumerate(frames):
            entries = [memoryview(b"facts")]
            for number, (count, before) in enumerate(frame):
                batch = _batch([f"{lsn}.{number}.{row}" for row in range(before + count)])
                entries += [memoryview(part) for part in record.encode(batch)]
                self.index.append(len(self.values), count, lsn, number, before, 10, 0)
                self.values += [f"{lsn}.{number}.{row}" for row in range(before, before + count)]
                if lsn in kept:
                    head, body = record.encode(batch)
                    self.cache.keep(lsn, number, Resting(bytes(head), body), 10)
            self.frames[lsn] = entries

    def read(self, lsn: int, most_bytes: int) -> Iterator[tuple[int, list[memoryview]]]:
        self.asked.append((lsn, most_bytes))
        scratch = bytearray(1 << 16)  # used again for each frame, as the journal does
        size = 0
        for number in sorted(one for one in self.frames if one >= lsn):
            views = []
            at = 0
            for entry in self.frames[number]:
                scratch[at : at + len(entry)] = entry
                views.append(memoryview(scratch)[at : at + len(entry)])
                at += len(entry)
            yield number, views
            size += at
            if size >= most_bytes:
                return

    def load(self, first: int, end: int) -> list[str]:
        load = Load(Freight("jobs", "aa", 0, first, end, 1), self.index.view(), self.cache)
        return [str(value) for rows in load.rows(self.read) for value in _values(rows.batch)]


FRAMES = st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), max_size=3), max_size=30)


@given(FRAMES, st.randoms(use_true_random=False), st.booleans())
def test_a_load_is_the_messages_from_first_to_end(frames: list[Frame], random: Random, grows: bool) -> None:
    journal = Journal(frames, {lsn for lsn in range(len(frames)) if random.random() < 0.5})
    end = random.randint(0, len(journal.values))
    first = random.randint(0, end)
    if grows:  # what comes later changes nothing
        journal.index.append(len(journal.values), 1, 99, 0, 0, 1, 0)
    assert journal.load(first, end) == journal.values[first:end]


@pytest.mark.parametrize(("gap", "asked"), [(1, [(0, AHEAD_BYTES)]), (CLOSE_BY + 1, [(0, 1), (CLOSE_BY + 1, 1)])])
def test_frames_close_by_are_read_at_once_and_others_one_by_one(gap: int, asked: list[tuple[int, int]]) -> None:
    frames: list[Frame] = [[(1, 0)], *([[]] * (gap - 1)), [(1, 0)]]
    journal = Journal(frames, set())
    assert journal.load(0, 2) == journal.values
    assert journal.asked == asked


def test_what_is_in_memory_is_not_read() -> None:
    journal = Journal([[(2, 1)], [(3, 0)]], {0, 1})
    assert journal.load(0, 5) == journal.values
    assert not journal.asked


def _batch(values: list[str]) -> Batch:
    return records(*(value.encode() for value in values)).batch


def _values(batch: Batch) -> list[str]:
    return [value.decode() for value in batch.column("value").to_pylist()]
