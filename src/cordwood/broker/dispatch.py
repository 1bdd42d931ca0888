"""Messages out: whose turn it is, which offsets, and what happens when a delivery fails.

    take      offsets that are neither done nor in somebody's hands, what came back first
    fetch     their rows; what has expired is done, what is not yet due waits
    write     "delivered": one attempt more, durable before anything leaves
    lend      they are out until they are done, fail, or the lease runs out
    failed    again after a backoff; after the last attempt: dead letter, dropped, or kept aside

Where the journal has no room, what was taken goes back to where it was, and all is tried again later.
"""

import logging
from collections import deque
from functools import partial
from random import Random
from typing import Any

import numpy as np

from cordwood.broker import names, ops
from cordwood.broker.burial import Burial, Tried, chunked, failures
from cordwood.broker.counts import Counts
from cordwood.broker.crew import Consumer, Crew, Poll, Subscription
from cordwood.broker.due import due
from cordwood.broker.hand import Hand
from cordwood.broker.history import Away
from cordwood.broker.index import Place
from cordwood.broker.ledger import Ledger
from cordwood.broker.state import Group, Topic
from cordwood.broker.terms import in_force
from cordwood.broker.timers import Timers
from cordwood.broker.topics import Topics
from cordwood.broker.tries import Try
from cordwood.errors import CordwoodError, Unavailable
from cordwood.machine.clock import Clock
from cordwood.record import sizes
from cordwood.settings import Settings
from cordwood.wire.run import Run, coalesce

log = logging.getLogger("cordwood.broker")

Ranges = list[tuple[int, int]]

RAN_OUT = "the lease ran out"
CLOSED = "the consumer's stream was closed"
SCAN = 1_000  # messages that are looked at together
MOST_SCANNED = 20_000  # … in one turn of the loop
AWAY_MS, LONGEST_AWAY_MS = 1_000, 30_000  # between two tries to fetch what the tier does not give
RETRY_MS = 100  # when there was no room for what the broker does by itself


class Dispatch:
    """Gives messages to consumers, and takes them back."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        clock: Clock,
        random: Random,
        counts: Counts,
        timers: Timers,
        calendar: Timers,
        topics: Topics,
    ):
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._random = random
        self._counts = counts
        self._timers = timers  # by the clock that never goes back: leases
        self._calendar = calendar  # by the time of day: delays
        self._burial = Burial(ledger, clock, topics)
        self.crews: dict[tuple[str, str], Crew] = {}
        self._by_topic: dict[str, dict[Crew, None]] = {}
        self._hungry: dict[Crew, None] = {}
        self._scanned = 0  # messages looked at in this turn

    # Crews

    def crew(self, topic: Topic, group: Group) -> Crew:
        """Return the crew of a group; a new one looks at every partition that has something open."""
        found = self.crews.get((topic.name, group.name))
        if found is None:
            found = self.crews[(topic.name, group.name)] = Crew(topic.name, group.name)
            self._by_topic.setdefault(topic.name, {})[found] = None
            for number, partition in enumerate(topic.partitions):
                if group.open(number, partition.end):
                    found.wake(number)
        return found

    def disband(self, topic: str, group: str | None, error: CordwoodError) -> None:
        """Tell the consumers of a group, or of all groups of a topic, that it is gone."""
        for crew in [c for c in self._by_topic.get(topic, ()) if group is None or c.group == group]:
            self._by_topic[topic].pop(crew, None)
            if not self._by_topic[topic]:
                del self._by_topic[topic]
            self.crews.pop((crew.topic, crew.group), None)
            self._hungry.pop(crew, None)
            crew.disband(error)

    def disband_all(self, error: CordwoodError) -> None:
        """Tell all consumers that it is over."""
        for topic in list(self._by_topic):
            self.disband(topic, None, error)

    def join(self, crew: Crew, consumer: Consumer) -> None:
        """Let a consumer wait for its turn."""
        crew.waiting[consumer] = None
        if isinstance(consumer, Subscription):
            crew.streams.add(consumer)
        self._hungry[crew] = None

    def leave(self, crew: Crew, consumer: Consumer) -> None:
        """Let a consumer go. What it holds comes back at once; what it has not seen does not count."""
        crew.waiting.pop(consumer, None)
        consumer.closed = True
        if isinstance(consumer, Subscription):
            crew.streams.discard(consumer)
            self._return_all(crew, consumer)
        self._undo(crew, consumer)

    def wake(self, topic: str, partition: int) -> None:
        """Note that a partition has something new."""
        for crew in self._by_topic.get(topic, ()):
            crew.wake(partition)
            if crew.waiting:
                self._hungry[crew] = None

    def stir(self, crew: Crew, partition: int) -> None:
        """Note that a partition may have something for this crew."""
        crew.wake(partition)
        if crew.waiting:
            self._hungry[crew] = None

    # Out

    def run(self) -> None:
        """Give every waiting consumer what there is for it."""
        while self._hungry:
            crew = next(iter(self._hungry))
            del self._hungry[crew]
            try:
                self._serve_all(crew)
            except Exception as error:
                if self._ledger.failure is None:
                    self._later(partial(self._again, crew))
                if not isinstance(error, Unavailable):
                    log.exception("nothing can be delivered to %s of %s now", crew.group, crew.topic)

    def _again(self, crew: Crew, now: int) -> None:
        if crew.waiting:
            self._hungry[crew] = None

    def _later(self, call: Any) -> None:
        self._timers.at(self._clock.monotonic_ms() + RETRY_MS, call)

    def _serve_all(self, crew: Crew) -> None:
        topic = self._ledger.state.topics[crew.topic]
        group = topic.groups[crew.group]
        terms = self.terms(topic, group)
        now = self._clock.now_ms()
        served: list[tuple[Consumer, list[_Portion]]] = []
        turn: dict[int, tuple[int, str]] = {}  # partition → what others get in this very turn, and who
        self._scanned = 0
        try:
            for consumer in list(crew.waiting):
                if not crew.live:
                    break
                portions: list[_Portion] = []
                served.append((consumer, portions))
                shares = len(crew.waiting) - len(served) + 1
                self._serve(crew, topic, group, terms, consumer, shares, now, portions, turn)
            facts: list[ops.Op] = []
            for _, portions in served:
                for portion in portions:
                    if portion.over:
                        facts.append(ops.Done(topic.name, group.name, portion.partition, portion.over, now))
                    if portion.ranges:
                        facts.append(ops.Delivered(topic.name, group.name, portion.partition, portion.ranges, now))
            if facts:
                self._ledger.write(facts, reserve=True)
        except BaseException:
            _mend(crew, group)
            raise
        key = (topic.name, group.name)
        monotonic = self._clock.monotonic_ms()
        for consumer, portions in served:
            runs: list[Run] = []
            for portion in portions:
                self._counts.messages_expired[key] += sum(end - first for first, end in portion.over)
                for first, end in portion.ranges:
                    self._lend(crew, portion, first, end, consumer, monotonic + consumer.lease_ms)
                portion.runs = coalesce(portion.runs)
                runs += portion.runs
                for run in portion.runs:
                    self._count_delivery(key, run)
            if runs:
                crew.waiting.pop(consumer, None)
                self._ledger.show(partial(self._hand_over, crew, consumer), runs)
        if crew.waiting and crew.live and any(portion.over for _, portions in served for portion in portions):
            self._hungry[crew] = None  # who got nothing because all of it had expired
        if crew.waiting and self._scanned >= MOST_SCANNED:  # there may be more; others have their turn first
            self._timers.at(monotonic, partial(self._again, crew))

    def _lend(
        self, crew: Crew, portion: "_Portion", first: int, end: int, consumer: Consumer, deadline_ms: int
    ) -> None:
        portion.hand.lend(first, end, consumer.owner, consumer, deadline_ms)
        consumer.lent(portion.partition, end - first)
        self.alarm(crew, portion.partition, portion.hand, deadline_ms)

    def _count_delivery(self, key: tuple[str, str], run: Run) -> None:
        rows = run.batch.num_rows
        self._counts.delivered[key] += rows
        if not isinstance(run.attempts, int):
            self._counts.redelivered[key] += sum(attempts > 1 for attempts in run.attempts)
        elif run.attempts > 1:
            self._counts.redelivered[key] += rows

    def _hand_over(self, crew: Crew, consumer: Consumer, runs: list[Run] | CordwoodError) -> None:
        if isinstance(runs, CordwoodError):
            consumer.refuse(runs)
        elif consumer.closed:
            self._undo(crew, consumer)
        else:
            for run in runs:
                hand = crew.hands.get(run.partition)  # a seek may have taken it away
                for lease in hand.leases(run.first_offset, run.end) if hand is not None else ():
                    lease.handed = lease.handed or lease.consumer is consumer
            consumer.accept(runs)

    def _is(self, crew: Crew) -> bool:
        """Whether this crew still is the one of its group."""
        return self.crews.get((crew.topic, crew.group)) is crew

    def _serve(
        self,
        crew: Crew,
        topic: Topic,
        group: Group,
        terms: dict[str, Any],
        consumer: Consumer,
        shares: int,
        now: int,
        portions: list["_Portion"],
        turn: dict[int, tuple[int, str]],
    ) -> None:
        """Take what one consumer gets in this turn, of one partition after the other, into `portions`."""
        left, left_bytes = consumer.max_messages, consumer.max_bytes
        ordered = terms["mode"] == "ordered"
        for number in list(crew.live):
            if left <= 0 or left_bytes <= 0:
                break
            if number in crew.away:
                del crew.live[number]  # it is looked at again when its messages are here
                continue
            partition = topic.partitions[number]
            hand = crew.hand(number, group.floor(number))
            others, holder = turn.get(number, (0, consumer.owner))
            free = terms["max_in_flight"] - hand.out.total - others
            if free <= 0 or (ordered and (hand.delayed or hand.stuck)):
                del crew.live[number]  # it is looked at again when something comes back
                continue
            if ordered and not {holder, *(lease.owner for lease in hand.leases())} <= {consumer.owner}:
                continue
            there = hand.ready.total + max(0, partition.end - max(hand.next, group.floor(number)))
            most = min(free, left, consumer.room(number), -(-there // shares))
            if there <= 0:
                del crew.live[number]
                continue
            if most <= 0:
                continue
            portion = _Portion(number, hand)
            portions.append(portion)
            # What is not due, or has expired, must not hide what is behind it, nor be looked at one by one.
            while portion.rows < most and self._scanned < MOST_SCANNED and number not in crew.away:
                step = max(most - portion.rows, SCAN)
                taken = self._take(crew, topic, group, terms, portion, partition.end, now, step)
                self._scanned += sum(high - low for low, high, _ in taken)
                if not taken or not self._fill(crew, topic, portion, taken, now, most, left_bytes, ordered):
                    break
            left -= portion.rows
            left_bytes -= portion.bytes
            if portion.rows:
                turn[number] = others + portion.rows, consumer.owner
            if number in crew.away or (not hand.ready and hand.next >= partition.end):
                crew.live.pop(number, None)
            elif number in crew.live:  # the next turn begins with another partition
                del crew.live[number]
                crew.live[number] = None

    def _take(
        self,
        crew: Crew,
        topic: Topic,
        group: Group,
        terms: dict[str, Any],
        portion: "_Portion",
        end: int,
        now: int,
        most: int,
    ) -> Tried:
        """Return offsets that may be delivered now; they are in no hands then."""
        hand, cursor = portion.hand, group.cursor(portion.partition)
        taken: Tried = []
        spent: Tried = []
        ordered = terms["mode"] == "ordered"
        last = terms["max_attempts"]
        while most > 0:
            if (lowest := hand.ready.first) is not None:
                first, stop = lowest[0], min(lowest[1], lowest[0] + most)
                hand.ready.remove(first, stop)
            else:
                gap = next(cursor.done.gaps(max(hand.next, cursor.floor), end), None)
                if gap is None:
                    hand.next = max(hand.next, end)
                    break
                first, stop = gap[0], min(gap[1], gap[0] + most)
                hand.next = stop
            for low, high, found in cursor.tries.within(first, stop):
                if ordered and (hand.delayed or hand.stuck):
                    hand.ready.add(low, high)
                elif found.until_ms > now:
                    self.delay(crew, portion.partition, hand, low, high, found.until_ms)
                elif last and found.attempts >= last:
                    if terms["on_exhausted"] == "block":
                        hand.stuck.add(low, high)
                    else:
                        spent.append((low, high, found))
                else:
                    taken.append((low, high, found))
                    most -= high - low
            if ordered and (hand.delayed or hand.stuck):
                break
        if spent:
            self._give_up(crew, topic, group, terms, portion.partition, spent, now)
            if ordered and portion.partition in crew.away:  # they are given up later, and what is behind them waits
                for low, high, _ in taken:
                    hand.ready.add(low, high)
                return []
        return taken

    def _fill(
        self,
        crew: Crew,
        topic: Topic,
        portion: "_Portion",
        taken: Tried,
        now: int,
        most: int,
        most_bytes: int,
        ordered: bool,
    ) -> bool:
        """Fetch the rows of what was taken; what has expired is over, what is not due waits, too much goes back.

        Say whether more may be taken.
        """
        index = topic.partitions[portion.partition].index
        hand = portion.hand
        held = full = False
        for first, end, found in taken:
            if full or held:
                hand.ready.add(first, end)
                continue
            at = first
            for place in index.places(first, end):
                if place.first > at:
                    portion.over.append((at, place.first))  # what an operator gave up: there is nothing to deliver
                at = place.end
                if full or held:
                    hand.ready.add(place.first, place.end)
                    continue
                try:
                    batch = self._ledger.fetch(place)
                except Away as away:
                    self._bring(crew, portion.partition, away)
                    hand.ready.add(place.first, place.end)
                    held = True
                    continue
                for low, high, until_ms in due(batch, place, now):
                    if full or held:
                        hand.ready.add(low, high)
                    elif until_ms < 0:
                        portion.over.append((low, high))
                    elif until_ms:
                        self.delay(crew, portion.partition, hand, low, high, until_ms)
                        held = ordered
                    else:
                        full = not self._add(portion, place, low, high, found, most, most_bytes)
            if at < end:
                if full or held:
                    hand.ready.add(at, end)
                else:
                    portion.over.append((at, end))
        return not full and not held

    def _add(
        self, portion: "_Portion", place: Place, low: int, high: int, found: Try, most: int, most_bytes: int
    ) -> bool:
        """Add rows to a portion as far as their number and bytes allow; say whether all of them fitted."""
        stop = min(high, low + most - portion.rows)
        if stop < high:
            portion.hand.ready.add(stop, high)
            if stop <= low:
                return False
            return self._add(portion, place, low, stop, found, most, most_bytes) and False
        batch = self._ledger.fetch(place).slice(low - place.first, high - low)
        rows, size = high - low, batch.nbytes
        fits = True
        if portion.bytes + size > most_bytes:
            if 2 * portion.bytes >= most_bytes:  # rather fewer than a batch that is cut, now and again next time
                portion.hand.ready.add(low, high)
                return False
            ends = np.cumsum(sizes(batch))
            rows = int(np.searchsorted(ends, most_bytes - portion.bytes, side="right"))
            if not portion.ranges:
                rows = max(rows, 1)  # one always goes, or it would never go
            fits = rows == high - low
            if not fits:
                portion.hand.ready.add(low + rows, high)
            if not rows:
                return False
            batch, size = batch.slice(0, rows), int(ends[rows - 1])
        portion.bytes += size
        portion.rows += rows
        errors = [found.error] * rows if found.error else None
        portion.runs.append(Run(batch, portion.partition, low, found.attempts + 1, errors))
        if portion.ranges and portion.ranges[-1][1] == low:
            portion.ranges[-1] = (portion.ranges[-1][0], low + rows)
        else:
            portion.ranges.append((low, low + rows))
        return fits

    def _bring(self, crew: Crew, number: int, away: Away) -> None:
        """Have messages fetched from the tier; the partition is looked at again when they are here."""
        if number in crew.away:
            return
        crew.away.add(number)

        def then(error: CordwoodError | None) -> None:
            if error is None:
                crew.failures.pop(number, None)
                self._arrived(crew, number)
                return
            failures = crew.failures[number] = crew.failures.get(number, 0) + 1
            if failures == 1:
                log.warning("%s of %s waits for the tier: %s", crew.group, crew.topic, error)
            wait_ms = min(LONGEST_AWAY_MS, AWAY_MS << min(failures - 1, 10))
            self._timers.at(self._clock.monotonic_ms() + wait_ms, lambda _: self._arrived(crew, number))

        self._ledger.history.bring(away.wanted, then)

    def _arrived(self, crew: Crew, number: int) -> None:
        crew.away.discard(number)
        if self._is(crew):
            self.stir(crew, number)

    # Back

    def terms(self, topic: Topic, group: Group) -> dict[str, Any]:
        """Return a group's settings in force; inside dead letters `block` is the default."""
        terms = in_force(group.terms, self._settings)
        if topic.name.startswith(names.DEAD) and not isinstance(group.terms.on_exhausted, str):
            terms["on_exhausted"] = "block"
        return terms

    def delay(self, crew: Crew, number: int, hand: Hand, first: int, end: int, until_ms: int) -> None:
        """Keep offsets back until a time."""
        hand.delayed.add(first, end)
        self._calendar.at(until_ms, partial(self._delay_over, crew, number, first, end))

    def _delay_over(self, crew: Crew, number: int, first: int, end: int, now: int) -> None:
        hand = crew.hands.get(number)
        if hand is not None:
            for low, high in list(hand.delayed.within(first, end)):
                hand.delayed.remove(low, high)
                hand.ready.add(low, high)  # if it was delayed for longer since then, that is seen when it is taken
            self.stir(crew, number)

    def alarm(self, crew: Crew, number: int, hand: Hand, deadline_ms: int) -> None:
        """Have a hand looked at when a lease in it runs out."""
        if hand.alarm_ms is None or deadline_ms < hand.alarm_ms:
            hand.alarm_ms = deadline_ms
            self._timers.at(deadline_ms, partial(self._ring, crew, number, hand))

    def _ring(self, crew: Crew, number: int, hand: Hand, now: int) -> None:
        if crew.hands.get(number) is not hand or hand.alarm_ms is None or now < hand.alarm_ms:
            return
        hand.alarm_ms = None
        due, following = hand.overdue(now)
        held = [(s, e) for lease in due for s, e in hand.out.within(lease.first, lease.end)]
        following_or_soon: int | None = now + RETRY_MS
        try:
            if held:
                count = sum(end - first for first, end in held)
                self.fail(crew, number, held, RAN_OUT, None)
                self._counts.leases_expired[(crew.topic, crew.group)] += count
            following_or_soon = following
        except Unavailable:
            pass  # there is no room just now
        finally:
            if following_or_soon is not None:
                self.alarm(crew, number, hand, following_or_soon)

    def fail(self, crew: Crew, number: int, held: Ranges, error: str, delay_ms: int | None) -> None:
        """End leases whose delivery failed: again after `delay_ms` (None: the backoff), or given up.

        What is given up has a frame of its own, because each dead letter is one.
        """
        topic = self._ledger.state.topics[crew.topic]
        group = topic.groups[crew.group]
        terms = self.terms(topic, group)
        hand = crew.hands[number]
        now = self._clock.now_ms()
        last = terms["max_attempts"]
        again: dict[int, Ranges] = {}
        spent: Tried = []
        for first, end in held:
            for low, high, found in group.cursor(number).tries.within(first, end):
                if last and found.attempts >= last:
                    spent.append((low, high, found._replace(error=error)))
                else:
                    wait = self._backoff(terms, found.attempts) if delay_ms is None else delay_ms
                    again.setdefault(now + wait if wait else 0, []).append((low, high))
        facts: list[ops.Op] = [
            ops.Failed(topic.name, group.name, number, ranges, until, error) for until, ranges in again.items()
        ]
        behind: Ranges = []
        if terms["mode"] == "ordered":
            lowest = min(first for first, _ in held)
            failed = {offset for first, end in held for offset in range(first, end)}
            behind = [
                (offset, offset + 1)
                for first, end in hand.out.within(lowest, 1 << 62)
                for offset in range(first, end)
                if offset not in failed
            ]
            if behind:
                facts.append(ops.GivenBack(topic.name, group.name, number, behind))
        if facts:
            self._ledger.write(facts, reserve=True)
        for until, ranges in again.items():
            for first, end in ranges:
                self._take_back(hand, number, first, end)
                if until:
                    self.delay(crew, number, hand, first, end, until)
                else:
                    hand.ready.add(first, end)
        for first, end in behind:
            self._take_back(hand, number, first, end)
            hand.ready.add(first, end)
        try:
            if spent:
                self._give_up(crew, topic, group, terms, number, spent, now)
        finally:
            self.stir(crew, number)

    def give_back(self, crew: Crew, number: int, ranges: Ranges) -> None:
        """End the leases of what is out of these ranges, as if it had not been delivered.

        In ordered mode what was delivered behind it comes back too: it must follow it.
        """
        hand = crew.hands.get(number)
        if hand is None:
            return
        held = [(low, high) for first, end in ranges for low, high in hand.out.within(first, end)]
        topic = self._ledger.state.topics[crew.topic]
        if held and self.terms(topic, topic.groups[crew.group])["mode"] == "ordered":
            held = list(hand.out.within(min(low for low, _ in held), 1 << 62))
        if held:
            self._ledger.write([ops.GivenBack(crew.topic, crew.group, number, held)], reserve=True)
            for first, end in held:
                self._take_back(hand, number, first, end)
                hand.ready.add(first, end)
            self.stir(crew, number)

    def _undo(self, crew: Crew, consumer: Consumer, now: int = 0) -> None:
        """Take back what a consumer that went has not seen: as if it had never been delivered."""
        if not self._is(crew):
            return
        for number, hand in list(crew.hands.items()):
            try:
                held = _held_by(hand, consumer)
                if isinstance(consumer, Poll):  # its answer was never sent, however far it had come
                    held += _held_by(hand, consumer, handed=True)
                self.give_back(crew, number, held)
            except Unavailable:
                if self._ledger.failure is None:
                    self._later(partial(self._undo, crew, consumer))
                    return

    def _take_back(self, hand: Hand, number: int, first: int, end: int) -> None:
        for low, high, lease in list(hand.held(first, end)):
            lease.consumer.lent(number, low - high)
        hand.take_back(first, end)

    def finish(self, crew: Crew | None, number: int, ranges: Ranges) -> None:
        """Take what is done out of everybody's hands."""
        hand = crew.hands.get(number) if crew is not None else None
        if crew is None or hand is None:
            return
        for first, end in ranges:
            for low, high, lease in hand.held(first, end):
                lease.consumer.lent(number, low - high)
            hand.finish(first, end)
        self.stir(crew, number)

    def drop_trimmed(self) -> None:
        """Take what retention removed out of everybody's hands."""
        for crew in self.crews.values():
            for number in crew.hands:
                start = self._ledger.state.topics[crew.topic].partitions[number].start
                if start:
                    self.finish(crew, number, [(0, start)])

    def _return_all(self, crew: Crew, consumer: Consumer) -> None:
        """Take back all that a stream held when it closed."""
        if not self._is(crew):
            return
        for number, hand in list(crew.hands.items()):
            held = _held_by(hand, consumer, handed=True)
            if held:
                try:
                    self.fail(crew, number, held, CLOSED, 0)
                except Unavailable:
                    if self._ledger.failure is None:
                        self._later(lambda now: self._return_all(crew, consumer))
                        return

    def _backoff(self, terms: dict[str, Any], attempts: int) -> int:
        longest = min(terms["backoff_ms"] << min(max(attempts - 1, 0), 40), terms["max_backoff_ms"])
        return int(longest * (0.5 + self._random.random() / 2))

    def _give_up(
        self, crew: Crew, topic: Topic, group: Group, terms: dict[str, Any], number: int, spent: Tried, now: int
    ) -> None:
        """Do with messages that had their last attempt what the group wants, a bounded number at once."""
        hand = crew.hands[number]
        key = (topic.name, group.name)
        index = topic.partitions[number].index
        chunks = deque(chunked(spent, index))
        while chunks:
            chunk = chunks[0]
            ranges = [(first, end) for first, end, _ in chunk]
            count = sum(end - first for first, end in ranges)
            done = ops.Done(topic.name, group.name, number, ranges, now)
            if terms["on_exhausted"] == "block":
                self._ledger.write(failures(topic, group, number, chunk), reserve=True)
                for first, end in ranges:
                    self._take_back(hand, number, first, end)
                    hand.stuck.add(first, end)
                chunks.popleft()
                continue
            if terms["on_exhausted"] == "dlq":
                try:
                    facts, payload = self._burial.of(topic, group, number, chunk)
                except Away as away:
                    self._give_up_later(crew, topic, group, number, [one for rest in chunks for one in rest], away)
                    return
                self._ledger.write([*facts, done], [payload] if payload is not None else [], reserve=True)
                self._counts.dead_letters[key] += count
            else:
                self._ledger.write([done], reserve=True)
                self._counts.dropped[key] += count
            chunks.popleft()
            self.finish(crew, number, ranges)

    def _give_up_later(self, crew: Crew, topic: Topic, group: Group, number: int, spent: Tried, away: Away) -> None:
        """Keep messages that had their last attempt, with their errors, until they are here to be buried."""
        hand = crew.hands[number]
        news = [one for one in spent if any(hand.out.within(one[0], one[1]))]  # of the others that is written
        if news:
            self._ledger.write(failures(topic, group, number, news), reserve=True)
        for first, end, _ in spent:
            self._take_back(hand, number, first, end)
            hand.ready.add(first, end)
        self._bring(crew, number, away)


class _Portion:
    """What one consumer gets of one partition in one turn."""

    __slots__ = ("bytes", "hand", "over", "partition", "ranges", "rows", "runs")

    def __init__(self, partition: int, hand: Hand):
        self.partition = partition
        self.hand = hand
        self.ranges: Ranges = []  # delivered
        self.over: Ranges = []  # expired, or not there
        self.runs: list[Run] = []
        self.rows = 0
        self.bytes = 0


def _held_by(hand: Hand, consumer: Consumer, *, handed: bool = False) -> Ranges:
    """Return what a consumer has of a partition: what it has seen, or what it has not."""
    return [
        (first, end)
        for lease in hand.leases()
        if lease.consumer is consumer and lease.handed is handed
        for first, end in hand.out.within(lease.first, lease.end)
    ]


def _mend(crew: Crew, group: Group) -> None:
    """Put whatever is in nobody's hands, and not done, where it can be taken again: after something went wrong."""
    for number, hand in crew.hands.items():
        cursor = group.cursor(number)
        for first, end in list(cursor.done.gaps(cursor.floor, max(hand.next, cursor.floor))):
            missing = [(first, end)]
            for hands in (hand.out, hand.ready, hand.delayed, hand.stuck):
                missing = [gap for low, high in missing for gap in hands.gaps(low, high)]
            for low, high in missing:
                hand.ready.add(low, high)
        crew.wake(number)
