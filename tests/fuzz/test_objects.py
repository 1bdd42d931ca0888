"""Objects of the tier: their messages as they were written, or damage; also where every checksum was made to hold."""

import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from awscrt.checksums import crc64nvme
from hypothesis import given

from cordwood.errors import Damaged
from cordwood.tier import guard, parquet
from cordwood.tier.descriptor import Descriptor
from cordwood.tier.rows import Rows
from cordwood.tier.verify import verify
from tests.fuzz.mutation import mutated
from tests.fuzz.profile import fuzzed
from tests.tier.shelf import Shelf, batch_of, describe, message, read_all


def _object() -> tuple[Descriptor, bytes]:
    rows = [
        message(
            value=b"v%d" % n, key=b"k", timestamp=n, headers=[("a", b"b")] if n % 2 else None, expires_at=n or None
        )
        for n in range(20)
    ]
    pieces = [Rows.dense(5, batch_of(rows[:12])), Rows(np.arange(20, 36, 2)[:8], batch_of(rows[12:]))]
    data = parquet.write(pieces)
    return describe(pieces, data), data


DESCRIPTOR, OBJECT = _object()


def read(data: bytes) -> Any:
    store = Shelf()
    store.put(DESCRIPTOR.name, data)
    return read_all(store, DESCRIPTOR)


ORIGINAL = read(OBJECT)


@fuzzed(60)
@given(mutated(OBJECT))
def test_a_changed_object_is_read_as_it_was_or_damaged(data: bytes) -> None:
    with suppress(Damaged):
        assert read(data) == ORIGINAL
    store = Shelf()
    store.put(DESCRIPTOR.name, data)
    assert (verify(store, DESCRIPTOR) is None) == (data == OBJECT)


FOOTER = guard.footer_position(len(OBJECT), OBJECT)
GUARD = guard.open_(len(OBJECT), OBJECT)


def sealed(groups: bytes, footer: bytes) -> bytes:
    """Return the object with these row groups and this footer, and a guard that agrees."""
    sums = struct.pack("<Q", crc64nvme(groups[4:]))
    head = sums + b"CWG1" + struct.pack("<I", 1)
    tail = footer + struct.pack("<I4s", len(footer), b"PAR1")
    return groups + head + struct.pack("<Q", crc64nvme(tail, crc64nvme(head))) + tail


assert sealed(OBJECT[: GUARD.position], OBJECT[FOOTER:-8]) == OBJECT


# Not with a footer that is changed as well: the guard holds against all that nobody crafted; for what somebody did,
# pyarrow ends the process inside the footer's accessors. Whoever may write to the store is trusted, and
# docs/how-to-lose-data.md says so.
@fuzzed(100)
@given(mutated(OBJECT[: GUARD.position], most=2))
def test_behind_the_checksums_there_is_damage_or_a_batch(groups: bytes) -> None:
    try:
        found = read(sealed(groups, OBJECT[FOOTER:-8]))
    except Damaged:
        return
    assert [offset for offset, _ in found] == [offset for offset, _ in ORIGINAL]


@fuzzed(30)
@given(mutated(OBJECT[GUARD.position : FOOTER], most=2))
def test_a_changed_guard_is_damage(guarded: bytes) -> None:
    data = OBJECT[: GUARD.position] + guarded + OBJECT[FOOTER:]
    if data != OBJECT:
        with pytest.raises(Damaged):
            read(data)
