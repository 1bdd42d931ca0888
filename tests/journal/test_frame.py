"""Frames as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.journal import frame
from cordwood.journal.frame import Kind, Lost


def test_a_header_reads_as_it_was_written() -> None:
    data, checksum = frame.encode_header(Kind.DATA, 7, 5, 11, 13, 17, 19)
    assert len(data) == frame.HEADER_BYTES
    assert frame.decode_header(data) == (Kind.DATA, 7, 5, 11, 13, 17, 19, checksum)


def test_no_flipped_bit_of_a_header_goes_unseen() -> None:
    data, _ = frame.encode_header(Kind.DATA, 7, 5, 11, 13, 17, 19)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert frame.decode_header(flipped) is None, f"bit {bit}"


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=20))
def test_entries_come_out_as_they_went_in(entries: list[bytes]) -> None:
    payload = frame.pack(entries)
    data = b"".join(payload.buffers)
    assert len(data) == payload.length
    assert [bytes(entry) for entry in frame.unpack(memoryview(data))] == entries


def test_a_large_entry_is_not_copied() -> None:
    large = bytes(100_000)
    assert any(buffer is large for buffer in frame.pack([large]).buffers)


@given(st.binary(max_size=300))
def test_any_payload_is_a_list_of_entries_or_one_named_error(data: bytes) -> None:
    try:
        entries = frame.unpack(memoryview(data))
    except ValueError:
        return
    assert sum(map(len, entries)) <= len(data)


def test_a_frame_without_entries_is_refused() -> None:
    with pytest.raises(ValueError, match="entries"):
        frame.pack([])


def test_a_lost_frame_says_where_the_log_goes_on() -> None:
    lost = Lost(9, 42, "why")
    assert frame.read_lost(memoryview(b"".join(frame.lost_payload(lost).buffers))) == lost


@given(st.binary(max_size=100))
def test_any_header_is_accepted_or_none(data: bytes) -> None:
    assert frame.decode_header(data) is None
