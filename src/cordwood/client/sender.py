"""The thread that moves messages from pages to the broker.

    turn:  give up what is too late ─▶ take rows ─▶ send ─▶ wait for answers, a ring, or the next time to try

It takes what is there as soon as nothing is under way, so a lone message does not wait; while a request is under
way the next batch gathers, so many callers share few requests; a full batch goes at once, behind the others.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable

from cordwood.client.bell import Bell
from cordwood.client.endpoint import Endpoint
from cordwood.client.future import Future
from cordwood.client.inlet import Inlet
from cordwood.client.lane import Lane
from cordwood.client.line import Line
from cordwood.client.packing import pack, refuse
from cordwood.client.page import MOST_ROWS, Rows
from cordwood.client.parcel import Parcel, Take
from cordwood.client.reply import STRANGER, Reply, error_of, retry_after_ms
from cordwood.client.retry import LATER, REFUSED, STORED, Backoff, meaning
from cordwood.client.shipment import Shipment
from cordwood.client.survey import Survey
from cordwood.client.terms import ProducerTerms
from cordwood.errors import CordwoodError, Limited, Refused, Unavailable

log = logging.getLogger("cordwood.client")

BACKLOG = 4  # parcels that are ready and wait; more would only take memory
TABLES_UNDER_WAY = 4
IDLE_S = 3600.0
AHEAD_PAGES = 16  # some 16 MB
AHEAD_S = 0.01  # then it goes on all the same: `buffer_bytes` is the limit
GATHER_S = 0.0002  # a fifth of what one sync takes; a lone caller never waits for it
_BACKOFF = Backoff(0.1, 5.0)


class Sender:
    """Sends what its inlet holds, until it is closed and all of it is settled."""

    def __init__(
        self, endpoint: Endpoint, topic: str, terms: ProducerTerms, producer_id: str, epoch: int, *, name_given: bool
    ):
        self.bell = Bell()
        self.inlet = Inlet(Future)
        self.changed = threading.Condition()  # something was settled, or it ended
        self.over: BaseException | None = None
        self.held_bytes = 0  # taken and not settled
        self.url, self.topic = endpoint.url, topic
        self._terms = terms
        self._epoch, self._name_given = epoch, name_given
        self._line = Line(endpoint, topic, producer_id, terms.request_timeout_ms / 1000, self.bell)
        self._lanes: dict[int, Lane] = {}
        self._takes: set[Take] = set()  # not settled
        self._packing = False  # some rows have left the inlet and are in no take yet
        self._sources: list[tuple[Rows, int, int]] = []  # these
        self._survey = Survey(endpoint, topic, terms.request_timeout_ms / 1000, terms.delivery_timeout_ms / 1000)
        self._turn = random.randrange(1 << 16)  # many producers of one message each must not all begin at partition 0
        self._rows_since = 0.0
        self._told = 0  # who waited and was called since the last take
        self._waiting = self._hurry = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"cordwood-sender-{topic}", daemon=True)

    # Other threads call.

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    @property
    def epoch(self) -> int:
        """The highest epoch in use."""
        return max([self._epoch, *(lane.epoch for lane in list(self._lanes.values()))])

    @property
    def bytes(self) -> int:
        """About how many bytes are here."""
        return self.inlet.bytes + self.held_bytes

    @property
    def empty(self) -> bool:
        """Whether everything that was sent is settled."""
        return not self.inlet.rows and not self._packing and not self._takes  # in the order in which a row goes

    @property
    def is_here(self) -> bool:
        """Whether this is the sender's own thread, which calls callbacks and must never wait for itself."""
        return threading.current_thread() is self._thread

    def wait_until(self, fact: Callable[[], bool], timeout_s: float | None) -> bool:
        """Return True when `fact()` is true, False after `timeout_s`; raise what the sender ended with."""
        with self.changed:
            self._waiting += 1
            self.bell.ring()
            try:
                came = self.changed.wait_for(lambda: fact() or self.over is not None, timeout_s)
            finally:
                self._waiting -= 1
        if self.over is not None and not fact():
            raise Unavailable(f"the producer has ended: {self.over}")
        return came

    def let_pass(self) -> None:
        """Give the thread a moment when it is behind, so that it need not fight for the interpreter.

        Without that, a loop that sends runs far ahead: it is not done earlier, and takes fresh memory all the way.
        """
        until = time.monotonic() + AHEAD_S
        while len(self.inlet.queue) > AHEAD_PAGES and time.monotonic() < until and not self.is_here:
            time.sleep(AHEAD_S / 20)

    def flush(self, timeout_s: float | None) -> bool:
        """Return True when everything is settled, False after `timeout_s`."""
        if self.is_here:
            raise RuntimeError("a callback cannot flush: it would wait for itself")
        self._hurry += 1
        try:
            return self.wait_until(lambda: self.empty, timeout_s)
        finally:
            self._hurry -= 1

    def close(self) -> None:
        """Let the thread end when all that is here is settled."""
        self._closing = True
        self.bell.ring()

    def join(self, timeout_s: float | None = None) -> None:
        """Return when the thread has ended, at the latest after `timeout_s`."""
        if self._thread.is_alive() and not self.is_here:
            self._thread.join(timeout_s)

    # The thread does the rest.

    def _run(self) -> None:
        try:
            while not (self._closing and self.empty):
                now = time.monotonic()
                self._expire(now)
                self._take(now)
                self._line.send(now)
                self._await(now)
            self._end(Unavailable("it was closed"))
        except BaseException as error:  # whoever waits must hear of it, whatever it is
            log.exception("the producer of %s cannot go on", self.topic)
            self._end(error)

    def _end(self, error: BaseException) -> None:
        self.over = error
        self.inlet.close()
        self._line.close()
        gone = error if isinstance(error, CordwoodError) else Unavailable(f"the producer has ended: {error!r}")
        for lane in self._lanes.values():
            self._settled(lane.end(gone))
        self._refuse_waiting(gone)
        with self.changed:
            self.changed.notify_all()

    def _expire(self, now: float) -> None:
        for lane in self._line.loaded:
            if not lane.in_flight and lane.queue[0].deadline <= now:
                after_s = self._terms.delivery_timeout_ms / 1000
                late = Unavailable(f"the broker did not answer within {after_s:g} s; this may or may not be stored")
                self._settled(lane.expire(now, late))

    # Rows to lanes

    def _take(self, now: float) -> None:
        while (rows := self.inlet.rows) and self._ready(rows, now):
            self._rows_since = 0.0
            self._gather(rows)
            try:
                count = self._survey.partitions(now)
            except (Refused, Unavailable) as error:
                self._refuse_waiting(error)
                return
            if count is None:
                return
            self._packing = True
            self._sources = self.inlet.take(self._terms.batch_messages, self._terms.batch_bytes)
            take = pack(self._sources, count, self._turn, self._terms.batch_messages, self._terms.batch_bytes)
            self._turn += 1
            self._takes.add(take)
            self.held_bytes += take.size
            self._load(take, now)
            self._sources = []
            self._packing = False
            if self._waiting and not self._takes:  # all of it failed at once
                self._announce()

    def _gather(self, rows: int) -> None:
        """Give those who have just been answered a moment to send again, so that they share the next request."""
        until = time.monotonic() + GATHER_S
        while rows < self._told and time.monotonic() < until:
            time.sleep(GATHER_S / 10)
            rows = self.inlet.rows
        self._told = 0

    def _ready(self, rows: int, now: float) -> bool:
        """Say whether rows are taken now."""
        terms = self._terms
        if self._survey.again_at > now or self.held_bytes > terms.buffer_bytes:
            return False
        lanes = [lane for lane in self._line.loaded if lane.not_before <= now]
        waiting = sum(len(lane.queue) - lane.in_flight for lane in lanes)
        if rows >= min(terms.batch_messages, MOST_ROWS) or self.inlet.bytes >= terms.batch_bytes:
            return waiting < BACKLOG
        if self.inlet.has_large_sheet:
            # Who sends tables has made the batches. A few go without waiting for each other, so that the broker is
            # at work on one while another is under way.
            return not waiting and self._line.under_way < TABLES_UNDER_WAY
        if lanes:
            return False
        if not terms.linger_ms or self._hurry or self._closing:
            return True
        self._rows_since = self._rows_since or now
        return now >= self._rows_since + terms.linger_ms / 1000

    def _load(self, take: Take, now: float) -> None:
        settled: list[Parcel] = []
        for number, among in take.parcels.items():
            lane = self._lanes.get(number)
            if lane is None and number >= 0:
                lane = self._lanes[number] = Lane(number, self._epoch, name_given=self._name_given)
            for parcel in among:
                parcel.deadline = now + self._terms.delivery_timeout_ms / 1000
                if lane is None or lane.over is not None:
                    parcel.settled, parcel.error = True, parcel.error if lane is None else lane.over
                    settled.append(parcel)
                else:
                    lane.add(parcel)
                    self._line.load(lane)
        self._settled(settled)

    def _refuse_waiting(self, error: CordwoodError) -> None:
        waiting, self._sources, self._packing = self._sources, [], False
        while waiting or (waiting := self.inlet.take(1 << 30, 1 << 60)):
            refuse(waiting, error).tell()
            waiting = []
        self._announce()

    # Answers

    def _await(self, now: float) -> None:
        """Wait for an answer, a ring or the next time to act, and take the answers that came."""
        # From here on the first row rings. Only then look for rows, or one that comes between is missed.
        self.bell.sleeping = not self._line.under_way
        self._line.wait(now, self._next_time(now), self._answered)

    def _next_time(self, now: float) -> float:
        rows = self.inlet.rows
        if (rows and self._ready(rows, now)) or (self._closing and self.empty):
            return now
        until = self._line.next_time(now + IDLE_S)
        if rows and self._survey.again_at > now:
            until = min(until, self._survey.again_at)
        if rows and self._rows_since:
            until = min(until, self._rows_since + self._terms.linger_ms / 1000)
        return until

    def _answered(self, shipment: Shipment, reply: Reply) -> None:
        what = meaning(reply.status)
        settled: list[Parcel] = []
        if what == STORED:
            try:
                found = reply.facts()
                again = found.get("duplicate", False)
                runs = {run["partition"]: run for run in found["results"]}
                parts = [(lane, parcel, runs[lane.partition]) for lane, parcel in shipment.parts]
                offsets = [int(run["first_offset"]) for _, _, run in parts]
            except (Unavailable, LookupError, TypeError, ValueError) as strange:
                # The login page of a hotel is a 200, too. What was sent is numbered, so it may be sent again.
                raise ConnectionError(f"the answer does not say where the messages are; {STRANGER}") from strange
            for (lane, parcel, run), offset in zip(parts, offsets, strict=True):
                settled += lane.stored(parcel, offset, duplicate=again or run.get("duplicate", False))
            self._settled(settled)
            return
        error = error_of(reply)
        wait_ms = retry_after_ms(reply)
        at_fault = len(shipment.parts) == 1
        if not at_fault and (what != LATER or _one_is_full(error)):
            # Nothing of it was stored. Who is at fault is heard when each is sent by itself.
            what, wait_ms = LATER, 0
            for lane, _ in shipment.parts:
                lane.alone = True
        for lane, parcel in shipment.parts:
            settled += lane.failed(parcel, what, error)
            backoff_s = _BACKOFF.wait_s(lane.failures, random.random)
            lane.not_before = time.monotonic() + (backoff_s if wait_ms is None else wait_ms / 1000)
            log.info("partition %d of %s: %s (%s)", lane.partition, self.topic, what, error)
        if what == REFUSED:
            self._survey.forget()  # perhaps the topic was made anew
        self._settled(settled)

    def _settled(self, parcels: Iterable[Parcel]) -> None:
        for take in {parcel.take for parcel in parcels}:
            if take.settled and take in self._takes:
                self._takes.remove(take)
                self.held_bytes -= take.size
                take.release()
            self._told += take.tell()
        if self._waiting:
            self._announce()

    def _announce(self) -> None:
        with self.changed:
            self.changed.notify_all()


def _one_is_full(error: CordwoodError) -> bool:
    """Say whether the fault is that of one partition, and not the broker's."""
    return isinstance(error, Limited) and error.reason != "pending_bytes_full"
