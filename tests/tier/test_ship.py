"""An object is believed when it came back as it was put; one of which only the answer was lost is found again."""

from random import Random

import pytest

from cordwood.errors import Refused
from cordwood.machine.objects.store import StoreUnavailable
from cordwood.sim.clock import SimClock
from cordwood.sim.objects import SimObjects
from cordwood.tier.catalogue import ListedCatalogue
from cordwood.tier.descriptor import Descriptor, parse
from cordwood.tier.rows import Rows
from cordwood.tier.ship import Freight, accept, adopt, ship
from tests.tier.shelf import batch_of, message


class Noting(ListedCatalogue):
    """A catalogue that says in which order it was asked."""

    def __init__(self, objects: SimObjects, asked: list[str]):
        super().__init__(objects)
        self._asked = asked

    def record(self, name: str) -> None:
        self._asked.append("record")


def begun() -> tuple[SimObjects, ListedCatalogue]:
    objects = SimObjects(SimClock(), Random(1))
    return objects, ListedCatalogue(objects)


def freight(first: int, end: int, epoch: int = 1) -> Freight:
    return Freight("shop/orders", "aa", 0, first, end, epoch)


def rows(first: int, end: int) -> list[Rows]:
    return [Rows.dense(first, batch_of(message(value=b"%d" % offset) for offset in range(first, end)))]


def held(objects: SimObjects) -> list[tuple[int, int]]:
    return [(found.first, found.end) for name in objects.names() if (found := parse(name)) is not None]


def test_what_was_shipped_is_named_by_what_it_holds() -> None:
    objects, catalogue = begun()
    shipped = ship(objects, catalogue, freight(5, 8), rows(5, 8))
    found = shipped.descriptor
    assert objects.names() == (found.name,)
    assert (found.first, found.end, found.count, found.epoch, found.generation) == (5, 8, 3, 1, 0)
    assert (shipped.bytes, shipped.group_rows) == (len(objects.peek(found.name)), 3)


def test_it_is_put_then_read_back_and_only_then_recorded() -> None:
    objects, _ = begun()
    asked: list[str] = []
    objects.watch = lambda operation, name: asked.append(operation)
    ship(objects, Noting(objects, asked), freight(0, 1), rows(0, 1))
    assert asked[:3] == ["put", "size", "get"]
    assert asked.index("record") > 2


def test_what_did_not_come_back_is_taken_away_again() -> None:
    objects, catalogue = begun()

    def watch(operation: str, name: str) -> None:
        if operation == "size":
            objects.corrupt(name)

    objects.watch = watch
    with pytest.raises(StoreUnavailable, match="did not come back"):
        ship(objects, catalogue, freight(0, 1), rows(0, 1))
    assert objects.names() == ()


def test_shipping_the_same_again_is_the_same() -> None:
    objects, catalogue = begun()
    assert ship(objects, catalogue, freight(0, 2), rows(0, 2)) == ship(objects, catalogue, freight(0, 2), rows(0, 2))
    assert held(objects) == [(0, 2)]


def test_an_earlier_try_is_adopted_with_the_end_that_it_had() -> None:
    objects, catalogue = begun()
    before = ship(objects, catalogue, freight(0, 2), rows(0, 2))
    assert adopt(objects, catalogue, freight(0, 5)) == before


def test_of_several_tries_the_one_that_reaches_furthest_is_adopted_and_the_others_go() -> None:
    objects, catalogue = begun()
    ship(objects, catalogue, freight(0, 2), rows(0, 2))
    before = ship(objects, catalogue, freight(0, 4), rows(0, 4))
    ship(objects, catalogue, freight(0, 3), rows(0, 3))
    assert adopt(objects, catalogue, freight(0, 5)) == before
    assert held(objects) == [(0, 4)]


def test_an_earlier_try_that_is_damaged_or_holds_too_much_is_taken_away() -> None:
    objects, catalogue = begun()
    damaged = ship(objects, catalogue, freight(0, 2), rows(0, 2))
    objects.corrupt(damaged.descriptor.name)
    ship(objects, catalogue, freight(0, 9), rows(0, 9))
    assert adopt(objects, catalogue, freight(0, 5)) is None
    assert held(objects) == []


def test_nothing_else_is_adopted_or_taken_away() -> None:
    objects, catalogue = begun()
    ship(objects, catalogue, freight(0, 2, epoch=1), rows(0, 2))
    ship(objects, catalogue, freight(2, 4, epoch=2), rows(2, 4))
    assert adopt(objects, catalogue, freight(0, 5, epoch=2)) is None
    assert held(objects) == [(0, 2), (2, 4)]


def test_row_groups_of_different_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    objects, catalogue = begun()
    shipped = ship(objects, catalogue, freight(0, 4), rows(0, 4))
    found = parse(shipped.descriptor.name)
    assert isinstance(found, Descriptor)
    from cordwood.tier import contents

    real = contents.fetch(objects, found)
    uneven = (real.groups[0]._replace(rows=1), real.groups[0]._replace(rows=3))
    monkeypatch.setattr(contents, "fetch", lambda *_: contents.Contents(uneven, None, None, 0))
    with pytest.raises(Refused, match="differ in size"):
        accept(objects, catalogue, found)
