"""The tier of a history: a store that outlasts every crash, and a broker's rounds, taken by hand one step at a time.

    begin     a claim with the next epoch, what the store knows if the journal is new, a first snapshot
    step      one step of a round; a crash may fall between any two of them, and before each call to the store
    fetch     one thing from the store that `history` wants, or that it cannot be had
    check     after each opening: all that the state names is there, whole, and counts
    tidy      at the end: nothing else is there

The store fails in every way that `sim.objects` knows. Nobody but the broker deletes what is read from.
"""

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, TypeVar

from awscrt.checksums import crc64nvme

from cordwood.broker import snapshot as snapshots
from cordwood.broker.broker import Broker
from cordwood.broker.fetching import Fetching, told
from cordwood.broker.history import Away, History, Wanted
from cordwood.broker.joining import join
from cordwood.broker.ledger import Ledger
from cordwood.broker.rounds import Durable, Rounds, Step, Steps
from cordwood.broker.state import State
from cordwood.drills.broker_model.asked import Disagreement
from cordwood.drills.broker_model.facts import Fact, Restored
from cordwood.drills.broker_model.losing import Loss, left
from cordwood.drills.broker_model.model import Model
from cordwood.drills.broker_model.world import Book, World
from cordwood.errors import CordwoodError, Damaged, Preparing
from cordwood.journal.journal import Journal
from cordwood.machine.objects.store import ObjectMissing, StoreUnavailable
from cordwood.settings import Settings
from cordwood.sim.clock import SimClock
from cordwood.sim.objects import SimObjects, Weather
from cordwood.tier import state as states
from cordwood.tier.catalogue import Catalogue, ListedCatalogue
from cordwood.tier.descriptor import ROOT, Descriptor, counting, parse
from cordwood.tier.state import Mark

T = TypeVar("T")
CHANGED_SHARE = 0.03  # how often an object is not what was put; nobody read it yet
TRIES = 3  # of a broker that begins, before the weather gets better


class Recorded:
    """A catalogue beside the store, like etcd: it outlasts every crash, too, and fails like the store."""

    def __init__(self, objects: SimObjects):
        self._objects = objects
        self._names: dict[str, None] = {}

    def record(self, name: str) -> None:
        self._objects.size(name)  # may fail
        self._names[name] = None

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._names.pop(name, None)

    def names(self, prefix: str) -> Iterator[str]:
        return iter(sorted(name for name in self._names if name.startswith(prefix)))


class Tier:
    """The store of one history, and whoever ships into it now. `power` raises what cuts the power."""

    def __init__(self, seed: int, clock: SimClock, model: Model, power: Callable[[], None]):
        self.random = Random(f"the tier of {seed}")
        self.objects = SimObjects(clock, Random(f"the store of {seed}"))
        self.objects.watch = self._watch
        listed = self.random.random() < 0.7
        self.catalogue: Catalogue = ListedCatalogue(self.objects) if listed else Recorded(self.objects)
        self.epoch = 0
        self.loss: Loss | None = None  # a disk was lost, and what is left is not in a journal yet
        self.fuse: int | None = None  # calls to the store until the power goes
        self.shipping = False  # something is on its way
        self._clock = clock
        self._model = model
        self._power = power
        self._frames: dict[str, list[list[Fact]]] = {}  # a snapshot's name → all frames that it holds
        self._fresh = ""  # the object that was put just now
        self._read: dict[Wanted, Any] = {}  # what was read once; that the bytes are the same is checked
        self._confirmed: Mark | None = None  # the newest snapshot of which the broker knows that it is there

    # The broker's side

    def begin(self, ledger: Ledger, broker: Broker, settings: Settings, journal: Journal) -> None:
        """Take the store for a broker that was opened just now, and write that down."""
        self.epoch += 1
        self.fuse = None if self.random.random() < 0.9 else self.random.randrange(1, 15)
        self._ledger, self._broker = ledger, broker
        self._shipping = broker.shipping
        self._shipping.epoch = self.epoch
        read, catalogue = journal.read_ahead, self.catalogue
        self._rounds = Rounds(ledger, broker.shipping, settings, self._clock, self.objects, catalogue, read)
        self._fetching = Fetching(self.objects)
        self._pending: list[Wanted] = []
        self._steps: Steps[None] | None = None
        self._step: Step | None = None
        self._durable = self.shipping = False
        ledger.history = History(self.random.choice((4_000, 1 << 20)))
        ledger.history.ask = self._ask
        self._agree(journal)

    def _agree(self, journal: Journal) -> None:
        lost = not self._ledger.state.store and bool(self._marks())
        facts = self._all_of(join(self._ledger, self.objects, self.catalogue, self.epoch, "the store"))
        if lost:
            self._model.restoring = self._left
            self._model.reached.add("disk lost")
        while True:
            try:
                self._ledger.write(facts, reserve=True)
                break
            except Preparing:
                journal.maintain()
        self._model.restoring = None

    def _all_of(self, steps: Steps[T]) -> T:
        """Go through steps that only ask the store, until they are done."""
        found = None
        while True:
            try:
                step = steps.send(found)
            except StopIteration as end:
                result: T = end.value
                return result
            assert not isinstance(step, Durable), "nothing was written"
            found = self._surely(step)

    def _surely(self, call: Callable[[], T]) -> T:
        """Return what a call returns, tried until the weather is better."""
        for _ in range(TRIES):
            try:
                return call()
            except StoreUnavailable:
                pass
        self.clear_up()
        return call()

    def put_snapshot(self, *, clean: bool = False) -> bool:
        """Put a snapshot, of what is all durable; return whether that succeeded."""
        self._steps = self._rounds.put_snapshot(clean=clean)
        self._advance(lambda steps: next(steps))
        while self._steps is not None:
            if not self.step():
                return False
        return True

    def step(self, *, everything: bool = True) -> bool:
        """Take one step of a round, or begin one; return whether it went well."""
        if self._steps is None:
            self._steps = self._rounds.round(everything=everything)
            self._advance(lambda steps: next(steps))
            return True
        if isinstance(self._step, Durable):
            if self._durable:
                self._advance(lambda steps: steps.send(None))
            return self._durable
        assert self._step is not None
        try:
            result = self._step()
        except CordwoodError as error:
            failure = error
            if self.shipping:
                self._model.reached.add("store fault during shipping")
            self._advance(lambda steps: steps.throw(failure))
            return False
        before = self._rounds.adopted
        self._advance(lambda steps: steps.send(result))
        if self._rounds.adopted > before:
            self._model.reached.add("adopted")
        return True

    @property
    def busy(self) -> bool:
        """Whether a round is under way."""
        return self._steps is not None

    def _advance(self, go: Callable[[Steps[None]], Step]) -> None:
        assert self._steps is not None
        try:
            self._step = go(self._steps)
            if isinstance(self._step, Durable):
                self._durable = False
                self._ledger.when_synced(self._synced, self._step)
        except (StopIteration, CordwoodError):  # over, or there was no room to write down what came of it
            self._steps = self._step = None
            self.shipping = False

    def _synced(self, step: object) -> None:
        self._durable = True

    # Fetching

    def _ask(self, wanted: Wanted) -> None:
        self._pending.append(wanted)
        self._model.fetched.add(_place(wanted))

    @property
    def fetches(self) -> int:
        """How many things are to be fetched."""
        return len(self._pending)

    def fetch(self) -> None:
        """Fetch one of them, or fail to."""
        wanted = self.random.choice(self._pending)
        try:
            found = self._fetching.fetch(wanted)
        except (StoreUnavailable, ObjectMissing, Damaged) as error:
            self._disappoint(wanted, told(wanted, error, read=self._shipping.reads(wanted.tiered)))
        else:
            self._arrive(wanted, found)

    def _arrive(self, wanted: Wanted, found: Any) -> None:
        self._over(wanted)
        self._model.let_go(wanted)
        self._ledger.history.arrived(wanted, found)
        self._model.let_go_over()

    def _disappoint(self, wanted: Wanted, error: CordwoodError) -> None:
        if isinstance(error, Damaged):
            raise Disagreement(f"{error}; nobody but the broker can have done that")
        self._over(wanted)
        self._model.disappoint(wanted, _place(wanted))
        self._ledger.history.failed(wanted, error)

    def _over(self, wanted: Wanted) -> None:
        if wanted in self._pending:
            self._pending.remove(wanted)
        self._model.fetched = set(map(_place, self._pending))

    def read(self, call: Callable[[], T]) -> T:
        """Return what a reader gets, with all that it needs fetched at once, whatever the weather."""
        while True:
            try:
                return call()
            except Away as away:
                if away.wanted not in self._read:
                    weather, outage = self.objects.weather, self.objects.outage_until_ms
                    self.clear_up()
                    self._read[away.wanted] = self._fetching.fetch(away.wanted)
                    self.objects.weather, self.objects.outage_until_ms = weather, outage
                self._arrive(away.wanted, self._read[away.wanted])

    def forget_fetched(self) -> None:
        """Let what was fetched be fetched again."""
        ask, self._ledger.history = self._ledger.history.ask, History(self.random.choice((4_000, 1 << 20)))
        self._ledger.history.ask = ask

    # The weather

    def clear_up(self) -> None:
        self.objects.weather = Weather()
        self.objects.outage_until_ms = 0

    def change_weather(self) -> None:
        """Let the store be fine, fail now and then, or be down for a while."""
        random = self.random
        chance = random.random()
        if chance < 0.3:
            self.clear_up()
        elif chance < 0.8:
            likely = random.choice((0.03, 0.1, 0.3))
            self.objects.weather = Weather(
                fail_before=random.choice((0, likely)),
                fail_after=random.choice((0, likely)),
                fail_late=random.choice((0, 0, likely)),
                late_ms=random.choice((0, 50, 2_000)),
                fail_listing=random.choice((0, likely / 3)),
            )
        else:
            self.objects.outage_until_ms = self._clock.monotonic_ms() + random.choice((20, 500, 5_000))

    def light_fuse(self) -> None:
        """Let the power go before one of the next calls to the store."""
        if self.fuse is None:
            self.fuse = self.random.randrange(1, 12)

    def _watch(self, operation: str, name: str) -> None:
        if operation == "put" and name.endswith(".snapshot"):
            (lsn,) = [mark.lsn for mark in [_mark(name)] if mark is not None]
            self._frames.setdefault(name, self._model.book.frames[:lsn])
            self._fresh = name
        elif operation == "put" and name.endswith(".parquet"):
            self.shipping, self._fresh = True, name
        elif operation in ("size", "get") and name == self._fresh:
            self._fresh = ""
            if self.random.random() < CHANGED_SHARE and name in self.objects.names():
                self._corrupt(name)
        elif operation == "delete" and name.endswith(".parquet"):
            self._check_deletion(name)
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                self.fuse = None
                self._power()

    def _corrupt(self, name: str) -> None:
        """Change a byte; not one that says of which version it is, which would have a person look."""
        self.objects.corrupt(name, self.random.randrange(4, len(self.objects.peek(name))))

    def _check_deletion(self, name: str) -> None:
        reached = self._model.reached
        found = parse(name)
        assert found is not None
        if name in {one.name for one in _named(self._ledger.state)}:
            raise Disagreement(f"{name} is deleted, and read from")
        if name in self._ledger.state.doomed:
            reached.add("object deleted by retention")
        elif any(found.topic_id == topic_id for _, topic_id in self._ledger.state.graves):
            reached.add("object of a deleted topic deleted")
        elif found.epoch < self.epoch:
            reached.add("leftovers collected")

    # A lost disk

    def lose(self, loss: Loss) -> None:
        """The disk is lost, and what was true on it; now and then the newest snapshot is damaged, too."""
        self.loss = self.loss or loss
        whole = [mark for mark in self._marks() if self._is_whole(mark)]
        if self._confirmed is not None and (not whole or whole[0] < self._confirmed):
            raise Disagreement(f"{self._confirmed} was put, and is gone: {whole}")
        if len(whole) > 1 and self.random.random() < 0.2:
            self._corrupt(whole[0].name)
            self._confirmed = whole[1]
            self._model.reached.add("snapshot damaged")

    def kept(self) -> None:
        """What is left of a lost disk is in a journal, and durable."""
        self.loss = None

    def _marks(self) -> list[Mark]:
        return sorted((mark for name in self.objects.names() if (mark := _mark(name)) is not None), reverse=True)

    def _is_whole(self, mark: Mark) -> bool:
        try:
            states.decode(self.objects.peek(mark.name))
            return True
        except ValueError:
            return False

    def _left(self, claim: Restored) -> World:
        """Return the world that a broker goes on with that says this of the store."""
        if self.loss is None:
            raise Disagreement("the broker began anew from the store, and has its journal")
        marks = self._marks()
        newest = next(mark for mark in marks if self._is_whole(mark))
        book = Book()
        book.frames = self._frames[newest.name]
        snapshot = book.world(book.end)
        there = set(self.objects.names())
        named = _named(snapshots.restore(states.decode(self.objects.peek(newest.name))))
        missing = [(one.topic_id, one.partition, one.first) for one in named if one.name not in there]
        return left(self.loss, snapshot, claim, missing, newest=newest == marks[0], clean=newest.clean)

    # What the store has

    def note_snapshot(self) -> None:
        """The broker knows that its newest snapshot is there."""
        self._confirmed = self._marks()[0]

    def _objects(self) -> list[Descriptor]:
        return [found for name in self.objects.names() if (found := parse(name)) is not None]

    def check(self) -> None:
        """Raise unless all that the state names is there, whole, and counts for its messages."""
        there = self._objects()
        names = {one.name for one in there}
        counted = set(self.catalogue.names(ROOT)) if isinstance(self.catalogue, Recorded) else names
        for one in _named(self._ledger.state):
            if one.name not in names or one.name not in counted:
                raise Disagreement(f"{one.name} is read from, and not there, or does not count")
            if crc64nvme(self.objects.peek(one.name)) != one.checksum:
                raise Disagreement(f"{one.name} is read from, and damaged")
            beside = [o for o in there if (o.topic_id, o.partition) == (one.topic_id, one.partition)]
            spans = [span for span in counting(beside).spans if span.first < one.end and one.first < span.end]
            start = self._ledger.state.topics[one.topic].partitions[one.partition].start
            # Of what was put twice under one claim, either has the messages. After a damaged snapshot an object of an
            # earlier claim may be read from, until one of a later claim, which nobody knows, is collected.
            claims = {(o.descriptor.epoch, o.descriptor.generation) for o in spans if o.end > start}
            at = max(one.first, start)
            for span in spans:
                at = span.end if span.first <= at else at
            others = claims - {(one.epoch, one.generation)} and "snapshot damaged" not in self._model.reached
            if others or at < one.end:
                raise Disagreement(f"{spans} count for the messages of {one}")

    def check_tidy(self) -> None:
        """Raise unless nothing is left but what is read from; what this epoch put twice may be."""
        known = {one.name for one in _named(self._ledger.state)}
        strange = [one.name for one in self._objects() if one.name not in known and one.epoch < self.epoch]
        state = self._ledger.state
        if strange or state.doomed or state.graves:
            raise Disagreement(f"{strange} are left over; {state.doomed} and {state.graves} are not deleted")


def _place(wanted: Wanted) -> tuple[str, int]:
    found = wanted.tiered.descriptor
    return found.topic_id, found.partition


def _named(state: State) -> list[Descriptor]:
    """Return the objects that are read from."""
    topics = state.topics.values()
    return [one.descriptor for topic in topics for p in topic.partitions for one in p.index.tiered]


def _mark(name: str) -> Mark | None:
    found = states._NAME.fullmatch(name)
    return None if found is None else Mark(int(found[1]), int(found[2]) // 2, bool(int(found[2]) % 2))
