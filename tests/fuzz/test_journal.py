"""Frames, segments, the clean mark, and a whole journal whose files were changed."""

from itertools import pairwise
from random import Random
from typing import Any

from awscrt.checksums import crc64nvme
from hypothesis import example, given
from hypothesis import strategies as st

from cordwood.broker import ops
from cordwood.broker.ledger import Ledger
from cordwood.errors import CordwoodError, Damaged, OtherVersion
from cordwood.journal.clean import decode_clean, encode_clean
from cordwood.journal.frame import (
    Kind,
    Lost,
    encode_header,
    lost_payload,
    pack,
    payload_of,
    read_lost,
    unpack,
)
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.journal.scan import Scan, Why, search
from cordwood.journal.segment import HEADER_BYTES, SegmentHeader, decode_segment_header, first_of, segment_name
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory
from tests.formats.test_golden import FACTS
from tests.fuzz.mutation import HOSTILE_WIDE, mutated
from tests.fuzz.profile import fuzzed
from tests.journal.recorder import Counting, append, files, ready

IDENTITY = 0x1122334455667788
U64 = st.sampled_from(HOSTILE_WIDE) | st.integers(0, (1 << 64) - 1)


class Bytes:
    """Bytes that are read like a file."""

    def __init__(self, data: bytes):
        self.data = data

    def size(self) -> int:
        return len(self.data)

    def read_into(self, buffer: memoryview, position: int) -> int:
        found = self.data[position : position + len(buffer)]
        buffer[: len(found)] = found
        return len(found)


def run(*payloads: tuple[int, bytes]) -> bytes:
    """Return frames as our writer makes them."""
    data, chain = b"", 7
    for lsn, (kind, content) in enumerate(payloads):
        payload = pack([content]) if kind == Kind.DATA else payload_of([content])
        header, chain = encode_header(kind, lsn, lsn, IDENTITY, chain, payload.length, payload.checksum)
        data += header + b"".join(payload.buffers)
    return data


FRAMES = run((Kind.DATA, b"one"), (Kind.MARK, b""), (Kind.DATA, b"x" * 200), (Kind.DATA, b"three"))


def scanned(data: bytes) -> tuple[list[tuple[int, Any, bytes]], Scan]:
    scan = Scan(Bytes(data), IDENTITY, 0, 0, 7)  # type: ignore[arg-type]
    return [(position, header, bytes(payload)) for position, header, payload in scan], scan


ORIGINAL, _ = scanned(FRAMES)


@fuzzed(120)
@given(mutated(FRAMES))
def test_what_a_scan_yields_was_written_as_it_is(data: bytes) -> None:
    found, scan = scanned(data)
    assert found == ORIGINAL[: len(found)]
    assert 0 <= scan.position <= max(len(data), scan.position)
    for position, header in search(Bytes(data), IDENTITY, 0):  # type: ignore[arg-type]
        assert 0 <= position < len(data)
        assert header is None or header in [one for _, one, _ in ORIGINAL]


@st.composite
def _whole_frames(draw: st.DrawFn) -> bytes:
    """Frames whose checksums hold, and that say anything."""
    data, chain = b"", 7
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from((1, 1, 2, 3, 4, 4, 0, 255)))
        content = draw(st.binary(max_size=60))
        if kind == Kind.LOST and draw(st.booleans()):
            content = b"".join(lost_payload(Lost(draw(U64), draw(U64), draw(st.text(max_size=5)))).buffers)  # type: ignore[arg-type]
        length = draw(st.sampled_from((len(content), len(content), len(content), draw(U64))))
        lsn = draw(st.sampled_from((number, number, number, draw(U64))))
        link = draw(st.sampled_from((chain, chain, chain, draw(U64))))
        header, chain = encode_header(kind, lsn, draw(U64), IDENTITY, link, length, crc64nvme(content))
        data += header + content
    return data


@fuzzed(80)
@given(_whole_frames())
def test_a_scan_of_frames_that_say_anything_ends_and_raises_nothing(data: bytes) -> None:
    found, scan = scanned(data)
    assert [position for position, _, _ in found] == sorted({position for position, _, _ in found})
    assert all(one[1].lsn <= other[1].lsn for one, other in pairwise(found))
    assert isinstance(scan.why, Why)
    list(search(Bytes(data), IDENTITY, 0))  # type: ignore[arg-type]


@fuzzed(80)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6))
def test_entries_come_back(entries: list[bytes]) -> None:
    assert unpack(memoryview(b"".join(pack(entries).buffers))) == entries  # type: ignore[arg-type]


@fuzzed(120)
@given(mutated(b"".join(pack([b"a", b"bb" * 9, b""]).buffers)))  # type: ignore[arg-type]
def test_a_payload_is_a_list_of_entries_or_a_ValueError(data: bytes) -> None:
    try:
        found = unpack(memoryview(data))
    except ValueError:
        return
    assert sum(map(len, found)) <= len(data)
    again = b"".join(pack([bytes(one) for one in found]).buffers)  # type: ignore[arg-type]
    assert unpack(memoryview(again)) == found
    assert len(again) == len(data)


@fuzzed(20)
@given(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 64) - 1), st.text())
def test_what_a_lost_frame_says_comes_back(end: int, chain: int, reason: str) -> None:
    try:
        payload = lost_payload(Lost(end, chain, reason))
    except UnicodeEncodeError:
        return  # reasons are ours, and Unicode
    assert read_lost(memoryview(b"".join(payload.buffers))) == (end, chain, reason)  # type: ignore[arg-type]


HEAD = SegmentHeader(IDENTITY, 5, 6, 64, 1_700_000_000_000, True)


@fuzzed(120)
@given(mutated(HEAD.encode()), st.booleans())
def test_a_segment_header_is_whole_or_not_or_another_versions(data: bytes, repair: bool) -> None:
    if repair and len(data) >= HEADER_BYTES:
        data = data[:56] + crc64nvme(data[:56]).to_bytes(8, "little") + data[64:]
    try:
        found = decode_segment_header("1.wal", data)
    except OtherVersion:
        assert data[:8] == b"CORDWOOD"
        return
    assert found is None or found.encode() == data[:HEADER_BYTES]


@fuzzed(80)
@given(mutated(encode_clean(9), most=2), st.booleans())
def test_a_clean_mark_is_ours_or_none(data: bytes, repair: bool) -> None:
    if repair and len(data) >= 32:
        data = data[:24] + crc64nvme(data[:24]).to_bytes(8, "little") + data[32:]
    try:
        end = decode_clean(data)
    except OtherVersion:
        return
    assert end is None or encode_clean(end) == data


@fuzzed(80)
@given(st.text(max_size=30) | st.integers(0, (1 << 64) - 1).map(segment_name) | st.from_regex(r"[0-9]{19,21}\.wal"))
@example("1" * 20 + ".wal\n")
def test_a_segments_name_is_read_only_as_it_is_written(name: str) -> None:
    first = first_of(name)
    assert first is None or segment_name(first) == name


def journal() -> dict[str, bytes]:
    """Return the files of a journal of several segments that was left in the middle."""
    disk = SimDirectory()
    made = ready(disk)
    for number in range(30):
        append(made, b"entry-%d" % number * 9)
        if number % 5 == 0:
            made.maintain()
    return {name: data for name, data in files(disk).items() if name.endswith((".wal", "clean"))}


FILES = journal()
SMALL = Limits(segment_bytes=2048)


def disk_of(found: dict[str, bytes]) -> SimDirectory:
    disk = SimDirectory()
    for name, data in found.items():
        file = disk.open(name, create=True)
        file.write([data], 0)
        file.sync()
        file.close()
    disk.sync()
    return disk


@fuzzed(25)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_a_journal_opens_with_what_was_written_or_says_what_is_damaged(name: str, data: st.DataObject) -> None:
    changed = data.draw(mutated(FILES[name], most=3))
    fold = Counting()
    try:
        opened = open_journal(disk_of({**FILES, name: changed}), fold, SMALL, clock=SimClock(), random=Random(1))
    except CordwoodError:
        return
    found = {lsn: bytes(b"".join(entries)) for lsn, entries in opened.frames(opened.first)}
    assert all(content == b"entry-%d" % lsn * 9 for lsn, content in found.items())
    opened.abandon()


@fuzzed(25)
@given(st.lists(mutated(*(bytes(ops.pack([fact])[0]) for fact in FACTS[:3]), most=2), min_size=1, max_size=3))
def test_frames_that_are_whole_and_not_the_brokers_are_named(entries: list[bytes]) -> None:
    disk = SimDirectory()
    made = ready(disk, limits=Limits(segment_bytes=1 << 16))
    for entry in entries:
        append(made, entry)
    made.abandon()
    ledger = Ledger(1 << 20)
    try:
        opened = open_journal(disk.image().after_kill(), ledger, clock=SimClock(), random=Random(1))
    except Damaged as error:
        named = [one.file for one in error.damages]
    except CordwoodError:
        return
    except (AssertionError, LookupError):
        return  # facts of ours that never come in this order: a fault of whoever wrote them, and it stops there
    else:
        opened.abandon()
        return
    assert all(name.endswith(".wal") for name in named)
