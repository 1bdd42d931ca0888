"""One event, and many of them as columns.

    times        i64 × n   microseconds since 1970
    lengths      i32 × n   of each value, -1: none (a tombstone)
    values       the values' bytes, one behind the other
    key_lengths  i32 × n   of each key, -1: the execution's own; nil when all are
    keys         the keys' bytes
    headers      for each event nil or pairs (name, bytes or nil); nil when no event has any

Columns, because many events are then a few copies of memory, and no loop of Python's, on the way to the broker.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from cordwood.edge.facts import Appended
from cordwood.errors import Refused

Headers = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
Pairs = list[tuple[str, bytes | None]]

MOST_BYTES = 16 << 20  # of one event; a broker takes 1 MiB unless told otherwise
MERGED_BYTES = 4 << 10  # what is worth a copy
OVERHEAD_BYTES = 32  # what an event costs beside its own bytes, about
_LAST_US = 253_402_300_799_999_999  # the end of the year 9999, where the broker's calendar ends
_json = msgspec.json.Encoder()


class Draft(NamedTuple):
    """An event that has no number yet. Without a key it gets the execution's."""

    time_us: int
    key: bytes | None
    value: bytes | None
    headers: Pairs | None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        total = OVERHEAD_BYTES + len(self.value or b"") + len(self.key or b"")
        for name, value in self.headers or ():
            total += len(name) + len(value or b"") + 8
        return total


class Event(NamedTuple):
    """An event as it was appended; `number` counts the execution's events from 0."""

    number: int
    timestamp_ms: int
    key: bytes
    value: bytes | None
    headers: Pairs


def draft(
    value: Any,
    key: bytes | str | None,
    headers: Headers | None,
    timestamp: int | datetime | None,
    now_ms: int,
) -> Draft:
    """Return an event from what a caller gave, or say what is wrong with it: TypeError, Refused."""
    if type(value) is str:
        value = value.encode()
    elif type(value) is not bytes and value is not None:
        value = _encoded(value)
    if type(key) is str:
        key = key.encode()
    elif key is not None and type(key) is not bytes:
        raise TypeError(f"a key is bytes or str, not {type(key).__name__}")
    pairs = _pairs(headers) if headers else None
    made = Draft(now_ms * 1000 if timestamp is None else _time_us(timestamp), key, value, pairs)
    size = made.size
    if size > MOST_BYTES:
        raise Refused(f"an event of {size} bytes; an outbox takes {MOST_BYTES} at most")
    return made


def _encoded(value: Any) -> bytes:
    if isinstance(value, dict):
        return _json.encode(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"a value is bytes, str, dict or None (a tombstone), not {type(value).__name__}")


def _pairs(headers: Headers) -> Pairs:
    found: Pairs = []
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if isinstance(value, str):
            value = value.encode()
        if not isinstance(name, str) or not isinstance(value, bytes | None):
            raise TypeError("a header is a name (str) and a value (bytes, str or None)")
        name.encode()  # not every str is Unicode
        found.append((name, value))
    return found


def _time_us(when: int | datetime) -> int:
    us = int(when.timestamp() * 1000) * 1000 if isinstance(when, datetime) else int(when) * 1000
    if not -_LAST_US <= us <= _LAST_US:
        raise Refused(f"{when!r} is no time in milliseconds since 1970")
    return us


def columns(first: int, drafts: Sequence[Draft]) -> Appended:
    """Return events as the fact that they were appended, numbered from `first`."""
    if len(drafts) == 1:
        time_us, key, value, pairs = drafts[0]
        length = -1 if value is None else len(value)
        return Appended(
            first,
            1,
            time_us.to_bytes(8, "little", signed=True),
            length.to_bytes(4, "little", signed=True),
            value or b"",
            None if key is None else len(key).to_bytes(4, "little", signed=True),
            key,
            None if pairs is None else [pairs],
        )
    times = array("q", [one.time_us for one in drafts])
    lengths, values = _joined([one.value for one in drafts])
    key_lengths = keys = headers = None
    if any(one.key is not None for one in drafts):
        key_lengths, keys = _joined([one.key for one in drafts])
    if any(one.headers is not None for one in drafts):
        headers = [one.headers for one in drafts]
    return Appended(first, len(drafts), times.tobytes(), lengths, values, key_lengths, keys, headers)


def _joined(parts: list[bytes | None]) -> tuple[bytes, bytes]:
    lengths = array("i", [-1 if part is None else len(part) for part in parts])
    data = b"".join([part for part in parts if part is not None])
    return lengths.tobytes(), data


def merged(facts: Sequence[Appended]) -> list[Appended]:
    """Return the same events in fewer pieces: small neighbours without keys and headers of their own become one.

    What is done for each piece on the way to the broker costs more than to copy a small one.
    """
    found: list[Appended] = []
    plain: list[Appended] = []
    behind = -1  # the number behind the last plain one
    for fact in facts:
        alone = fact.key_lengths is not None or fact.headers is not None or len(fact.values) > MERGED_BYTES
        if alone or fact.first != behind:
            if plain:
                found.append(_one(plain))
            plain = []
        if alone:
            found.append(fact)
        else:
            plain.append(fact)
            behind = fact.first + fact.count
    return [*found, _one(plain)] if plain else found


def _one(facts: list[Appended]) -> Appended:
    if len(facts) == 1:
        return facts[0]
    return Appended(
        facts[0].first,
        facts[-1].end - facts[0].first,
        b"".join([fact.times for fact in facts]),
        b"".join([fact.lengths for fact in facts]),
        b"".join([fact.values for fact in facts]),
        None,
        None,
        None,
    )


def events_of(appended: Appended, execution: str, start: int, end: int) -> Iterator[Event]:
    """Yield the events from number `start` to `end` that this fact holds."""
    default = execution.encode()
    times = memoryview(appended.times).cast("q")
    values = _parts(appended.lengths, appended.values)
    keys: Iterator[bytes | None] | None = None
    if appended.key_lengths is not None:
        keys = _parts(appended.key_lengths, appended.keys or b"")
    for row in range(appended.count):
        value = next(values)
        key = next(keys) if keys is not None else None
        number = appended.first + row
        if start <= number < end:
            pairs = appended.headers[row] if appended.headers is not None else None
            yield Event(number, times[row] // 1000, default if key is None else key, value, list(pairs or []))


def _parts(lengths: bytes, data: bytes) -> Iterator[bytes | None]:
    at = 0
    for length in memoryview(lengths).cast("i"):
        if length < 0:
            yield None
        else:
            yield data[at : at + length]
            at += length
