"""What an application receives with.

with Consumer("http://127.0.0.1:7878", "clicks", group="mailer") as consumer:
    for message in consumer:
        ...; message.ack()
"""

import atexit
import os
import secrets
import socket
import time
import weakref
from collections.abc import Callable, Iterator
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cordwood.client.endpoint import endpoint as parse
from cordwood.client.inbox import Inbox
from cordwood.client.leasing import Leasing
from cordwood.client.message import Batch, Delivery, Message
from cordwood.client.settling import Settling
from cordwood.client.terms import ConsumerTerms
from cordwood.errors import Unavailable

if TYPE_CHECKING:
    from ssl import SSLContext

_live: "weakref.WeakSet[Consumer]" = weakref.WeakSet()


class Consumer:
    """Receives messages of one topic for one group, each on a lease that is renewed until it is acknowledged.

    `ack` and `nack` may be called from any thread; iterating is for one at a time. A message that was neither
    acknowledged nor failed when the consumer is closed goes back at once, to whoever asks next. `start` says where
    a new group begins: "earliest", "latest", an offset, or a time. The other settings are those of `ConsumerTerms`.
    """

    def __init__(
        self,
        endpoint: str,
        topic: str,
        group: str,
        *,
        token: str | None = None,
        tls: "SSLContext | None" = None,
        ca: str | None = None,
        owner: str | None = None,
        start: str | int | None = None,
        **settings: Any,
    ):
        terms = ConsumerTerms(**settings)
        at = parse(endpoint, token, tls, ca)
        self.topic, self.group = topic, group
        self.owner = owner or f"{socket.gethostname()[:80]}-{os.getpid()}-{secrets.token_hex(4)}"
        self._terms = terms
        whose = {"topic": topic, "group": group, "owner": self.owner}
        self._inbox = Inbox()
        self._settling = Settling(at, whose, terms)
        asked = whose if start is None else {**whose, "start": start}
        self._leasing = Leasing(at, asked, terms, self._inbox, self._settling)
        self._delivery: Delivery | None = None
        self._messages: Iterator[Message] | None = None
        self._used = 0  # messages since the application last waited for some
        self._since = 0.0  # when it got the first of them
        self._pid = os.getpid()
        self._started = self._closed = False
        _live.add(self)
        weakref.finalize(self, _abandon, self._leasing, self._settling)

    @property
    def lost(self) -> int:
        """How many acknowledgements were refused, because the message is another consumer's now."""
        return self._settling.lost

    def __iter__(self) -> Iterator[Message]:
        """Yield messages as they come; ends after `idle_timeout_ms` without any. Leaving the loop loses none."""
        while True:
            yield from self.at_hand
            if not self._came():
                return

    def batches(self) -> Iterator[Batch]:
        """Yield messages as Arrow record batches, as they come; ends after `idle_timeout_ms` without any."""
        while True:
            batch = self.rest()
            if batch is not None:
                yield batch
            elif not self._came():
                return

    def receive(self, max_messages: int = 1, wait_ms: int = 0) -> list[Message]:
        """Return up to so many messages; waits for the first, at most `wait_ms`, and for no other."""
        until = time.monotonic() + wait_ms / 1000
        found: list[Message] = []
        while len(found) < max_messages:
            found += islice(self.at_hand, max_messages - len(found))
            left_s = 0.0 if found else max(0.0, until - time.monotonic())
            if len(found) < max_messages and not self.advance(left_s):
                break
        return found

    def flush(self, timeout: float | None = None) -> None:
        """Return when every ack and nack so far is durable; TimeoutError after `timeout` seconds.

        Raises Conflict if one was refused since the last flush: the message is another consumer's now.
        """
        if self._started:
            self._settling.flush(timeout)

    def close(self) -> None:
        """Acknowledge what was acknowledged, give back the rest, and end. May be called again."""
        if self._pid != os.getpid() or self._closed:
            return
        self._closed = True
        self._inbox.end(Unavailable("the consumer is closed"))
        if self._started:
            self._leasing.close()
            self._settling.close()
        self._delivery = self._messages = None

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _came(self) -> bool:
        """Wait for the next delivery; False when nothing came for `idle_timeout_ms`, and nothing is on its way."""
        while not self.advance(self.idle_s):
            if not self.bringing:
                return self.advance(0)  # it may have been brought in this very moment
        return True

    # The face for asyncio uses these, too.

    @property
    def idle_s(self) -> float | None:
        """After how long without messages iteration ends, None: never."""
        return self._terms.idle_timeout_ms / 1000 or None

    @property
    def bringing(self) -> bool:
        """Whether messages are on their way: an answer with some has begun. They are in `advance` when it ends."""
        return self._leasing.bringing

    @property
    def at_hand(self) -> Iterator[Message]:
        """The messages of the current delivery that nobody has had; the same iterator until `advance`."""
        if self._messages is None:
            self._messages = iter(()) if self._delivery is None else self._delivery.messages()
        return self._messages

    def rest(self) -> Batch | None:
        """Return what is at hand as one batch, None when nothing is."""
        if self._delivery is None:
            return None
        batch = self._delivery.rest()
        self._messages = None
        return batch if len(batch) else None

    def when_ready(self, call: Callable[[], None]) -> None:
        """Call once, from some thread, when `advance` would not wait."""
        self._start()
        self._inbox.when_ready(call)

    def advance(self, timeout_s: float | None) -> bool:
        """Make the next delivery the current one; False when none came in time. Raises what ended the consumer."""
        self._start()
        if self._used and not self._inbox.count:
            self._leasing.appetite.used(self._used, time.monotonic() - self._since)
            self._used = 0
        while True:
            delivery = self._inbox.get(timeout_s)
            if delivery is None:
                return False
            delivery = self._settling.hand(delivery)
            if delivery.batch.num_rows:
                break
        if not self._used:
            self._since = time.monotonic()
        self._used += delivery.batch.num_rows
        self._delivery = delivery
        self._messages = None
        return True

    def _start(self) -> None:
        if self._pid != os.getpid():
            raise RuntimeError("this process was forked; a Consumer stays with its parent, make another one here")
        if self._closed:
            raise Unavailable("the consumer is closed")
        if not self._started:
            self._started = True
            self._settling.start()
            self._leasing.start()


def _abandon(leasing: Leasing, settling: Settling) -> None:
    """End without waiting: nobody has the consumer any more."""
    leasing.stop()
    settling.stop()


def _finish() -> None:
    for consumer in list(_live):
        consumer.close()


atexit.register(_finish)
