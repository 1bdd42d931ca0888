"""Topics, groups and the log: everything about a broker but the fast way in and out.

    client = Client("http://127.0.0.1:7878")
    client.create_topic("clicks", partitions=4, retention_ms=86_400_000)
    for message in client.read("clicks", partition=0, offset=0):
        print(message.offset, message.value)

Answers are the broker's JSON as dicts. Errors are those of `cordwood.errors`.
"""

import base64
import random
import time
import uuid
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec
import pyarrow as pa

from cordwood.client.caller import BACKOFF, Caller
from cordwood.client.columns import batches_of, encoded
from cordwood.client.endpoint import endpoint as parse
from cordwood.client.future import Sent
from cordwood.client.message import Message, read_only
from cordwood.client.reading import batches as batches_in
from cordwood.client.reply import STRANGER
from cordwood.client.wire import ARROW
from cordwood.errors import Unavailable
from cordwood.record import Batch

if TYPE_CHECKING:
    from ssl import SSLContext

JSON = "application/json"


class Client:
    """Asks a broker, from any thread; each call is tried again for a while when the broker cannot be reached.

    Only what may be said twice is said twice: `redrive` and `stage` without a sequence are tried once.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        token: str | None = None,
        tls: "SSLContext | None" = None,
        ca: str | None = None,
        timeout: float = 30.0,
        tries: int = 4,
    ):
        self._timeout_s, self._tries = timeout, tries
        self._caller = Caller(parse(endpoint, token, tls, ca), timeout, tries)

    # Topics

    def topics(self) -> list[dict[str, Any]]:
        """Return all topics."""
        return _listed(self._ask("GET", "/v1/topics"), "topics")

    def topic(self, name: str) -> dict[str, Any]:
        """Return one topic: its partitions with their offsets, its groups, its settings. Raises NotFound."""
        return self._ask("GET", _path("topics", name))

    def create_topic(self, name: str, partitions: int | None = None, **settings: Any) -> dict[str, Any]:
        """Make a topic and return it; if the same one is there, return that. Raises Conflict if another one is."""
        asked = {"name": name, **settings} | ({} if partitions is None else {"partitions": partitions})
        return self._ask("POST", "/v1/topics", asked)

    def set_topic(self, name: str, **settings: Any) -> dict[str, Any]:
        """Change settings of a topic and return it."""
        return self._ask("PATCH", _path("topics", name), settings)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages and groups."""
        self._ask("DELETE", _path("topics", name))

    # Groups

    def groups(self) -> list[dict[str, Any]]:
        """Return all groups of all topics."""
        return _listed(self._ask("GET", "/v1/groups"), "groups")

    def group(self, topic: str, group: str) -> dict[str, Any]:
        """Return one group: floors, lag, what is in flight, its settings. Raises NotFound."""
        return self._ask("GET", _path("groups", topic, group))

    def set_group(self, topic: str, group: str, **settings: Any) -> dict[str, Any]:
        """Change settings of a group, which is made if need be (then `start` says where it begins), and return it."""
        return self._ask("PATCH", _path("groups", topic, group), settings)

    def delete_group(self, topic: str, group: str) -> None:
        """Delete a group; the next consumer of that name begins anew."""
        self._ask("DELETE", _path("groups", topic, group))

    def seek(self, topic: str, group: str, to: str | int, partition: int | None = None) -> dict[str, Any]:
        """Let a group go on at "earliest", "latest", an offset or a time, in one partition or in all."""
        return self._ask("POST", _path("groups", topic, group) + "/seek", _given(to=to, partition=partition))

    def redrive(
        self,
        topic: str,
        group: str,
        ranges: Sequence[tuple[int, int]] | None = None,
        partition: int | None = None,
    ) -> int:
        """Send a group's dead letters back to the topic, all or those of `ranges`; return how many."""
        asked = _given(ranges=ranges, partition=partition)
        found = self._ask("POST", _path("groups", topic, group) + "/redrive", asked, again=False)
        return int(_part(found, "redriven", int))

    # The log

    def produce(self, topic: str, value: bytes | str | dict[str, Any] | None, **message: Any) -> Sent:
        """Append one message and return where it is, once it is durable. A Producer is faster for more than a few.

        `message` may have key, headers, partition, timestamp, deliver_at, delay_ms, expires_at, idempotency_key.
        """
        asked = {name: given for name, given in message.items() if given is not None}
        asked.setdefault("idempotency_key", uuid.uuid4().hex)  # so that it may be said twice
        asked |= {"topic": topic} | _text("value", encoded(value))
        if "key" in asked:
            asked |= _text("key", asked.pop("key"))
        if "headers" in asked:
            asked["headers"] = {name: _header(one) for name, one in asked["headers"].items()}
        found = self._ask("POST", "/v1/produce", asked)
        return Sent(_part(found, "partition", int | None), _part(found, "offset", int | None))

    def read(
        self,
        topic: str,
        partition: int | None = None,
        *,
        offset: int | None = None,
        timestamp: int | None = None,
        start: str | None = None,
        limit: int | None = None,
        follow: bool = False,
    ) -> Iterator[Message]:
        """Yield messages from an offset or a time on (default: the beginning), oldest first in each partition.

        `start` says it in words: earliest, latest, an offset, `time:` and milliseconds, or a time in ISO 8601.
        Without `follow` it ends at what is there now. With it, it goes on as messages come, through a restart of
        the broker too if `partition` is given.
        """
        for batch in self.read_batches(
            topic, partition, offset=offset, timestamp=timestamp, start=start, limit=limit, follow=follow
        ):
            yield from read_only(batch).messages()

    def read_batches(
        self,
        topic: str,
        partition: int | None = None,
        *,
        offset: int | None = None,
        timestamp: int | None = None,
        start: str | None = None,
        limit: int | None = None,
        follow: bool = False,
    ) -> Iterator[Batch]:
        """Yield the same as `read`, as Arrow record batches."""
        failures = 0
        while True:
            asked = _given(topic=topic, partition=partition, offset=offset, timestamp=timestamp, limit=limit)
            asked |= _given(**{"from": start})
            try:
                for batch in self._stream({**asked, "follow": "true"} if follow else asked, follow=follow):
                    failures = 0
                    yield batch
                    if partition is not None:
                        offset, timestamp, start = int(batch.column("offset")[-1].as_py()) + 1, None, None
                    if limit is not None:
                        limit -= batch.num_rows
                if not follow or limit == 0:
                    return
                raise Unavailable("the broker ended the stream")  # it is stopping, or the topic is gone
            except (OSError, Unavailable) as error:
                failures += 1
                if partition is None or (failures >= self._tries and not follow):
                    raise self._caller.unavailable(error) from error
                time.sleep(BACKOFF.wait_s(failures, random.random))

    def spans(self, topic: str, start: int | None = None, end: int | None = None) -> list[dict[str, Any]]:
        """Return where the messages from `start` to `end` of each partition are: in an object, or with the broker."""
        query = urlencode({"topic": topic, **_given(**{"from": start, "to": end})})
        return _listed(self._ask("GET", f"/v1/spans?{query}"), "spans")

    # For programs that write and read in batches of their own

    def stage(
        self,
        topic: str,
        table: Any,
        *,
        writer: str,
        batch: int,
        task: int = 0,
        attempt: int = 0,
        sequence: int | None = None,
    ) -> dict[str, Any]:
        """Keep a table's messages for a later publish; `sequence` is how many requests came before this one."""
        batches = batches_of(table, 1 << 30)
        if not batches:
            return {"staged": sequence or 0, "count": 0}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches[0].schema) as stream:
            for one in batches:
                stream.write_batch(one)
        who = _given(topic=topic, writer=writer, batch=batch, task=task, attempt=attempt, sequence=sequence)
        target = f"/v1/stage?{urlencode(who)}"
        again = sequence is not None
        return self._caller.call("POST", target, sink.getvalue(), ARROW, again=again).checked().facts()

    def publish(self, writer: str, batch: int, tasks: Sequence[tuple[int, int]] | None = None) -> dict[str, Any]:
        """Make a staged batch visible, all together; again changes nothing. Raises Conflict for an older batch."""
        return self._ask("POST", "/v1/publish", _given(writer=writer, batch=batch, tasks=tasks))

    def replace(self, topic: str, partition: int, objects: Sequence[str], replacement: str) -> dict[str, Any]:
        """Swap a run of objects in the tier for one that is in the store already; return the topic."""
        asked = {"partition": partition, "objects": list(objects), "replacement": replacement}
        return self._ask("POST", _path("topics", topic, "replace"), asked)

    def reader(self, topic: str, reader: str) -> dict[str, Any]:
        """Return where a named reader stands. Raises NotFound."""
        return self._ask("GET", _path("readers", topic, reader))

    def set_reader(self, topic: str, reader: str, offsets: dict[int, int]) -> dict[str, Any]:
        """Note which offset of each partition a named reader reads next; retention waits for it."""
        return self._ask("PUT", _path("readers", topic, reader), {"offsets": offsets})

    def delete_reader(self, topic: str, reader: str) -> None:
        """Forget a named reader."""
        self._ask("DELETE", _path("readers", topic, reader))

    # The broker

    def health(self) -> dict[str, Any]:
        """Return the broker's health, whether it is good or not. Raises Unavailable when it cannot be reached."""
        return self._caller.call("GET", "/v1/healthz", patient=False).facts()

    def version(self) -> dict[str, Any]:
        """Return what runs there."""
        return self._ask("GET", "/v1/version")

    def config(self) -> dict[str, Any]:
        """Return the settings in force, secrets masked."""
        return self._ask("GET", "/v1/config")

    def close(self) -> None:
        """Close the connections that are kept; may be called again, and the client used again."""
        self._caller.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(
        self, method: str, target: str, asked: dict[str, Any] | None = None, *, again: bool = True
    ) -> dict[str, Any]:
        body = b"" if asked is None else msgspec.json.encode(asked)
        reply = self._caller.call(method, target, body, JSON if body else "", again=again).checked()
        return {} if reply.status == 204 else reply.facts()

    def _stream(self, asked: dict[str, Any], *, follow: bool) -> Iterator[Batch]:
        with self._caller.connection() as connection:
            reply, pieces = connection.stream("GET", f"/v1/read?{urlencode(asked)}", ARROW)
            reply.checked()
            if follow:
                connection.limit(None)  # nothing may come for days; TCP's own probes notice a dead peer
            yield from batches_in(pieces)
            connection.limit(self._timeout_s)


def _path(*names: str) -> str:
    return "/v1/" + "/".join(quote(name, safe="") for name in names)


def _given(**asked: Any) -> dict[str, Any]:
    return {name: value for name, value in asked.items() if value is not None}


def _part(found: dict[str, Any], name: str, kind: Any) -> Any:
    """Return one part of an answer, which is of this kind or the answer is no broker's."""
    if name not in found or not isinstance(found[name], kind):
        raise Unavailable(f"the answer has no {name!r}; {STRANGER}")
    return found[name]


def _listed(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return list(_part(found, name, list))


def _text(name: str, value: bytes | str | None) -> dict[str, Any]:
    """Return a value as JSON has it: text under its name, other bytes as base64."""
    if isinstance(value, bytes):
        try:
            return {name: value.decode()}
        except UnicodeDecodeError:
            return {f"{name}_base64": base64.b64encode(value).decode()}
    return {name: value}


def _header(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    found = _text("value", value)
    return found.get("value", {"base64": found.get("value_base64")})
