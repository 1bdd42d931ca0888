"""The model: it looks at every frame, every answer, every delivery and every read, and says what cannot be.

    a request      asked ──▶ the frames that it must write, one after the other ──▶ the answer, once they are durable
    by itself      each frame must be one that the broker may write at this moment (`moves`)
    afterwards     nothing is left undone that somebody waits for (`quiet`)

Where the broker may choose (who gets a message, whose turn a partition has, how long a backoff is), the model does
not choose for it: it checks the choice, and goes on from there.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cordwood.drills.broker_model import deliveries, gathered, moves
from cordwood.drills.broker_model.asked import LATER, Asked, AtOnce, Disagreement, Judge
from cordwood.drills.broker_model.facts import (
    Delivered,
    Done,
    Fact,
    Failed,
    GivenBack,
    Restored,
    Sought,
    Trimmed,
    claimed,
)
from cordwood.drills.broker_model.hands import Consumer, Hands
from cordwood.drills.broker_model.world import DEAD, Book, Group, Topic, World
from cordwood.errors import Conflict, CordwoodError, NotFound, Preparing, Unavailable

RETRY_MS = 100  # how soon the broker tries again by itself what found no room
AWAY_MS, LONGEST_AWAY_MS = 1_000, 30_000  # how soon it fetches again what it could not; twice as long each time


class Clock(Protocol):
    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class Model:
    """A plain broker that never fails, beside the real one. `settings` are those in force, by name."""

    def __init__(self, clock: Clock, settings: dict[str, Any]):
        self.clock = clock
        self.settings = settings
        self.book = Book()
        self.world = World()
        self.written = self.synced = 0  # what the broker was told of its journal
        self.reached: set[str] = set()  # what this history came to
        # What the world is once a disk was lost, by what the broker says of it; while there is no journal.
        self.restoring: Callable[[Restored], World] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget what a crash takes."""
        self.hands = Hands()
        self.asking: Asked | None = None
        self.running: list[Asked] = []  # run, and waiting for its answer
        self.backlog: list[Asked] = []  # waiting for room
        self.retried: list[Asked] = []  # of the backlog, and being run again
        # Single messages that wait to be written, and who is to be told; nobody, if it was told already.
        self.gathered: list[tuple[Asked | None, Topic, str, dict[str, Any]]] = []
        self.afterwards: list[tuple[Asked, Any]] = []  # answers of the frame that is being judged
        self.turns: dict[str, int] = {}  # topic → whose turn it is, for messages that name no partition
        self.dismissed: list[Consumer] = []  # they are to be told that their group is gone
        self.unclear = False  # the plan that was begun last depends on what nobody outside can know
        self.troubled_until = 0  # the broker found no room, and tries again then
        self.turned = self.clock.monotonic_ms()  # when it had its last turn
        self.failure = False
        self.held: dict[Any, list[Asked]] = {}  # what is fetched for it → who waits for that
        self.fetched: set[tuple[str, int]] = set()  # (topic's id, partition) of which something is being fetched
        self.unfetched: dict[tuple[str, int], int] = {}  # … of which it could not be, and when it is tried again
        self.failures: Counter[tuple[str, int]] = Counter()  # … and how often

    # What must be so

    def check(self, right: bool, why: str) -> None:
        """Raise `Disagreement` unless this is right. Where it is asked often, the callers raise it themselves."""
        if not right:
            raise Disagreement(why)

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    @property
    def replied(self) -> int:
        """Frames below are so durable that replies may rest on them."""
        return self.synced if self.settings["sync"] == "always" else self.written

    @property
    def shown(self) -> int:
        """Frames below are so durable that others may see them."""
        return self.written if self.settings["sync"] == "never" else self.synced

    def topic(self, name: str) -> Topic:
        found = self.world.topics.get(name)
        if found is None:
            raise NotFound(name)
        return found

    def group(self, topic: str, name: str) -> Group:
        found = self.topic(topic).groups.get(name)
        if found is None:
            raise NotFound(name)
        return found

    def terms(self, topic: str, group: Group) -> dict[str, Any]:
        """Return a group's settings in force."""
        default = {"on_exhausted": "block"} if topic.startswith(DEAD) else {}
        return {**self.settings, **default, **group.terms}

    def set_turn(self, topic: str, turn: int | None) -> None:
        """Note whose turn it is in a topic, if anybody can know."""
        if turn is not None:
            self.turns[topic] = turn

    # Requests

    def ask(self, asked: Asked) -> None:
        """Take notice that the broker is being asked something."""
        assert self.asking is None, "one thing is asked at a time"
        self.asking = asked
        asked.behind_gathered = not self.failure and any(name == asked.topic for _, _, name, _ in self.gathered)
        if not asked.behind_gathered:
            self._start(asked)

    def _start(self, asked: Asked) -> None:
        """Begin a request, or let it wait behind others."""
        asked.behind_gathered = False
        if asked.appends and self.backlog and not self.failure:
            self.backlog.append(asked)
        else:
            self._begin(asked)

    def _begin(self, asked: Asked) -> None:
        """Find out what a request must write first, if anything."""
        asked.steps = asked.plan()
        self.unclear = False
        self._go_on(asked)
        asked.unclear = self.unclear

    def _go_on(self, asked: Asked) -> None:
        assert asked.steps is not None
        try:
            asked.judge = next(asked.steps)
        except StopIteration as done:
            self.decide(asked, done.value)
        except CordwoodError as error:
            self.decide(asked, error)

    def decide(self, asked: Asked, answer: Any, *, together: bool = False) -> None:
        """Note what a request must be answered once all that is written by now is durable.

        What is judged by itself alone is refused at once; of what is judged `together` with others, all wait.
        """
        asked.judge = None
        if answer is LATER:
            asked.later = True
            return
        if isinstance(answer, AtOnce):
            asked.level, answer = None, answer.answer
        if isinstance(answer, CordwoodError) and not isinstance(answer, Conflict | NotFound) and not together:
            asked.level = None
        asked.answer = answer
        asked.needs = 0 if self.failure else self.book.last
        asked.ready = True
        if not asked.silent or isinstance(answer, CordwoodError):
            self.running.append(asked)

    def end(self, asked: Asked) -> None:
        """The call is over: all that it had to write is written, unless it waits for room, or for the tier."""
        if any(asked in waiting for waiting in self.held.values()):
            self.asking = None
            return
        self._begin_late(asked)
        self.asking = None
        if self.failure:
            self.check(asked.answered or asked.silent, f"{asked.name} waits for ever after the journal failed")
        elif not asked.ready and not asked.later and asked not in self.backlog:
            if not asked.unclear or asked.wrote:
                raise Disagreement(f"{asked.name} wrote {len(asked.wrote)} frame(s) and left some out")
            self.decide(asked, Conflict("another owner holds it"))

    def _begin_late(self, asked: Asked) -> None:
        """Nothing that was gathered was written before this request, so there was nothing to write."""
        if asked.behind_gathered:
            gathered.settle(self)
            self._start(asked)

    def answer(self, asked: Asked, result: Any) -> None:
        """Check what a request was answered."""
        if asked.answered:
            raise Disagreement(f"{asked.name} was answered twice, the second time {result!r}")
        told = isinstance(result, Unavailable) and (self.failure or asked.disappointed)
        if not asked.ready and not told and (not self.failure or asked in self.retried):
            self._begin_late(asked)
            self.catch_up(asked)
            if asked.later and not asked.ready:
                gathered.settle(self)
            elif not asked.ready and asked.unclear and isinstance(result, Conflict):
                self.decide(asked, result)
        asked.answered = True
        if told:
            return
        if not asked.ready:
            raise Disagreement(f"{asked.name} was answered {result!r} before it was run")
        self.running.remove(asked)
        expected = asked.answer
        refused = isinstance(expected, CordwoodError)
        if type(result) is not type(expected) if refused else result != expected:
            raise Disagreement(f"{asked.name}: {result!r}, where {expected!r} was right")
        if not self._durable(asked):
            why = f"which rests on frame {asked.needs - 1}; that is not {asked.level} yet"
            raise Disagreement(f"{asked.name} was answered with {result!r}, {why}")

    def _durable(self, asked: Asked) -> bool:
        return asked.level is None or asked.needs <= getattr(self, asked.level)

    def check_answered(self) -> None:
        """Everything that is durable is answered."""
        for asked in self.running:
            if self._durable(asked):
                raise Disagreement(f"{asked.name} is durable and was not answered")

    # What is fetched from elsewhere

    def is_away(self, topic_id: str, partition: int, until: int | None) -> bool:
        """Say whether messages of a partition cannot be had now, or before `until`, because they are elsewhere."""
        place, now = (topic_id, partition), self.clock.monotonic_ms()
        return place in self.fetched or (now if until is None else min(now, until)) < self.unfetched.get(place, 0)

    def hold(self, asked: Asked, wanted: Any) -> None:
        """What is being asked, or asked again, must wait for something that is elsewhere."""
        self._retry_until(asked, answered=False)
        if asked in self.retried:
            self.retried.remove(asked)
        if asked in self.running:
            self.running.remove(asked)
        asked.steps = asked.judge = None
        asked.ready = asked.unclear = False
        self.held.setdefault(wanted, []).append(asked)

    def let_go(self, wanted: Any) -> None:
        """What was waited for is here: who waited asks again, in order."""
        self.retried = self.held.pop(wanted, [])

    def let_go_over(self) -> None:
        """All who waited asked again."""
        if self.failure:
            for asked in self.retried:
                self.check(asked.answered, f"{asked.name} waits for ever after the journal failed")
            self.retried = []
        self.room_over()

    def disappoint(self, wanted: Any, place: tuple[str, int]) -> None:
        """What was waited for cannot be had: who waited is told; the broker itself tries again after a while."""
        self.failures[place] += 1
        wait_ms = min(LONGEST_AWAY_MS, AWAY_MS << self.failures[place] - 1)
        self.unfetched[place] = self.clock.monotonic_ms() + wait_ms
        for asked in self.held.pop(wanted, []):
            asked.disappointed = True

    def take_back(self, asked: Asked) -> None:
        """What was being asked is not asked, after all."""
        assert asked is self.asking, "one thing is asked at a time"
        self.asking = None

    # Room

    def room(self) -> None:
        """What waits for room is run again, in order."""
        self.retried, self.backlog = self.backlog, []

    def room_over(self) -> None:
        """All of it was run, or waits again."""
        while (asked := self._retrying()) is not None:
            if not asked.unclear:
                raise Disagreement(f"{asked.name} waited for room, and wrote nothing when there was some")
            self.decide(asked, Conflict("another owner holds it"))

    def _retrying(self) -> Asked | None:
        """Return who of the backlog is to write next; who writes nothing is run on the way."""
        while self.retried:
            asked = self.retried[0]
            if self.backlog and (asked.appends or asked.stays) and asked.judge is None:
                self.backlog.append(asked)  # messages stay behind those that wait
            elif asked.cancelled:
                self.decide(asked, None)
            elif asked.judge is None and not asked.ready and not asked.later:
                self._begin(asked)
            if not asked.ready and not asked.later and asked not in self.backlog:
                return asked
            self.retried.pop(0)
        return None

    def catch_up(self, asked: Asked) -> None:
        """Something came of a request that waited for room: it was run."""
        if asked in self.retried:
            self._retry_until(asked)

    def _retry_until(self, until: Asked, *, answered: bool = True) -> None:
        """Somebody of the backlog was answered, or is run: all before it wrote what they had to, or nothing."""
        while until in self.retried:
            asked = self._retrying()
            if asked is None or until not in self.retried or (asked is until and not answered):
                return
            if not asked.unclear:
                raise Disagreement(f"{until.name} was answered before {asked.name}, which came first")
            self.decide(asked, Conflict("another owner holds it"))

    # Frames

    def wrote(self, lsn: int, claims: Sequence[Fact]) -> None:
        """Judge a frame that the broker wrote, and make it true."""
        if lsn != self.book.end:
            raise Disagreement(f"frame {lsn} was written where {self.book.end} comes next")
        asked = self._writing(claims)
        if asked is not None and asked.behind_gathered:
            if gathered.plan(self, claims)[0]:
                self._take_by_itself(lsn, gathered.judge(self, claims))
                self._start(asked)
                return
            self._begin_late(asked)
        if asked is None:
            self._take_by_itself(lsn, moves.judge(self, claims))
            return
        if asked.judge is None:
            raise Disagreement(f"{asked.name} wrote {claims}, which nobody asked for")
        self._take(lsn, asked.judge(claims))
        asked.wrote.append(lsn)
        self._go_on(asked)

    def _writing(self, claims: Sequence[Fact]) -> Asked | None:
        """Return the request that a frame belongs to, None if the broker writes by itself."""
        asked = self.asking or self._retrying()
        while asked is not None and asked is not self.asking and asked.unclear and not asked.wrote:
            assert asked.judge is not None
            try:
                asked.judge(claims)
                return asked
            except Disagreement:  # it is somebody else's, so this one was refused
                self.decide(asked, Conflict("another owner holds it"))
                asked = self._retrying()
        return asked

    def _take_by_itself(self, lsn: int, facts: list[Fact]) -> None:
        self._take(lsn, facts)
        afterwards, self.afterwards = self.afterwards, []
        for told, answer in afterwards:
            self.decide(told, answer, together=True)

    def refused(self, claims: Sequence[Fact], error: Unavailable) -> None:
        """The journal did not take a frame: nothing came of it, and who asked waits for room or is told."""
        asked = self._writing(claims)
        if asked is not None and asked.behind_gathered:
            if gathered.plan(self, claims)[0]:
                self._refused_gathered(claims, error)
                self._start(asked)
                return
            self._begin_late(asked)
        if asked is None:
            if gathered.is_gathered(claims):
                self._refused_gathered(claims, error)
            self.troubled_until = self.clock.monotonic_ms() + RETRY_MS
            return
        if asked.judge is not None:
            asked.judge(claims)  # it was right, and its turn is over
        if asked in self.retried:
            self.retried.remove(asked)
        if isinstance(error, Preparing) and asked.waits:
            asked.judge = asked.steps = None
            self.backlog.append(asked)
        else:
            self.decide(asked, error)

    def _refused_gathered(self, claims: Sequence[Fact], error: Unavailable) -> None:
        gathered.take_turns(self, claims)
        if not isinstance(error, Preparing):  # else all of it still waits
            gathered.refuse(self, error)

    def exactly(self, facts: Sequence[Fact]) -> Judge:
        """Return the judge of a frame that must say exactly this."""

        def judge(claims: Sequence[Fact]) -> list[Fact]:
            wanted, found = list(map(claimed, facts)), list(map(claimed, claims))
            if wanted != found:
                raise Disagreement(f"the broker wrote {found}, where {wanted} was right")
            return [
                fact._replace(id=claim.id) if hasattr(fact, "id") and hasattr(claim, "id") else fact  # type: ignore
                for fact, claim in zip(facts, claims, strict=True)
            ]

        return judge

    def _take(self, lsn: int, facts: list[Fact]) -> None:
        """Make the facts of a frame true."""
        self.book.add(facts)
        for fact in facts:
            if isinstance(fact, Delivered):
                deliveries.lend(self, lsn, fact)
            self.world.apply(lsn, fact)
            if isinstance(fact, GivenBack | Failed | Done):
                self.hands.of(fact.topic, fact.group).drop(fact.partition, fact.offsets)
            elif isinstance(fact, Sought):
                hand, sought = self.hands.of(fact.topic, fact.group), {partition for partition, _ in fact.to}
                hand.leases = {place: lease for place, lease in hand.leases.items() if place[0] not in sought}
            elif isinstance(fact, Trimmed):
                for (topic, _), hand in self.hands.groups.items():
                    if topic == fact.topic:
                        hand.drop(fact.partition, [o for o in hand.held(fact.partition) if o < fact.start])

    # The journal

    def told(self, written: int, synced: int) -> None:
        """The broker is told how far its journal is."""
        self.written, self.synced = max(self.written, written), max(self.synced, synced)

    def opened(self, end: int) -> None:
        """A journal was opened with the frames below `end`: they are the truth from now on."""
        self.book.cut(end)
        self.world = self.book.world(end)
        self.written = self.synced = end
        self.reset()

    def failed(self, synced: int) -> None:
        """The journal failed: only what is synced is left, to be read."""
        self.world = self.book.world(synced)
        self.written = self.synced = synced
        self.failure = True
        self.hands = Hands()
