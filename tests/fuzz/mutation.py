"""Bytes that were right, and then were not: flipped, cut, spliced, or with a number in them that is hostile."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import strategies as st

# What a length, a count or a position says when somebody wants to see what happens.
HOSTILE = (0, 1, 7, 8, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 1 << 20, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
HOSTILE_WIDE = (*HOSTILE, 1 << 32, 1 << 40, (1 << 62) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


@st.composite
def _change(draw: st.DrawFn, others: Sequence[bytes]) -> tuple[str, int, int, bytes]:
    kind = draw(
        st.sampled_from(("flip", "flip", "set", "number", "number", "cut", "drop", "double", "insert", "splice"))
    )
    at, length = draw(st.integers(0, (1 << 20) - 1)), draw(st.integers(1, 64))
    more = b""
    if kind == "number":
        width = draw(st.sampled_from((1, 2, 4, 8)))
        number = draw(st.sampled_from(HOSTILE_WIDE) | st.integers(0, 300))
        more = (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    elif kind in ("set", "insert"):
        more = draw(st.binary(min_size=1, max_size=16))
    elif kind == "splice" and others:
        more = draw(st.sampled_from(list(others)))
    return kind, at, length, more


def apply(data: bytes, changes: Sequence[tuple[str, int, int, bytes]]) -> bytes:
    """Return the bytes with all changes made, one after another."""
    found = bytearray(data)
    for kind, where, length, more in changes:
        if not found:
            found += more
            continue
        at = where % len(found)
        if kind == "flip":
            found[at] ^= 1 << (length % 8)
        elif kind == "number":
            at -= at % len(more)
            found[at : at + len(more)] = more
        elif kind == "set":
            found[at : at + len(more)] = more
        elif kind == "cut":
            del found[at:]
        elif kind == "drop":
            del found[at : at + length]
        elif kind == "double":
            found[at:at] = found[at : at + length]
        elif kind == "insert":
            found[at:at] = more
        else:
            found[at:] = more[where % (len(more) or 1) :]
    return bytes(found)


def mutated(*samples: bytes, most: int = 4) -> st.SearchStrategy[bytes]:
    """Return some of these with one to `most` changes; now and then any bytes at all."""
    changed = st.builds(apply, st.sampled_from(samples), st.lists(_change(samples), min_size=1, max_size=most))
    return st.one_of(changed, changed, changed, changed, st.binary(max_size=200))


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Return the bytes in pieces, cut at these places."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(places)]
