"""The thread that tells the broker what became of messages: done, failed, still needed, given back.

    turn:  collect what the application said ─▶ ack ─▶ nack ─▶ extend, when a third of the lease is over ─▶ sleep

While one request is under way, what the application says meanwhile gathers and goes with the next, as ranges. What
could not be sent is sent again, for ever; an ack may come twice without harm. What the broker refuses because
another consumer has the message now is counted, logged, and raised by `flush`.
"""

import logging
import random
import select
import threading
import time

import msgspec

from cordwood.client.bell import Bell
from cordwood.client.endpoint import Endpoint
from cordwood.client.holdings import Holdings
from cordwood.client.message import Delivery, only
from cordwood.client.ranges import Range
from cordwood.client.retry import Backoff
from cordwood.client.telling import Telling
from cordwood.client.terms import ConsumerTerms
from cordwood.errors import Unavailable

log = logging.getLogger("cordwood.client")

MOST_RANGES = 10_000  # in one request; a quarter of a megabyte of JSON
_BACKOFF = Backoff(0.1, 5.0)


class Nack(msgspec.Struct, frozen=True):
    """Messages that failed together."""

    partition: int
    ranges: list[Range]
    reason: str
    delay_ms: int | None


class Settling:
    """Sends acks, nacks and renewals for one consumer. `lock` guards `holdings` and `deliveries`."""

    def __init__(self, endpoint: Endpoint, whose: dict[str, str], terms: ConsumerTerms):
        self.bell = Bell()
        self.lock = threading.Lock()
        self.holdings = Holdings()
        self._terms = terms
        self._telling = Telling(endpoint, whose, terms.request_timeout_ms / 1000)
        self._deliveries: list[Delivery] = []  # with the application
        self._nacks: list[Nack] = []
        self._idle = threading.Condition()
        self._rounds = self._asked = 0  # flushes: how many rounds were completed, how many anybody waits for
        self._failures = 0
        self._closing = False
        self._renew_at = 0.0
        self._poll = select.poll()
        self._poll.register(self.bell, select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="cordwood-settling", daemon=True)

    # Other threads call.

    @property
    def lost(self) -> int:
        """How many acks and nacks were refused."""
        return self._telling.lost

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def settle(self, wait: bool = False) -> None:
        """Take notice that the application said something about a delivery; with `wait`, until it is durable."""
        if self.bell.sleeping:
            self.bell.ring()
        if wait:
            self.flush(None)

    def hand(self, delivery: Delivery) -> Delivery:
        """Give a delivery to the application: without what was lost to another consumer while it waited here."""
        with self.lock:
            ours = {number: self.holdings.hand(number, ranges) for number, ranges in delivery.ranges().items()}
            if ours != delivery.ranges():
                delivery = Delivery(only(delivery.batch, ours), self.bell, self.settle)
            self._deliveries.append(delivery)
            return delivery

    def flush(self, timeout_s: float | None) -> None:
        """Return when all that was said so far is durable. Raises TimeoutError, or Conflict for what was refused."""
        with self._idle:
            self._asked = target = self._rounds + 2  # the round that runs may have begun before this
            self.bell.ring()
            came = self._idle.wait_for(lambda: self._rounds >= target or not self._thread.is_alive(), timeout_s)
            refusals, self._telling.refusals = self._telling.refusals, []
        if not came:
            raise TimeoutError(f"not everything was acknowledged within {timeout_s} s; it is still being tried")
        if refusals:
            raise refusals[0]

    def close(self) -> None:
        """Send what was said, give back the rest, and return; at most `close_ms`."""
        self.stop()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(self._terms.close_ms / 1000 + 1)

    def stop(self) -> None:
        """Begin to end; do not wait for it."""
        self._closing = True
        self.bell.ring()

    # The thread does the rest.

    def _run(self) -> None:
        self._renew_at = time.monotonic() + self._terms.lease_ms / 3000
        try:
            while not self._closing:
                self._round()
            self._leave(time.monotonic() + self._terms.close_ms / 1000)
        except Exception:  # nobody else would say so
            log.exception("acknowledging cannot go on; leases will run out")
        finally:
            self._telling.close()
            with self._idle:
                self._idle.notify_all()

    def _round(self) -> None:
        try:
            self._send()
            if time.monotonic() >= self._renew_at:
                self._renew()
            self._failures = 0
            wait_s = None
        except (OSError, Unavailable) as error:
            log.info("the broker cannot be told what is done: %s", error)
            self._telling.close()
            self._failures += 1
            wait_s = _BACKOFF.wait_s(self._failures, random.random)
        if wait_s is None:
            with self._idle:
                self._rounds += 1
                self._idle.notify_all()
                hurry = self._asked > self._rounds
            self.bell.sleeping = True  # before looking: who says something from here on rings
            if self._closing or hurry or self._something():
                wait_s = 0.0
            else:
                wait_s = max(0.0, self._renew_at - time.monotonic())
        self._poll.poll(wait_s * 1000)
        self.bell.hear()

    def _something(self) -> bool:
        with self.lock:
            return any(len(d.done) > d.done_seen or len(d.failed) > d.failed_seen for d in self._deliveries)

    def _collect(self) -> None:
        """Move what the application said into the holdings."""
        with self.lock:
            left = []
            for delivery in self._deliveries:
                if len(delivery.done) > delivery.done_seen:
                    done = delivery.done[delivery.done_seen :]
                    delivery.done_seen += len(done)
                    for partition, ranges in delivery.ranges(done).items():
                        self.holdings.ack(partition, ranges)
                if len(delivery.failed) > delivery.failed_seen:
                    failed = delivery.failed[delivery.failed_seen :]
                    delivery.failed_seen += len(failed)
                    self._fail(delivery, failed)
                if any(self.holdings.is_out(partition, ranges) for partition, ranges in delivery.ranges().items()):
                    left.append(delivery)
            self._deliveries = left

    def _fail(self, delivery: Delivery, failed: list[tuple[int | range, str, int | None]]) -> None:
        alike: dict[tuple[str, int | None], list[int | range]] = {}
        for row, reason, delay_ms in failed:
            alike.setdefault((reason, delay_ms), []).append(row)
        for (reason, delay_ms), rows in alike.items():
            for partition, ranges in delivery.ranges(rows).items():
                self.holdings.drop(partition, ranges)
                self._nacks.append(Nack(partition, ranges, reason, delay_ms))

    def _send(self) -> None:
        self._collect()
        with self.lock:
            acking = {partition: list(ranges) for partition, ranges in self.holdings.acking.items() if ranges}
        for partition, ranges in acking.items():
            for at in range(0, len(ranges), MOST_RANGES):
                done, refused = self._telling.tell("ack", partition, ranges[at : at + MOST_RANGES])
                with self.lock:
                    self.holdings.confirm(partition, done)
                    self.holdings.drop(partition, refused)
        while self._nacks:
            nack = self._nacks[0]
            said = {"reason": nack.reason} | ({} if nack.delay_ms is None else {"delay_ms": nack.delay_ms})
            self._telling.tell("nack", nack.partition, nack.ranges, **said)
            self._nacks.pop(0)

    def _renew(self) -> None:
        with self.lock:
            held = self.holdings.held()
        for partition, ranges in held.items():
            _, gone = self._telling.tell("extend", partition, ranges, lease_ms=self._terms.lease_ms)
            if gone:
                # The broker was restarted, or the lease ran out. What is with the application stays there: its ack
                # may still be accepted. What was only fetched ahead will be delivered again, here or elsewhere.
                with self.lock:
                    self.holdings.drop_queued(partition, gone)
        self._renew_at = time.monotonic() + self._terms.lease_ms / 3000

    def _leave(self, until: float) -> None:
        """Finish within the time: acks first, then what is left goes back to the broker."""
        self._telling.timeout_s = min(self._telling.timeout_s, self._terms.close_ms / 1000)
        while True:
            try:
                self._send()
                with self.lock:
                    held = self.holdings.held()
                for partition, ranges in held.items():
                    self._telling.tell("extend", partition, ranges, lease_ms=0)
                return
            except (OSError, Unavailable) as error:
                self._telling.close()
                self._failures += 1
                wait_s = _BACKOFF.wait_s(self._failures, random.random)
                if time.monotonic() + wait_s > until:
                    log.warning("left without the broker's knowledge; leases will run out: %s", error)
                    return
                time.sleep(wait_s)
