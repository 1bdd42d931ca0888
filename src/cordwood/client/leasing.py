"""The thread that fetches messages ahead of the application.

    turn:  wait for room ─▶ lease (long poll) ─▶ leave out what is here already ─▶ inbox
                                  └─ when the answer begins, the next lease is asked for, if there is room

So the broker makes and syncs one delivery while the one before is read. Nothing is asked behind a request that
still waits for messages: two that wait would have two shares of what comes.

It connects again for ever; what it fetched before stays good meanwhile. It ends when the consumer closes, or when
the broker says that it will never answer (no such topic, no right): then the application gets that error.
"""

import logging
import random
import threading
from collections import deque
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import ipc

from cordwood.client.connection import Connection
from cordwood.client.endpoint import Endpoint
from cordwood.client.inbox import Appetite, Inbox
from cordwood.client.message import Delivery, only
from cordwood.client.reading import whole
from cordwood.client.reply import Reply
from cordwood.client.retry import Backoff
from cordwood.client.settling import Settling
from cordwood.client.terms import ConsumerTerms
from cordwood.client.wire import ARROW
from cordwood.errors import CordwoodError, Limited, Unavailable
from cordwood.record import ARROW_ERRORS, Batch, one_line

log = logging.getLogger("cordwood.client")

SMALL_ROWS = 256  # batches of fewer rows are joined; a larger one is worth more than the copy
LEASE_BYTES = 4 << 20  # one answer at most: some are on their way while others are made, and memory is used again
LEASE_MESSAGES = 100_000  # the broker takes no larger number
DRAIN_S = 1.0  # for an answer that is under way when the consumer closes
_BACKOFF = Backoff(0.1, 5.0)
_encode = msgspec.json.Encoder().encode


class Leasing:
    """Fills the inbox of one consumer."""

    def __init__(
        self, endpoint: Endpoint, whose: dict[str, Any], terms: ConsumerTerms, inbox: Inbox, settling: Settling
    ):
        self._endpoint, self._terms, self._whose = endpoint, terms, whose
        self._inbox, self._settling = inbox, settling
        self.appetite = Appetite(terms.prefetch)
        self._bytes = min(terms.prefetch_bytes, LEASE_BYTES)
        self._connection: Connection | None = None
        self._asked: deque[int] = deque()  # the most that each request under way may bring, the oldest first
        self._failures = 0
        self.bringing = False  # an answer with messages has begun, and is not in the inbox yet
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cordwood-leasing", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End; return when nothing more can arrive."""
        self.stop()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(self._terms.close_ms / 1000)

    def stop(self) -> None:
        """Begin to end; do not wait for it."""
        self._closing.set()
        self._inbox.end(Unavailable("the consumer is closed"))
        connection = self._connection
        if connection is not None:
            with suppress(OSError):  # it may be gone already
                connection.half_close()  # an answer that was sent already is still read, and so can be given back
                connection.limit(DRAIN_S)

    def _run(self) -> None:
        try:
            while self._asked or not self._closing.is_set():
                self._turn()
        except BaseException as error:  # the application must hear of it, whatever it is
            if not isinstance(error, CordwoodError):
                log.exception("fetching messages cannot go on")
            self._inbox.end(error)
        finally:
            if self._connection is not None:
                self._connection.close()

    def _turn(self) -> None:
        if not self._asked and not self._may_ask(0, 0):
            self._inbox.wait_for_room(lambda: self._may_ask(0, 0), self._terms.wait_ms / 1000)
            return
        try:
            if not self._asked:
                self._ask(self._connected(), 0)
            assert self._connection is not None, "a request is under way on it"
            reply = self._connection.receive(self._begun).checked()
        except (OSError, Unavailable) as error:
            self._forget()
            if self._closing.is_set():
                return
            log.info("no messages from the broker for now: %s", error)
            self._failures += 1
            wait_s = _BACKOFF.wait_s(self._failures, random.random)
            self._closing.wait(error.retry_after_ms / 1000 if isinstance(error, Limited) else wait_s)
            return
        self._failures = 0
        try:
            if reply.status != 204:
                self._take(reply)
        finally:
            self.bringing = False
            self._asked.popleft()
            with self._settling.lock:
                self._settling.holdings.answered()

    def _may_ask(self, coming: int, coming_bytes: int) -> bool:
        """Say whether there is room for more than what is here and so many that come."""
        inbox, wanted = self._inbox, self.appetite.wanted
        if inbox.size + coming_bytes >= self._terms.prefetch_bytes:
            return False
        return wanted - inbox.count - coming >= self.appetite.least

    def _ask(self, connection: Connection, coming: int) -> None:
        """Send a request for as many as there is room for beside so many that come."""
        room = max(1, self.appetite.wanted - self._inbox.count - coming)
        most = min(self.appetite.portion, room, LEASE_MESSAGES)
        with self._settling.lock:
            self._settling.holdings.asking()
        self._asked.append(most)
        asked = {"max_messages": most, "max_bytes": self._bytes, "wait_ms": self._terms.wait_ms}
        body = _encode({**self._whose, **asked, "lease_ms": self._terms.lease_ms})
        connection.send((connection.head("POST", "/v1/lease", len(body), "application/json", ARROW), body))

    def _begun(self, status: int, length: int) -> None:
        """Ask for the next messages while these are on their way, if there is room for both."""
        self.bringing = status == 200
        connection, coming = self._connection, self._asked[0]
        if status == 200 and connection is not None and not connection.closing and self._may_ask(coming, length):
            with suppress(OSError):  # these are still read; what is wrong shows when the next answer is
                self._ask(connection, coming)

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.stale:
            self._forget()
            timeout_s = self._terms.request_timeout_ms / 1000
            self._connection = Connection(self._endpoint, timeout_s)
            self._connection.limit(timeout_s + self._terms.wait_ms / 1000)
            if self._closing.is_set():
                raise Unavailable("the consumer is closed")
        return self._connection

    def _forget(self) -> None:
        """Close the connection; what was asked on it will not be answered."""
        self.bringing = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        with self._settling.lock:
            for _ in range(len(self._asked)):
                self._settling.holdings.answered()
        self._asked.clear()

    def _take(self, reply: Reply) -> None:
        found = []
        for batch in read_batches(reply.body):
            delivery = Delivery(batch, self._settling.bell, self._settling.settle)
            with self._settling.lock:
                arrive = self._settling.holdings.arrive
                new = {number: arrive(number, ranges) for number, ranges in delivery.ranges().items()}
            if new != delivery.ranges():  # the rest is here already, or done
                delivery = Delivery(only(batch, new), self._settling.bell, self._settling.settle)
            if delivery.batch.num_rows:
                found.append(delivery)
        if found:
            self._inbox.put(found)


def read_batches(body: Any) -> list[Batch]:
    """Return the batches of an Arrow stream, small ones joined. Raises Unavailable when it is cut or none."""
    try:
        batches = [whole(batch) for batch in ipc.open_stream(pa.py_buffer(body)) if batch.num_rows]
    except ARROW_ERRORS as error:
        raise Unavailable(f"the answer is no Arrow stream: {one_line(error)}") from None
    if len(batches) > 1 and sum(batch.num_rows for batch in batches) < SMALL_ROWS * len(batches):
        return [pa.concat_batches(batches)]
    return batches
