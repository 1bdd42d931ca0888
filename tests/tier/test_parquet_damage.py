"""An object that is not as it was written is told from one that is, whichever byte it is."""

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pyarrow_parquet

from cordwood.errors import Damaged
from cordwood.machine.objects.store import ObjectMissing
from cordwood.tier import contents, guard, parquet, reading, verify
from cordwood.tier.descriptor import Descriptor
from cordwood.tier.rows import Rows
from tests.tier.shelf import Shelf, batch_of, describe, message, put, read_all

MESSAGES = [
    message(timestamp=at, key=b"k%d" % (at % 2), value=b"value %d" % at, headers=[("h", b"x")], deliver_at=at or None)
    for at in range(12)
]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 5)


@pytest.fixture
def store() -> Shelf:
    return Shelf()


@pytest.fixture
def descriptor(store: Shelf) -> Descriptor:
    return put(store, [Rows.dense(0, batch_of(MESSAGES))])


def flipped(data: bytes, at: int, mask: int = 1) -> bytes:
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


def test_a_flipped_byte_anywhere_is_found_by_who_reads_it(store: Shelf, descriptor: Descriptor) -> None:
    data = bytes(store.get(descriptor.name))
    for at in range(4, len(data)):  # the four before no reader looks at
        store.change(descriptor.name, flipped(data, at, 1 << at % 8))
        with pytest.raises(Damaged, match="partition=0/0"):
            read_all(store, descriptor)


def test_every_cut_object_is_damaged(store: Shelf, descriptor: Descriptor) -> None:
    data = bytes(store.get(descriptor.name))
    for length in range(len(data)):
        store.change(descriptor.name, data[:length])
        with pytest.raises(Damaged):
            read_all(store, descriptor)
        assert verify.verify(store, descriptor) is not None


def test_an_object_cut_after_it_was_listed_is_damaged(store: Shelf, descriptor: Descriptor) -> None:
    data = bytes(store.get(descriptor.name))
    known = contents.fetch(store, descriptor)
    store.change(descriptor.name, data[: known.groups[1].position + 3])
    with pytest.raises(Damaged, match="it ends there") as found:
        contents.fetch(store, descriptor, len(data))
    assert found.value.damages[0].position == known.groups[1].position + 3
    with pytest.raises(Damaged, match="it ends there"):
        list(reading.read(store, descriptor, known, 0, 12))
    assert len(list(reading.read(store, descriptor, known, 0, 5))) == 1, "what is there is read"


def test_damage_says_which_object_which_byte_and_which_offsets(store: Shelf, descriptor: Descriptor) -> None:
    known = contents.fetch(store, descriptor)
    group = known.groups[1]
    store.change(descriptor.name, flipped(bytes(store.get(descriptor.name)), group.position + 20))
    found = reading.read(store, descriptor, known, 0, 12)
    assert next(found).offsets.tolist() == [0, 1, 2, 3, 4], "the row group before is whole"
    with pytest.raises(Damaged) as raised:
        next(found)
    (damage,) = raised.value.damages
    assert (damage.file, damage.position) == (descriptor.name, group.position)
    assert (damage.first, damage.end) == (5, 10)
    assert "offsets 5 to 9 cannot be read" in str(raised.value)
    assert "copy" in damage.remedy
    assert [rows.offsets.tolist() for rows in reading.read(store, descriptor, known, 10, 12)] == [[10, 11]]


def sealed_again(data: bytes, at: int) -> bytes:
    """Return an object that had this byte flipped before its guard was made, as bad memory would do."""
    known = guard.open_(len(data), data)
    bare = data[: known.position] + data[guard.footer_position(len(data), data) :]
    return guard.seal(
        flipped(bare, at), parquet.group_positions(pyarrow_parquet.read_metadata(pa.BufferReader(bare)))
    )


def test_page_checksums_find_what_was_changed_before_the_guard_was_made(store: Shelf) -> None:
    values = [message(value=b"%d" % at * 500) for at in range(5)]
    descriptor = put(store, [Rows.dense(0, batch_of(values))])
    data = bytes(store.get(descriptor.name))
    column = contents.fetch(store, descriptor).metadata.row_group(0).column(3)
    assert column.path_in_schema == "value"
    # The last bytes of the page are zstd's own, which without page checksums may pass.
    outcomes = []
    for at in range(column.data_page_offset + 40, column.data_page_offset + column.total_compressed_size):
        store.change(descriptor.name, sealed_again(data, at))
        with pytest.raises(Damaged) as raised:
            read_all(store, descriptor)
        outcomes.append(str(raised.value))
    assert all("CRC checksum verification failed" in outcome for outcome in outcomes), outcomes


def test_other_readers_can_verify_the_pages(descriptor: Descriptor, store: Shelf) -> None:
    data = bytes(store.get(descriptor.name))
    column = contents.fetch(store, descriptor).metadata.row_group(0).column(3)
    damaged = flipped(data, column.data_page_offset + column.total_compressed_size - 1)
    with pytest.raises(OSError, match="CRC"):
        pyarrow_parquet.ParquetFile(pa.BufferReader(damaged), page_checksum_verification=True).read()


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"count": 11}, "12 messages, its name says 11"),
        ({"first": 1, "count": 11}, "12 messages"),
        ({"first": 1, "end": 13}, "not those that its name says"),
        ({"end": 11, "count": 11}, "12 messages"),
    ],
)
def test_an_object_under_the_name_of_another_is_damaged(store: Shelf, others: dict[str, Any], reason: str) -> None:
    pieces = [Rows.dense(0, batch_of(MESSAGES))]
    data = parquet.write(pieces)
    wrong = describe(pieces, data, **others)
    store.put(wrong.name, data)
    with pytest.raises(Damaged, match=reason):
        contents.fetch(store, wrong)


def test_a_parquet_file_of_somebody_else_is_damaged(store: Shelf, descriptor: Descriptor) -> None:
    sink = pa.BufferOutputStream()
    pyarrow_parquet.write_table(pa.table({"offset": [1, 2]}), sink)
    store.change(descriptor.name, sink.getvalue().to_pybytes())
    with pytest.raises(Damaged, match="guard"):
        contents.fetch(store, descriptor)
    data = sink.getvalue().to_pybytes()
    store.change(descriptor.name, guard.seal(data, [4]))
    with pytest.raises(Damaged, match="columns"):
        contents.fetch(store, descriptor)


@given(st.binary(max_size=200), st.booleans())
def test_bytes_that_are_no_object_are_one_named_error(data: bytes, ending: bool) -> None:
    store = Shelf()
    descriptor = put(store, [Rows.dense(0, batch_of(MESSAGES))])
    store.change(descriptor.name, data + (struct.pack("<I4s", len(data) // 2, b"PAR1") if ending else b""))
    with pytest.raises(Damaged):
        contents.fetch(store, descriptor)


def test_a_guard_has_golden_bytes() -> None:
    data = b"PAR1" + b"group 0" + b"group one" + b"footer" + struct.pack("<I4s", 6, b"PAR1")
    sealed = guard.seal(data, [4, 11])
    assert sealed.hex() == GOLDEN_GUARD
    assert guard.open_(len(sealed), sealed) == guard.Guard(20, struct.unpack_from("<2Q", sealed, 20))
    for at in range(20, len(sealed)):
        with pytest.raises(ValueError, match=r"guard|footer|Parquet"):
            guard.open_(len(sealed), flipped(sealed, at))


GOLDEN_GUARD = (
    "5041523167726f7570203067726f7570206f6e65464dd63e548ab021ca1cdabcb00a4a3f4357473102000000a34fb0c1cd26"
    "2b75666f6f7465720600000050415231"
)


def test_an_object_that_is_whole_is_verified(store: Shelf, descriptor: Descriptor) -> None:
    assert verify.verify(store, descriptor) is None


def test_a_flipped_byte_anywhere_is_found_by_verifying(store: Shelf, descriptor: Descriptor) -> None:
    data = bytes(store.get(descriptor.name))
    for at in range(len(data)):
        store.change(descriptor.name, flipped(data, at))
        found = verify.verify(store, descriptor)
        assert found is not None
        assert "checksum" in found.reason
        assert (found.file, found.first, found.end) == (descriptor.name, 0, 12)


def test_verifying_fetches_every_byte_once_in_bounded_pieces(
    store: Shelf, descriptor: Descriptor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "PIECE_BYTES", 100)
    size = store.size(descriptor.name)
    assert verify.verify(store, descriptor) is None
    assert store.gets == [(at, min(at + 100, size)) for at in range(0, size, 100)]


def test_an_object_that_is_missing_is_not_verified(store: Shelf, descriptor: Descriptor) -> None:
    store.delete([descriptor.name])
    found = verify.verify(store, descriptor)
    assert found is not None
    assert "not there" in found.reason
    with pytest.raises(ObjectMissing):
        contents.fetch(store, descriptor)


def test_an_object_that_ends_while_it_is_verified_is_damaged(store: Shelf, descriptor: Descriptor) -> None:
    class Cut(Shelf):
        def size(self, name: str) -> int:
            return super().size(name) + 10

    cut = Cut()
    cut.put(descriptor.name, store.get(descriptor.name))
    found = verify.verify(cut, descriptor)
    assert found is not None
    assert found.position == store.size(descriptor.name)
