"""Snapshots in the store: the newest that is whole counts, and two are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import OtherVersion
from cordwood.machine.objects.store import StoreUnavailable
from cordwood.sim.clock import SimClock
from cordwood.sim.objects import SimObjects
from cordwood.tier import state
from cordwood.tier.state import Mark


def begun() -> SimObjects:
    return SimObjects(SimClock())


def put(objects: SimObjects, *mark: int, parts: tuple[bytes, ...] = (b"part",)) -> Mark:
    made = Mark(mark[0], mark[1], bool(mark[2]) if len(mark) > 2 else False)
    state.put(objects, made, state.encode(parts))
    return made


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_parts_come_back_as_they_were(parts: list[bytes]) -> None:
    assert state.decode(state.encode(parts)) == parts


@given(st.lists(st.binary(max_size=20), max_size=3), st.data())
def test_a_flipped_bit_is_found(parts: list[bytes], data: st.DataObject) -> None:
    bad = bytearray(state.encode(parts))
    bad[data.draw(st.integers(0, len(bad) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((ValueError, OtherVersion)):
        state.decode(bad)


@given(st.lists(st.binary(max_size=20), max_size=3), st.data())
def test_a_cut_is_found(parts: list[bytes], data: st.DataObject) -> None:
    whole = state.encode(parts)
    with pytest.raises(ValueError, match=r"checksum|no snapshot"):
        state.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_a_later_version_is_named() -> None:
    with pytest.raises(OtherVersion):
        state.decode(b"CWS2" + bytes(8))


def test_a_later_epoch_is_newer_whatever_its_lsn() -> None:
    objects = begun()
    put(objects, 1, 900)
    put(objects, 2, 3)
    assert state.marks(objects) == [Mark(2, 3, False), Mark(1, 900, False)]
    found = state.newest(objects)
    assert found is not None
    assert found.mark == Mark(2, 3, False)


def test_the_clean_one_is_the_last_of_its_lsn() -> None:
    objects = begun()
    put(objects, 1, 5)
    clean = put(objects, 1, 5, 1)
    found = state.newest(objects)
    assert found is not None
    assert found.mark == clean


def test_two_are_kept() -> None:
    objects = begun()
    for lsn in range(4):
        put(objects, 1, lsn)
    assert [mark.lsn for mark in state.marks(objects)] == [3, 2]


def test_the_one_before_a_damaged_one_is_used() -> None:
    objects = begun()
    put(objects, 1, 1, parts=(b"before",))
    objects.corrupt(put(objects, 1, 2).name)
    found = state.newest(objects)
    assert found == (Mark(1, 1, False), [b"before"])


def test_a_clean_one_behind_a_damaged_one_is_not_the_last_word() -> None:
    objects = begun()
    put(objects, 1, 1, 1)
    objects.corrupt(put(objects, 2, 3).name)
    found = state.newest(objects)
    assert found is not None
    assert found.mark == Mark(1, 1, False), "messages came after it"


def test_where_none_is_whole_there_is_none() -> None:
    objects = begun()
    assert state.newest(objects) is None
    objects.corrupt(put(objects, 1, 1).name)
    assert state.newest(objects) is None


def test_what_was_put_is_read_back_and_taken_away_if_it_did_not_come_back() -> None:
    objects = begun()

    def watch(operation: str, name: str) -> None:
        if operation == "get":
            objects.corrupt(name)

    objects.watch = watch
    with pytest.raises(StoreUnavailable, match="did not come back"):
        put(objects, 1, 1)
    assert objects.names() == ()


def test_a_store_has_one_name_for_ever() -> None:
    objects = begun()
    assert state.identity(objects, "one") == "one"
    assert state.identity(objects, "two") == "one"
