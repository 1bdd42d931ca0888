"""What an application sends with.

with Producer("http://127.0.0.1:7878", "clicks") as producer:
    future = producer.send({"page": "/"}, key="user:1")
    print(future.result())                   # Sent(partition=0, offset=7), durable
"""

import atexit
import logging
import os
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cordwood.client.columns import batches_of, encoded
from cordwood.client.endpoint import endpoint as parse
from cordwood.client.future import Future, TableFuture
from cordwood.client.page import LARGE_BYTES, Extra, Sheet
from cordwood.client.sender import Sender
from cordwood.client.terms import ProducerTerms
from cordwood.errors import Limited, Unavailable

if TYPE_CHECKING:
    from ssl import SSLContext

log = logging.getLogger("cordwood.client")

Headers = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
Time = int | datetime
EXIT_S = 10.0  # how long the end of the program waits for messages of a producer that was not closed

_live: "weakref.WeakSet[Producer]" = weakref.WeakSet()
_sending: "weakref.WeakSet[Sender]" = weakref.WeakSet()


class Producer:
    """Sends messages to one topic, many at once, each durable when its future is done and never stored twice.

    For any number of threads. Messages of one thread with the same key are stored in the order they were sent.

    `producer_id` is for a program that knows its own name and counts its starts: give a higher `epoch` each time.
    The other settings are those of `ProducerTerms`.
    """

    def __init__(
        self,
        endpoint: str,
        topic: str,
        *,
        token: str | None = None,
        tls: "SSLContext | None" = None,
        ca: str | None = None,
        producer_id: str | None = None,
        epoch: int = 0,
        **settings: Any,
    ):
        terms = ProducerTerms(**settings)
        self.topic = topic
        self.producer_id = producer_id or uuid.uuid4().hex
        self._terms = terms
        self._sender = Sender(
            parse(endpoint, token, tls, ca), topic, terms, self.producer_id, epoch, name_given=producer_id is not None
        )
        self._bell = self._sender.bell
        self._inlet = self._sender.inlet
        self._claims: Iterator[Future] = iter(())  # of the inlet's page; none until the sender has been started
        self._pid = os.getpid()
        self._closed = False
        self._started = False
        self._starting = Lock()
        _live.add(self)
        _sending.add(self._sender)
        weakref.finalize(self, self._sender.close)

    @property
    def epoch(self) -> int:
        """The highest epoch in use; it grows when messages were given up."""
        return self._sender.epoch

    def send(
        self,
        value: bytes | str | dict[str, Any] | None,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        timestamp: Time | None = None,
        deliver_at: Time | None = None,
        delay_ms: int | None = None,
        expires_at: Time | None = None,
        partition: int | None = None,
    ) -> Future:
        """Take one message and return its future at once; waits only while `buffer_bytes` are on their way.

        None is a tombstone; a dict is sent as compact JSON. Times are milliseconds since 1970, or datetimes.
        """
        # What follows is counted in nanoseconds: no lock, one call, and no `*` above, which would cost a fifth.
        if (
            (type(value) is not bytes and type(value) is not str)
            or len(value) > LARGE_BYTES
            or headers is not None
            or timestamp is not None
            or deliver_at is not None
            or delay_ms is not None
            or expires_at is not None
            or partition is not None
        ):
            extra = _extra(headers, timestamp, deliver_at, delay_ms, expires_at, partition)
            return self._send(value, key, extra)
        for future in self._claims:  # the first only: a row of the page, which no other thread gets
            page = future.page
            row = future.row
            page.keys[row] = key
            page.values[row] = value  # last; now it is there to be taken
            if self._bell.sleeping:
                self._bell.ring()
            return future
        return self._send(value, key, None)  # the page is full

    def send_table(self, table: Any) -> TableFuture:
        """Take the rows of an Arrow table or record batch and return one future for all of them, at once.

        Columns are `value`, and any of `key`, `headers`, `timestamp`, `deliver_at`, `expires_at`, `partition`. What
        goes into one request (see `batch_messages`) and one partition is stored together or not at all.
        """
        sheet = Sheet(batches_of(table, self._terms.batch_messages), self._inlet.settling)
        if sheet.claimed:
            self._enter()
            self._inlet.put_sheet(sheet)
            self._claims = self._inlet.claims
            self._bell.ring()
        return TableFuture(sheet)

    @property
    def has_room(self) -> bool:
        """Whether `send` would not wait."""
        return self._sender.bytes <= self._terms.buffer_bytes

    def flush(self, timeout: float | None = None) -> None:
        """Return when everything that was sent is durable or has failed; TimeoutError after `timeout` seconds."""
        if self._started and not self._sender.flush(timeout):
            raise TimeoutError(f"not everything was sent within {timeout} s; it is still on its way")

    def close(self, timeout: float | None = None) -> None:
        """Flush, then end. Nothing can be sent afterwards; may be called again."""
        if self._pid != os.getpid():
            return
        self._closed = True
        self._claims = iter(())  # whoever sends from here on meets `_enter`
        try:
            if self._sender.over is None:
                self.flush(timeout)
        finally:
            self._sender.close()
            self._sender.join(timeout)

    def __enter__(self) -> "Producer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, value: Any, key: Any, extra: Extra | None) -> Future:
        value = encoded(value)
        self._enter()
        future: Future = self._inlet.put(value, key, extra, len(value) if value is not None else 0)
        if self._claims is not self._inlet.claims:
            self._claims = self._inlet.claims
            self._bell.ring()  # there is a page to be taken
            self._sender.let_pass()
        elif self._bell.sleeping:
            self._bell.ring()
        return future

    def _enter(self) -> None:
        """Return when there is room."""
        if self._pid != os.getpid():
            raise RuntimeError("this process was forked; a Producer stays with its parent, make another one here")
        if self._closed:
            raise Unavailable("the producer is closed")
        sender = self._sender
        if not self._started:
            with self._starting:
                if not self._started:
                    sender.start()
                    self._started = True
        if sender.over is not None:
            raise Unavailable(f"the producer has ended: {sender.over}")
        most = self._terms.buffer_bytes
        if sender.bytes <= most or sender.is_here:
            return
        if not sender.wait_until(lambda: sender.bytes <= most, self._terms.max_block_ms / 1000):
            waited = self._terms.max_block_ms
            raise Limited(f"{most} bytes have been on their way for {waited} ms", "producer_buffer_full", waited)


def _extra(
    headers: Headers | None,
    timestamp: Time | None,
    deliver_at: Time | None,
    delay_ms: int | None,
    expires_at: Time | None,
    partition: int | None,
) -> Extra | None:
    if delay_ms is not None:
        if deliver_at is not None:
            raise ValueError("only one of deliver_at and delay_ms can be given")
        deliver_at = int(time.time() * 1000) + delay_ms
    if partition is not None and partition < 0:
        raise ValueError(f"a partition is 0 or more, not {partition}")
    extra = Extra(_pairs(headers), _ms(timestamp), _ms(deliver_at), _ms(expires_at), partition)
    return extra if extra != Extra() else None


def _pairs(headers: Headers | None) -> list[tuple[str, bytes | None]] | None:
    if not headers:
        return None
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def _ms(when: Time | None) -> int | None:
    return int(when.timestamp() * 1000) if isinstance(when, datetime) else when


def settle(endpoint: str, timeout_s: float) -> None:
    """Return when all that this process has sent to a broker is durable or has failed, or after `timeout_s`."""
    until = time.monotonic() + timeout_s
    for sender in list(_sending):
        if sender.url == endpoint and not sender.is_here:
            with suppress(Unavailable):  # one that has ended has nothing to wait for
                sender.flush(max(0.0, until - time.monotonic()))


def _forked() -> None:
    for producer in list(_live):
        producer._claims = iter(())  # so that the next `send` looks at the process


def _finish() -> None:
    until = time.monotonic() + EXIT_S
    for sender in list(_sending):
        sender.close()
    for sender in list(_sending):
        sender.join(max(0.0, until - time.monotonic()))
        if not sender.empty:
            log.warning(
                "the program ends, and not all that was sent to %s is stored; close its producer", sender.topic
            )


os.register_at_fork(after_in_child=_forked)
atexit.register(_finish)
