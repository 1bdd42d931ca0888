"""What of the broker is looked at from outside: what it writes, what it logs, what it makes of a snapshot."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from cordwood.broker.broker import Broker
from cordwood.broker.history import Away
from cordwood.broker.ledger import Ledger, Then
from cordwood.drills.broker_model.asked import Asked
from cordwood.drills.broker_model.frames import claims_of
from cordwood.drills.broker_model.model import Model
from cordwood.errors import Full, Unavailable
from cordwood.journal.fold import Snapshot
from cordwood.journal.journal import Journal
from cordwood.machine.disk import Buffer


class Tap:
    """The journal, with the model looking at what is written."""

    def __init__(self, journal: Journal, model: Model):
        self._journal = journal
        self._model = model

    def append(self, entries: Sequence[Buffer], *, reserve: bool = False) -> int:
        claims = claims_of(entries)
        try:
            lsn = self._journal.append(entries, reserve=reserve)
        except Unavailable as error:
            if isinstance(error, Full):
                self._model.reached.add("disk full")
            self._model.refused(claims, error)
            raise
        self._model.wrote(lsn, claims)
        return lsn

    def read(self, lsn: int, most_bytes: int) -> Iterator[tuple[int, list[memoryview]]]:
        return self._journal.read_ahead(lsn, most_bytes)


class WatchedBroker(Broker):
    """A broker of which the model knows when a request waits for the tier."""

    model: Model

    def _do(self, action: Callable[[], None], then: Then, size: int | None = None) -> None:
        assert self.model.asking is not None, "somebody asks"
        super()._do(_Held(action, self.model, self.model.asking), then, size)


class _Held:
    """A request that says so when it needs something from the tier."""

    def __init__(self, action: Callable[[], None], model: Model, asked: Asked):
        self._action = action
        self._model = model
        self._asked = asked

    def __call__(self) -> None:
        try:
            self._action()
        except Away as away:
            self._model.hold(self._asked, away.wanted)
            raise


class WatchedLedger(Ledger):
    """A ledger that says whether it became what a snapshot says, and whether it was asked for one."""

    restored = False
    captured = False

    def restore(self, parts: Iterable[memoryview]) -> None:
        self.restored = True
        super().restore(parts)

    def snapshot(self) -> Snapshot:
        self.captured = True
        return super().snapshot()


class Complaints(logging.Handler):
    """What the broker logs as an error: it goes on after those, and a history does not."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.all: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.all.append(f"{record.getMessage()}: {error!r}")
