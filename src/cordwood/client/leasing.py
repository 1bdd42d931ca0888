"""The thread that fetches messages ahead of the application.

    turn:  wait for room ─▶ lease (long poll) ─▶ leave out what is here already ─▶ inbox

It connects again for ever; what it fetched before stays good meanwhile. It ends when the consumer closes, or when
the broker says that it will never answer (no such topic, no right): then the application gets that error.
"""

import logging
import random
import threading
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import ipc

from cordwood.client.connection import Connection
from cordwood.client.endpoint import Endpoint
from cordwood.client.inbox import Appetite, Inbox
from cordwood.client.message import Delivery, only
from cordwood.client.reply import Reply
from cordwood.client.retry import Backoff
from cordwood.client.settling import Settling
from cordwood.client.terms import ConsumerTerms
from cordwood.client.wire import ARROW
from cordwood.errors import CordwoodError, Limited, Unavailable
from cordwood.record import ARROW_ERRORS, Batch, one_line

log = logging.getLogger("cordwood.client")

SMALL_ROWS = 256  # batches of fewer rows are joined; a larger one is worth more than the copy
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
        self._connection: Connection | None = None
        self._failures = 0
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
            while not self._closing.is_set():
                self._turn()
        except BaseException as error:  # the application must hear of it, whatever it is
            if not isinstance(error, CordwoodError):
                log.exception("fetching messages cannot go on")
            self._inbox.end(error)
        finally:
            if self._connection is not None:
                self._connection.close()

    def _turn(self) -> None:
        inbox, terms = self._inbox, self._terms
        if inbox.count >= self.appetite.wanted or inbox.size >= terms.prefetch_bytes:
            inbox.wait_for_room(
                lambda: inbox.count < self.appetite.wanted and inbox.size < terms.prefetch_bytes, terms.wait_ms / 1000
            )
            return
        try:
            reply = self._lease(max(1, self.appetite.wanted - inbox.count))
        except (OSError, Unavailable) as error:
            if self._closing.is_set():
                return
            log.info("no messages from the broker for now: %s", error)
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._failures += 1
            wait_s = _BACKOFF.wait_s(self._failures, random.random)
            self._closing.wait(error.retry_after_ms / 1000 if isinstance(error, Limited) else wait_s)
            return
        self._failures = 0
        if reply.status != 204:
            self._take(reply)

    def _lease(self, most: int) -> Reply:
        with self._settling.lock:
            self._settling.holdings.asking()
        if self._connection is None or self._connection.stale:
            if self._connection is not None:
                self._connection.close()
            self._connection = Connection(self._endpoint, self._terms.request_timeout_ms / 1000)
            if self._closing.is_set():
                raise Unavailable("the consumer is closed")
        asked = {"max_messages": most, "max_bytes": self._terms.prefetch_bytes, "wait_ms": self._terms.wait_ms}
        body = _encode({**self._whose, **asked, "lease_ms": self._terms.lease_ms})
        wait_s = self._terms.wait_ms / 1000
        return self._connection.request("POST", "/v1/lease", body, "application/json", ARROW, wait_s).checked()

    def _take(self, reply: Reply) -> None:
        for batch in read_batches(reply.body):
            delivery = Delivery(batch, self._settling.bell, self._settling.settle)
            with self._settling.lock:
                arrive = self._settling.holdings.arrive
                new = {number: arrive(number, ranges) for number, ranges in delivery.ranges().items()}
            if new != delivery.ranges():  # the rest is here already, or done
                delivery = Delivery(only(batch, new), self._settling.bell, self._settling.settle)
            if delivery.batch.num_rows:
                self._inbox.put(delivery)


def read_batches(body: Any) -> list[Batch]:
    """Return the batches of an Arrow stream, small ones joined. Raises Unavailable when it is cut or none."""
    try:
        batches = [batch for batch in ipc.open_stream(pa.py_buffer(body)) if batch.num_rows]
    except ARROW_ERRORS as error:
        raise Unavailable(f"the answer is no Arrow stream: {one_line(error)}") from None
    if len(batches) > 1 and sum(batch.num_rows for batch in batches) < SMALL_ROWS * len(batches):
        return [pa.concat_batches(batches)]
    return batches
