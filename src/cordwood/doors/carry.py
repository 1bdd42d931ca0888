"""Carrying a source into topics, each record once, whatever happens in between.

    read the marks ─▶ compare ─▶ stage a batch's messages and its marks ─▶ publish: one frame ─▶ next batch
                  1           2                                         3                    4

The power goes at 1 or 2: nothing happened. At 3: what was staged is in no topic, and ends by itself. At 4: messages
and marks are there together, and the next import begins behind them. There is no moment in which one is durable
without the other, so nothing depends on how long the broker remembers who sent what.
"""

import hashlib
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from cordwood.client.client import Client
from cordwood.doors.plan import (
    Batch,
    Limits,
    Mark,
    Target,
    batches,
    changed,
    headers,
    mark_from,
    partition_of,
    time_of,
)
from cordwood.doors.record import Record
from cordwood.doors.source import Source
from cordwood.errors import Conflict, NotFound, Refused, Unavailable
from cordwood.record import HEADERS

log = logging.getLogger("cordwood.doors")

MARKS = "cordwood.imports"  # the topic of marks
_KEPT = {"retention_ms": 0, "retention_bytes": 0, "discard": "none"}
_COLUMNS = pa.schema(
    [
        ("value", pa.binary()),
        ("key", pa.binary()),
        ("headers", HEADERS),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("partition", pa.int32()),
    ]
)


@dataclass(slots=True)
class Carried:
    """What an import did: messages by topic that were there before, and that are new."""

    source: str
    before: dict[str, int] = field(default_factory=dict)
    imported: dict[str, int] = field(default_factory=dict)


class Carrier:
    """Carries sources to one broker. `topics` has every target with the partitions it is made with, if it must be.

    `named` is the one topic for everything, None if the source's own topics are the targets.
    """

    def __init__(
        self, client: Client, topics: Mapping[str, int], target: Target, limits: Limits, named: str | None = None
    ):
        self._client = client
        self._target = target
        self._named = named
        self._limits = limits
        self._run = random.SystemRandom().getrandbits(31)  # an attempt of the stages that no other import has
        self._wanted = topics
        self._topics: dict[str, tuple[str, int]] = {}  # name → id, partitions; of those that were made or found
        self._ids: dict[str, str | None] = {}
        self._marks: dict[str, dict[tuple[str, str], Mark]] = {}  # source → (topic, its id) → the newest
        for mark in _all_marks(client):
            self._marks.setdefault(mark.source, {})[(mark.topic, mark.topic_id)] = mark

    def compare(self, source: Source) -> None:
        """Return if the source begins with what was imported from it; raise Conflict if not."""
        wrong = changed(source, self._marks_of(source), self._target)
        if wrong is not None:
            raise Conflict(
                f"{source.name} has changed: its first {wrong.next} record(s) for the topic {wrong.topic} are not"
                " those that were imported before. Nothing was imported; if this is another log: --source NAME"
            )

    def make_topics(self) -> None:
        """Make the topics that are not there."""
        self._marks_id = _topic(self._client, MARKS, 1, **_KEPT)[0]
        self._topics = {name: _topic(self._client, name, partitions) for name, partitions in self._wanted.items()}
        for name, (topic_id, _) in self._topics.items():
            if self._ids.get(name) not in (None, topic_id):
                raise Unavailable(f"the topic {name} was deleted and made again meanwhile; run this again")

    def carry(self, source: Source, moved: Callable[[int], None]) -> Carried:
        """Import what is not there yet and return what was done; `moved` hears of every batch's bytes."""
        marks = self._marks_of(source)
        # Also above the batches whose topics are gone: a writer's numbers rise.
        last = max((mark.batch for mark in self._marks.get(source.name, {}).values()), default=-1)
        done = Carried(source.name, {topic: mark.next for topic, mark in marks.items()})
        for batch in batches(source, marks, self._target, self._limits):
            last += 1
            self._publish(source, batch, last)
            for topic, rows in batch.rows.items():
                done.imported[topic] = done.imported.get(topic, 0) + len(rows)
            moved(batch.bytes)
        return done

    def _marks_of(self, source: Source) -> dict[str, Mark]:
        """Return the source's newest mark for each topic that is still the one it was."""
        known = self._marks.get(source.name, {})
        return {
            topic: mark
            for (topic, topic_id), mark in known.items()
            if self._concerns(mark) and self._id(topic) == topic_id
        }

    def _concerns(self, mark: Mark) -> bool:
        """Whether records may go to the mark's topic now; also where none does, because the source has lost them."""
        if self._named is not None:
            return mark.topic == self._named
        return mark.topic in self._wanted or not mark.named

    def _id(self, topic: str) -> str | None:
        if topic not in self._ids:
            try:
                self._ids[topic] = str(self._client.topic(topic)["id"])
            except NotFound:
                self._ids[topic] = None
        return self._ids[topic]

    def _publish(self, source: Source, batch: Batch, number: int) -> None:
        """Make a batch and its marks visible, together."""
        # A topic of marks that was made anew is another one, and counts from 0 again.
        writer = "import-" + hashlib.sha256(f"{self._marks_id} {source.name}".encode()).hexdigest()[:40]
        try:
            for part, (topic, table) in enumerate(self._tables(source, batch, number)):
                self._client.stage(topic, table, writer=writer, batch=number, attempt=self._run, sequence=part)
            self._check_topics(batch)
            done = self._client.publish(writer, number, [(0, self._run)])
        except NotFound as error:
            raise Unavailable(f"a topic was deleted meanwhile ({error}); run this again") from error
        except Conflict as error:
            raise Unavailable(
                f"another import of {source.name} is under way ({error}); run this one again"
            ) from error
        except Refused as error:
            numbers = sorted(record.number for rows in batch.rows.values() for record in rows)
            raise Refused(
                f"the broker refuses record(s) {numbers[0]} to {numbers[-1]} of {source.name}: {error}"
            ) from error
        if done["duplicate"] and not self._is_ours(source, number):
            raise Unavailable(f"another import of {source.name} is under way; run this one again")

    def _check_topics(self, batch: Batch) -> None:
        """Return if what was staged is in the topics that the marks name, and in no others of the same name.

        One that is deleted after this takes what was staged for it along: then only its mark is published, which says
        nothing about the topic that is made anew.
        """
        for topic in batch.rows:
            if str(self._client.topic(topic)["id"]) != self._topics[topic][0]:
                raise Unavailable(f"the topic {topic} was deleted and made again meanwhile; run this again")

    def _is_ours(self, source: Source, number: int) -> bool:
        """Whether it was this import that published a batch, and only the answer was lost."""
        mine = (source.name, number, self._run)
        return any((mark.source, mark.batch, mark.run) == mine for mark in _all_marks(self._client))

    def _tables(self, source: Source, batch: Batch, number: int) -> list[tuple[str, Any]]:
        tables = [(topic, self._table(source, topic, rows)) for topic, rows in batch.rows.items()]
        marks = []
        for topic, (after, digest) in batch.ends.items():
            mark = Mark(
                source=source.name,
                topic=topic,
                topic_id=self._topics[topic][0],
                next=after,
                digest=digest,
                batch=number,
                run=self._run,
                named=self._named is not None,
            )
            marks.append(msgspec.json.encode(mark))
        return [*tables, (MARKS, pa.table({"value": marks, "key": [source.name.encode()] * len(marks)}))]

    def _table(self, source: Source, topic: str, rows: list[Record]) -> Any:
        partitions = self._topics[topic][1]
        columns = [
            [record.value for record in rows],
            [record.key for record in rows],
            [headers(source.name, record) for record in rows],
            [time_of(record) for record in rows],
            [partition_of(record, partitions) for record in rows],
        ]
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, _COLUMNS, strict=True)]
        return pa.Table.from_arrays(arrays, schema=_COLUMNS)


def _all_marks(client: Client) -> Iterator[Mark]:
    try:
        client.topic(MARKS)
    except NotFound:
        return
    others = 0
    for message in client.read(MARKS, 0):
        mark = mark_from(bytes(message.value)) if message.value is not None else None
        if mark is not None:
            yield mark
        else:
            others += 1
    if others:
        log.warning("%d message(s) of %s are no marks of an import, and are passed over", others, MARKS)


def _topic(client: Client, name: str, partitions: int, **settings: Any) -> tuple[str, int]:
    """Return a topic's id and partitions; make it if it is not there."""
    try:
        found = client.topic(name)
    except NotFound:
        found = client.create_topic(name, partitions, **settings)
    return found["id"], len(found["partitions"])
