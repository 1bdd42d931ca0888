"""The bytes on disk, for ever: what these files hold must be read by every later version.

We add files here; we do not change them. `python -m tests.formats.test_golden` writes the ones that are missing.
"""

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pyarrow as pa

from cordwood import record
from cordwood.broker import ops
from cordwood.broker.snapshot import capture, restore
from cordwood.broker.state import State
from cordwood.broker.terms import GroupTerms, TopicTerms
from cordwood.journal.clean import decode_clean, encode_clean
from cordwood.journal.fold import Snapshot
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.journal.repair import Choice, repair
from cordwood.journal.segment import segment_name
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory
from cordwood.tier import state as states
from tests.journal.recorder import contents, disk_of, files

HERE = Path(__file__).parent
# One of each kind, in an order in which a broker could have written them.
FACTS: list[ops.Op] = [
    ops.TopicMade("shop/orders", "00000000000000aa", 2, TopicTerms(retention_ms=60_000, discard="acked"), 1_000),
    ops.TopicMade("dlq.shop/orders", "00000000000000bb", 2, TopicTerms(), 1_001),
    ops.TopicSet("shop/orders", TopicTerms(retention_ms=60_000, discard="acked", max_buffered_messages=9)),
    ops.GroupMade("shop/orders", "mail", [0, 0], GroupTerms(mode="ordered"), 1_002),
    ops.GroupSet("shop/orders", "mail", GroupTerms(mode="ordered", max_attempts=3, on_exhausted="dlq")),
    ops.Appended(
        "shop/orders",
        0,
        [ops.Piece(0, 0, 3, 0, 30, 5_000), ops.Piece(1, 0, 1, 3, 10, 6_000)],
        1_003,
        None,
        [(bytes(range(16)), 1, 0)],
    ),
    ops.Appended("shop/orders", 0, [ops.Piece(0, 3, 2, 0, 20, 7_000)], 1_004, ops.Numbered("p", 1, 0)),
    ops.Staged("shop/orders", 0, [ops.Piece(1, 0, 2, 0, 20, 8_000)], 1_005, "w", 4, 0, 1),
    ops.Published("w", 4, [ops.Placed("shop/orders", 7, 0, ops.Piece(1, 1, 2, 0, 20, 8_000))], 1_006),
    ops.Staged("shop/orders", 1, [ops.Piece(0, 0, 1, 0, 10, 8_500)], 1_007, "w", 5, 2, 0),
    ops.Delivered("shop/orders", "mail", 0, [(0, 4)], 1_008),
    ops.Failed("shop/orders", "mail", 0, [(1, 2), (3, 4)], 2_000, "boom"),
    ops.GivenBack("shop/orders", "mail", 0, [(3, 4)]),
    ops.Done("shop/orders", "mail", 0, [(0, 1), (2, 3)], 1_009),
    ops.Redriven("shop/orders", "mail", 1, [(5, 7)]),
    ops.ReaderPut("shop/orders", "spark", [(0, 2), (1, 1)], 1_010),
    ops.ReaderPut("shop/orders", "gone", [(0, 0)], 1_011),
    ops.ReaderDeleted("shop/orders", "gone"),
    ops.GroupMade("shop/orders", "audit", [5, 3], GroupTerms(), 1_012),
    ops.Sought("shop/orders", "audit", [(1, 0)], 1_013),
    ops.GroupMade("shop/orders", "gone", [0, 0], GroupTerms(), 1_014),
    ops.GroupDeleted("shop/orders", "gone"),
    ops.Trimmed("shop/orders", 1, 1),
    ops.Forgotten(10, 20, 30),
    ops.TopicMade("gone", "00000000000000cc", 1, TopicTerms(), 1_015),
    ops.TopicDeleted("gone"),
]
FRAMES = {0: [b"first"], 1: [b"", b"second entry", bytes(range(256))], 2: [b"third"]}


class Parts:
    """An owner whose snapshot is two parts, always the same."""

    def __init__(self) -> None:
        self.restored: list[bytes] = []
        self.seen: list[int] = []
        self.given_up: list[tuple[int, int]] = []

    def restore(self, parts: Iterable[memoryview]) -> None:
        self.restored = [bytes(part) for part in parts]

    def apply(self, lsn: int, entries: list[memoryview]) -> None:
        self.seen.append(lsn)

    def lost(self, first: int, end: int) -> None:
        self.given_up.append((first, end))

    def snapshot(self) -> Snapshot:
        return Snapshot([b"part one", b"part two, longer"], 2, 24)


def written() -> dict[str, bytes]:
    """Return the files of a journal with a snapshot, three data frames and a mark, closed cleanly."""
    disk = SimDirectory()
    journal = open_journal(disk, Parts(), Limits(segment_bytes=4096), clock=SimClock(), random=Random(42))
    journal.maintain()
    for entries in FRAMES.values():
        journal.write(entries)
    journal.mark()
    journal.close()
    return {name: data for name, data in files(disk).items() if not name.endswith(".spare")}


def repaired() -> dict[str, bytes]:
    """Return the same with its second frame given up: a LOST frame stands for it."""
    held = written()
    data = bytearray(held[segment_name(0)])
    data[data.index(b"second entry")] ^= 1
    disk = disk_of({**held, segment_name(0): bytes(data)})
    repair(disk, Choice.QUARANTINE, Random(1))
    return {segment_name(0): files(disk)[segment_name(0)]}


def batch() -> bytes:
    """Return the bytes of three messages: a plain one, one with everything, a tombstone."""
    moment = 1_700_000_000_000_000
    rows = pa.record_batch(
        {
            "timestamp": pa.array([moment, moment + 1, moment + 2], record.TIME),
            "key": pa.array([None, b"user:1", b"user:1"], pa.binary()),
            "value": pa.array([b"plain", bytes(range(256)), None], pa.binary()),
            "headers": pa.array([None, [("name", b"value"), ("name", b"")], []], record.HEADERS),
            "deliver_at": pa.array([None, moment + 10, None], record.TIME),
            "expires_at": pa.array([None, moment + 20, None], record.TIME),
        },
        schema=record.FULL,
    )
    head, body = record.encode(rows)
    return head + body.to_pybytes()


STORED = ops.Stored("shop/orders", "00000000000000aa", 0, 0, 2, 7, 0, 0x9AE0DAAF0C5D3A21, 4096, 65536)
TIER_FACTS: list[ops.Op] = [
    ops.StoreClaimed("5f0c", 7),
    STORED,
    ops.ObjectsDeleted([STORED.topic, "another"]),
    ops.TopicBuried("shop/orders", "00000000000000aa"),
    ops.Restored([b"a part", b"another"], [(STORED, 300, 1_700_000_000_000_000)], [("shop/orders", 0, 1 << 40)]),
]


ACROSS = ops.AppendedAcross(
    "shop/orders", 0, [ops.Piece(0, 9, 2, 0, 20, 9_000), ops.Piece(1, 7, 1, 2, 10, 9_001)], 1_020, "p", 1, [2, 0]
)

STORE_PARTS = [b"part one", b"", bytes(range(256))]


def broker_state() -> State:
    """Return the state that these facts make, each in a frame of its own."""
    state = State()
    for lsn, fact in enumerate(FACTS):
        state.apply(lsn, [fact])
    return state


def broker_snapshot() -> bytes:
    """Return the parts of the snapshot of that state, each behind its length as a u64."""
    parts = [bytes(part) for part in capture(broker_state()).parts]
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def golden() -> dict[str, bytes]:
    return {
        "broker-v1-facts.bin": bytes(ops.pack(FACTS)[0]),
        "broker-v1-facts-of-the-tier.bin": bytes(ops.pack(TIER_FACTS)[0]),
        "broker-v1-facts-across-partitions.bin": bytes(ops.pack([ACROSS])[0]),
        "broker-v1-snapshot.bin": broker_snapshot(),
        "store-v1-snapshot.bin": states.encode(STORE_PARTS),
        "journal-v1-segment.bin": written()[segment_name(0)],
        "journal-v1-clean.bin": written()["clean"],
        "journal-v1-lost.bin": repaired()[segment_name(0)],
    }


def test_what_is_written_today_is_what_was_written_then() -> None:
    for name, data in golden().items():
        assert (HERE / name).read_bytes() == data, f"{name}: the format changed; give it a new version"


def test_a_segment_of_version_1_is_read() -> None:
    held = {
        segment_name(0): (HERE / "journal-v1-segment.bin").read_bytes(),
        "clean": (HERE / "journal-v1-clean.bin").read_bytes(),
    }
    fold = Parts()
    journal = open_journal(disk_of(held), fold, Limits(segment_bytes=4096), clock=SimClock(), random=Random(7))
    assert fold.restored == [b"part one", b"part two, longer"]
    assert fold.seen == [0, 1, 2]
    assert journal.end == 4, "the mark has a number too"
    assert contents(journal) == {lsn: b"".join(entries) for lsn, entries in FRAMES.items()}
    assert [bytes(entry) for entry in journal.read(1)] == FRAMES[1]


def test_a_lost_frame_of_version_1_is_read() -> None:
    fold = Parts()
    held = {segment_name(0): (HERE / "journal-v1-lost.bin").read_bytes()}
    journal = open_journal(disk_of(held), fold, Limits(segment_bytes=4096), clock=SimClock(), random=Random(7))
    assert fold.given_up == [(1, 2)]
    assert contents(journal) == {0: b"first", 2: b"third"}


def test_a_clean_mark_of_version_1_is_read() -> None:
    assert decode_clean((HERE / "journal-v1-clean.bin").read_bytes()) == 4
    assert encode_clean(4) == (HERE / "journal-v1-clean.bin").read_bytes()


def test_a_batch_of_version_1_is_read() -> None:
    rows = record.decode((HERE / "record-v1-batch.bin").read_bytes())
    assert rows.column("value").to_pylist() == [b"plain", bytes(range(256)), None]
    assert rows.column("key").to_pylist() == [None, b"user:1", b"user:1"]
    assert rows.column("headers").to_pylist() == [None, [("name", b"value"), ("name", b"")], []]


def test_facts_of_version_1_are_read() -> None:
    assert ops.unpack((HERE / "broker-v1-facts.bin").read_bytes()) == FACTS
    assert ops.unpack((HERE / "broker-v1-facts-of-the-tier.bin").read_bytes()) == TIER_FACTS


def test_a_snapshot_of_version_1_in_a_store_is_read() -> None:
    assert states.decode((HERE / "store-v1-snapshot.bin").read_bytes()) == STORE_PARTS
    assert states.Mark(7, 21, True).name == "state/00000000000000000007-00000000000000000043.snapshot"


def test_a_snapshot_of_version_1_is_read() -> None:
    data = (HERE / "broker-v1-snapshot.bin").read_bytes()
    parts = []
    while data:
        length = int.from_bytes(data[:8], "little")
        parts.append(data[8 : 8 + length])
        data = data[8 + length :]
    state = restore(parts)
    topic = state.topics["shop/orders"]
    assert [(partition.start, partition.end) for partition in topic.partitions] == [(0, 5), (1, 3)]
    assert [place.lsn for place in topic.partitions[1].index.places(0, 9)] == [7]
    assert topic.partitions[0].producers["p"].offset(1) == 4
    assert topic.keys[bytes(range(16))] == (1, 0, 1_003)
    assert topic.readers["spark"].offsets == {0: 2, 1: 1}
    mail = topic.groups["mail"].cursors[0]
    assert (mail.floor, list(mail.done), [value.attempts for _, _, value in mail.tries.within(1, 2)]) == (
        1,
        [(2, 3)],
        [1],
    )
    assert list(topic.groups["mail"].redriven[1]) == [(5, 7)]
    writer = state.writers["w"]
    assert (writer.last, writer.results, list(writer.stages)) == (4, [("shop/orders", 1, 1, 2)], [(5, 2, 0)])


if __name__ == "__main__":
    # Arrow may lay out its own part otherwise in another version; what is here must be readable for ever.
    for name, data in {**golden(), "record-v1-batch.bin": batch()}.items():
        if not (HERE / name).exists():
            (HERE / name).write_bytes(data)
            print(name, len(data))
