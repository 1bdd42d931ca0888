"""What `cordwood run` decides: bytes into lines, lines into events, events into batches. No process, no time."""

import json
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.edge.event import Draft
from cordwood.edge.run_batches import Batches
from cordwood.edge.run_lines import MOST_BYTES, Line, Lines
from cordwood.edge.run_recorder import Recorder
from cordwood.edge.run_transcript import Ended, Started, Transcript
from cordwood.errors import Full
from cordwood.sim.clock import SimClock

output = st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"bcd", b"\x00\xff", b"0123456789"]), max_size=60).map(
    b"".join
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def lines_of(chunks: list[bytes], most_bytes: int = MOST_BYTES) -> list[Line]:
    lines = Lines(most_bytes)
    return [line for chunk in chunks for line in lines.feed(chunk)] + lines.end()


def joined(lines: list[Line]) -> bytes:
    return b"".join(line.value + (b"\n" if line.ended else b"") for line in lines)


# Lines


@given(output, st.lists(st.integers(0, 200), max_size=20), st.integers(1, 8))
def test_any_chunks_give_the_same_lines_and_these_are_the_output_again(
    data: bytes, places: list[int], most_bytes: int
) -> None:
    whole = lines_of([data], most_bytes)
    assert lines_of(cut(data, places), most_bytes) == whole
    assert joined(whole) == data
    assert all(len(line.value) <= most_bytes for line in whole)


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=20))
def test_short_lines_are_what_split_gives(data: bytes, places: list[int]) -> None:
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert [line.value for line in lines_of(cut(data, places))] == expected


def test_a_carriage_return_belongs_to_the_line() -> None:
    assert lines_of([b"a\r", b"\nb\rc\n"]) == [Line(b"a\r"), Line(b"b\rc")]


def test_a_last_line_without_a_newline_is_a_line_and_an_empty_rest_is_none() -> None:
    assert lines_of([b"a\nb"]) == [Line(b"a"), Line(b"b", ended=False)]
    assert lines_of([b"a\n"]) == [Line(b"a")]
    assert lines_of([]) == []


@pytest.mark.parametrize(
    ("length", "parts"), [(4, [(4, 0)]), (5, [(4, 1), (1, 2)]), (8, [(4, 1), (4, 2)]), (9, [(4, 1), (4, 2), (1, 3)])]
)
def test_a_line_that_is_too_long_is_cut_into_numbered_parts(length: int, parts: list[tuple[int, int]]) -> None:
    found = lines_of([b"x" * length + b"\n", b"next\n"], 4)
    assert [(len(line.value), line.part) for line in found] == [*parts, (4, 0)]
    assert [line.ended for line in found] == [*[False] * (len(parts) - 1), True, True]


def test_a_stream_without_newlines_is_not_held_in_memory() -> None:
    lines = Lines()
    held = 0
    for _ in range(100):
        held += 1 << 16
        held -= sum(len(line.value) for line in lines.feed(b"x" * (1 << 16)))
        assert held <= MOST_BYTES


# Events


def test_events_are_counted_over_both_streams_and_start_and_exit_are_around_them() -> None:
    transcript = Transcript()
    events = [transcript.started(Started(["make", "a\udcff"], 7, "/tmp", "here"), 1_000)]
    events += transcript.wrote("stdout", b"one\ntw", 1_001)
    events += transcript.wrote("stderr", b"wrong\nno end", 1_002)
    events += transcript.wrote("stdout", b"o\n", 1_003)
    events += transcript.ended(Ended(["make"], 137, "SIGKILL", 5), 1_004)
    headers = [dict(event.headers or ()) for event in events]
    assert [(one["stream"], one["seq"]) for one in headers] == [
        (b"start", b"0"),
        (b"stdout", b"1"),
        (b"stderr", b"2"),
        (b"stdout", b"3"),
        (b"stderr", b"4"),
        (b"exit", b"5"),
    ]
    assert [event.value for event in events[1:5]] == [b"one", b"wrong", b"two", b"no end"]
    assert [one.get("newline") for one in headers] == [None, None, None, None, b"no", None]
    assert [event.time_us for event in events] == [1_000_000, 1_001_000, 1_002_000, 1_003_000, 1_004_000, 1_004_000]
    assert all(event.key is None for event in events), "the execution is their key"
    assert json.loads(events[0].value or b"") == {
        "command": ["make", "a\\xff"],
        "pid": 7,
        "directory": "/tmp",
        "host": "here",
    }
    assert json.loads(events[-1].value or b"") == {
        "command": ["make"],
        "code": 137,
        "signal": "SIGKILL",
        "duration_ms": 5,
    }


def test_parts_of_a_long_line_are_marked() -> None:
    transcript = Transcript()
    events = transcript.wrote("stdout", b"x" * (2 * MOST_BYTES + 1) + b"\n", 0)
    marks = [(dict(event.headers or ()).get("cut"), dict(event.headers or ()).get("newline")) for event in events]
    assert marks == [(b"1", b"no"), (b"2", b"no"), (b"3", None)]


# Batches


def event(size: int) -> Draft:
    return Draft(0, None, b"x" * size, None)


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 900)), max_size=200))
def test_batches_have_all_events_in_order_and_keep_their_limits(steps: list[tuple[int, int]]) -> None:
    batches = Batches(most_events=7, most_bytes=4000, most_ms=2_000)
    now, taken, given_at = 0, [], {}
    for number, (size, wait) in enumerate(steps):
        now += wait
        taken += [batches.due(now)]
        one = Draft(number, None, b"x" * size, None)
        given_at[number] = now
        taken += batches.add(one, now)
        waiting = number + 1 - sum(map(len, taken))
        assert waiting < 7
        assert (batches.due_at_ms is None) == (waiting == 0)
        if batches.due_at_ms is not None:
            assert batches.due_at_ms == given_at[number + 1 - waiting] + 2_000
    taken += [batches.take()]
    assert [one.time_us for batch in taken for one in batch] == list(range(len(steps)))
    assert all(len(batch) <= 7 and sum(one.size for one in batch) <= 4000 for batch in taken)


def test_a_batch_is_due_two_seconds_after_its_first_event() -> None:
    batches = Batches()
    assert batches.add(event(1), 100) == []
    assert batches.add(event(1), 2_000) == []
    assert batches.due(2_099) == []
    assert len(batches.due(2_100)) == 2
    assert batches.due(9_999) == []


def test_fifty_events_are_a_batch_and_so_are_256_kib() -> None:
    batches = Batches()
    assert [len(batch) for _ in range(120) for batch in batches.add(event(1), 0)] == [50, 50]
    batches = Batches()
    assert batches.add(event(200 << 10), 0) == []
    (full,) = batches.add(event(200 << 10), 0)
    assert len(full) == 1


# Recording


def test_what_the_outbox_does_not_take_is_told_once_and_counted_and_the_next_is_tried() -> None:
    said: list[str] = []
    kept: list[Draft] = []
    full = [True]

    def append(drafts: object) -> int:
        if full[0]:
            raise Full("no room")
        kept.extend(drafts)  # type: ignore[call-overload]
        return 0

    recorder = Recorder(append, SimClock(), said.append)
    recorder.put(("stdout", b"x\n" * 120), 0)
    while recorder.lost < 100:
        threading.Event().wait(0.001)
    full[0] = False
    recorder.put(Ended(["x"], 0, None, 1), 0)
    assert recorder.finish(lambda: False)
    assert recorder.lost == 100
    assert len(kept) == 21
    assert len(said) == 1
    assert "no room" in said[0]


def test_batches_that_are_full_when_the_disk_is_done_go_in_one_append_of_256_kib_at_most() -> None:
    gate = threading.Event()
    appends: list[list[Draft]] = []

    def append(drafts: Sequence[Draft]) -> int:
        appends.append(list(drafts))
        gate.wait(30)
        return 0

    recorder = Recorder(append, SimClock(), print)
    recorder.put(("stdout", b"x\n" * 50), 0)
    while not appends:
        threading.Event().wait(0.001)
    for _ in range(200):  # while it is being appended
        recorder.put(("stdout", b"x\n" * 75), 0)
    gate.set()
    recorder.put(Ended(["x"], 0, None, 1), 0)
    assert recorder.finish(lambda: False)
    assert [len(drafts) for drafts in appends[:1]] == [50]
    assert [len(drafts) % 50 for drafts in appends[:-1]] == [0] * (len(appends) - 1), "whole batches"
    sizes = [sum(draft.size for draft in drafts) for drafts in appends]
    assert max(sizes) <= 256 << 10
    assert len(appends) < 10, "and not 301"
    seqs = [dict(draft.headers or ())["seq"] for drafts in appends for draft in drafts]
    assert seqs == [b"%d" % number for number in range(50 + 200 * 75 + 1)]


def test_a_disk_that_hangs_holds_the_command_up_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.edge.run_recorder.PATIENCE_S", 0.05)
    gate = threading.Event()
    said: list[str] = []

    def append(drafts: object) -> int:
        gate.wait(30)
        return 0

    recorder = Recorder(append, SimClock(), said.append, most_bytes=10_000)
    for _ in range(50):
        recorder.put(("stdout", b"x\n" * 1000), 0)
    assert len(said) == 1
    assert not recorder.finish(lambda: True)
    gate.set()
    recorder.put(Ended(["x"], 0, None, 1), 0)
    assert recorder.finish(lambda: False)
