"""DriftQ: a JSON object a line, without checksums.

    type   what                        becomes
    1      message                     a record; `key` and `value` are base64
    2      a group's last acknowledged offset
    3      topic; `partition` is its count       a declared topic
    4      retry state of a message
    5      idempotency key that was consumed      2, 4, 5: shown, never imported

A field that is 0 or empty is left out. A line that cannot be one of these is corrupt; the last one, without its line
break, is torn. Two objects in one line are two records: DriftQ appends behind a line whose break was lost. Nothing
can be said about a changed letter inside a value: there is no checksum to ask.
"""

import binascii
import json
from collections.abc import Iterator
from mmap import mmap
from typing import Any

from cordwood.doors.record import Aside, Item, Kind, Place, Record, Topic, text

MOST_LINE_BYTES = 256 << 20  # far above any message; a file without line breaks is not held in memory
_ASIDES = {2: "group offset", 4: "retry state", 5: "idempotency key"}
_TAKEN = frozenset(("type", "topic", "partition", "offset", "key", "value"))
_decoder = json.JSONDecoder()


class NotDriftQ(Exception):
    """This is no object of DriftQ's. It never leaves this package."""


def records(data: memoryview, file: str) -> Iterator[Item]:
    """Yield what is in one file."""
    start = 0
    lines = data.obj  # bytes or an mmap; both find a byte faster than anything written here
    assert isinstance(lines, bytes | mmap) and len(lines) == len(data), "a whole file is handed in"
    while start < len(data):
        found_at = lines.find(b"\n", start)
        end = found_at if found_at >= 0 else len(data)
        ended = found_at >= 0
        stop = end + 1 if ended else end
        try:
            if end - start > MOST_LINE_BYTES:  # it is not read at all: memory has an end, too
                raise NotDriftQ(f"a line of {end - start} bytes is none of DriftQ's")
            found = list(line_items(bytes(data[start:end]), start, stop))
        except NotDriftQ as error:
            cut = not ended and end - start <= MOST_LINE_BYTES
            kind = Kind.TORN if cut else Kind.CORRUPT
            reason = "the last line is cut short" if cut else str(error)
            yield Place(kind, file, start, stop, reason)
        else:
            yield from found
        start = stop


def line_items(line: bytes, start: int, stop: int) -> Iterator[Item]:
    """Yield the objects of one line; raise NotDriftQ for anything else."""
    try:
        rest = line.decode().strip(" \t\r")
    except UnicodeDecodeError:
        raise NotDriftQ("a line is not UTF-8") from None
    place = 0
    while place < len(rest):
        try:
            found, place = _decoder.raw_decode(rest, place)
        except (ValueError, RecursionError):
            raise NotDriftQ("a line is not JSON") from None
        yield _item(found, start, stop)


def _item(found: Any, start: int, stop: int) -> Item:
    if not isinstance(found, dict):
        raise NotDriftQ("a line is not an object")
    kind = _number(found, "type")
    partition, offset = _number(found, "partition"), _number(found, "offset")
    topic = found.get("topic", "")
    if not isinstance(topic, str):
        raise NotDriftQ("topic is not text")
    if kind == 1:
        headers = [(_header(name), _text(value)) for name, value in found.items() if name not in _TAKEN]
        value = _bytes(found, "value")
        key = _bytes(found, "key") or None
        return Record(start, stop, "driftq", offset, value, topic, key, None, partition, tuple(headers))
    if "key" in found or "value" in found:
        raise NotDriftQ(f"type {kind} has no key and no value; this is a message whose type is damaged")
    if kind == 3:
        return Topic(start, stop, topic, max(partition, 1))
    if kind in _ASIDES:
        facts = [(name, one if isinstance(one, int) else _text(one).decode()) for name, one in found.items()]
        shown = {"topic": topic, "partition": partition, "offset": offset} | dict(facts)
        del shown["type"]
        return Aside(start, stop, _ASIDES[kind], tuple(shown.items()))
    raise NotDriftQ(f"type {kind} is not known; 1 to 5 are")


def _number(found: dict[str, Any], name: str) -> int:
    value = found.get(name, 0)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise NotDriftQ(f"{name} is not a whole number")
    return value


def _bytes(found: dict[str, Any], name: str) -> bytes:
    value = found.get(name)
    if value is None:
        return b""
    if not isinstance(value, str):
        raise NotDriftQ(f"{name} is not text")
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError):
        raise NotDriftQ(f"{name} is not base64") from None


def _header(name: str) -> str:
    return "driftq-" + text(name).decode().replace("_", "-")


def _text(value: Any) -> bytes:
    return text(value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False))
