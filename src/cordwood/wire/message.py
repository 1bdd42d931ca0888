"""One message in JSON: its fields, and how many of them become records.

    {"key": "user:1", "value": "text", "headers": {"trace": "abc", "blob": {"base64": "/w=="}}, "delay_ms": 5000}

    value           a string is stored as its UTF-8; null is a tombstone; an object, array, number, true or false is
                    stored as the JSON text that was sent, without white space
    value_base64    any bytes; one of the two is required, never both. `key_base64` alike, instead of `key`
    headers         name → string, or {"base64": …} for other bytes, or null, or an array of these: a name again
    times           integer milliseconds since 1970; `delay_ms` is a `deliver_at` from now on, never both

A field that is not known is an error, and so is a name that comes twice in the message or its headers: dropping one
of two values would be a silent loss. What is inside `value` is the sender's own.
"""

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from cordwood.compose import MOST_ROWS
from cordwood.record import HEADERS, TIME, Records, assemble
from cordwood.wire.intake import Limits, normalise
from cordwood.wire.produce import Produce

LAST_MS = 253_402_300_799_999  # the end of the year 9999
Time = Annotated[int, Meta(ge=0, le=LAST_MS)]
Delay = Annotated[int, Meta(ge=0, le=LAST_MS // 2)]  # so that now and a delay are a time, for some thousand years
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, Meta(max_length=256)]
Qos = Annotated[int, Meta(ge=0, le=1)]  # 0: answered before it is on disk


class Base64(Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that need not be text."""

    base64: bytes


HeaderValue = str | Base64 | None
Headers = dict[str, HeaderValue | list[HeaderValue]]


class Message(Struct, frozen=True, forbid_unknown_fields=True):
    """One message to produce. Every field may be left out but `value` or `value_base64`."""

    value: Raw | UnsetType = UNSET
    value_base64: bytes | UnsetType = UNSET
    key: str | UnsetType | None = UNSET
    key_base64: bytes | UnsetType = UNSET
    headers: Headers | UnsetType | None = UNSET
    topic: str | UnsetType | None = UNSET
    partition: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType | None = UNSET
    timestamp: Time | UnsetType | None = UNSET
    deliver_at: Time | UnsetType | None = UNSET
    delay_ms: Delay | UnsetType | None = UNSET
    expires_at: Time | UnsetType | None = UNSET
    idempotency_key: Name | UnsetType | None = UNSET
    producer_id: Name | UnsetType | None = UNSET
    epoch: Number | UnsetType | None = UNSET
    sequence: Number | UnsetType | None = UNSET
    qos: Qos | UnsetType | None = UNSET


class Fault(Exception):
    """What is wrong with message `row`; the format says where that is. It never leaves this package."""

    def __init__(self, row: int, reason: str):
        super().__init__(reason)
        self.row = row
        self.reason = reason


_others = attrgetter("headers", "partition", "timestamp", "deliver_at", "delay_ms", "expires_at", "key_base64")
_NONE_OF_THEM = (UNSET,) * 7
_UNBOUNDED = Limits(1 << 62, 1 << 62, 1 << 62, 1 << 62, 1 << 62)
REPEATED = "a field or a header comes twice"
_text: msgspec.json.Decoder[str | None] = msgspec.json.Decoder(str | None)
_strings = msgspec.json.Decoder(list[str])
_encoder = msgspec.json.Encoder()
_ESCAPE = re.compile(rb"\\(?:u0022|.)", re.DOTALL)


def names_repeat(body: bytes, messages: Sequence[Message]) -> bool:
    """Say whether the body has more names than the messages it was read as: then some name came twice.

    msgspec keeps the last of two. Written again, the messages have as many quotes as before unless one was dropped;
    only `\\u0022` is a quote that is written as another one.
    """
    return _quotes(body) != _quotes(_encoder.encode_lines(messages))


def check(message: Message, row: int = 0) -> None:
    """Raise Fault if the message's fields do not go together, or its value is not JSON that others can read."""
    if (message.value is UNSET) == (message.value_base64 is UNSET):
        raise Fault(row, "exactly one of value and value_base64 is required; null in value is a tombstone")
    if message.key_base64 is not UNSET and message.key not in (UNSET, None):
        raise Fault(row, "only one of key and key_base64 is accepted")
    if message.delay_ms not in (UNSET, None) and message.deliver_at not in (UNSET, None):
        raise Fault(row, "only one of deliver_at and delay_ms is accepted")
    if message.value is not UNSET:
        raw = bytes(message.value)
        if raw[0] not in b'"n':
            try:
                msgspec.json.decode(raw)
            except (ValueError, RecursionError) as error:
                raise Fault(row, f"value: {error}") from None


def records(messages: Sequence[Message], now_ms: int, limits: Limits) -> Records:
    """Return messages that were checked as records, in order; a delay begins at `now_ms`."""
    columns: dict[str, Any] = {"value": _values(messages)}
    keys, coded = _column(messages, "key"), _column(messages, "key_base64")
    if keys and coded:
        keys = [other if one is None else one for one, other in zip(keys, coded, strict=True)]
    if keys or coded:
        columns["key"] = _binary(keys or coded or [])
    headers = _column(messages, "headers")
    if headers and any(headers):
        columns["headers"] = pa.array(map(_pairs, headers), HEADERS, size=len(headers))
    times, delays = _column(messages, "deliver_at"), _column(messages, "delay_ms")
    if delays:
        later = [delay if delay is None else now_ms + delay for delay in delays]
        times = [b if a is None else a for a, b in zip(times, later, strict=True)] if times else later
    for name, numbers in (
        ("timestamp", _column(messages, "timestamp")),
        ("deliver_at", times),
        ("expires_at", _column(messages, "expires_at")),
    ):
        if numbers:
            columns[name] = pa.array(numbers, pa.int64()).view(pa.timestamp("ms"))
    if partitions := _column(messages, "partition"):
        columns["partition"] = pa.array(partitions, pa.int32())
    return normalise(pa.RecordBatch.from_pydict(columns), now_ms, limits)


def gathered(messages: Sequence[Message], now_ms: int) -> Records:
    """Return messages that were checked, and are known to be within all limits, as records.

    Most have a value and perhaps a key and nothing else; for them this takes a tenth of the time of `records`.
    """
    if any(others != _NONE_OF_THEM for others in map(_others, messages)):
        return records(messages, now_ms, _UNBOUNDED)
    columns: dict[str, Any] = {"value": _values(messages)}
    keys = [None if message.key is UNSET else message.key for message in messages]
    if keys.count(None) < len(keys):
        columns["key"] = _binary(keys)
    now = pa.py_buffer(np.full(len(messages), now_ms * 1000, np.int64))
    columns["timestamp"] = pa.Array.from_buffers(TIME, len(messages), [None, now], 0)
    return Records(assemble(columns))


def plain(messages: Sequence[Message]) -> tuple[list[bytes], list[bytes] | None] | None:
    """Return values and keys of messages that were checked, if that is all; None when there is more to them.

    Keys are None when none has one. Where some have one and some not, or a value is a tombstone, there is more.
    """
    if len(messages) > MOST_ROWS or any(others != _NONE_OF_THEM for others in map(_others, messages)):
        return None
    keys = [message.key for message in messages]
    bare = keys.count(UNSET)
    if bare != len(keys) and (bare or None in keys):
        return None
    values = [_value(message) for message in messages]
    if None in values:
        return None
    found = [value.encode() if isinstance(value, str) else value for value in values]
    return found, None if bare else [key.encode() for key in keys]  # type: ignore[union-attr, return-value]


def produce(messages: Sequence[Message], now_ms: int, limits: Limits) -> Produce:
    """Return the messages as one request; raise Fault for the first that is at fault."""
    for row, message in enumerate(messages):
        check(message, row)
    sequences = _column(messages, "sequence")
    for row, number in enumerate(sequences or ()):
        if row and number is not None:
            raise Fault(row, "sequence belongs to the first message; the others follow it")
    return Produce(
        records(messages, now_ms, limits),
        topic=_agreed(messages, "topic"),
        producer_id=_agreed(messages, "producer_id"),
        epoch=_agreed(messages, "epoch"),
        sequence=sequences[0] if sequences else None,
        idempotency_keys=_column(messages, "idempotency_key"),
        qos=_agreed(messages, "qos"),
    )


def _quotes(text: bytes) -> int:
    hidden = 0
    if b"\\u0022" in text:
        hidden = sum(escape == b"\\u0022" for escape in _ESCAPE.findall(text))
    return text.count(b'"') + hidden


def _values(messages: Sequence[Message]) -> Any:
    raws = [m.value for m in messages]
    if UNSET not in raws:
        texts = [bytes(raw) for raw in raws]  # type: ignore[arg-type]
        if all(text[0] == 34 for text in texts):  # 34 is a quote: strings only, read all at once
            return _binary(_strings.decode(b"[" + b",".join(texts) + b"]"))
    return _binary([_value(m) for m in messages])


def _value(message: Message) -> str | bytes | None:
    if isinstance(message.value_base64, bytes):
        return message.value_base64
    raw = bytes(message.value)  # type: ignore[arg-type]
    if raw[0] in b'"n':  # a string, or null
        return _text.decode(raw)
    text: bytes = msgspec.json.format(raw, indent=-1)
    return text


def _binary(values: Sequence[str | bytes | None]) -> Any:
    if set(map(type, values)) == {str}:
        return pa.array(values, pa.string()).view(pa.binary())
    return pa.array([v.encode() if isinstance(v, str) else v for v in values], pa.binary())


def _column(messages: Sequence[Message], name: str) -> list[Any] | None:
    """Return a field of all messages, None for all when none has it."""
    column = list(map(attrgetter(name), messages))
    missing = column.count(UNSET)
    if missing == len(column):
        return None
    if missing:
        column = [None if value is UNSET else value for value in column]
    return None if column.count(None) == len(column) else column


def _pairs(headers: Headers | None) -> list[tuple[str, bytes | None]] | None:
    if not headers:
        return None
    return [(n, _content(one)) for n, v in headers.items() for one in (v if isinstance(v, list) else [v])]


def _content(value: HeaderValue) -> bytes | None:
    if isinstance(value, Base64):
        return value.base64
    return None if value is None else value.encode()


def _agreed(messages: Sequence[Message], name: str) -> Any:
    """Return what all messages that say it agree on."""
    found = None
    for row, value in enumerate(_column(messages, name) or ()):
        if value is not None and found is not None and value != found:
            raise Fault(row, f"{name} is another one than before; one request has one")
        found = value if found is None else found
    return found
