"""Logs of other systems: every byte is a record, aside, or told as torn or corrupt."""

import struct
import zlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordwood.doors import danube, plan
from cordwood.doors.bincode import NotBincode, Reader
from cordwood.doors.preamble import check as check_preamble
from cordwood.doors.recognise import recognise
from cordwood.doors.record import Place, Record
from cordwood.doors.survey import survey, topic_of
from tests.doors import writers
from tests.doors.reading import DOORS, sample, source
from tests.fuzz.mutation import mutated
from tests.fuzz.profile import fuzzed

SAMPLES: dict[str, tuple[bytes, ...]] = {
    "driftq": (
        sample("driftq.wal"),
        writers.driftq([writers.driftq_message("t", n, b"v%d" % n, key=b"k") for n in range(3)]),
    ),
    "danube": (
        writers.danube([b"a", b"b" * 40, b""]),
        writers.danube([b"x"] * 4, layout=2026, key="k", schema=(1, 2)),
    ),
    "blipmq": (sample("blipmq.wal"),),
    "airunner": (sample("airunner-length-with-itself.wal"), sample("airunner-length-without-itself.wal")),
}


def check(door: str, data: bytes) -> None:
    """Read the file, survey it, and do with its records what an import does before it sends them."""
    from_here = source(DOORS[door], data)
    items = [item for _, item in from_here.items()]
    end = 0
    for item in items:
        assert 0 <= item.position <= item.end <= len(data)
        if isinstance(item, Record):
            assert item.position >= end or door == "driftq"
            end = item.end
            plan.identity(item)
            found = plan.headers("here", item)
            assert all(isinstance(value, bytes) and name.encode() for name, value in found)
            assert plan.time_of(item) is None or plan.time_of(item) >= 0  # type: ignore[operator]
            assert plan.partition_of(item, 3) in (None, 0, 1, 2)
            topic_of(item)
        elif isinstance(item, Place):
            str(item)
    survey(from_here)
    list(plan.batches(from_here, {}, topic_of, plan.Limits(2, 100)))
    recognise(memoryview(data))


@pytest.mark.parametrize("door", sorted(SAMPLES))
def test_a_changed_log_is_told_for_what_it_is(door: str) -> None:
    @fuzzed(50)
    @given(mutated(*SAMPLES[door]))
    def tried(data: bytes) -> None:
        check(door, data)
        for other in DOORS:
            check(other, data)

    tried()


@fuzzed(50)
@given(st.lists(st.tuples(st.integers(0, (1 << 64) - 1), st.binary(max_size=60)), max_size=4), st.booleans())
def test_frames_with_right_checksums_may_hold_anything(frames: list[tuple[int, bytes]], blip: bool) -> None:
    data = b"".join(struct.pack("<QII", n, len(body), zlib.crc32(body)) + body for n, body in frames)
    check("danube", data)
    check("blipmq", writers.BLIP_HEADER + data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["AA==", "\ud800", "", "t"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@fuzzed(80)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"type": st.integers(0, 6) | JSON},
            optional={
                name: JSON
                for name in ("topic", "partition", "offset", "key", "value", "retry_count", "\ud800", "group")
            },
        ),
        max_size=4,
    )
)
@example([{"type": 1, "topic": "\ud800", "value": "AA=="}])
def test_lines_of_any_json_are_read_or_told(entries: list[dict[str, Any]]) -> None:
    check("driftq", writers.driftq(entries))


@fuzzed(1)
@given(st.just(b'{"type":1,"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n"))
@example(b'{"type":1,"offset":' + b"9" * 5000 + b"}\n")
@example(b'{"type":5,"x":' + b"[" * 900 + b"]" * 900 + b"}\n")
@example(b'{"type":2,"x":1e999,"y":NaN}\n')
@example(b'{"type":1,"value":"\xc3\xa9"}\n')
def test_hostile_lines_are_read_or_told(line: bytes) -> None:
    check("driftq", line)


@fuzzed(80)
@given(st.binary(max_size=40))
def test_bincode_reads_or_refuses(data: bytes) -> None:
    for ask in (Reader.integer, Reader.data, Reader.text, Reader.is_there, Reader.pairs):
        reader = Reader(memoryview(data))
        try:
            ask(reader)
        except NotBincode:
            continue
        assert 0 <= reader.left < len(data)


@fuzzed(40)
@given(mutated(writers.BLIP_HEADER))
def test_a_preamble_is_right_or_told(data: bytes) -> None:
    found = list(check_preamble(memoryview(data), "f", writers.BLIP_HEADER))
    assert bool(found) == (data[: len(writers.BLIP_HEADER)] != writers.BLIP_HEADER)


def test_a_log_with_many_damaged_lengths_is_read_in_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    # Found: a megabyte was looked through behind each of them, however near the next whole frame was.
    looked = 0
    plain = danube.Frames.candidates

    def counted(self: danube.Frames, data: memoryview, start: int, stop: int) -> Any:
        nonlocal looked
        looked += stop - start
        return plain(self, data, start, stop)

    monkeypatch.setattr(danube.Frames, "candidates", counted)
    frames = [bytearray(writers.frame(n, writers.danube_payload(b"v" * 200, n))) for n in range(100)]
    for frame in frames[1::2]:
        frame[9] ^= 1  # the length
    data = b"".join(map(bytes, frames)) + writers.danube([b"y" * 500_000] * 4, first=100)
    found = [item for _, item in source(DOORS["danube"], data).items()]
    assert sum(isinstance(item, Record) for item in found) == 54
    assert looked < len(data)
