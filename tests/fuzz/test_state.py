"""What the broker and the outbox keep of themselves: facts, snapshots, batches at rest."""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
from awscrt.checksums import crc64nvme
from hypothesis import example, given
from hypothesis import strategies as st

from cordwood import record
from cordwood.broker import ops, snapshot
from cordwood.edge import facts
from cordwood.edge.state import State as Outbox
from cordwood.errors import OtherVersion
from cordwood.tier import state as stored
from tests.broker.test_snapshot import Growing
from tests.formats.test_golden import ACROSS, FACTS, TIER_FACTS
from tests.fuzz.mutation import HOSTILE_WIDE, mutated
from tests.fuzz.profile import fuzzed

EVERY_FACT = [*FACTS, *TIER_FACTS, ACROSS]
PARTS = [bytes(part) for part in snapshot.capture(Growing(Random(3)).grow(60).state).parts]


def read(decode: Callable[..., Any], data: Any) -> Any:
    """Return what was read; None for the errors that a reader of state may raise."""
    try:
        return decode(data)
    except (ValueError, OtherVersion):
        return None


@fuzzed(120)
@given(mutated(*(bytes(ops.pack([fact])[0]) for fact in EVERY_FACT)))
@example(b"\x92")  # found: one byte of a list of two, IndexError
@example(b"\x92\x01\x91" + b"\x91" * 100_000)  # found: RecursionError
def test_a_frame_of_the_broker_is_facts_or_a_ValueError(data: bytes) -> None:
    found = read(ops.unpack, data)
    assert found is None or ops.unpack(ops.pack(found)[0]) == found


# What MessagePack can say, of the sizes that hurt.
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(HOSTILE_WIDE),
    st.integers(-(1 << 63), -1),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=24),
)
VALUES = LEAVES | st.lists(LEAVES | st.lists(LEAVES, max_size=4), max_size=4)


@fuzzed(80)
@given(st.integers(1, 26), st.lists(VALUES, max_size=9), st.sampled_from(EVERY_FACT))
def test_facts_with_anything_in_them_are_read_or_refused(tag: int, rest: list[Any], fact: ops.Op) -> None:
    read(ops.unpack, msgspec.msgpack.encode([1, [fact, [tag, *rest]]]))


@fuzzed(80)
@given(st.lists(st.integers(0, len(PARTS) - 1), max_size=6), st.data())
def test_a_snapshot_is_a_state_or_a_ValueError(chosen: list[int], data: st.DataObject) -> None:
    parts = list(PARTS)
    for number in chosen:
        parts[number] = data.draw(mutated(PARTS[number], most=2))
    if data.draw(st.booleans()):
        del parts[data.draw(st.integers(0, len(parts) - 1))]
    found = read(snapshot.restore, parts)
    if found is not None:
        list(snapshot.capture(found).parts)


@fuzzed(80)
@given(st.integers(1, 17), st.lists(st.sampled_from(["t", "g", 0, 1, [0, 0, 0], []]) | VALUES, max_size=10))
def test_parts_with_anything_in_them_are_read_or_refused(tag: int, rest: list[Any]) -> None:
    read(snapshot.restore, [*PARTS, msgspec.msgpack.encode([tag, *rest])])


WHOLE = stored.encode([b"one", b"", b"three" * 9])


@fuzzed(120)
@given(mutated(WHOLE), st.booleans())
@example(WHOLE[:-1], True)  # found: the last part was cut, and taken
@example(WHOLE + b"\0", True)  # found: struct.error
def test_a_stored_snapshot_is_its_parts_or_a_ValueError(data: bytes, repair: bool) -> None:
    if repair and len(data) > 12:
        data = data[:4] + crc64nvme(data[12:]).to_bytes(8, "little") + data[12:]
    found = read(stored.decode, data)
    assert found is None or stored.encode(found) == data


OUTBOX: list[facts.Fact] = [
    facts.Begun(1, "job/1", "events", "p" * 16, 1_700_000_000_000, "http://127.0.0.1:7878"),
    facts.Appended(0, 2, bytes(16), bytes(8), b"", None, None, None),
    facts.Appended(2, 1, bytes(8), b"\2\0\0\0", b"ab", b"\1\0\0\0", b"k", [[("name", b"v"), ("none", None)]]),
    facts.Sending([2, 3], 4),
    facts.Sent(2, {0: 1, 3: 1}, 99),
    facts.Parked(2, "too large", 1, 9),
    facts.Renewed(2),
    facts.Archived(3),
]


@fuzzed(120)
@given(mutated(*map(facts.encode, OUTBOX)))
@example(b"\x92" + b"\xa5epoch" + b"\x91" * 100_000)
@example(b"\x93" + b"\xa5epoch" + b"\x01" + b"\x91" * 100_000)  # found: RecursionError
def test_an_entry_of_an_outbox_is_a_fact_or_a_ValueError(data: bytes) -> None:
    found = read(facts.decode, data)
    assert found is None or facts.decode(facts.encode(found)) == found


def _folded() -> bytes:
    outbox = Outbox()
    for lsn, fact in enumerate(OUTBOX):
        outbox.take(lsn, fact)
    return b"".join(bytes(part) for part in outbox.snapshot().parts)


@fuzzed(80)
@given(mutated(_folded()))
def test_a_snapshot_of_an_outbox_is_a_state_or_a_ValueError(data: bytes) -> None:
    outbox = Outbox()
    read(outbox.restore, [memoryview(data)])


def _at_rest() -> list[bytes]:
    rows = {
        "timestamp": pa.array([1, 2, 3], record.TIME),
        "key": pa.array([b"k", None, b""], pa.binary()),
        "value": pa.array([b"v", None, b"w" * 50], pa.binary()),
        "headers": pa.array([[("a", b"1")], None, []], record.HEADERS),
        "expires_at": pa.array([None, 5, None], record.TIME),
    }
    encoded = [
        record.encode(record.assemble(rows)),
        record.encode(record.assemble({"timestamp": rows["timestamp"], "value": rows["value"]})),
    ]
    return [head + body.to_pybytes() for head, body in encoded]


@fuzzed(160)
@given(mutated(*_at_rest()))
def test_a_batch_at_rest_is_a_batch_or_a_ValueError(data: bytes) -> None:
    found = read(record.decode, data)
    assert found is None or found.num_rows >= 0
