"""The broker: requests in, facts into the journal, answers out once they are durable. No loop, no thread, no socket.

    request ──▶ propose (judged by head) ──▶ ledger.write ──▶ …sync… ──▶ told ──▶ then(result)

Whoever runs it calls `flush` after requests came, `told` when the journal got further, `tick` when `wait_ms` are
over, `room` when a segment was prepared, and `failed` when the journal only reads. Every answer is a call of `then`,
once, with the result or with a CordwoodError; some that cannot be right are raised at once. All from one thread.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from cordwood.broker import ops
from cordwood.broker.counts import Counts
from cordwood.broker.dispatch import Dispatch
from cordwood.broker.groups import Groups
from cordwood.broker.history import Away, History, Wanted
from cordwood.broker.ledger import Ledger, Then
from cordwood.broker.producing import Producing
from cordwood.broker.reads import Page, Reads
from cordwood.broker.shipping import Shipping
from cordwood.broker.staging import Staging
from cordwood.broker.starts import EARLIEST, Start
from cordwood.broker.state import State
from cordwood.broker.timers import Timers
from cordwood.broker.topics import Topics
from cordwood.errors import Conflict, CordwoodError, Full, Limited, NotFound, Preparing, Unavailable
from cordwood.machine.clock import Clock
from cordwood.record import Records
from cordwood.settings import Settings
from cordwood.wire.message import Message
from cordwood.wire.run import Run

log = logging.getLogger("cordwood.broker")

MAINTAIN_MS = 10_000
LOOK_MS = 1_000  # how often it is looked whether enough was written for an earlier turn
MAINTAIN_BYTES = 64 << 20
GATHER_BYTES = 1 << 20  # gathered messages go without waiting for the sync before them when there are so many


class Broker:
    """One broker. `release` is told below which LSN no frame is needed any more."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        clock: Clock,
        random: Random,
        release: Callable[[int], None] = lambda lsn: None,
    ):
        self.settings = settings
        self.counts = Counts()
        self._ledger = ledger
        self._clock = clock
        self._release = release
        self._timers = Timers()  # by the clock that never goes back
        self._calendar = Timers()  # by the time of day
        self._backlog: deque[tuple[Callable[[], None], Then, int]] = deque()  # what waits for room, in order
        self._topics = Topics(ledger, settings, clock, random, self.counts)
        self._producing = Producing(ledger, settings, clock, self.counts, self._topics.make)
        self._staging = Staging(ledger, clock, self.counts, self._producing)
        self._dispatch = Dispatch(
            ledger, settings, clock, random, self.counts, self._timers, self._calendar, self._topics
        )
        self._groups = Groups(ledger, clock, self.counts, self._timers, self._topics, self._dispatch)
        self._reads = Reads(ledger, clock, self._topics)
        self.shipping = Shipping(ledger, settings, clock, self.counts)
        self._maintained_ms = clock.monotonic_ms()
        self._maintained_bytes = 0
        self._timers.at(self._maintained_ms + LOOK_MS, self._look)

    @property
    def state(self) -> State:
        """All that it knows; to look at, not to change."""
        return self._ledger.state

    @property
    def failure(self) -> Unavailable | None:
        """Why it only reads, None while it writes."""
        return self._ledger.failure

    @property
    def pending_bytes(self) -> int:
        """What was accepted and is not yet durable."""
        return self._ledger.pending_bytes + self._producing.gathered_bytes

    @property
    def cached_bytes(self) -> int:
        """What is held of the newest messages."""
        return self._ledger.cache.bytes

    @property
    def history(self) -> History:
        """What was fetched from the tier lately."""
        return self._ledger.history

    def in_flight(self, topic: str, group: str, partition: int) -> int:
        """Return how many messages of a partition are on lease."""
        crew = self._dispatch.crews.get((topic, group))
        hand = crew.hands.get(partition) if crew is not None else None
        return hand.out.total if hand is not None else 0

    # Run by whoever owns the journal

    @property
    def idle(self) -> bool:
        """Whether everything that was written is durable, and nothing waits."""
        return self._ledger.replied >= self._ledger.end and not self._producing.waiting and not self._backlog

    def flush(self) -> None:
        """Write what was gathered, unless a commit runs that it can wait for; give messages to who waits for them."""
        committing = self._ledger.replied < self._ledger.end
        if not committing or self._producing.gathered_bytes >= GATHER_BYTES:
            self._write_gathered()
        self._send()
        self.tick()

    def _write_gathered(self) -> None:
        try:
            self._producing.write_gathered()
        except Preparing:
            pass  # all of it still waits; `room` comes soon
        except CordwoodError as error:
            self._producing.refuse_gathered(error)

    def _send(self) -> None:
        while True:
            for topic, partition in self._ledger.fresh:
                self._dispatch.wake(topic, partition)
            self._ledger.fresh.clear()
            self._dispatch.run()
            if not self._ledger.fresh:  # a dead letter may be what somebody else waits for
                return

    def tick(self) -> None:
        """Do what is due."""
        self._calendar.run(self._clock.now_ms())  # first, so that a wait does not end while something is there
        self._timers.run(self._clock.monotonic_ms())
        self._send()

    @property
    def wait_ms(self) -> int | None:
        """How long until `tick` has something to do."""
        waits = []
        if self._timers.next_ms is not None:
            waits.append(self._timers.next_ms - self._clock.monotonic_ms())
        if self._calendar.next_ms is not None:
            waits.append(self._calendar.next_ms - self._clock.now_ms())
        return max(0, min(waits)) if waits else None

    def told(self, written: int, synced: int) -> None:
        """Take notice of how far the journal is."""
        self._ledger.told(written, synced)
        if self._ledger.changed:
            changed, self._ledger.changed = self._ledger.changed, set()
            self._reads.notify(changed)
        self.flush()

    def room(self) -> None:
        """Go on with what waited for a segment."""
        backlog, self._backlog = self._backlog, deque()
        self._producing.backlog_bytes = 0
        while backlog:
            action, then, size = backlog.popleft()
            if self._backlog and size:
                self._producing.backlog_bytes += size
                self._backlog.append((action, then, size))
            else:
                self._try(action, then, size)
        self.flush()

    def failed(self, error: Unavailable, durable: State | None) -> None:
        """Refuse everything but reads from here on. `durable` is the state that the journal holds for sure."""
        self._producing.refuse_gathered(error)
        backlog, self._backlog = self._backlog, deque()
        self._timers.clear()
        self._calendar.clear()
        self._ledger.failed(error, durable)
        self._producing.backlog_bytes = 0
        for _, then, _ in backlog:
            then(error)
        self._dispatch.disband_all(error)
        self._reads.notify(set(self._ledger.state.topics))

    def _look(self, now: int) -> None:
        grown = self._ledger.written_bytes - self._maintained_bytes
        if now - self._maintained_ms >= MAINTAIN_MS or grown >= MAINTAIN_BYTES:
            self._maintain(now)
        self._timers.at(now + LOOK_MS, self._look)

    def _maintain(self, now: int) -> None:
        """Let go what is over, and the segments that nobody needs any more."""
        self._maintained_ms, self._maintained_bytes = now, self._ledger.written_bytes
        try:
            needed = self._topics.expire()
        except Unavailable as error:
            log.info("retention waits: %s", error)
            return
        self._dispatch.drop_trimmed()
        # In every mode: a power cut that took the trimming and left the files away would be damage.
        self._ledger.when_synced(self._release, self._ledger.end if needed is None else needed)

    def _do(self, action: Callable[[], None], then: Then, size: int | None = None) -> None:
        """Run a request, or let it wait for room behind those that wait already.

        `size` is that of messages to append. All else is small, has a reserve, and waits for nobody.
        """
        if self._backlog and size is not None:
            self._ledger.check_writable()
            self._wait_for_room(action, then, size)
        else:
            self._try(action, then, size or 0)

    def _try(self, action: Callable[[], None], then: Then, size: int) -> None:
        try:
            action()
        except Preparing:
            self._wait_for_room(action, then, size)
        except Away as away:
            self._ledger.history.bring(away.wanted, lambda error: self._go_on(action, then, size, error))
        except (Conflict, NotFound) as error:
            self._ledger.reply(then, error)  # it was judged by what may not be durable yet
        except CordwoodError as error:
            if isinstance(error, Full):
                self.counts.rejected("disk_full")
            then(error)

    def _go_on(self, action: Callable[[], None], then: Then, size: int, error: CordwoodError | None) -> None:
        """Do what needed something from the tier, now that it is here; or say why it is not."""
        if error is not None:
            then(error)
        else:
            self._try(action, then, size)

    def _wait_for_room(self, action: Callable[[], None], then: Then, size: int) -> None:
        try:
            self._producing.check_pending(size)
        except Limited as error:
            then(error)
            return
        self._producing.backlog_bytes += size
        self._backlog.append((action, then, size))

    def _ask(self, action: Callable[[], None], then: Then) -> None:
        """Answer a question; that something is not there is as durable as everything else."""
        try:
            action()
        except CordwoodError as error:
            self._ledger.show(then, error)

    def settled(self, then: Then) -> None:
        """Call `then(None)` when all that was asked before may be seen by others."""
        self._ledger.show(then, None)

    # Topics

    def create_topic(self, name: str, partitions: int | None, settings: dict[str, Any], then: Then) -> None:
        """Make a topic; `then` gets (whether it is new, TopicInfo)."""
        self._do(lambda: self._topics.create(name, partitions, settings, then), then)

    def topics(self, then: Then) -> None:
        """`then` gets a list of TopicLine."""
        self._ask(lambda: self._topics.lines(then), then)

    def topic(self, name: str, then: Then) -> None:
        """`then` gets a TopicInfo."""
        self._ask(lambda: self._topics.info(name, then), then)

    def set_topic(self, name: str, changes: dict[str, Any], then: Then) -> None:
        """Change settings of a topic; `then` gets the TopicInfo."""
        self._do(lambda: self._topics.set(name, dict(changes), then), then)

    def delete_topic(self, name: str, then: Then) -> None:
        """Delete a topic; `then` gets None."""

        def delete() -> None:
            self._topics.delete(name, then)
            self._producing.forget(name)
            self._dispatch.disband(name, None, NotFound(f"the topic {name!r} was deleted"))
            self._reads.notify({name})
            self._timers.at(self._clock.monotonic_ms(), self._maintain)  # its segments are of use to others

        self._do(delete, then)

    # Messages in

    def produce_one(self, topic: str, message: Message, then: Then, *, qos: int = 1, size: int = 0) -> None:
        """Take one message that was checked and is known to be small; `then` gets `Sent`. `flush` comes soon."""
        try:
            self._producing.gather(topic, message, then, qos, size)
        except Preparing:  # the topic is made by producing to it, and there is no room for that yet
            self._wait_for_room(lambda: self._producing.gather(topic, message, then, qos, size), then, size)
        except NotFound as error:
            self._ledger.reply(then, error)

    def produce(
        self,
        topic: str,
        records: Records,
        then: Then,
        *,
        number: ops.Numbered | None = None,
        keys: Sequence[str | None] | None = None,
        qos: int = 1,
    ) -> None:
        """Take messages together, all or none; `then` gets `Produced`."""
        if self._producing.gathers(topic):
            self._write_gathered()  # what came before it is before it
        self._do(
            lambda: self._producing.produce(topic, records, then, number=number, keys=keys, qos=qos),
            then,
            int(records.batch.get_total_buffer_size()),
        )

    def stage(
        self,
        topic: str,
        records: Records,
        then: Then,
        *,
        writer: str,
        batch: int,
        task: int = 0,
        attempt: int = 0,
        sequence: int | None = None,
    ) -> None:
        """Keep messages for a later publish; `then` gets how many requests this attempt has staged."""
        self._do(
            lambda: self._staging.stage(
                topic, records, then, writer=writer, batch=batch, task=task, attempt=attempt, sequence=sequence
            ),
            then,
            int(records.batch.get_total_buffer_size()),
        )

    def publish(self, writer: str, batch: int, tasks: Sequence[tuple[int, int]] | None, then: Then) -> None:
        """Make what was staged visible, all together; `then` gets `staging.Published`."""
        self._do(lambda: self._staging.publish(writer, batch, tasks, then), then)

    # Messages out

    def lease(
        self,
        topic: str,
        group: str,
        then: Then,
        *,
        owner: str,
        start: Start = EARLIEST,
        max_messages: int = 100,
        max_bytes: int = 8 << 20,
        wait_ms: int = 0,
        lease_ms: int | None = None,
    ) -> Callable[[], None]:
        """Ask for one batch; `then` gets a list of Run, empty if none came in time. Returns what takes it back."""
        cancel: list[Callable[[], None]] = []
        gone: list[bool] = []

        def ask() -> None:
            if not gone:
                cancel.append(
                    self._groups.lease(topic, group, owner, start, max_messages, max_bytes, wait_ms, lease_ms, then)
                )

        def leave() -> None:
            gone.append(True)
            for call in cancel:
                call()

        self._do(ask, then)
        return leave

    def hurry(self) -> None:
        """Answer every lease that waits, and let none wait from here on: it stops soon."""
        self._groups.hurry()

    def consume(
        self,
        topic: str,
        group: str,
        sink: Callable[[list[Run] | CordwoodError], None],
        *,
        owner: str,
        start: Start = EARLIEST,
        lease_ms: int | None = None,
        max_in_flight: int | None = None,
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        """Open a stream; returns (more, close). Raises what cannot be; `Preparing`: ask again soon."""
        return self._groups.consume(topic, group, owner, start, lease_ms, max_in_flight, sink)

    def ack(
        self,
        topic: str,
        group: str,
        partition: int,
        ranges: Sequence[tuple[int, int]],
        then: Then,
        *,
        owner: str | None = None,
    ) -> None:
        """Mark messages as done, all or none; `then` gets None."""
        self._do(lambda: self._groups.ack(topic, group, partition, ranges, owner, then), then)

    def nack(
        self,
        topic: str,
        group: str,
        partition: int,
        ranges: Sequence[tuple[int, int]],
        then: Then,
        *,
        owner: str | None = None,
        reason: str = "",
        delay_ms: int | None = None,
    ) -> None:
        """Say that messages could not be done; `then` gets None."""
        self._do(lambda: self._groups.nack(topic, group, partition, ranges, owner, reason, delay_ms, then), then)

    def extend(
        self,
        topic: str,
        group: str,
        partition: int,
        ranges: Sequence[tuple[int, int]],
        then: Then,
        *,
        owner: str | None = None,
        lease_ms: int | None = None,
    ) -> None:
        """Keep messages for longer, or with 0 give them back; `then` gets None."""
        self._do(lambda: self._groups.extend(topic, group, partition, ranges, owner, lease_ms, then), then)

    # Groups

    def groups(self, then: Then) -> None:
        """`then` gets a list of GroupLine."""
        self._ask(lambda: self._groups.lines(then), then)

    def group(self, topic: str, group: str, then: Then) -> None:
        """`then` gets a GroupInfo."""
        self._ask(lambda: self._groups.info(topic, group, then), then)

    def set_group(
        self, topic: str, group: str, changes: dict[str, Any], then: Then, *, start: Start = EARLIEST
    ) -> None:
        """Change settings of a group, or make it; `then` gets the GroupInfo."""
        self._do(lambda: self._groups.set(topic, group, changes, start, then), then)

    def delete_group(self, topic: str, group: str, then: Then) -> None:
        """Delete a group; `then` gets None."""
        self._do(lambda: self._groups.delete(topic, group, then), then)

    def seek(self, topic: str, group: str, to: Start, then: Then, *, partition: int | None = None) -> None:
        """Let a group go on from another place; `then` gets the GroupInfo."""
        self._do(lambda: self._groups.seek(topic, group, to, partition, then), then)

    def redrive(
        self,
        topic: str,
        group: str,
        then: Then,
        *,
        partition: int | None = None,
        ranges: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Send dead letters back; `then` gets how many."""
        sent = [0]
        self._do(lambda: self._groups.redrive(topic, group, partition, ranges, then, sent), then)

    # Reads

    def bring(self, wanted: Wanted, then: Then) -> None:
        """Have something brought from the tier; `then` gets None when it is here, or an error."""
        self._ledger.history.bring(wanted, then)

    def place(self, topic: str, partition: int, start: Start) -> int:
        """Return the offset that a place means, among the messages that are visible."""
        return self._reads.place(topic, partition, start)

    def page(
        self, topic: str, topic_id: str, partition: int, offset: int, most: int = 10_000, most_bytes: int = 4 << 20
    ) -> Page:
        """Return visible messages from `offset` on, oldest first."""
        return self._reads.page(topic, topic_id, partition, offset, most, most_bytes)

    def watch(self, topic: str, call: Callable[[], None]) -> Callable[[], None]:
        """Have `call` called whenever a topic got visible messages, or went; what is returned ends that."""
        return self._reads.watch(topic, call)

    def spans(self, topic: str, first: int | None, end: int | None, then: Then) -> None:
        """`then` gets a list of SpanInfo."""
        self._ask(lambda: self._reads.spans(topic, first, end, then), then)

    def put_reader(self, topic: str, reader: str, offsets: dict[int, int], then: Then) -> None:
        """Note where a named reader stands; `then` gets ReaderInfo."""
        self._do(lambda: self._reads.put(topic, reader, offsets, then), then)

    def reader(self, topic: str, reader: str, then: Then) -> None:
        """`then` gets ReaderInfo."""
        self._ask(lambda: self._reads.get(topic, reader, then), then)

    def delete_reader(self, topic: str, reader: str, then: Then) -> None:
        """Forget a named reader; `then` gets None."""
        self._do(lambda: self._reads.delete(topic, reader, then), then)
