"""Torn tails and damaged bytes of every format, at every place."""

import random

import pytest

from cordwood.doors import driftq, frames
from cordwood.doors.frames import WINDOW_BYTES
from cordwood.doors.recognise import AIRUNNER, BLIPMQ, DANUBE, DRIFTQ, Door
from tests.doors import writers
from tests.doors.reading import Read, read, sample

VALUES = [b"first", b"", b"third, somewhat longer", bytes(range(40)), b"last one"]
BINARY: dict[str, tuple[Door, bytes, int]] = {  # door, bytes, where the records begin
    "danube-2025": (DANUBE, writers.danube(VALUES), 0),
    "danube-2026": (DANUBE, writers.danube(VALUES, layout=2026, key="user:1", schema=(300, 70_000)), 0),
    "blipmq": (BLIPMQ, writers.blipmq([("demo", value) for value in VALUES]), 32),
    "airunner-with": (AIRUNNER, writers.airunner(VALUES), 16),
    "airunner-without": (AIRUNNER, writers.airunner(VALUES, with_itself=False), 16),
}
LINES = writers.driftq(writers.driftq_message("tasks", n, value, key=b"k") for n, value in enumerate(VALUES))
binary = pytest.mark.parametrize("name", BINARY)


def ends(door: Door, data: bytes) -> list[int]:
    return [record.end for record in read(door, data).records]


@binary
def test_a_cut_tail_is_torn_and_all_before_it_is_read(name: str) -> None:
    door, data, start = BINARY[name]
    whole = ends(door, data)
    for cut in range(1, len(data)):
        found = read(door, data[:cut])
        assert found.values == VALUES[: sum(end <= cut for end in whole)], cut
        if cut in (start, *whole):
            assert not found.torn, cut
        else:
            assert [(place.position, place.end) for place in found.torn] == [
                (max([0, start if cut >= start else 0, *(end for end in whole if end <= cut)]), cut)
            ], cut
        assert not found.corrupt, cut


def test_a_cut_line_is_torn_and_all_before_it_is_read() -> None:
    whole = ends(DRIFTQ, LINES)
    for cut in range(1, len(LINES)):
        found = read(DRIFTQ, LINES[:cut])
        # Without its line break the last line is still all there.
        assert found.values == VALUES[: sum(end - 1 <= cut for end in whole)], cut
        assert bool(found.torn) == (cut not in whole and cut + 1 not in whole), cut
        assert not found.corrupt


@binary
def test_a_flipped_bit_is_always_told_and_never_read_as_something_else(name: str) -> None:
    door, data, start = BINARY[name]
    whole = ends(door, data)
    for byte in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[byte] ^= 1 << bit
            found = read(door, bytes(damaged))
            told = found.corrupt + found.torn + found.gaps
            if not told:  # a length that now counts itself the other way; the record is whole, and no other way fits
                assert (door, bit, found.values) == (AIRUNNER, 2, VALUES), (byte, bit)
            struck = sum(end <= byte for end in whole)
            kept = VALUES[:struck] + VALUES[struck + 1 :] if byte >= start else VALUES
            assert found.values in (kept, VALUES), (byte, bit)
            assert not found.torn, (byte, bit)  # all bytes are there, also where a length claims more
            if byte < start:
                assert [place.position for place in found.corrupt] == [byte]


@binary
def test_a_flipped_bit_in_a_value_names_the_record(name: str) -> None:
    door, data, _ = BINARY[name]
    at = data.index(b"somewhat")
    damaged = bytearray(data)
    damaged[at] ^= 4
    found = read(door, bytes(damaged))
    (place,) = found.corrupt
    whole = ends(door, data)
    assert (place.file, place.position, place.end) == ("file-0", whole[1], whole[2])
    assert "checksum" in place.reason
    assert found.values == [*VALUES[:2], *VALUES[3:]]


def test_a_flipped_bit_in_a_line_is_told_or_only_changes_what_no_checksum_covers() -> None:
    for byte in range(len(LINES)):
        for bit in range(8):
            damaged = bytearray(LINES)
            damaged[byte] ^= 1 << bit
            found = read(DRIFTQ, bytes(damaged))
            assert len(found.records) == len(VALUES) or found.corrupt or found.torn, (byte, bit)
            assert len(found.records) >= len(VALUES) - 2  # a lost line break takes two with it


def test_the_number_of_the_first_frame_is_checked_by_the_second() -> None:
    for door, data, start in (BINARY["danube-2025"], BINARY["blipmq"]):
        for byte in range(8):
            damaged = bytearray(data)
            damaged[start + byte] ^= 0x10
            found = read(door, bytes(damaged))
            assert len(found.corrupt) + len(found.gaps) == 1
            assert found.values == VALUES


@binary
def test_garbage_in_the_middle_is_stepped_over(name: str) -> None:
    door, data, _ = BINARY[name]
    cut = ends(door, data)[1]
    garbage = random.Random(1).randbytes(WINDOW_BYTES + 12_345)
    found = read(door, data[:cut] + garbage + data[cut:])
    assert found.values == VALUES
    assert [(place.position, place.end) for place in found.corrupt] == [(cut, cut + len(garbage))]


@binary
def test_zeros_at_the_end_are_torn_and_zeros_in_the_middle_corrupt(name: str) -> None:
    door, data, _ = BINARY[name]
    cut = ends(door, data)[2]
    for count in (24, 32, 4096):
        found = read(door, data + bytes(count))
        assert (found.values, len(found.torn), found.corrupt) == (VALUES, 1, [])
        found = read(door, data[:cut] + bytes(count) + data[cut:])
        assert (found.values, found.torn, len(found.corrupt)) == (VALUES, [], 1)


def test_a_message_that_holds_a_log_is_not_taken_for_one() -> None:
    inner = writers.danube([b"not mine"] * 3, first=70)
    data = writers.danube([b"a", b"b", inner, b"d", b"e"], first=10)
    at = data.index(inner)
    damaged = bytearray(data)
    damaged[at - 3] ^= 1  # before the inner log, in the payload of the outer record
    found = read(DANUBE, bytes(damaged))
    assert found.values == [b"a", b"b", b"d", b"e"]
    assert len(found.corrupt) == 1
    for first in range(11, 16):  # and not either where its numbers would fit
        inner = writers.danube([b"not mine"] * 3, first=first)
        damaged = bytearray(writers.danube([b"a", b"b", inner, b"d", b"e"], first=10))
        damaged[damaged.index(inner) - 3] ^= 1
        assert read(DANUBE, bytes(damaged)).values == [b"a", b"b", b"d", b"e"]
        alone = bytearray(writers.danube([b"a", inner], first=10))
        alone[alone.index(inner) - 3] ^= 1
        assert read(DANUBE, bytes(alone)).values == [b"a"]


def test_a_log_in_a_message_whose_length_is_damaged_too_is_told_by_its_numbers() -> None:
    inner = writers.danube([b"not mine"] * 3, first=70)
    damaged = bytearray(writers.danube([b"a", b"b", inner, b"d", b"e"], first=10))
    outer = read(DANUBE, bytes(damaged)).records[2]
    damaged[outer.position + 8] ^= 1
    damaged[damaged.index(inner) - 3] ^= 1
    found = read(DANUBE, bytes(damaged))
    assert found.values == [b"a", b"b", b"d", b"e"]
    assert [(place.position, place.end) for place in found.corrupt] == [(outer.position, outer.end)]


@pytest.mark.parametrize("skipped", [1, 2, 4])  # the last is to the end of the file
def test_a_damaged_length_that_ends_at_a_later_record_hides_none_between(skipped: int) -> None:
    for door, data, head in (
        (DANUBE, writers.danube([b"value %d" % n for n in range(6)]), 8),
        (BLIPMQ, writers.blipmq([("t", b"value %d" % n) for n in range(6)]), 8),
        (AIRUNNER, writers.airunner([b"value %d" % n for n in range(6)]), 0),
    ):
        records = read(door, data).records
        damaged = bytearray(data)
        at, size = records[1].position, records[1].end - records[1].position
        length = int.from_bytes(data[at + head : at + head + 4], "little") + skipped * size
        damaged[at + head : at + head + 4] = length.to_bytes(4, "little")
        found = read(door, bytes(damaged))
        assert found.values == [b"value %d" % n for n in (0, 2, 3, 4, 5)]
        assert [(place.position, place.end) for place in found.corrupt] == [(at, at + size)]


def test_what_looks_torn_before_another_file_is_corrupt() -> None:
    first, second = writers.danube(VALUES[:2]), writers.danube(VALUES[2:], first=2)
    found = read(DANUBE, first[:-3], second)
    assert found.values == [VALUES[0], *VALUES[2:]]
    assert [place.file for place in found.corrupt] == ["file-0"]
    assert not found.torn
    found = read(DANUBE, first, second[:-3])
    assert [place.file for place in found.torn] == ["file-1"]
    assert not found.corrupt
    found = read(DANUBE, first[:-3], b"")
    assert ([place.file for place in found.torn], found.corrupt) == (["file-0"], [])


def test_a_missing_file_is_a_gap() -> None:
    found = read(DANUBE, writers.danube(VALUES[:2]), writers.danube(VALUES[4:], first=4))
    assert [place.file for place in found.gaps] == ["file-1"]
    assert not found.corrupt


def test_both_ways_to_count_a_length_may_be_in_one_file() -> None:
    data = writers.airunner([b"one", b"two"])
    data += writers.airunner_record(3, b"three", with_itself=False, time_ms=5)
    data += writers.airunner_record(4, b"four", with_itself=True, time_ms=5)
    found = read(AIRUNNER, data)
    assert (found.values, found.corrupt) == ([b"one", b"two", b"three", b"four"], [])


def test_two_objects_in_one_line_are_two_records() -> None:
    one, two = (writers.driftq([writers.driftq_message("t", n, b"v%d" % n)]) for n in range(2))
    found = read(DRIFTQ, one[:-1] + two)
    assert (found.values, found.corrupt) == ([b"v0", b"v1"], [])


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":1,"topic":"t","value":"not base64!"}',
        b'{"type":1,"topic":"t","value":"Zm9v*"}',
        b'{"type":1,"topic":"t","value":7}',
        b'{"type":1,"topic":7}',
        b'{"type":6,"topic":"t"}',
        b'{"topic":"t"}',
        b'{"type":1,"topic":"t","offset":-1}',
        b'{"type":1,"topic":"t","offset":1.5}',
        b'{"type":true,"topic":"t"}',
        b"[1]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"type":1} and more',
    ],
)
def test_a_line_that_is_none_of_driftqs_is_corrupt_and_the_rest_is_read(line: bytes) -> None:
    found = read(DRIFTQ, LINES + line + b"\n" + LINES)
    assert found.values == VALUES * 2
    assert [place.position for place in found.corrupt] == [len(LINES)]


@pytest.mark.parametrize("seed", range(30))
def test_no_bytes_at_all_stop_a_reader(seed: int) -> None:
    dice = random.Random(seed)
    for door in (DRIFTQ, DANUBE, BLIPMQ, AIRUNNER):
        data = bytearray(dice.choice([dice.randbytes(3000), sample("blipmq.wal"), sample("driftq.wal")]))
        for _ in range(dice.randrange(20)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        found: Read = read(door, bytes(data))
        assert all(0 <= place.position <= place.end <= len(data) for place in found.corrupt + found.torn)


@binary
def test_what_was_not_looked_through_is_damaged_and_never_torn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    door, data, start = BINARY[name]
    monkeypatch.setattr(frames, "MOST_CHECKED_BYTES", 20)
    damaged = bytearray(data)
    length_at = start if door is AIRUNNER else start + 8
    damaged[length_at : length_at + 4] = b"\xff\xff\xff\xff"  # 4 GiB: it runs over the end
    found = read(door, bytes(damaged))
    assert (found.values, found.torn) == ([], [])
    assert [(place.position, place.end) for place in found.corrupt] == [(start, len(data))]


@binary
@pytest.mark.parametrize("length", [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_length_that_makes_no_sense_costs_one_record(name: str, length: int) -> None:
    door, data, _ = BINARY[name]
    at = ends(door, data)[1]
    damaged = bytearray(data)
    length_at = at if door is AIRUNNER else at + 8
    damaged[length_at : length_at + 4] = length.to_bytes(4, "little")
    found = read(door, bytes(damaged))
    assert found.values == [*VALUES[:2], *VALUES[3:]]
    assert [place.position for place in found.corrupt] == [at]


@pytest.mark.parametrize("ended", [True, False])
def test_a_line_without_an_end_is_not_held_in_memory(ended: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driftq, "MOST_LINE_BYTES", 200)
    found = read(DRIFTQ, LINES + b"{" * 201 + (b"\n" + LINES if ended else b""))
    assert found.values == VALUES * (2 if ended else 1)
    assert [place.position for place in found.corrupt] == [len(LINES)]
    assert "201 bytes" in found.corrupt[0].reason
    assert not found.torn
