"""The bytes of an outbox, for ever: facts, snapshot and archive of version 1 are read by every later version.

We add files here; we do not change them. `python -m tests.formats.test_golden_outbox` writes those that are missing.
"""

from pathlib import Path

from cordwood.edge.archive import _archive, _compressed, open_archive, segment_of
from cordwood.edge.event import Draft, columns
from cordwood.edge.facts import VERSION, Archived, Begun, Fact, Parked, Renewed, Sending, Sent, encode
from cordwood.edge.state import State

HERE = Path(__file__).parent
BEGUN = Begun(VERSION, "job-42/ü", "shop/events", "0123456789abcdef", 1_000, "http://10.0.0.5:7878")
# One of each kind, in an order in which an outbox could have written them.
FACTS: list[Fact] = [
    columns(0, [Draft(1_000_000, None, b"one", None)]),
    columns(
        1,
        [
            Draft(2_000_000, b"key", b"two", [("h", b"\xff"), ("none", None)]),
            Draft(3_000_000, None, None, None),
            Draft(-4_000_000, b"", b"", []),
        ],
    ),
    Sending([2, 4], 3),
    Sent(2, {0: 1, 2: 1}, 70),
    Parked(2, "413: too large", 1, 32),
    Sending([4], 3),
    Sent(4, {1: 1}, 32),
    columns(4, [Draft(5_000_000, None, b"five", None)]),
    Renewed(2),
    Sending([5], 3),
    Archived(7),
]


def segment() -> bytes:
    return segment_of(BEGUN, [[encode(fact)] for fact in FACTS])


def snapshot() -> bytes:
    state = State()
    for lsn, fact in enumerate([BEGUN, *FACTS]):
        state.take(lsn, fact)
    return b"".join(bytes(part) for part in state.snapshot().parts)


GOLDEN = {
    "outbox-v1-segment.bin": segment,
    "outbox-v1-snapshot.bin": snapshot,
}


def test_facts_are_written_as_ever() -> None:
    for name, make in GOLDEN.items():
        assert (HERE / name).read_bytes() == make(), name


def test_an_archive_of_version_1_is_read() -> None:
    found = open_archive(HERE / "outbox-v1-archive.wal.zst")
    assert found == _archive("it", (HERE / "outbox-v1-segment.bin").read_bytes())
    assert found.begun == BEGUN
    assert [event.value for event in found.events] == [b"one", b"two", None, b"", b"five"]
    assert found.events[1].headers == [("h", b"\xff"), ("none", None)]
    assert [event.key for event in found.events] == [
        BEGUN.execution.encode(),
        b"key",
        *[BEGUN.execution.encode()],
        b"",
        BEGUN.execution.encode(),
    ]
    assert [event.timestamp_ms for event in found.events] == [1000, 2000, 3000, -4000, 5000]
    assert found.parked == (FACTS[4],)


def test_a_snapshot_of_version_1_is_read() -> None:
    state = State()
    state.restore([memoryview((HERE / "outbox-v1-snapshot.bin").read_bytes())])
    assert state.begun == BEGUN
    assert (state.end, state.sent, state.epoch, state.sequences, state.cuts) == (5, 4, 2, {}, [5])
    assert (state.failed, state.parked, state.archived, state.partitions) == (1, [FACTS[4]], 7, 3)


if __name__ == "__main__":
    for missing, written in {**GOLDEN, "outbox-v1-archive.wal.zst": lambda: b"".join(_compressed(segment()))}.items():
        if not (HERE / missing).exists():
            (HERE / missing).write_bytes(written())
