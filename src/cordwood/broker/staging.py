"""Atomic over requests: batches are staged by tasks, and one publish makes the chosen ones visible.

    stage (writer, batch, task, attempt) … stage …        on disk, in no partition
    publish (writer, batch, tasks)                        one frame: all of them, or none

A writer publishes batches in rising order. Its last one may be published again and changes nothing, because whoever
asks may not have heard the answer; so everything else of that batch, or an older one, is refused.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import structs

from cordwood.broker import ops
from cordwood.broker.counts import Counts
from cordwood.broker.ledger import Ledger, Then
from cordwood.broker.producing import Producing, stage_pieces
from cordwood.broker.state import StagePart
from cordwood.errors import Conflict, Refused
from cordwood.machine.clock import Clock
from cordwood.record import Records

MOST_PARTS = 10_000  # requests that one attempt of a task may stage
MOST_STAGES = 100_000  # attempts that one writer may have staged


class Published(NamedTuple):
    """Where a batch is: (topic, partition, first offset, count), and whether it was published before."""

    results: list[tuple[str, int, int, int]]
    duplicate: bool


class Staging:
    """Stages batches and publishes them."""

    def __init__(self, ledger: Ledger, clock: Clock, counts: Counts, producing: Producing):
        self._ledger = ledger
        self._clock = clock
        self._counts = counts
        self._producing = producing

    def stage(
        self,
        topic_name: str,
        records: Records,
        then: Then,
        *,
        writer: str,
        batch: int,
        task: int,
        attempt: int,
        sequence: int | None,
    ) -> None:
        """Keep messages for a later publish; `then` gets how many requests this attempt has staged."""
        ledger = self._ledger
        ledger.check_writable()
        if not 0 < len(writer) <= 256:
            raise Refused("writer is a name of 1 to 256 characters")
        topic = self._producing.topic(topic_name)
        known = ledger.state.writers.get(writer)
        if known is not None and batch <= known.last:
            raise Conflict(f"writer {writer!r} has published batch {known.last}; {batch} is over", batch=known.last)
        parts = known.stages.get((batch, task, attempt), []) if known is not None else []
        if sequence is not None and sequence != len(parts):
            if sequence < len(parts):
                ledger.reply(then, len(parts))
                return
            raise Conflict(f"sequence {sequence} was staged; {len(parts)} comes next", expected_sequence=len(parts))
        if len(parts) >= MOST_PARTS or (known is not None and len(known.stages) >= MOST_STAGES):
            raise Refused(f"writer {writer!r} has staged too much; publish it, or wait until stages end")
        size = int(records.batch.get_total_buffer_size())
        self._producing.check_pending(size)
        payload, pieces = records.batch, []
        if len(records):
            assigned = self._producing.assign(topic, records)
            order = np.argsort(assigned, kind="stable")
            if (np.diff(order) != 1).any():
                payload = payload.take(pa.array(order))
            pieces = stage_pieces(payload, assigned[order])
        op = ops.Staged(topic_name, 0, pieces, self._clock.now_ms(), writer, batch, task, attempt)
        ledger.write([op], [payload])
        staged = ledger.state.writers[writer].stages[(batch, task, attempt)]
        ledger.reply(then, len(staged), size)

    def publish(self, writer: str, batch: int, tasks: Sequence[tuple[int, int]] | None, then: Then) -> None:
        """Make what the chosen tasks staged visible, all together; `then` gets `Published`."""
        ledger = self._ledger
        ledger.check_writable()
        known = ledger.state.writers.get(writer)
        if known is not None and batch == known.last:
            ledger.reply(then, Published(known.results, True))
            return
        if known is not None and batch < known.last:
            raise Conflict(f"writer {writer!r} has published batch {known.last}; {batch} is over", batch=known.last)
        stages = known.stages if known is not None else {}
        if tasks is None:
            newest: dict[int, int] = {}
            for number, task, attempt in stages:
                if number == batch:
                    newest[task] = max(attempt, newest.get(task, 0))
            if not newest:
                raise Conflict(
                    f"nothing is staged by writer {writer!r} for batch {batch}; an empty one has tasks: []"
                )
            tasks = sorted(newest.items())
        if len(dict(tasks)) != len(tasks):
            raise Refused("a task is chosen twice; one of its attempts counts")
        for task, attempt in tasks:
            if (batch, task, attempt) not in stages:
                raise Conflict(
                    f"nothing is staged by writer {writer!r} for batch {batch}, task {task}, attempt {attempt};"
                    " stages end after stage_ttl_ms"
                )
        placed = self._place(stages[(batch, task, attempt)] for task, attempt in tasks)
        ledger.write([ops.Published(writer, batch, placed, self._clock.now_ms())])
        results = ledger.state.writers[writer].results
        for topic, _, _, count in results:
            self._counts.produced(topic, count, 0)
        ledger.reply(then, Published(results, False))

    def _place(self, stages: Iterable[Sequence[StagePart]]) -> list[ops.Placed]:
        """Give every staged piece its offset, behind what is in its partition."""
        ends: dict[tuple[str, int], int] = {}
        placed = []
        for parts in stages:
            for part in parts:
                for piece in part.pieces:
                    key = (part.topic, piece.partition)
                    if key not in ends:
                        ends[key] = self._ledger.state.topics[part.topic].partitions[piece.partition].end
                    numbered = structs.replace(piece, first=ends[key])
                    placed.append(ops.Placed(part.topic, part.lsn, part.payload, numbered))
                    ends[key] += piece.count
        return placed
