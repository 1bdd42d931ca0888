"""Archives of outboxes, and what is inside them, with checksums that hold."""

from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cordwood.edge import archive, facts
from cordwood.edge.event import columns, draft, events_of
from cordwood.errors import CordwoodError
from tests.fuzz.mutation import mutated
from tests.fuzz.profile import fuzzed
from tests.fuzz.test_state import OUTBOX

BEGUN = OUTBOX[0]
assert isinstance(BEGUN, facts.Begun)
SEGMENT = archive.segment_of(BEGUN, [[facts.encode(fact)] for fact in OUTBOX[1:]])


def packed(raw: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(raw, asbytes=True))


def opened(path: Path, data: bytes) -> archive.Archive | None:
    path.write_bytes(data)
    archive.archives_in(path.parent)
    try:
        return archive.open_archive(path)
    except CordwoodError:
        return None


@fuzzed(40)
@given(data=mutated(packed(SEGMENT)))
def test_a_changed_archive_is_whole_or_damaged(tmp_path_factory, data: bytes) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.getbasetemp() / "a.wal.zst"
    found = opened(path, data)
    whole = opened(path, packed(SEGMENT))
    assert found is None or found == whole


@fuzzed(60)
@given(data=st.lists(mutated(*map(facts.encode, OUTBOX), most=2), max_size=4))
def test_facts_under_right_checksums_are_read_or_damaged(tmp_path_factory, data: list[bytes]) -> None:  # type: ignore[no-untyped-def]
    opened(tmp_path_factory.getbasetemp() / "b.wal.zst", packed(archive.segment_of(BEGUN, [[one] for one in data])))


@fuzzed(40)
@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=20),
            st.none() | st.binary(max_size=5),
            st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
            st.integers(0, 4_000_000_000_000),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_events_come_back_as_they_were(rows: list[tuple]) -> None:  # type: ignore[type-arg]
    fact = columns(7, [draft(value, key, headers, when, 0) for value, key, headers, when in rows])
    found = list(events_of(facts.decode(facts.encode(fact)), "job", 0, 1 << 62))  # type: ignore[arg-type]
    assert [(one.value, one.key, one.headers, one.timestamp_ms) for one in found] == [
        (value, b"job" if key is None else key, list(headers or []), when) for value, key, headers, when in rows
    ]
