"""Single requests from any thread: connections that are kept, and patience with a broker that is away."""

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cordwood.client.connection import Connection
from cordwood.client.endpoint import Endpoint
from cordwood.client.reply import Reply, error_of
from cordwood.client.retry import LATER, Backoff, meaning
from cordwood.errors import Unavailable

MOST_IDLE = 8  # connections that are kept for the next call
BACKOFF = Backoff(0.05, 1.0)


class Caller:
    """Asks a broker; tries up to `tries` times while it cannot be reached, or says "later"."""

    def __init__(self, endpoint: Endpoint, timeout_s: float, tries: int):
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._tries = tries
        self._idle: list[Connection] = []
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def call(
        self, method: str, target: str, body: Any = b"", kind: str = "", *, again: bool = True, patient: bool = True
    ) -> Reply:
        """Return the answer. Raises Unavailable when there is none.

        Without `again` nothing is sent twice. Without `patient` an answer that says "later" is an answer.
        """
        failures = 0
        while True:
            sent = False
            error: Exception
            try:
                with self.connection() as connection:
                    sent = True
                    reply = connection.request(method, target, body, kind, "application/json")
                if not patient or meaning(reply.status) != LATER:
                    return reply
                error = error_of(reply)
            except OSError as broken:
                error = broken
            failures += 1
            if failures >= self._tries or (sent and not again):
                raise self.unavailable(error) from error
            time.sleep(BACKOFF.wait_s(failures, random.random))

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Give out a connection; it is kept afterwards, unless something was raised."""
        connection = self._take() or Connection(self._endpoint, self._timeout_s)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if len(self._idle) < MOST_IDLE and not connection.closing:
                self._idle.append(connection)
                return
        connection.close()

    def unavailable(self, error: Exception) -> Unavailable:
        """Return what went wrong as the error that callers expect."""
        if isinstance(error, Unavailable):
            return error
        where, why = self._endpoint.url, getattr(error, "strerror", None) or error
        return Unavailable(
            f"the broker cannot be reached at {where}: {why}; start it with `cordwood serve`, or give its endpoint"
        )

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> Connection | None:
        if self._pid != os.getpid():  # a forked child must not speak on its parent's connections
            self._pid = os.getpid()
            self._lock = threading.Lock()
            self._idle = []
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or not connection.stale:
                return connection
            connection.close()
