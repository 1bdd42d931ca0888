"""The bytes on disk, for ever: what these files hold must be read by every later version.

We add files here; we do not change them. `python -m tests.formats.test_golden` writes the ones that are missing.
"""

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pyarrow as pa

from cordwood import record
from cordwood.journal.clean import decode_clean, encode_clean
from cordwood.journal.fold import Snapshot
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.journal.repair import Choice, repair
from cordwood.journal.segment import segment_name
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory
from tests.journal.recorder import contents, disk_of, files

HERE = Path(__file__).parent
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


def golden() -> dict[str, bytes]:
    return {
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


if __name__ == "__main__":
    # Arrow may lay out its own part otherwise in another version; what is here must be readable for ever.
    for name, data in {**golden(), "record-v1-batch.bin": batch()}.items():
        if not (HERE / name).exists():
            (HERE / name).write_bytes(data)
            print(name, len(data))
