"""What an application appends to: durable on return, sent when the broker can be reached.

outbox = Outbox("~/.cordwood/outbox", execution="job-42/1", topic="job-events", endpoint="http://127.0.0.1:7878")
outbox.append({"line": "..."})                    # on disk now, whatever becomes of broker, network and process
outbox.stop()                                     # sends what it can; the rest is sent by whoever comes next
"""

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cordwood.edge.event import Draft, Event, Headers, draft
from cordwood.edge.names import check_topic, quoted
from cordwood.errors import CordwoodError, Refused, Unavailable
from cordwood.machine.clock import SystemClock

if TYPE_CHECKING:
    from ssl import SSLContext

log = logging.getLogger("cordwood.edge")

DEFAULT_ROOT = "~/.cordwood/outbox"
STOP_S = 5.0  # what `stop` waits for the broker, and the end of the program for outboxes that were not stopped
MANY_BYTES = 256 << 10  # of `append_many` in one frame

Value = bytes | str | dict[str, Any] | None


class Outbox:
    """A local log of one execution's events, each on disk when `append` returns, and sent in the background.

    For any number of threads. An event is stored by the broker once, however often processes, networks and brokers
    fail meanwhile. Events keep their order; those with keys of their own keep it for each key.
    """

    def __init__(
        self,
        root: str | Path = DEFAULT_ROOT,
        execution: str | None = None,
        topic: str | None = None,
        endpoint: str | None = None,
        *,
        token: str | None = None,
        tls: "SSLContext | None" = None,
        ca: str | None = None,
        send: Callable[[list[Event]], Any] | None = None,
        archive: bool = True,
        max_bytes: int = 1 << 30,
        batch_events: int = 10_000,
        batch_bytes: int = 4 << 20,
        linger_ms: int = 50,
    ):
        """Begin a log of its own for this execution; an unfinished one of an earlier run is sent first.

        `send` is called with a list of events instead of a broker: at least once for each, in order. Raises `Locked`
        when this execution is running already.
        """
        if send is None:
            if topic is None:
                raise Refused("an outbox needs a topic, or a function `send`")
            check_topic(topic)
        elif topic is not None or endpoint is not None:
            raise Refused("an outbox sends to a topic of a broker, or to a function `send`, not to both")
        for name, value in (("max_bytes", max_bytes), ("batch_events", batch_events), ("batch_bytes", batch_bytes)):
            if value < 1:
                raise Refused(f"{name} is {value}; it must be above 0")
        self.root = Path(root).expanduser().absolute()
        self.execution = execution if execution is not None else _unique()
        self.topic = topic
        self._archives = archive
        self._pid = os.getpid()
        self._clock = SystemClock()
        self._stopped = False
        self._stopping = threading.Lock()
        quoted(self.execution)  # before anything is made: it may be refused
        from cordwood.edge import running
        from cordwood.edge.delivery import Terms

        _let_failed_go(self.root)
        terms = Terms(batch_events=batch_events, batch_bytes=batch_bytes, linger_ms=linger_ms)
        place = running.Place.of(endpoint, token, tls, ca, send)
        self._path, self._log = running.begin(self.root, self.execution, topic, place.url, max_bytes, self._clock)
        self._shared, self._delivery = running.join(place, self._path, self._log, terms, archives=archive)
        self._sender = self._shared.sender
        _live.add(self)

    def append(
        self,
        value: Value,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        timestamp: int | datetime | None = None,
    ) -> int:
        """Return the event's number once it is on disk.

        A dict is stored as compact JSON, None is a tombstone. `timestamp` is in milliseconds or a datetime, now if
        there is none. Raises `Full` when `max_bytes` wait to be sent, or the disk has no room: nothing was appended.
        """
        return self._append((draft(value, key, headers, timestamp, self._clock.now_ms()),))

    def append_many(
        self,
        values: Iterable[Value],
        key: bytes | str | None = None,
        headers: Headers | None = None,
        timestamp: int | datetime | None = None,
    ) -> int:
        """Return how many events these are once all of them are on disk, in this order.

        What was appended before one of them raised stays appended.
        """
        count = 0
        drafts: list[Draft] = []
        size = 0
        for value in values:
            drafts.append(draft(value, key, headers, timestamp, self._clock.now_ms()))
            size += drafts[-1].size
            if size >= MANY_BYTES:
                self._append(drafts)
                count += len(drafts)
                drafts, size = [], 0
        if drafts:
            self._append(drafts)
        return count + len(drafts)

    def append_drafts(self, drafts: Sequence[Draft]) -> int:
        """Return the first one's number once all of these are on disk, in this order and together, or none of them.

        For events of which each has headers of its own; a few hundred KiB at once.
        """
        return self._append(drafts)

    def _append(self, drafts: Sequence[Draft]) -> int:
        self._check()
        try:
            return self._log.append(drafts)
        finally:
            if self._sender.dozing:  # there is something to send, or room to be made
                self._sender.ring()

    @property
    def pending(self) -> int:
        """How many events of this execution are not yet sent; those that an earlier run left are counted, too."""
        return self._delivery.pending + sum(one.pending for one in self._shared.left.earlier(self._delivery))

    @property
    def sent(self) -> int:
        """How many events of this outbox the broker has."""
        return self._delivery.sent

    @property
    def failed(self) -> int:
        """How many events of this outbox were refused for good; they are parked in its log."""
        return self._delivery.failed

    @property
    def last_error(self) -> str | None:
        """Why the last try failed, or which event was parked last; None when all is well."""
        return self._delivery.error or (self._sender.error if self._delivery.pending else None)

    def flush(self, timeout: float | None = None) -> None:
        """Return when everything appended before is sent or parked; after `timeout` seconds raise TimeoutError."""
        self._check_process()
        if not self._wait(timeout):
            why = f"; the last error: {self.last_error}" if self.last_error else ""
            raise TimeoutError(f"{self.pending} events are pending after {timeout} s; they are kept{why}")

    def send_now(self, timeout: float, hurried: Callable[[], bool] = lambda: False) -> bool:
        """Say whether everything appended before is sent or parked, after `timeout` seconds at most.

        A broker that could not be reached is tried at once, whatever the pause between tries; when it is still not
        there, or `hurried` says so, that is the end of the waiting.
        """
        breaks = self._sender.try_now()
        return self._wait(timeout, lambda: hurried() or self._sender.breaks > breaks)

    def stop(self, timeout: float = STOP_S) -> int:
        """Send what can be sent within `timeout` seconds, let go of the log, and return how many events are left.

        These are sent by the next outbox or `cordwood outbox send` that looks into this root. May be called again.
        """
        if self._pid != os.getpid():
            return 0
        with self._stopping:
            if not self._stopped:
                self._stopped = True
                self._log.seal()  # nothing is appended from here on
                if timeout > 0:
                    self._sender.try_now()
                self._wait(timeout)
                self._let_go()
        return self._delivery.pending

    def _let_go(self) -> None:
        self._shared.leave(self._delivery)
        _live.discard(self)
        try:
            self._shared.put_away(self._log, self._path, archives=self._archives)
        except CordwoodError as error:
            log.warning("%s was not closed cleanly, and nothing is lost: %s", self._path, error)

    def _wait(self, timeout: float | None, hopeless: Callable[[], bool] = lambda: False) -> bool:
        """Wait until all that is durable now is settled, and earlier runs too; say whether it is."""
        delivery, left = self._delivery, self._shared.left
        target = self._log.durable
        until = None if timeout is None else time.monotonic() + timeout
        delivery.hasten(1)
        try:
            while True:
                self._sender.ring()
                with delivery.waiting:
                    delivery.waiting.wait_for(lambda: delivery.log.state.sent >= target, _short(until))
                    settled = delivery.log.state.sent >= target
                if settled and not left.blocked(delivery):
                    return True
                if self._log.journal.failure is not None or hopeless():
                    return False
                if until is not None and time.monotonic() >= until:
                    return False
                if settled:
                    time.sleep(0.02)  # an earlier run is being sent
        finally:
            delivery.hasten(-1)

    def __enter__(self) -> "Outbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise RuntimeError("this process was forked; an Outbox stays with its parent, make another one here")

    def _check(self) -> None:
        self._check_process()
        if self._stopped:
            raise Unavailable("the outbox is stopped; make another one")


def _short(until: float | None) -> float:
    """Return a wait that is short enough to look around now and then."""
    return 0.2 if until is None else max(0.0, min(0.2, until - time.monotonic()))


def _unique() -> str:
    from secrets import token_hex
    from socket import gethostname

    return f"{gethostname()}-{os.getpid()}-{int(time.time() * 1000)}-{token_hex(4)}"


_live: "set[Outbox]" = set()  # not weak: one that is only forgotten has a lock, too, and events to send


def _forked() -> None:
    """Leave the parent's logs to the parent: its locks must end with it, though this process lives on."""
    for outbox in list(_live):
        outbox._log.directory.close()
    _live.clear()
    running = sys.modules.get("cordwood.edge.running")
    if running is not None:
        running.forget()


def _finish() -> None:
    until = time.monotonic() + STOP_S
    for outbox in list(_live):
        if outbox._pid == os.getpid():
            outbox._stopped = True
            try:
                outbox._log.seal()
                outbox.send_now(max(0.0, until - time.monotonic()))
                outbox._let_go()
            except Exception:  # the next one is finished, too
                log.exception("%s was not finished; what it holds is sent as a left-over", outbox._path)


def _let_failed_go(root: Path) -> None:
    """Let outboxes whose disk failed give up their logs: they are opened anew as left-overs, and sent."""
    for outbox in list(_live):
        if outbox.root == root and outbox._log.journal.failure is not None:
            outbox.stop(0)


os.register_at_fork(after_in_child=_forked)
atexit.register(_finish)
