"""Groups: made, described, changed; what their consumers say about messages; and their dead letters sent back."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from msgspec import Struct

from cordwood.broker import delays, names, ops, starts
from cordwood.broker.counts import Counts
from cordwood.broker.crew import Crew, Poll, Subscription
from cordwood.broker.dead import origin, revived
from cordwood.broker.dispatch import Dispatch
from cordwood.broker.histogram import Histogram
from cordwood.broker.history import Away
from cordwood.broker.ledger import Ledger, Then
from cordwood.broker.starts import Start
from cordwood.broker.state import Group, Topic
from cordwood.broker.terms import GroupTerms, changed
from cordwood.broker.timers import Timers
from cordwood.broker.topics import Topics
from cordwood.errors import Conflict, CordwoodError, NotFound, Refused
from cordwood.machine.clock import Clock
from cordwood.record import Batch, concat, summary
from cordwood.settings import check
from cordwood.wire.run import Run

MOST_RANGES = 10_000  # in one request: they take some tenths of a second
SHOWN_RANGES = 1_000  # of each kind in a description
REDRIVEN_AT_ONCE = 1_000
MOST_REASON = 1_000  # characters of a nack's reason that are kept

Ranges = Sequence[tuple[int, int]]


class GroupPartition(Struct, frozen=True):
    """How far a group is in one partition. `done` has the first ranges above the floor, `leased` those on lease.

    `redriven` has what was sent back of the dead letters in the partition of the same number, in their offsets.
    """

    partition: int
    floor: int
    end_offset: int
    lag: int
    in_flight: int
    delayed: int
    blocked: int
    retried: int
    done: list[tuple[int, int]]
    leased: list[tuple[int, int]]
    redriven: list[tuple[int, int]]


class AckDelay(Struct, frozen=True):
    """How long messages took from their time to their ack, since the broker was started.

    `counts` are of those up to each bound and above the one before it; the last count is of those above all.
    """

    bounds_ms: list[int]
    counts: list[int]
    count: int
    sum_ms: float


class GroupInfo(Struct, frozen=True):
    """A group as it is. `retried` counts open messages that were delivered more than once."""

    topic: str
    group: str
    created_at: int
    moved_at: int
    lag: int
    in_flight: int
    consumers: int
    settings: dict[str, Any]
    partitions: list[GroupPartition]
    ack_delay: AckDelay


class GroupLine(Struct, frozen=True):
    """A group in a list."""

    topic: str
    group: str
    lag: int
    in_flight: int
    consumers: int


class Groups:
    """Everything that is asked of a group."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        counts: Counts,
        timers: Timers,
        topics: Topics,
        dispatch: Dispatch,
    ):
        self._ledger = ledger
        self._clock = clock
        self._counts = counts
        self._timers = timers
        self._topics = topics
        self._dispatch = dispatch
        self._hurried = False

    # The group itself

    def find(self, topic_name: str, name: str) -> tuple[Topic, Group]:
        """Return a group that is there."""
        topic = self._topics.find(topic_name)
        found = topic.groups.get(name)
        if found is None:
            raise NotFound(f"the topic {topic_name!r} has no group {name[:250]!r}")
        return topic, found

    def ensure(self, topic_name: str, name: str, start: Start, changes: dict[str, Any] | None = None) -> Group:
        """Return a group, made if it is not there: it begins at `start`, from now on and for ever."""
        self._ledger.check_writable()
        topic = self._topics.find(topic_name)
        found = topic.groups.get(name)
        if found is None:
            names.check_group(name)
            if len(topic.groups) >= self._topics.max_groups:
                most = f"{self._topics.max_groups} groups already (max_groups)"
                raise Conflict(f"the topic {topic_name!r} has {most}; delete some, or raise that setting")
            terms = self._changed(topic, GroupTerms(), changes or {})
            places = [starts.resolve(self._ledger, p, start, p.end) for p in topic.partitions]
            self._ledger.write([ops.GroupMade(topic_name, name, places, terms, self._clock.now_ms())], reserve=True)
            found = topic.groups[name]
        return found

    def set(self, topic_name: str, name: str, changes: dict[str, Any], start: Start, then: Then) -> None:
        """Change some settings, or make the group with them; `then` gets the GroupInfo."""
        topic = self._topics.find(topic_name)
        group = topic.groups.get(name)
        if group is None:
            group = self.ensure(topic_name, name, start, changes)
        else:
            terms = self._changed(topic, group.terms, changes)
            if terms != group.terms:
                self._ledger.write([ops.GroupSet(topic_name, name, terms)], reserve=True)
                self._look_again(topic, group)
        self._ledger.reply(then, self._describe(topic, group))

    def _changed(self, topic: Topic, terms: GroupTerms, changes: dict[str, Any]) -> GroupTerms:
        terms = changed(terms, changes)
        if topic.name.startswith(names.DEAD) and terms.on_exhausted == "dlq":
            raise Refused(f"{topic.name!r} holds dead letters: they have no dead letters of their own; block or drop")
        return terms

    def _look_again(self, topic: Topic, group: Group) -> None:
        """Let what was kept aside be judged by the new settings."""
        crew = self._dispatch.crews.get((topic.name, group.name))
        if crew is not None:
            for number, hand in crew.hands.items():
                for first, end in list(hand.stuck):
                    hand.stuck.remove(first, end)
                    hand.ready.add(first, end)
                self._dispatch.stir(crew, number)

    def lines(self, then: Then) -> None:
        """`then` gets a GroupLine for every group of every topic."""
        lines = []
        for topic_name, topic in sorted(self._ledger.state.topics.items()):
            for name, group in sorted(topic.groups.items()):
                crew = self._dispatch.crews.get((topic_name, name))
                lag = sum(group.open(n, p.end) for n, p in enumerate(topic.partitions))
                consumers = len({*crew.waiting, *crew.streams}) if crew else 0
                lines.append(GroupLine(topic_name, name, lag, crew.in_flight if crew else 0, consumers))
        self._ledger.show(then, lines)

    def info(self, topic_name: str, name: str, then: Then) -> None:
        """`then` gets the GroupInfo."""
        self._ledger.show(then, self._describe(*self.find(topic_name, name)))

    def delete(self, topic_name: str, name: str, then: Then) -> None:
        """Delete a group; its consumers are told."""
        self.find(topic_name, name)
        self._ledger.write([ops.GroupDeleted(topic_name, name)], reserve=True)
        self._dispatch.disband(topic_name, name, NotFound(f"the group {name!r} was deleted"))
        self._counts.forget(topic_name, name)
        self._ledger.reply(then, None)

    def seek(self, topic_name: str, name: str, to: Start, partition: int | None, then: Then) -> None:
        """Go on from another place, as if the group had never been further; `then` gets the GroupInfo."""
        topic, group = self.find(topic_name, name)
        if partition is not None:
            self._partition(topic, partition)
        numbers = range(len(topic.partitions)) if partition is None else [partition]
        places = [
            (n, starts.resolve(self._ledger, topic.partitions[n], to, topic.partitions[n].end)) for n in numbers
        ]
        self._ledger.write([ops.Sought(topic_name, name, places, self._clock.now_ms())], reserve=True)
        crew = self._dispatch.crews.get((topic_name, name))
        if crew is not None:
            for number, _ in places:
                hand = crew.hands.pop(number, None)
                if hand is not None:
                    for lease in hand.leases():
                        lease.consumer.lent(number, -lease.left)
                self._dispatch.stir(crew, number)
        self._ledger.reply(then, self._describe(topic, group))

    # Deliveries

    def lease(
        self,
        topic_name: str,
        name: str,
        owner: str,
        start: Start,
        max_messages: int,
        max_bytes: int,
        wait_ms: int,
        lease_ms: int | None,
        then: Then,
    ) -> Callable[[], None]:
        """Ask for one batch; `then` gets runs, none if nothing came in time. What is returned takes it back."""
        group = self.ensure(topic_name, name, start)
        topic = self._topics.find(topic_name)
        crew = self._dispatch.crew(topic, group)
        poll = Poll(owner, self._lease_ms(topic, group, lease_ms), max_messages, max_bytes, then)
        self._dispatch.join(crew, poll)
        until_ms = self._clock.monotonic_ms() + (0 if self._hurried else wait_ms)
        self._timers.at(until_ms, partial(self._waited, crew, poll))
        return partial(self._dispatch.leave, crew, poll)

    def hurry(self) -> None:
        """Answer every lease that waits, and let none wait from here on."""
        self._hurried = True
        now = self._clock.monotonic_ms()
        for crew in list(self._dispatch.crews.values()):
            for consumer in list(crew.waiting):
                if isinstance(consumer, Poll):
                    self._waited(crew, consumer, now)

    def _waited(self, crew: Crew, poll: Poll, now: int) -> None:
        if poll in crew.waiting:
            self._dispatch.run()  # nobody goes while there is something
        if poll in crew.waiting:
            del crew.waiting[poll]
            self._ledger.show(partial(self._empty, poll), None)

    def _empty(self, poll: Poll, error: CordwoodError | None) -> None:
        if error is not None:
            poll.refuse(error)
        else:
            poll.accept([])

    def consume(
        self,
        topic_name: str,
        name: str,
        owner: str,
        start: Start,
        lease_ms: int | None,
        max_in_flight: int | None,
        sink: Callable[[list[Run] | CordwoodError], None],
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        """Open a stream; `sink` gets runs, or an error and then nothing more. Returns (more, close).

        After each delivery `more` asks for the next. `close` gives everything back.
        """
        group = self.ensure(topic_name, name, start)
        topic = self._topics.find(topic_name)
        crew = self._dispatch.crew(topic, group)
        terms = self._dispatch.terms(topic, group)
        limit = terms["max_in_flight"] if max_in_flight is None else max_in_flight
        stream = Subscription(owner, self._lease_ms(topic, group, lease_ms), limit, sink)
        self._dispatch.join(crew, stream)

        def more() -> None:
            if not stream.closed:
                self._dispatch.join(crew, stream)

        return more, partial(self._dispatch.leave, crew, stream)

    def _lease_ms(self, topic: Topic, group: Group, asked: int | None) -> int:
        if asked is None:
            return int(self._dispatch.terms(topic, group)["lease_ms"])
        check("lease_ms", asked, "lease_ms")
        return asked

    # What consumers say

    def ack(self, topic_name: str, name: str, partition: int, ranges: Ranges, owner: str | None, then: Then) -> None:
        """Mark messages as done, all or none; refused when another owner holds one of them."""
        topic, group = self.find(topic_name, name)
        crew = self._dispatch.crews.get((topic_name, name))
        self._check(topic, partition, ranges)
        self._check_owner(crew, partition, ranges, owner)
        end = topic.partitions[partition].end
        before = group.open(partition, end)
        found = group.cursors.get(partition)
        floor = group.floor(partition)
        news = [
            piece
            for first, stop in ranges
            if stop > floor
            for piece in ([(first, stop)] if found is None else found.done.gaps(max(first, floor), stop))
        ]
        if news:
            now = self._clock.now_ms()
            self._ledger.write([ops.Done(topic_name, name, partition, news, now)], reserve=True)
            self._counts.acked[(topic_name, name)] += before - group.open(partition, end)
            delay = self._counts.delays.get((topic_name, name))
            if delay is None:
                delay = self._counts.delays[(topic_name, name)] = delays.delays()
            delays.count(delay, topic.partitions[partition].index, ((max(a, floor), b) for a, b in news), now)
            self._dispatch.finish(crew, partition, news)
        else:
            self._ledger.check_writable()
        self._ledger.reply(then, None)

    def nack(
        self,
        topic_name: str,
        name: str,
        partition: int,
        ranges: Ranges,
        owner: str | None,
        reason: str,
        delay_ms: int | None,
        then: Then,
    ) -> None:
        """Say that messages could not be done: again after `delay_ms` (None: the backoff), or given up."""
        topic, _ = self.find(topic_name, name)
        crew = self._dispatch.crews.get((topic_name, name))
        self._check(topic, partition, ranges)
        self._check_owner(crew, partition, ranges, owner)
        self._ledger.check_writable()
        held = self._held(crew, partition, ranges)
        if crew is not None and held:
            self._dispatch.fail(crew, partition, held, reason[:MOST_REASON], delay_ms)
            self._counts.nacked[(topic_name, name)] += sum(end - first for first, end in held)
        self._ledger.reply(then, None)

    def extend(
        self,
        topic_name: str,
        name: str,
        partition: int,
        ranges: Ranges,
        owner: str | None,
        lease_ms: int | None,
        then: Then,
    ) -> None:
        """Keep messages for longer, from now on; 0 gives them back as if they had not been delivered."""
        topic, group = self.find(topic_name, name)
        crew = self._dispatch.crews.get((topic_name, name))
        self._check(topic, partition, ranges)
        self._ledger.check_writable()
        if lease_ms == 0:
            self._check_owner(crew, partition, ranges, owner)
            if crew is not None:
                self._dispatch.give_back(crew, partition, self._held(crew, partition, ranges))
            self._ledger.reply(then, None)
            return
        wanted = self._lease_ms(topic, group, lease_ms)
        self._check_owner(crew, partition, ranges, owner)
        held = self._held(crew, partition, ranges)
        missing = sum(end - first for first, end in ranges) - sum(end - first for first, end in held)
        if missing:
            raise Conflict(f"{missing} of these messages are on lease no more; their lease ran out, or they are done")
        assert crew is not None, "what is held is in somebody's hands"
        deadline = self._clock.monotonic_ms() + wanted
        hand = crew.hands[partition]
        for first, end in ranges:
            hand.extend(first, end, deadline)
        self._dispatch.alarm(crew, partition, hand, deadline)
        self._ledger.reply(then, None)

    def _held(self, crew: Crew | None, partition: int, ranges: Ranges) -> list[tuple[int, int]]:
        hand = crew.hands.get(partition) if crew is not None else None
        if hand is None:
            return []
        return [(low, high) for first, end in ranges for low, high in hand.out.within(first, end)]

    def _check(self, topic: Topic, partition: int, ranges: Ranges) -> None:
        self._partition(topic, partition)
        if not ranges:
            raise Refused("offset, or ranges [[first, end], …], says which messages are meant")
        if len(ranges) > MOST_RANGES:
            raise Refused(f"{len(ranges)} ranges in one request, at most {MOST_RANGES} are accepted")
        end = topic.partitions[partition].end
        behind = -1
        for first, stop in sorted(ranges):
            if first < 0 or stop <= first:
                raise Refused(f"[{first}, {stop}] is no range: first is 0 or more, and end is behind it")
            if stop > end:
                raise Refused(f"partition {partition} ends at offset {end}; there is no offset {stop - 1} yet")
            if first < behind:
                raise Refused(f"two ranges both name offset {first}")
            behind = stop

    def _partition(self, topic: Topic, partition: int) -> None:
        if not 0 <= partition < len(topic.partitions):
            raise Refused(f"the topic has partitions 0 to {len(topic.partitions) - 1}, not {partition}")

    def _check_owner(self, crew: Crew | None, partition: int, ranges: Ranges, owner: str | None) -> None:
        hand = crew.hands.get(partition) if crew is not None else None
        if owner is None or hand is None:
            return
        for first, end in ranges:
            for low, _, lease in hand.held(first, end):
                if lease.owner != owner:
                    raise Conflict(
                        f"offset {low} of partition {partition} is held by {lease.owner!r} now", offset=low
                    )

    # Dead letters

    def redrive(
        self, topic_name: str, name: str, partition: int | None, ranges: Ranges | None, then: Then, sent: list[int]
    ) -> None:
        """Send dead letters of this group back; `then` gets how many. `sent` keeps the count over a retry."""
        if topic_name.startswith(names.DEAD) and topic_name not in self._ledger.state.topics:
            raise NotFound(f"there is no topic {topic_name[:250]!r}")
        if topic_name.startswith(names.DEAD):
            topic_name = topic_name.removeprefix(names.DEAD)
        topic, group = self.find(topic_name, name)
        dead = self._ledger.state.topics.get(names.dead_letters_of(topic_name))
        if dead is None:
            self._ledger.reply(then, 0)
            return
        if ranges is not None and partition is None:
            if len(dead.partitions) > 1:
                raise Refused("ranges count in one partition of the dead letters; name it")
            partition = 0
        if partition is not None:
            self._partition(dead, partition)
        for number in range(len(dead.partitions)) if partition is None else [partition]:
            end = dead.partitions[number].shown
            for first, stop in ranges or [(dead.partitions[number].start, end)]:
                if first < 0 or stop <= first:
                    if ranges is not None:
                        raise Refused(f"[{first}, {stop}] is no range: first is 0 or more, and end is behind it")
                    continue
                before = group.redriven.get(number)
                stop = min(stop, end)
                gaps = [(first, stop)] if before is None else list(before.gaps(first, stop))
                for low, high in gaps:
                    while low < high:
                        count, low = self._redrive(topic, group, dead, number, low, high)
                        sent[0] += count
        self._ledger.reply(then, sent[0])

    def _redrive(self, topic: Topic, group: Group, dead: Topic, number: int, first: int, end: int) -> tuple[int, int]:
        """Send back those of the next dead letters that are this group's, in one frame; return how many, and how far.

        Raises `Away` when the first of them are in the tier; what is here goes before that.
        """
        found: dict[int, list[Batch]] = {}
        went: list[tuple[int, int]] = []
        looked = 0
        for place in dead.partitions[number].index.places(first, end):
            if looked >= REDRIVEN_AT_ONCE:
                end = place.first
                break
            try:
                batch = self._ledger.fetch(place)
            except Away:
                if not went:
                    raise
                end = place.first
                break
            batch = batch.slice(0, REDRIVEN_AT_ONCE - looked)
            looked += batch.num_rows
            if batch.num_rows < place.length:
                end = place.first + batch.num_rows
            if "headers" not in batch.schema.names:
                continue
            for row, headers in enumerate(batch.column("headers").to_pylist()):
                known = origin(headers)
                if known is not None and known[:2] == (topic.name, group.name):
                    found.setdefault(known[2] % len(topic.partitions), []).append(batch.slice(row, 1))
                    went.append((place.first + row, place.first + row + 1))
        if not went:
            return 0, end
        now = self._clock.now_ms()
        payloads: list[Batch] = []
        facts: list[ops.Op] = []
        facts_done: list[ops.Op] = []
        for partition, rows in sorted(found.items()):
            payload = revived(concat(rows))
            size, latest_us = summary(payload)
            start = topic.partitions[partition].end
            piece = ops.Piece(partition, start, payload.num_rows, 0, size, latest_us)
            facts.append(ops.Appended(topic.name, len(payloads), [piece], now))
            payloads.append(payload)
            back = [(start, start + payload.num_rows)]
            for other in topic.groups:
                if other != group.name:
                    facts_done.append(ops.Done(topic.name, other, partition, back, now))
        redriven = ops.Redriven(topic.name, group.name, number, went)
        self._ledger.write([*facts, *facts_done, redriven], payloads)
        self._counts.redriven[(topic.name, group.name)] += len(went)
        return len(went), end

    def _describe(self, topic: Topic, group: Group) -> GroupInfo:
        crew = self._dispatch.crews.get((topic.name, group.name))
        found = []
        for number, partition in enumerate(topic.partitions):
            cursor = group.cursors.get(number)
            hand = crew.hands.get(number) if crew is not None else None
            retried = 0
            if cursor is not None:
                retried = sum(
                    high - low
                    for start, end, tried in cursor.tries
                    if tried.attempts > 1
                    for low, high in cursor.done.gaps(start, end)
                )
            found.append(
                GroupPartition(
                    number,
                    group.floor(number),
                    partition.end,
                    group.open(number, partition.end),
                    hand.out.total if hand is not None else 0,
                    hand.delayed.total if hand is not None else 0,
                    hand.stuck.total if hand is not None else 0,
                    retried,
                    list(islice(cursor.done, SHOWN_RANGES)) if cursor is not None else [],
                    list(islice(hand.out, SHOWN_RANGES)) if hand is not None else [],
                    list(islice(group.redriven.get(number, ()), SHOWN_RANGES)),
                )
            )
        return GroupInfo(
            topic.name,
            group.name,
            group.made_ms,
            group.moved_ms,
            sum(p.lag for p in found),
            sum(p.in_flight for p in found),
            len({*crew.waiting, *crew.streams}) if crew is not None else 0,
            self._dispatch.terms(topic, group),
            found,
            _ack_delay(self._counts.delays.get((topic.name, group.name)) or delays.delays()),
        )


def _ack_delay(found: Histogram) -> AckDelay:
    return AckDelay(
        [round(bound * 1000) for bound in found.bounds], list(found.counts), found.count, found.sum * 1000
    )
