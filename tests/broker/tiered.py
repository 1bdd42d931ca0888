"""A broker with a tier on a pretended store, driven by hand: rounds are gone through, and fetches come when told."""

from random import Random
from typing import Any

from cordwood.broker.fetching import Fetching, told
from cordwood.broker.history import Away, Wanted
from cordwood.broker.joining import join
from cordwood.broker.rounds import Durable, Rounds, Steps
from cordwood.errors import CordwoodError
from cordwood.sim.disk import SimDirectory
from cordwood.sim.objects import SimObjects
from cordwood.tier.catalogue import ListedCatalogue
from cordwood.tier.descriptor import Descriptor, parse
from tests.broker.harness import Harness


class Tiered(Harness):
    """A broker under the claim with this epoch; where the journal is new, it goes on from what the store knows."""

    def __init__(
        self, objects: SimObjects | None = None, epoch: int = 1, disk: SimDirectory | None = None, **settings: Any
    ):
        super().__init__(disk, **{"tier_object_bytes": 1, **settings})
        self.objects = objects or SimObjects(self.clock, Random(1))
        self.catalogue = ListedCatalogue(self.objects)
        self.shipping = self.broker.shipping
        self.shipping.epoch = epoch
        self.rounds = Rounds(
            self.ledger,
            self.shipping,
            self.settings,
            self.clock,
            self.objects,
            self.catalogue,
            self.journal.read_ahead,
        )
        self.wanted: list[Wanted] = []
        self.ledger.history.ask = self.wanted.append
        self._fetching = Fetching(self.objects)
        new = not self.ledger.state.store
        self.ledger.write(self.go_through(join(self.ledger, self.objects, self.catalogue, epoch, "s")), reserve=True)
        self.sync()
        if new:
            self.ledger.show_all()
        self.go_through(self.rounds.put_snapshot())

    def go_through(self, steps: Steps[Any]) -> Any:
        """Do one step after the other, and make durable what must be; return what comes of it, or raise."""
        step = next(steps, None)
        while step is not None:
            try:
                result = self.sync() if isinstance(step, Durable) else step()
            except CordwoodError as error:
                try:
                    step = steps.throw(error)
                except StopIteration as over:
                    return over.value
                continue
            try:
                step = steps.send(result)
            except StopIteration as over:
                self.sync()
                return over.value
        return None

    def round(self, *, everything: bool = True) -> None:
        self.go_through(self.rounds.round(everything=everything))

    def fetch(self) -> None:
        """Fetch all that is wanted."""
        while self.wanted:
            wanted = self.wanted.pop(0)
            try:
                found = self._fetching.fetch(wanted)
            except CordwoodError as error:
                self.ledger.history.failed(wanted, told(wanted, error, read=self.shipping.reads(wanted.tiered)))
            else:
                self.ledger.history.arrived(wanted, found)
            self.sync()

    def stored(self) -> list[Descriptor]:
        """Return the objects in the store."""
        return [found for name in self.objects.names() if (found := parse(name)) is not None]

    def ranges(self) -> list[tuple[int, int, int]]:
        """Return (first, end, epoch) of the objects in the store."""
        return [(one.first, one.end, one.epoch) for one in self.stored()]

    def read(self, topic: str, offset: int = 0, partition: int = 0) -> dict[int, bytes]:
        """Return offset and value of all messages from an offset on, wherever they are."""
        found: dict[int, bytes] = {}
        while True:
            try:
                page = self.broker.page(topic, self.ledger.state.topics[topic].id, partition, offset)
            except Away as away:
                answers: list[CordwoodError | None] = []
                self.broker.bring(away.wanted, answers.append)
                self.fetch()
                if answers[0] is not None:
                    raise answers[0] from None
                continue
            for run in page.runs:
                values = run.batch.column("value").to_pylist()
                found.update({run.first_offset + row: value for row, value in enumerate(values)})
            if page.next_offset == offset:
                return found
            offset = page.next_offset
