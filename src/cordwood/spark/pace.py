"""How far a trigger goes: at most so many messages, at most so many bytes, each partition its share. Pure."""

from collections.abc import Mapping, Sequence

from cordwood.spark.extent import Extent, Key, advance, messages
from cordwood.spark.plan import Span


def by_rows(extents: Sequence[Extent], starts: Mapping[Key, int], most: int) -> dict[Key, int]:
    """Return where each partition ends when together they have `most` messages, shared by what each of them has."""
    sizes = {extent.key: messages(extent, starts[extent.key], extent.end) for extent in extents}
    if sum(sizes.values()) <= most:
        return {extent.key: max(extent.end, starts[extent.key]) for extent in extents}
    shares = _apportion(sizes, most)
    return {extent.key: advance(extent, starts[extent.key], shares[extent.key]) for extent in extents}


def by_bytes(spans: Sequence[Span], most: int) -> dict[Key, int]:
    """Return where each partition of these spans ends when together they have about `most` bytes.

    Within a span its messages count as equally large. One message goes, however large it is.
    """
    sizes: dict[Key, int] = {}
    for span in spans:
        key = (span.topic, span.partition)
        sizes[key] = sizes.get(key, 0) + span.bytes
    ends = {(span.topic, span.partition): span.end for span in spans}
    if sum(sizes.values()) <= most:
        return ends
    left = _apportion(sizes, most)
    reached: dict[Key, int] = {}
    full: set[Key] = set()
    for span in spans:
        key = (span.topic, span.partition)
        reached.setdefault(key, span.start)
        if key in full:
            continue
        if span.bytes <= left[key]:
            left[key] -= span.bytes
            reached[key] = span.end
        else:
            reached[key] = span.start + span.rows * left[key] // span.bytes
            full.add(key)
    if not any(_moved(span, reached) for span in spans):
        first = spans[0]
        reached[first.topic, first.partition] = first.start + 1
    return reached


def _moved(span: Span, reached: Mapping[Key, int]) -> bool:
    return reached[span.topic, span.partition] > span.start


def _apportion(sizes: Mapping[Key, int], most: int) -> dict[Key, int]:
    """Share out `most`, less than all of them, in proportion; what is left goes to the largest remainders."""
    total = sum(sizes.values())
    assert most < total
    shares = {key: most * size // total for key, size in sizes.items()}
    left = most - sum(shares.values())
    by_remainder = sorted(sizes, key=lambda key: (-(most * sizes[key] % total), key))
    for key in by_remainder[:left]:
        shares[key] += 1
    return shares
