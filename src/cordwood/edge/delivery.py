"""What of one outbox goes next, and what an answer changes. Time and chance are handed in; no network is here.

    next ──▶ batch, its end on disk ──▶ out ──▶ answer ──▶ stored: sent, on disk with the next batch's end
                                                           bad: half of it, a quarter, …, the one event: parked
                                                           lost: the same again, same events, same numbers

A batch whose answer was lost is in doubt: it may be stored. It is never numbered anew, and when it comes back as bad,
because limits were lowered meanwhile, the broker is asked for its numbers first.

Several batches may be out at once while they go to one partition: the broker refuses a later one by its number when
an earlier one was refused, so nothing is stored out of order, or twice after the epoch is raised. Batches that go to
several partitions go one by one.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cordwood.edge.answer import Answer, Means
from cordwood.edge.batch import Batch
from cordwood.edge.facts import Fact, Parked, Renewed, Sending, Sent
from cordwood.edge.log import Log, Piece
from cordwood.edge.patience import wait_ms
from cordwood.errors import CordwoodError

logger = logging.getLogger("cordwood.edge")

REASON_LENGTH = 300
QUIET_MS = 50  # idle for so long, the last group gets the frame that proves it
NEVER_MS = 1 << 62
PLAN_BYTES = 8 << 20  # what is read ahead of the batches that are out


@dataclass(frozen=True, slots=True)
class Terms:
    """How much at once, and how soon.

    `batch_events`, `batch_bytes`: one request, as a producer's. `window`: requests under way, and ends of
    batches that one sync writes. `linger_ms`: how long the first event waits for others, so that single events do
    not each cost a request and a sync of our own beside the appends'.
    """

    batch_events: int = 10_000
    batch_bytes: int = 4 << 20
    window: int = 8
    linger_ms: int = 50


class Delivery:
    """The sending of one log. For one thread, but for what `waiting` guards: `pending`, `sent`, `failed`, `error`."""

    def __init__(
        self,
        log: Log,
        terms: Terms,
        random: Callable[[], float],
        *,
        numbered: bool = True,
        keep: Callable[[Log, bool], None] | None = None,
    ):
        """`numbered`: it goes to a broker. `keep` archives what was sent and lets it go, when it is enough."""
        self.log = log
        self.waiting = threading.Condition()
        self.hurry = 0  # how many wait for everything to be sent
        self.over = False  # nobody sends it any more
        self.error: str | None = None
        self.not_before_ms = 0
        self.partitions: int | None = log.state.partitions or None
        self._terms = terms
        self._random = random
        self._numbered = numbered
        self._keep = keep
        self._failures = 0
        self._out: deque[Batch] = deque()
        self._stale = 0  # answers that are still to come and say nothing any more
        self._course = 0
        self._stored: list[Sent] = []  # answered, and not yet on disk
        self._ready: deque[tuple[int, list[Piece]]] = deque()  # the next batches, their ends on disk
        self._held: Batch | None = None  # made, and waits for those that are out
        self._position = log.state.sent
        self._sequences = dict(log.state.sequences)
        self._doubt = max(log.state.cuts, default=0)  # below, a request may have gone out that nobody heard of
        self._renewed_at = -1  # where numbers began anew the last time
        self._suspect = 0  # below, there is an event that makes a batch bad
        self._waits_since: int | None = None
        self.tidy_at_ms = 0  # when there is something to tidy
        self._seen = -1  # where the log ended when it was last tidied
        self._kept = True  # what was sent could be put away the last time

    # What others see

    @property
    def pending(self) -> int:
        """How many events are not settled."""
        return self.log.durable - self._settled

    @property
    def sent(self) -> int:
        """How many events of this log were stored."""
        return self._settled - self.log.state.failed

    @property
    def failed(self) -> int:
        """How many events are parked."""
        return self.log.state.failed

    @property
    def _settled(self) -> int:
        return self.log.state.sent

    def hasten(self, more: int) -> None:
        """Let `hurry` be so much more, from any thread."""
        with self.waiting:
            self.hurry += more

    @property
    def awaits_nothing(self) -> bool:
        """Whether nothing is out: no answer is to come."""
        return not self._out and not self._stale

    @property
    def idle(self) -> bool:
        """Whether nothing is out, and nothing that was answered waits to be written down."""
        return self.awaits_nothing and not self._stored

    @property
    def done(self) -> bool:
        """Whether nothing is out and nothing waits, so that no next batch comes to write the progress down with."""
        return not self._out and self._position >= self.log.durable

    # What goes next

    def wants(self, now_ms: int) -> int | None:
        """Return when there is something to send: a time that may be past; None as long as nothing is appended."""
        if self.over or self._stale:
            return None
        if self._held is not None:
            return self.not_before_ms if not self._out else None
        if self._position >= self.log.durable:
            self._waits_since = None
            return None
        window = self._terms.window if self._numbered and not self._suspect else 1
        if self._out and (len(self._out) >= window or self._several(self._out[-1])):
            return None
        if self._waits_since is None:
            self._waits_since = now_ms
        known = bool(self._ready) or any(cut > self._position for cut in self.log.state.cuts)
        linger = 0 if self.hurry or known or self._many else self._terms.linger_ms
        return max(self.not_before_ms, self._waits_since + linger)

    @property
    def _many(self) -> bool:
        return self.log.durable - self._position >= self._terms.batch_events

    def next(self) -> Batch | None:
        """Return the batch that goes out now; where it ends is on disk. None when it has to wait for others."""
        assert self.partitions is not None, "asked before"
        batch, self._held = self._held or self._make(self.partitions), None
        if batch is None:
            return None
        if not batch.pieces and not self._out:  # an operator gave these up: there is nothing to send
            self._stored.append(Sent(batch.through, {}, 0))
            return None
        if self._out and (self._several(batch) or self._several(self._out[-1]) or batch.counts.keys() != self._place):
            self._held = batch
            return None
        self._out.append(batch)
        return batch

    @property
    def _place(self) -> Any:
        return self._out[-1].counts.keys()

    def _several(self, batch: Batch) -> bool:
        return len(batch.counts) > 1

    def _make(self, partitions: int) -> Batch | None:
        log, state = self.log, self.log.state
        first = self._position
        if not self._ready:
            self._plan(partitions)
            if not self._ready:
                return None
        through, pieces = self._ready.popleft()
        begun = log.begun
        batch = Batch(begun.execution, begun.producer, begun.topic, first, through, pieces, partitions, state.epoch)
        batch.course = self._course
        if self._numbered and pieces:
            batch.load(self._sequences)
            for place, count in batch.counts.items():
                self._sequences[place] = self._sequences.get(place, 0) + count
        self._position = through
        self._waits_since = None
        return batch

    def _plan(self, partitions: int) -> None:
        """Read what goes next, some batches of it, and have their ends on disk, all with one sync."""
        log, state, terms = self.log, self.log.state, self._terms
        at = self._position
        cuts = [cut for cut in state.cuts if cut > at]
        if at < self._suspect:
            cuts = [min([at + max(1, (self._suspect - at) // 2), *cuts])]
        if cuts:  # as they were, or, to find a bad event, sooner: part of what may be stored is a repeat, too
            self._ready.append((cuts[0], log.read(at, 0, 0, cuts[0])))
        size = 0
        while not cuts and len(self._ready) < terms.window and size < PLAN_BYTES:
            durable = log.durable
            pieces = log.read(at, terms.batch_events, terms.batch_bytes)
            if not pieces:
                if not self._ready and state.lost_frames:  # an operator gave up all that is left
                    self._ready.append((durable, []))
                break
            if self._ready and pieces[-1].end - at < terms.batch_events:
                break  # it may grow until its turn comes
            at = pieces[-1].end
            self._ready.append((at, pieces))
            size += sum(piece.appended.size for piece in pieces)
        if not self._ready:
            return
        new = [through for through, _ in self._ready if through not in state.cuts]
        if new or self._stored:
            facts = self._take_stored()
            throughs = sorted({*new, *(cut for cut in state.cuts if cut > self._answered(facts))})
            log.record([*facts, Sending(throughs, partitions)])
            self._tell()

    def _answered(self, facts: list[Fact]) -> int:
        return max([self.log.state.sent, *(fact.through for fact in facts if isinstance(fact, Sent))])

    def _take_stored(self) -> list[Fact]:
        """Return what was answered and is not yet on disk, as one fact."""
        if not self._stored:
            return []
        counts: dict[int, int] = {}
        for sent in self._stored:
            for place, count in sent.counts.items():
                counts[place] = counts.get(place, 0) + count
        fact = Sent(self._stored[-1].through, counts, sum(sent.size for sent in self._stored))
        self._stored = []
        return [fact]

    def settle(self) -> None:
        """Write down what was answered, where no next batch does that."""
        facts = self._take_stored()
        if facts:
            self.log.record(facts)
            self._tell()

    def set_aside(self) -> None:
        """Write down all that is known, before the log is let go of by somebody who may not open it again.

        Where nothing is in doubt, no ends of batches stay on disk: whoever opens it would take them for a doubt.
        """
        assert self.awaits_nothing, "what is out may be stored"
        self.settle()
        state = self.log.state
        if state.cuts and self._doubt <= state.sent:
            self.log.record([Sending([], state.partitions)])

    def tidy(self, now_ms: int) -> None:
        """Do what can wait until nothing is to be sent: room for the next events, proof of the last, archives."""
        journal = self.log.journal
        if journal.end != self._seen:
            self._seen = journal.end
            self.tidy_at_ms = now_ms + QUIET_MS
        elif now_ms >= self.tidy_at_ms:
            self.log.mark()
            self._seen = journal.end
            self.tidy_at_ms = NEVER_MS
        self.make_room(busy=False)

    def make_room(self, *, busy: bool) -> None:
        """Prepare room for the next events, and let go of what was sent when it is enough; later while `busy`."""
        self.log.maintain()
        if self._keep is None:
            return
        try:
            self._keep(self.log, busy)
            self._kept = True
        except (CordwoodError, OSError) as error:  # what was sent stays here, and what was not goes on
            if self.log.journal.failure is not None:
                raise
            if self._kept:
                logger.warning("what was sent cannot be put away for now, and stays: %s", error)
            self._kept = False

    # What comes back

    def doubts(self, batch: Batch) -> bool:
        """Whether a batch may be stored already: events of it went out before, and the answer was not heard."""
        return self._numbered and batch.first < self._doubt

    def answered(self, batch: Batch, answer: Answer, now_ms: int, numbers: dict[int, int] | None = None) -> None:
        """Take the answer to the oldest batch that is out; `numbers`: what comes next, where it was in doubt."""
        if batch.course != self._course:
            self._stale -= 1
            if answer.means is Means.STORED:
                # It was refused by its number, unless the one before is stored although its answer was another.
                assert batch.epoch == self.log.state.epoch, "behind one that was refused for good nothing is stored"
                self._doubt = max(self._doubt, batch.through)
            return
        assert self._out and self._out[0] is batch, "answers come in order"
        self._out.popleft()
        bad = answer.means is Means.BAD
        if answer.means is Means.STORED or (bad and self.doubts(batch) and _has(numbers, batch)):
            self._failures = 0
            self.error = None
            self._stored.append(Sent(batch.through, batch.counts, batch.size))
            if batch.through >= self._suspect:
                self._suspect = 0
            return
        fresh = not self.doubts(batch)
        if answer.means is Means.UNSURE:
            self._doubt = max(self._doubt, batch.through)
        self._drop()
        if bad and not fresh and numbers == batch.numbers:
            fresh, self._doubt = True, 0  # it is not stored, and so nothing behind it is
        if bad and self._partitions_changed(batch):
            self._later(answer.reason, now_ms, 0)
        elif bad and fresh:
            self._bad(batch, answer)
        elif answer.means is Means.CONFLICT and fresh and self._renewed_at != batch.first:
            # Nothing of it is stored: it is the first try, and it was refused. So it may be numbered anew.
            self._renewed_at = batch.first
            self.partitions = None  # the topic may have been made anew
            self._write([Renewed(max(answer.epoch, self.log.state.epoch) + 1)])
        else:
            if answer.means is Means.GONE and fresh:
                self.partitions = None  # it may come back with more of them
                self._write([Sending([], 0)])
            self._later(answer.reason, now_ms, answer.wait_ms)

    def _partitions_changed(self, batch: Batch) -> bool:
        """Say whether the topic has other partitions now: then it is the partition that is bad, and no event.

        It is another topic of the same name then, and has nothing of ours.
        """
        if self.partitions is None or self.partitions == batch.partitions:
            return False
        self._doubt = 0
        self._write([Sending([], self.partitions)])
        return True

    def _bad(self, batch: Batch, answer: Answer) -> None:
        state = self.log.state
        if batch.count <= 1:
            number = batch.pieces[0].start if batch.pieces else batch.first
            reason = answer.reason[:REASON_LENGTH]
            self._suspect = 0
            self.error = f"event {number} was parked: {reason}"
            self._write([Parked(number, reason, state.epoch + 1, batch.size)])
            return
        self._suspect = batch.through

    def _write(self, facts: list[Fact]) -> None:
        """Write facts behind what was stored, and go on from there."""
        assert not self._out and not self._ready, "what follows begins anew"
        self.log.record([*self._take_stored(), *facts])
        self._position = self.log.state.sent
        self._sequences = dict(self.log.state.sequences)
        self._tell()

    def lost(self, reason: str) -> None:
        """Learn that the connection broke: what is out may or may not have arrived, and goes again as it was."""
        self._doubt = max([self._doubt, *(batch.through for batch in self._out)])
        self._out.clear()
        self._drop()
        self._stale = 0
        self.error = reason

    def later(self, reason: str, now_ms: int, wait: int = 0) -> None:
        """Learn that something else went wrong with this outbox, such as its own disk."""
        self._doubt = max(self._doubt, self._position)
        self._drop()
        self._later(reason, now_ms, wait)

    def _later(self, reason: str, now_ms: int, wait: int) -> None:
        self._failures += 1
        self.error = reason
        self.not_before_ms = now_ms + max(wait, wait_ms(self._failures, self._random))

    def _drop(self) -> None:
        """Go back to behind what was answered; later batches that are out will be refused by their numbers."""
        self._stale += len(self._out)
        self._out.clear()
        self._held = None
        self._ready.clear()
        self._course += 1
        self._position = self._stored[-1].through if self._stored else self.log.state.sent
        self._sequences = dict(self.log.state.sequences)
        for sent in self._stored:
            for place, count in sent.counts.items():
                self._sequences[place] = self._sequences.get(place, 0) + count

    def _tell(self) -> None:
        with self.waiting:
            self.waiting.notify_all()


def _has(numbers: dict[int, int] | None, batch: Batch) -> bool:
    """Say whether a broker at these numbers has all of a batch."""
    return numbers is not None and all(
        numbers.get(place, -1) >= batch.numbers[place] + count for place, count in batch.counts.items()
    )
