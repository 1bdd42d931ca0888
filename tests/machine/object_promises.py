"""What every kind of object store promises; each function is given an empty store."""

import threading
from collections.abc import Callable

import pytest

from cordwood.errors import Refused
from cordwood.machine.objects import ObjectMissing, Objects

Promise = Callable[[Objects], None]


def what_was_put_comes_back(objects: Objects) -> None:
    data = bytes(range(256)) * 5000
    assert objects.put("topics/a/1", memoryview(data)) is True
    assert bytes(objects.get("topics/a/1")) == data
    assert objects.size("topics/a/1") == len(data)


def a_name_is_put_once(objects: Objects) -> None:
    assert objects.put("a", b"first") is True
    assert objects.put("a", b"second") is False
    assert bytes(objects.get("a")) == b"first"


def an_empty_object_is_an_object(objects: Objects) -> None:
    assert objects.put("a/empty", b"") is True
    assert bytes(objects.get("a/empty")) == b""
    assert objects.size("a/empty") == 0
    assert objects.put("a/empty", b"x") is False


def a_range_ends_at_the_objects_end(objects: Objects) -> None:
    objects.put("a", b"0123456789")
    ranges = {(0, 4): b"0123", (4, None): b"456789", (8, 100): b"89", (10, 12): b"", (50, None): b"", (3, 3): b""}
    for (first, end), expected in ranges.items():
        assert bytes(objects.get("a", first, end)) == expected, (first, end)
    for first, end in ((-1, 2), (3, 2)):
        with pytest.raises(Refused):
            objects.get("a", first, end)


def what_is_missing_is_said_to_be(objects: Objects) -> None:
    objects.put("a/b", b"x")
    for name in ("b", "a/c", "a/b/c", "c/d/e"):
        for ask in (objects.get, objects.size, lambda name: objects.get(name, 3, 5)):
            with pytest.raises(ObjectMissing, match=name):
                ask(name)


def a_listing_is_in_the_order_of_names(objects: Objects) -> None:
    names = ["o/a-1", "o/a.b/1", "o/a/1", "o/a/2", "o/a0", "p/x", "topics/a%2Fb/partition=0/1-2.parquet"]
    for name in reversed(names):
        objects.put(name, name.encode())
    assert [entry.name for entry in objects.list("")] == names
    assert [entry.name for entry in objects.list("o/")] == names[:5]
    assert [entry.name for entry in objects.list("o/a/")] == names[2:4]
    assert list(objects.list("none/")) == []
    assert [entry.size for entry in objects.list("o/")] == [len(name) for name in names[:5]]
    with pytest.raises(Refused, match="must end with"):
        objects.list("o/a")


def what_is_deleted_is_gone_and_may_be_deleted_again(objects: Objects) -> None:
    for name in ("a/1", "a/2", "b/3"):
        objects.put(name, b"x")
    objects.delete(["a/1", "b/3", "a/1", "never/was"])
    objects.delete(iter(["a/1"]))
    objects.delete([])
    assert [entry.name for entry in objects.list("")] == ["a/2"]
    assert objects.put("a/1", b"y") is True


def of_many_who_put_one_name_one_wins(objects: Objects) -> None:
    for number in range(2):
        won = []

        def put(who: int, number: int = number, won: list[int] = won) -> None:
            if objects.put(f"race/{number}", b"%d" % who):
                won.append(who)

        threads = [threading.Thread(target=put, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert bytes(objects.get(f"race/{number}")) == b"%d" % won[0]


def names_that_some_store_would_not_take_are_refused(objects: Objects) -> None:
    bad = ["", "/", "/a", "a/", "a//b", "a/../b", "./a", "a/.", ".lock", ".tmp/x", "a\\b", "a\0b", "a\nb", "a" * 256]
    for name in [*bad, "a/" * 512 + "a", "\ud800"]:
        for act in (
            lambda name: objects.put(name, b""),
            objects.get,
            objects.size,
            lambda name: objects.delete([name]),
        ):
            with pytest.raises(Refused, match="is no object name"):
                act(name)
    assert list(objects.list("")) == []


PROMISES: list[Promise] = [
    what_was_put_comes_back,
    a_name_is_put_once,
    an_empty_object_is_an_object,
    a_range_ends_at_the_objects_end,
    what_is_missing_is_said_to_be,
    a_listing_is_in_the_order_of_names,
    what_is_deleted_is_gone_and_may_be_deleted_again,
    of_many_who_put_one_name_one_wins,
    names_that_some_store_would_not_take_are_refused,
]
