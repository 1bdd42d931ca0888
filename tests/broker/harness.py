"""A broker on a pretended disk and clock, driven step by step: nothing is synced before it is told to."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from cordwood.broker.broker import Broker
from cordwood.broker.ledger import Ledger
from cordwood.errors import CordwoodError
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.record import Records
from cordwood.settings import Settings
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory
from cordwood.wire.intake import Limits as Intake
from cordwood.wire.intake import normalise
from cordwood.wire.run import Run


class _Log:
    def __init__(self, harness: "Harness"):
        self._harness = harness

    def append(self, entries: Sequence[Any], *, reserve: bool = False) -> int:
        if self._harness.refuse is not None:
            error = self._harness.refuse(len(entries))
            if error is not None:
                raise error
        return self._harness.journal.append(entries, reserve=reserve)

    def read(self, lsn: int, most_bytes: int) -> Any:
        return self._harness.journal.read_ahead(lsn, most_bytes)


class Harness:
    """A broker; `sync` makes durable what was written. `refuse(entries)` may return an error for an append."""

    def __init__(self, disk: SimDirectory | None = None, **settings: Any):
        self.disk = disk or SimDirectory()
        self.clock = SimClock()
        self.settings = Settings(**settings)
        self.refuse: Callable[[int], CordwoodError | None] | None = None
        self.released: list[int] = []
        self.ledger = Ledger(self.settings.cache_bytes, self.settings.sync)
        self.journal = open_journal(
            self.disk, self.ledger, Limits(segment_bytes=1 << 20), clock=self.clock, random=Random(1)
        )
        self.journal.maintain()
        self.ledger.attach(_Log(self), self.journal.end)
        self.broker = Broker(self.ledger, self.settings, self.clock, Random(2), self.released.append)

    def sync(self) -> None:
        """Make everything durable, until nothing is left to do."""
        for _ in range(20):
            self.broker.flush()
            if self.journal.wants_maintenance and self.journal.maintain():
                self.broker.room()
            if self.journal.synced == self.journal.end and self.broker.idle:
                return
            while self.journal.queued or self.journal.synced < self.journal.end:
                self.journal.commit()
            self.broker.told(self.journal.written, self.journal.synced)

    def ask(self, method: str, *arguments: Any, **fields: Any) -> list[Any]:
        """Ask the broker something; the list gets the answer once there is one."""
        answers: list[Any] = []
        call = getattr(self.broker, method)
        call(*arguments, answers.append, **fields)
        return answers

    def do(self, method: str, *arguments: Any, **fields: Any) -> Any:
        """Ask, make it durable, and return the answer; raise it if it is an error."""
        answers = self.ask(method, *arguments, **fields)
        self.sync()
        (answer,) = answers
        if isinstance(answer, CordwoodError):
            raise answer
        return answer

    def produce(self, topic: str, *values: bytes, **columns: Any) -> list[Any]:
        return self.ask("produce", topic, records(*values, **columns))

    def lease(self, topic: str, group: str, owner: str = "me", **fields: Any) -> list[tuple[int, int, int]]:
        """Return (partition, offset, attempts) of what a lease gets."""
        runs = self.do("lease", topic, group, owner=owner, **fields)
        return [row for run in runs for row in rows(run)]

    def pass_ms(self, duration_ms: int) -> None:
        self.clock.pass_ms(duration_ms)
        self.sync()


def records(*values: bytes, **columns: Any) -> Records:
    batch = pa.record_batch({"value": pa.array(values, pa.binary()), **columns})
    return normalise(batch, 1_700_000_000_000, Intake(max_message_bytes=1 << 30, max_request_bytes=1 << 30))


def rows(run: Run) -> list[tuple[int, int, int]]:
    attempts = [run.attempts] * run.batch.num_rows if isinstance(run.attempts, int) else run.attempts
    return [(run.partition, run.first_offset + n, count) for n, count in enumerate(attempts)]


def times(*milliseconds: int | None) -> Any:
    return pa.array(milliseconds, pa.timestamp("ms"))
