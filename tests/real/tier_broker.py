"""A broker with a tier, as a process of its own; and its store, looked at as a stranger would."""

import contextlib
import http.client
import io
import json
from base64 import b64decode
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa

from cordwood.machine.objects import ObjectMissing, Objects, open_objects
from cordwood.tier.descriptor import Descriptor, counting, parse
from tests.real.served import Answer, Served, until

ARROW = "application/vnd.apache.arrow.stream"
# History is shipped after a second. The journal's files are small, so that they go, and nothing is read from memory.
SETTINGS: Mapping[str, object] = {
    "tier_interval_s": 1,
    "tier_object_bytes": 1 << 20,
    "segment_bytes": 1 << 20,
    "cache_bytes": 0,
}
SCHEMA = pa.schema(
    [
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.map_(pa.string(), pa.binary())),
        ("deliver_at", pa.timestamp("us", "UTC")),
        ("expires_at", pa.timestamp("us", "UTC")),
    ]
)
BATCH = 250  # messages that are sent together; an object has whole requests
OBJECT = ("offset", "timestamp", "key", "value", "headers")  # an object's columns


class TierBroker(Served):
    """`cordwood serve` with a tier: by default a directory in the data directory."""

    def __init__(self, data: Path, *, tier: str = "", metadata: str = "store", soon: bool = True, **settings: object):
        self.data = data
        self._marks = 0
        self.url = tier or str(data / "tier")
        given = {**SETTINGS, **settings, "metadata": metadata, "tier": tier}
        super().__init__(data, *(part for pair in given.items() for part in ("--set", "{}={}".format(*pair))))
        if soon:
            self.module = "tests.real.tier_soon"

    def start(self) -> "TierBroker":
        super().start()
        return self

    def __enter__(self) -> "TierBroker":
        return self.start()

    def again(self) -> "TierBroker":
        super().again()
        return self

    def refused(self) -> tuple[int, str]:
        """Start it, although it will end by itself; return its exit code and what it said."""
        self.said = []
        try:
            self.start()
        except AssertionError:
            assert self.process is not None
            return self.process.wait(), "".join(self.said)
        self.kill()
        raise AssertionError(f"it listens: {''.join(self.said)}")

    # Asking

    def fetch(self, method: str, path: str, body: bytes | None, headers: dict[str, str], **query: Any) -> Answer:
        """Ask with headers, on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"{path}?{urlencode(query)}", body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def send_table(self, topic: str, table: Any, **query: Any) -> Any:
        """Send messages as one Arrow stream and return the results."""
        answer = self.fetch("POST", "/v1/produce", ipc(table), {"Content-Type": ARROW}, topic=topic, **query)
        assert answer.status == 200, answer
        return answer.json["results"]

    def send_numbered(self, topic: str, first: int, end: int, size: int = 0, **query: Any) -> None:
        """Send messages that say their number, some hundred in each request."""
        for at in range(first, end, BATCH):
            self.send_table(topic, numbered(at, min(at + BATCH, end), size), **query)

    def table(self, topic: str, partition: int = 0, **query: Any) -> Any:
        """Return all messages of a partition as Arrow."""
        answer = self.fetch("GET", "/v1/read", None, {"Accept": ARROW}, topic=topic, partition=partition, **query)
        assert answer.status == 200, answer
        return pa.ipc.open_stream(io.BytesIO(answer.body)).read_all()

    def offsets(self, topic: str, partition: int = 0, **query: Any) -> list[int]:
        return list(self.table(topic, partition, **query)["offset"].to_pylist())

    def values(self, topic: str, partition: int = 0, **query: Any) -> list[bytes]:
        return list(self.table(topic, partition, **query)["value"].to_pylist())

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        return list(self.topic(topic)["partitions"])

    def lease_all(self, topic: str, group: str, count: int, **fields: Any) -> list[dict[str, Any]]:
        """Take so many messages, in as many turns as it takes."""
        found = self.lease(topic, group, **fields)
        while len(found) < count:
            found += self.lease(topic, group, **fields)
        return found

    def group(self, topic: str, group: str) -> Any:
        answer = self.ask("GET", f"/v1/groups/{topic}/{group}")
        assert answer.status == 200, answer
        return answer.json

    # The store

    @cached_property
    def objects(self) -> Objects:
        return open_objects(self.url)

    def rest(self, *topics: str) -> "TierBroker":
        """Wait until all messages of these topics are in the tier."""
        for topic in topics:
            until(lambda topic=topic: self._rests(topic), f"{topic} is in the tier")
        return self

    def _rests(self, topic: str) -> bool:
        return all(one["tiered_offset"] == one["end_offset"] for one in self.partitions(topic))

    def marked(self, topic: str) -> "TierBroker":
        """Wait until a snapshot in the store has all that is true now; a reader of the topic says that it has."""
        self._marks += 1
        reader = f"mark-{self._marks}"
        assert self.ask("PUT", f"/v1/readers/{topic}/{reader}", {"offsets": {}}).status == 200
        return self.named(reader)

    def named(self, name: str) -> "TierBroker":
        """Wait until the newest snapshot in the store has a name."""

        def found() -> bool:
            with contextlib.suppress(ObjectMissing, IndexError):
                return name.encode() in bytes(self.objects.get(self.snapshots()[-1]))
            return False

        until(found, f"a snapshot with {name}")
        return self

    def snapshots(self) -> list[str]:
        return [entry.name for entry in self.objects.list("state/") if entry.name.endswith(".snapshot")]

    def stored(self) -> dict[tuple[str, int], list[Descriptor]]:
        """Return the store's objects of each topic and partition."""
        return stored(self.objects)


def ipc(table: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def numbered(first: int, end: int, size: int = 0) -> Any:
    """Return messages that say their number, each of about so many bytes that no compression makes smaller."""
    source = Random(first)
    values = [b"%d " % number + source.randbytes(size // 2).hex().encode() for number in range(first, end)]
    return pa.table({"value": pa.array(values, pa.binary())})


def numbers(values: list[bytes]) -> list[int]:
    """Return what the messages say."""
    return [int(value.split(b" ")[0]) for value in values]


def stored(objects: Objects) -> dict[tuple[str, int], list[Descriptor]]:
    """Return a store's objects of each topic and partition."""
    found: dict[tuple[str, int], list[Descriptor]] = defaultdict(list)
    for entry in objects.list("topics/"):
        one = parse(entry.name)
        if one is not None:
            found[(one.topic, one.partition)].append(one)
    return found


def check_dense(descriptors: list[Descriptor], end: int) -> None:
    """Make sure that objects hold each offset below `end` once: no gap, no overlap, nothing beside them."""
    spans, losers = counting(descriptors)
    assert losers == []
    assert len(spans) == len(descriptors)
    at = 0
    for span in spans:
        assert span.first == at, f"a gap or an overlap at {at}"
        assert span.descriptor.count == span.end - span.first
        at = span.end
    assert at == end


def sorted_by_first(descriptors: list[Descriptor]) -> list[Descriptor]:
    return sorted(descriptors, key=lambda one: one.first)


def as_rows(lines: bytes) -> list[dict[str, Any]]:
    """Return what NDJSON says, with keys, values and headers as bytes."""
    found = []
    for line in lines.splitlines():
        row = json.loads(line)
        for name in ("key", "value"):
            text = row.get(name)
            encoded = row.pop(f"{name}_base64", None)
            row[name] = b64decode(encoded) if encoded is not None else None if text is None else text.encode()
        found.append(row)
    return found
