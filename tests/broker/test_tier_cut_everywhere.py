"""The power goes before each single call to the store, and before each single operation of the disk, of one history.

After that the same disk is opened again, or, if it is lost, an empty one; and then the tier goes on and tidies up.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from cordwood.broker import ops
from cordwood.sim.clock import SimClock
from cordwood.sim.disk import SimDirectory
from cordwood.sim.objects import SimObjects
from tests.broker.harness import records
from tests.broker.tiered import Tiered


class PowerCut(BaseException):
    """The power goes."""


class Life:
    """A broker's life up to a power cut, and what it promised until then."""

    def __init__(self, *, store_calls: int | None = None, disk_calls: int | None = None):
        self.disk = SimDirectory()
        self.objects = SimObjects(SimClock(), Random(1))
        self.acked: dict[int, bytes] = {}
        self.trimmed = 0  # nothing below this is promised
        self.deleted = False  # nothing of the other topic is, either
        self.store_calls, self.disk_calls = 0, 0
        self._stores, self._disks = store_calls, disk_calls
        self.objects.watch = self._store
        self.disk.watch = self._disk
        self.harness: Tiered | None = None
        with suppress(PowerCut):
            self._live()
        self.objects.watch = None
        self.disk.watch = None

    def _store(self, operation: str, name: str) -> None:
        self.store_calls += 1
        if self.store_calls == self._stores:
            raise PowerCut

    def _disk(self, operation: str, name: str) -> None:
        self.disk_calls += 1
        if self.disk_calls == self._disks:
            raise PowerCut

    def _live(self) -> None:
        harness = self.harness = Tiered(self.objects, 1, self.disk)
        harness.do("create_topic", "jobs", 1, {})
        self._produce(b"a", b"b")
        harness.round()
        harness.do("create_topic", "other", 1, {})
        harness.do("produce", "other", records(b"x"))
        self._produce(b"c")
        harness.round()
        self.deleted = True
        harness.do("delete_topic", "other")
        self.trimmed = 2
        harness.ledger.write([ops.Trimmed("jobs", 0, 2)])
        harness.round()
        harness.pass_ms(60_000)
        harness.round()
        harness.round()
        self._produce(b"d")
        harness.go_through(harness.rounds.put_snapshot(clean=True))

    def _produce(self, *values: bytes) -> None:
        assert self.harness is not None
        first = self.harness.do("produce", "jobs", records(*values)).results[0][1]
        self.acked.update({first + row: value for row, value in enumerate(values)})

    @property
    def tiered(self) -> dict[int, bytes]:
        """What was acknowledged and is in objects of which the journal knew durably."""
        found: dict[int, bytes] = {}
        if self.harness is not None and "jobs" in self.harness.ledger.state.topics:
            for one in self.harness.ledger.state.topics["jobs"].partitions[0].index.tiered:
                found.update({o: self.acked[o] for o in range(one.first, one.end) if o >= self.trimmed})
        return found


def finish(harness: Tiered) -> None:
    """Let the tier go on, and see that nothing is left over."""
    for _ in range(3):
        harness.pass_ms(60_000)
        harness.round()
    known = {
        one.descriptor.name
        for topic in harness.ledger.state.topics.values()
        for partition in topic.partitions
        for one in partition.index.tiered
    }
    assert {one.name for one in harness.stored()} == known
    assert (harness.ledger.state.doomed, harness.ledger.state.graves) == ({}, {})


def check_reopened(life: Life, seed: int) -> None:
    again = Tiered(life.objects, 2, life.disk.image().after_power_cut(Random(seed)))
    promised = {offset: value for offset, value in life.acked.items() if offset >= life.trimmed}
    if life.acked or "jobs" in again.ledger.state.topics:
        found = again.read("jobs")
        assert promised.items() <= found.items()
        finish(again)
        assert again.read("jobs") == found, "the tier changes nothing"
    if not life.deleted and "other" in again.ledger.state.topics:
        assert set(again.read("other").values()) <= {b"x"}


def check_lost(life: Life) -> None:
    tiered = life.tiered
    after = Tiered(life.objects, 2)
    if "jobs" not in after.ledger.state.topics:
        assert not tiered
        after.do("create_topic", "jobs", 1, {})
    else:
        found = after.read("jobs")
        assert tiered.items() <= found.items() <= {**life.acked, 0: b"a", 1: b"b", 2: b"c", 3: b"d"}.items()
        new = after.do("produce", "jobs", records(b"new")).results[0][1]
        assert new > max(life.acked, default=-1), "no offset is given out again"
    if "other" in after.ledger.state.topics:
        assert set(after.read("other").values()) <= {b"x"}, "all of it, or a hole"
    finish(after)


WHOLE = Life()


@pytest.mark.parametrize("kind", ["store", "disk"])
@pytest.mark.parametrize(
    "check", [lambda life, number: check_reopened(life, number), lambda life, number: check_lost(life)]
)
def test_a_power_cut_anywhere_loses_nothing_that_was_promised(kind: str, check: Callable[[Life, int], None]) -> None:
    most = WHOLE.store_calls if kind == "store" else WHOLE.disk_calls
    assert most > 40
    for number in range(1, most + 2):
        life = Life(store_calls=number) if kind == "store" else Life(disk_calls=number)
        check(life, number)
