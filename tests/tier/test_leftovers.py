"""Objects that nobody reads from: which they are, and in which order they go."""

from collections.abc import Iterable

from cordwood.sim.clock import SimClock
from cordwood.sim.objects import SimObjects
from cordwood.tier import leftovers
from cordwood.tier.catalogue import ListedCatalogue
from cordwood.tier.descriptor import Descriptor


class Noting(ListedCatalogue):
    """A catalogue that notes what it is asked, in one list with the store."""

    def __init__(self, objects: SimObjects, asked: list[str]):
        super().__init__(objects)
        self._asked = asked

    def forget(self, names: Iterable[str]) -> None:
        self._asked += [f"forget {name}" for name in names]


def begun() -> tuple[SimObjects, Noting, list[str]]:
    objects = SimObjects(SimClock())
    asked: list[str] = []
    objects.watch = lambda operation, name: asked.append(f"{operation} {name}")
    return objects, Noting(objects, asked), asked


def name(topic_id: str, first: int, epoch: int) -> str:
    return Descriptor("shop/orders", topic_id, 0, first, first + 1, epoch, 0, 1, 7).name


def test_objects_of_this_epoch_are_no_leftovers() -> None:
    objects, _, _ = begun()
    for epoch in (1, 2, 3):
        objects.put(name("aa", epoch, epoch), b"")
    objects.put("topics/other", b"")
    assert [one.epoch for one in leftovers.before(objects, 3)] == [1, 2]


def test_an_object_stops_counting_before_it_goes() -> None:
    objects, catalogue, asked = begun()
    objects.put(name("aa", 0, 1), b"")
    leftovers.delete(objects, catalogue, [name("aa", 0, 1)])
    assert [call.split()[0] for call in asked] == ["put", "forget", "delete"]


def test_a_tombstone_comes_first_and_goes_last() -> None:
    objects, catalogue, asked = begun()
    objects.put(name("aa", 0, 1), b"")
    objects.put(name("aa", 1, 1), b"")
    objects.put(name("bb", 0, 1), b"")
    del asked[:]
    leftovers.bury(objects, catalogue, "shop/orders", "aa")
    stone = "topics/shop%2Forders/aa/deleted"
    changes = [call for call in asked if not call.startswith(("list", "forget"))]
    assert (changes[0], changes[-1]) == (f"put {stone}", f"delete {stone}")
    assert objects.names() == (name("bb", 0, 1),), "a topic of the same name stays"


def test_a_burial_that_was_cut_off_is_done_again() -> None:
    objects, catalogue, _ = begun()
    objects.put("topics/shop%2Forders/aa/deleted", b"")
    objects.put(name("aa", 1, 1), b"")
    leftovers.bury(objects, catalogue, "shop/orders", "aa")
    assert objects.names() == ()


def test_a_listing_says_which_topics_have_a_tombstone() -> None:
    objects, catalogue, _ = begun()
    objects.put(name("aa", 0, 1), b"")
    objects.put("topics/shop%2Forders/aa/deleted", b"")
    objects.put(name("bb", 0, 1), b"")
    found = leftovers.listed(objects, catalogue)
    assert [one.topic_id for one in found.objects] == ["aa", "bb"]
    assert found.tombstones == {("shop/orders", "aa")}
