"""Writes the logs of other systems, from their byte tables and from nothing of ours."""

import base64
import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from awscrt.checksums import crc64nvme

SAMPLES = Path(__file__).parent / "samples"


def driftq(entries: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(entry, separators=(",", ":")).encode() + b"\n" for entry in entries)


def driftq_message(topic: str, offset: int, value: bytes, partition: int = 0, key: bytes = b"", **more: Any) -> dict:
    entry = {
        "type": 1,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "key": base64.b64encode(key).decode(),
        "value": base64.b64encode(value).decode(),
        **more,
    }
    return {name: one for name, one in entry.items() if one not in (0, "")}


def varint(number: int) -> bytes:
    if number < 251:
        return bytes([number])
    for marker, form in ((251, "<H"), (252, "<I"), (253, "<Q")):
        if number < 1 << 8 * struct.calcsize(form):
            return bytes([marker]) + struct.pack(form, number)
    raise AssertionError("too large")


def _list(data: bytes) -> bytes:
    return varint(len(data)) + data


def danube_payload(
    value: bytes,
    offset: int = 0,
    *,
    topic: str = "/default/orders",
    request: int = 1000,
    time_ms: int = 1_704_067_200_000,
    subscription: str | None = None,
    attributes: Sequence[tuple[str, str]] = (),
    layout: int = 2025,
    key: str | None = None,
    schema: tuple[int, int] | None = None,
) -> bytes:
    message_id = varint(7) + _list(topic.encode()) + _list(b"127.0.0.1:6650") + varint(offset)
    payload = varint(request) + message_id + _list(value) + varint(time_ms) + _list(b"p1")
    payload += b"\0" if subscription is None else b"\1" + _list(subscription.encode())
    payload += varint(len(attributes))
    for name, one in attributes:
        payload += _list(name.encode()) + _list(one.encode())
    if layout == 2026:
        payload += b"\0\0" if schema is None else b"\1" + varint(schema[0]) + b"\1" + varint(schema[1])
        payload += b"\0" if key is None else b"\1" + _list(key.encode())
    return payload


def frame(number: int, payload: bytes) -> bytes:
    return struct.pack("<QII", number, len(payload), zlib.crc32(payload)) + payload


def danube(values: Sequence[bytes], first: int = 0, **more: Any) -> bytes:
    return b"".join(frame(n, danube_payload(value, n, **more)) for n, value in enumerate(values, first))


BLIP_HEADER = b"BLIPWAL\0" + struct.pack("<I", 1) + bytes(20)


def blipmq(messages: Sequence[tuple[str, bytes]], qos: int = 1, first: int = 1) -> bytes:
    records = [
        frame(n, bytes([qos]) + struct.pack(">H", len(topic.encode())) + topic.encode() + body)
        for n, (topic, body) in enumerate(messages, first)
    ]
    return BLIP_HEADER + b"".join(records)


AIRUNNER_HEADER = b"ARWAL001" + struct.pack("<II", 1, 0)


def airunner_record(number: int, payload: bytes, status: int = 1, *, with_itself: bool, time_ms: int) -> bytes:
    checked = struct.pack("<qB3sq", number, status, bytes(3), time_ms) + payload
    length = len(payload) + (32 if with_itself else 28)
    return struct.pack("<I", length) + checked + struct.pack("<Q", crc64nvme(checked))


def airunner(payloads: Sequence[bytes], status: int = 1, *, with_itself: bool = True) -> bytes:
    return AIRUNNER_HEADER + b"".join(
        airunner_record(n, payload, status, with_itself=with_itself, time_ms=1_704_067_200_000 + n)
        for n, payload in enumerate(payloads, 1)
    )
