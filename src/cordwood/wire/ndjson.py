"""NDJSON: a message a line. In as `message.Message`, blank lines allowed, all lines or none; out as rows:

    {"partition":0,"offset":7,"attempts":1,"timestamp":1700000000000,"key":"user:1","value":"text",
     "headers":{"trace":"abc"},"last_error":null}

Bytes that are not UTF-8 come out under `key_base64` and `value_base64` instead; a null key or value is null under its
plain name. Headers are written as they are read (`message`); messages without any have {}.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET, Struct, UnsetType, field

from cordwood.errors import Refused
from cordwood.record import Column
from cordwood.wire.intake import Limits, TooLarge
from cordwood.wire.json import check_text, reason
from cordwood.wire.message import REPEATED, Base64, Fault, Headers, HeaderValue, Message, names_repeat, produce
from cordwood.wire.produce import Produce
from cordwood.wire.run import Run

CONTENT_TYPE = "application/x-ndjson"
_decoder = msgspec.json.Decoder(Message)
_encoder = msgspec.json.Encoder()
_NO_HEADERS: Headers = {}


class Row(Struct, frozen=True):
    """One message on its way out."""

    partition: int
    offset: int
    attempts: int
    timestamp: int
    key: str | UnsetType | None = UNSET
    value: str | UnsetType | None = UNSET
    headers: Headers = field(default_factory=dict)
    last_error: str | None = None
    key_base64: bytes | UnsetType = UNSET
    value_base64: bytes | UnsetType = UNSET


def read(body: bytes | memoryview, now_ms: int, limits: Limits) -> Produce:
    """Return the messages of all lines, in order; raise Refused, naming the line, if one is at fault."""
    check_text(body, limits)
    body = bytes(body)
    try:
        messages = _decoder.decode_lines(body)
    except (msgspec.MsgspecError, RecursionError):
        messages = None  # it does not say which line
    if messages is None or len(messages) != _count(body):  # it takes two messages on a line, and one on two
        messages = [_decode(number, line) for number, line in _lines(body)]
    if names_repeat(body, messages):
        for (number, line), message in zip(_lines(body), messages, strict=True):
            if names_repeat(line, [message]):
                raise Refused(f"line {number} is not accepted: {REPEATED}")
    try:
        return produce(messages, now_ms, limits)
    except Fault as fault:
        raise Refused(f"line {_line_of(body, fault.row)} is not accepted: {fault.reason}") from None
    except TooLarge as error:
        if error.row is None:
            raise
        raise TooLarge(f"line {_line_of(body, error.row)} is not accepted: {error}", error.row) from None


def write(run: Run) -> bytes:
    """Return a line for each message of the run."""
    return bytes(_encoder.encode_lines(rows(run)))


def rows(run: Run) -> list[Row]:
    """Return the messages of the run, ready to be encoded as JSON."""
    batch = run.batch
    have = dict(zip(batch.schema.names, batch.columns, strict=True))
    count = batch.num_rows
    keys, keys_base64 = _texts(have["key"]) if "key" in have else (repeat(None, count), None)
    values, values_base64 = _texts(have["value"])
    columns: list[Iterable[Any]] = [
        repeat(run.partition, count),
        range(run.first_offset, run.first_offset + count),
        repeat(run.attempts, count) if isinstance(run.attempts, int) else run.attempts,
        (have["timestamp"].view(pa.int64()).to_numpy() // 1000).tolist(),
        keys,
        values,
        _headers(have["headers"]) if "headers" in have else repeat(_NO_HEADERS, count),
        run.last_errors or repeat(None, count),
    ]
    if keys_base64 or values_base64:
        columns += [keys_base64 or repeat(UNSET, count), values_base64 or repeat(UNSET, count)]
    return list(map(Row, *columns))


def _texts(column: Column) -> tuple[list[Any], list[Any] | None]:
    """Return what of a column is text, and, where some of it is not, the rest beside it."""
    try:
        return column.cast(pa.string()).to_numpy(zero_copy_only=False).tolist(), None
    except pa.ArrowInvalid:  # Arrow checks all of it at native speed; only mixed columns are looked at one by one
        texts: list[Any] = []
        others: list[Any] = []
        for content in column.to_numpy(zero_copy_only=False).tolist():
            text = None if content is None else _text(content)
            texts.append(text)
            others.append(content if text is UNSET else UNSET)
        return texts, others


def _text(content: bytes) -> str | UnsetType:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return UNSET


def _headers(column: Column) -> Iterator[Headers]:
    names, values = column.keys.to_pylist(), column.items.to_pylist()
    starts, valid = column.offsets.to_pylist(), column.is_valid().to_pylist()
    for row, there in enumerate(valid):
        found: Headers = {}
        for n in range(starts[row], starts[row + 1]) if there else ():
            content = values[n]
            text = None if content is None else _text(content)
            value: HeaderValue = Base64(content) if isinstance(text, UnsetType) else text
            before = found.get(names[n], UNSET)
            if before is UNSET:
                found[names[n]] = value
            else:
                found[names[n]] = [*before, value] if isinstance(before, list) else [before, value]
        yield found


def _lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    return ((number, line) for number, line in enumerate(body.split(b"\n"), 1) if not line.isspace() and line)


def _count(body: bytes) -> int:
    newlines = body.count(b"\n")
    if b"\n\n" not in body and body.endswith(b"}\n"):
        return newlines  # unless some line is only white space; then every line is read by itself
    return sum(1 for _ in _lines(body))


def _decode(number: int, line: bytes) -> Message:
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refused(f"line {number} is not accepted: {reason(error)}") from None


def _line_of(body: bytes, row: int) -> int:
    return next(number for n, (number, _) in enumerate(_lines(body)) if n == row)
