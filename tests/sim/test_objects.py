"""The pretended store fails as told, and loses nothing that it confirmed."""

from random import Random

import pytest

from cordwood.machine.objects import StoreUnavailable
from cordwood.sim.clock import SimClock
from cordwood.sim.objects import SimObjects, Weather


def stormy(seed: int) -> SimObjects:
    weather = Weather(fail_before=0.2, fail_after=0.2, fail_late=0.2, fail_listing=0.05, delay_ms=50)
    return SimObjects(SimClock(), Random(seed), weather)


def history(seed: int) -> list[str]:
    """Return what happened to a hundred puts."""
    objects, said = stormy(seed), []
    for number in range(100):
        try:
            said.append(str(objects.put(f"a/{number}", b"%d" % number)))
        except StoreUnavailable:
            said.append("failed")
    return [*said, *objects.names()]


def test_one_seed_gives_one_run() -> None:
    assert history(5) == history(5)
    assert history(5) != history(6)


def test_what_was_confirmed_stays_and_what_failed_may_be_there_or_not() -> None:
    objects = stormy(1)
    outcomes: dict[str, bool | None] = {}
    for number in range(300):
        try:
            outcomes[f"a/{number}"] = objects.put(f"a/{number}", b"%d" % number)
        except StoreUnavailable:
            outcomes[f"a/{number}"] = None
    names = set(objects.names())
    assert all(name in names for name, outcome in outcomes.items() if outcome)
    failed = {name for name, outcome in outcomes.items() if outcome is None}
    assert failed & names
    assert failed - names
    assert all(objects.peek(name) == name.removeprefix("a/").encode() for name in names)


def test_a_put_may_come_late_and_then_finds_the_name_taken() -> None:
    clock = SimClock()
    objects = SimObjects(clock, Random(0), Weather(fail_late=1.0, late_ms=1000))
    for name in ("a", "b"):
        with pytest.raises(StoreUnavailable):
            objects.put(name, b"late")
    objects.weather.fail_late = 0.0
    assert objects.put("b", b"early") is True
    clock.pass_ms(1000)
    assert [entry.name for entry in objects.list("")] == ["a", "b"]
    assert (objects.peek("a"), objects.peek("b")) == (b"late", b"early")


def test_a_listing_may_break_off() -> None:
    objects = SimObjects(SimClock(), Random(3), Weather())
    for number in range(100):
        objects.put(f"a/{number:03}", b"")
    objects.weather.fail_listing = 0.05
    seen = []
    with pytest.raises(StoreUnavailable, match="broke off"):
        for entry in objects.list("a/"):
            seen.append(entry.name)
    assert 0 < len(seen) < 100


def test_an_outage_ends_by_the_clock() -> None:
    clock = SimClock()
    objects = SimObjects(clock)
    objects.outage_until_ms = clock.monotonic_ms() + 500
    with pytest.raises(StoreUnavailable, match="it is down"):
        objects.put("a", b"")
    clock.pass_ms(500)
    assert objects.put("a", b"") is True


def test_a_call_takes_time_by_the_clock() -> None:
    clock = SimClock()
    objects = SimObjects(clock, Random(0), Weather(delay_ms=100))
    objects.put("a", b"")
    assert 0 < clock.monotonic_ms() <= 200


def test_a_corrupted_object_differs_in_one_bit() -> None:
    objects = SimObjects(SimClock())
    objects.put("a", bytes(50))
    objects.corrupt("a")
    assert sum(byte.bit_count() for byte in bytes(objects.get("a"))) == 1
    objects.corrupt("a", 7)
    assert objects.size("a") == 50
