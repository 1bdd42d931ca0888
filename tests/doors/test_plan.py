"""Planning an import: marks, digests and batches, without a broker."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.doors.plan import Limits, Mark, Progress, batches, changed, mark_from
from cordwood.doors.recognise import BLIPMQ
from cordwood.doors.record import Record
from cordwood.doors.survey import topic_of
from cordwood.errors import OtherVersion
from tests.doors import writers
from tests.doors.reading import sample, source

GOLDEN = Path(__file__).parents[1] / "formats" / "import-v1-mark.json"


def marks_of(batch_ends: dict[str, tuple[int, str]]) -> dict[str, Mark]:
    return {
        topic: Mark(source="here", topic=topic, topic_id="1", next=after, digest=digest, batch=0, run=0, named=False)
        for topic, (after, digest) in batch_ends.items()
    }


def test_a_mark_and_its_digest_are_for_ever() -> None:
    progress = Progress()
    for _, item in source(BLIPMQ, sample("blipmq.wal")).items():
        assert isinstance(item, Record)
        progress.add("all", item)
    after, digest = progress.at("all")
    mark = Mark(
        source="/logs/blipmq.wal", topic="all", topic_id="00", next=after, digest=digest, batch=4, run=5, named=True
    )
    assert msgspec.json.encode(mark) + b"\n" == GOLDEN.read_bytes()
    assert mark_from(GOLDEN.read_bytes()) == mark


def test_a_mark_of_another_version_is_named() -> None:
    with pytest.raises(OtherVersion, match="format 2"):
        mark_from(GOLDEN.read_bytes().replace(b'"version":1', b'"version":2'))


def test_a_mark_of_another_version_is_named_whatever_else_it_has() -> None:
    with pytest.raises(OtherVersion, match="format 7"):
        mark_from(b'{"version":7,"source":["other","fields"]}')


NO_MARKS = [b"", b"junk", b"\xff", b"{}", b"[1]", b'{"version":1}', b'{"version":"1"}', b"[" * 9999]


@pytest.mark.parametrize("data", NO_MARKS, ids=range(len(NO_MARKS)))
def test_what_is_no_mark_is_none(data: bytes) -> None:
    assert mark_from(data) is None


sent = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.binary(max_size=30)), max_size=40)


@given(messages=sent, cuts=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=6))
def test_however_it_is_cut_and_grows_each_record_comes_once_in_order(messages: list, cuts: list) -> None:
    arrived: dict[str, list[bytes]] = {}
    marks: dict[str, Mark] = {}
    for length in [*sorted(min(length, len(messages)) for length, _ in cuts), len(messages)]:
        for _, size in cuts or [(0, 3)]:
            now = source(BLIPMQ, writers.blipmq(messages[:length]))
            assert changed(now, marks, topic_of) is None
            for batch in batches(now, marks, topic_of, Limits(batch_records=size)):
                assert 0 < batch.records <= size
                for topic, rows in batch.rows.items():
                    arrived.setdefault(topic, []).extend(record.value for record in rows)
                marks |= marks_of(batch.ends)
                if size % 2:
                    break  # cut off behind one batch
    for batch in batches(source(BLIPMQ, writers.blipmq(messages)), marks, topic_of, Limits()):
        for topic, rows in batch.rows.items():
            arrived.setdefault(topic, []).extend(record.value for record in rows)
    for topic in "abc":
        assert arrived.get(topic, []) == [value for name, value in messages if name == topic]


@given(messages=sent.filter(len), at=st.integers(0, 39), value=st.binary(max_size=30))
def test_any_change_of_what_was_imported_is_noticed(messages: list, at: int, value: bytes) -> None:
    (batch,) = batches(source(BLIPMQ, writers.blipmq(messages)), {}, topic_of, Limits())
    marks = marks_of(batch.ends)
    at %= len(messages)
    other = [*messages]
    other[at] = (messages[at][0], value)
    found = changed(source(BLIPMQ, writers.blipmq([*other, ("a", b"more")])), marks, topic_of)
    assert (found is None) == (value == messages[at][1])
    assert changed(source(BLIPMQ, writers.blipmq(messages[:at])), marks, topic_of) is not None


def test_a_batch_is_bounded_in_bytes_and_a_large_record_is_one_alone() -> None:
    messages = [("a", bytes(size)) for size in (100, 100, 100_000, 100, 2_000, 2_000)]
    found = batches(source(BLIPMQ, writers.blipmq(messages)), {}, topic_of, Limits(batch_bytes=3_000))
    assert [[len(record.value) for record in batch.rows["a"]] for batch in found] == [
        [100, 100],
        [100_000],
        [100, 2_000],
        [2_000],
    ]
