"""bincode 2, read strictly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.doors.bincode import NotBincode, Reader
from cordwood.doors.recognise import DANUBE
from tests.doors import writers
from tests.doors.reading import read


@given(st.integers(0, 2**64 - 1))
def test_an_integer_reads_as_it_was_written(number: int) -> None:
    reader = Reader(memoryview(writers.varint(number)))
    assert (reader.integer(), reader.left) == (number, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xfb\xfa\x00",  # 250 in three bytes
        b"\xfc\xff\xff\x00\x00",  # 65535 in five
        b"\xfd\xff\xff\xff\xff\x00\x00\x00\x00",
        b"\xfe" + bytes(16),  # u128
        b"\xff",
        b"\xfb\x00",
    ],
)
def test_another_form_of_an_integer_is_refused(data: bytes) -> None:
    with pytest.raises(NotBincode):
        Reader(memoryview(data)).integer()


def test_an_integer_has_its_bits() -> None:
    with pytest.raises(NotBincode):
        Reader(memoryview(writers.varint(1 << 32))).integer(32)


@pytest.mark.parametrize("data", [b"\x02\xff\xfe", b"\x05abc", b"\xfd" + b"\xff" * 8])
def test_what_is_no_text_is_refused(data: bytes) -> None:
    with pytest.raises(NotBincode):
        Reader(memoryview(data)).text()


def test_an_option_is_0_or_1() -> None:
    with pytest.raises(NotBincode):
        Reader(memoryview(b"\x02")).is_there()


def test_a_count_that_cannot_be_is_refused() -> None:
    with pytest.raises(NotBincode):
        Reader(memoryview(b"\xfd" + b"\xff" * 8 + b"\0" * 100)).pairs()


@pytest.mark.parametrize("more", [b"\0", b"\0\0", b"\0\0\0\0", b"\1\1\1", b"\2\0\0"])
def test_a_payload_with_bytes_left_over_is_no_message(more: bytes) -> None:
    payload = writers.danube_payload(b"x") + more
    found = read(DANUBE, writers.frame(0, payload) + writers.danube([b"next"], first=1))
    assert found.values == [b"next"]
    assert len(found.corrupt) == 1


@given(
    value=st.binary(max_size=300),
    topic=st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    attributes=st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]), max_size=20)] * 2), max_size=3),
    subscription=st.none() | st.just("mailer"),
    time_ms=st.integers(0, 2**64 - 1),
    layout=st.sampled_from([2025, 2026]),
)
def test_every_message_reads_as_it_was_written(
    value: bytes, topic: str, attributes: list, subscription: str | None, time_ms: int, layout: int
) -> None:
    payload = writers.danube_payload(
        value,
        70_000,
        topic=topic,
        attributes=attributes,
        subscription=subscription,
        time_ms=time_ms,
        layout=layout,
    )
    (record,) = read(DANUBE, writers.frame(5, payload)).records
    assert (record.number, record.value, record.topic, record.time_ms) == (5, value, topic, time_ms)
    assert record.format == f"danube-{layout}"
    pairs = [(name, one.encode()) for name, one in attributes]
    assert list(record.headers)[len(record.headers) - len(pairs) :] == pairs
    assert dict(record.headers).get("danube-subscription") == (b"mailer" if subscription else None) or pairs
