"""Races: who does what in which round, and what is made of it."""

from cordwood.bench import race
from cordwood.bench.race import Lap, Race
from cordwood.bench.result import at_least


def test_every_round_begins_with_another_system() -> None:
    seen: list[str] = []
    entrants = {name: lambda name=name: float(seen.append(name) or 1) for name in "abc"}
    found = race.run("a race", "messages/s", entrants, 3, lambda: 5.0, lambda _: None)
    assert "".join(seen) == "abcbcacab"
    assert {name: len(laps) for name, laps in found.laps.items()} == {"a": 3, "b": 3, "c": 3}


def test_the_disk_is_probed_before_each_lap() -> None:
    steps: list[str] = []
    race.run(
        "a race",
        "messages/s",
        {name: lambda name=name: float(steps.append(name) or 1) for name in "ab"},
        1,
        lambda: float(steps.append("probe") or 1),
        lambda _: None,
    )
    assert steps == ["probe", "a", "probe", "b"]


def test_a_ratio_is_taken_within_a_round() -> None:
    found = Race("a race", "messages/s", {"ours": _laps(10, 100, 40), "theirs": _laps(5, 50, 10)})
    assert found.ratio("ours", "theirs") == 2


def test_the_best_peer_is_the_one_with_the_best_median() -> None:
    found = Race("a race", "messages/s", {"ours": _laps(8, 8, 8), "steady": _laps(4, 4, 4), "lucky": _laps(1, 9, 1)})
    result = found.against_best("ours", at_least(2))
    assert (result.against, result.figure, result.met) == ("steady", 2, True)


def _laps(*rates: float) -> list[Lap]:
    return [Lap(rate, 1.0) for rate in rates]


def test_one_that_fails_is_told_and_the_others_go_on() -> None:
    told: list[str] = []

    def fails() -> float:
        raise RuntimeError("no more")

    found = race.run(
        "a race",
        "messages/s",
        {"a": lambda: 1.0, "b": fails, "c": lambda: 2.0},
        3,
        lambda: 5.0,
        lambda _: None,
        lambda name, error: told.append(f"{name}: {error}"),
    )
    assert told == ["b: no more"]
    assert {name: len(laps) for name, laps in found.laps.items()} == {"a": 3, "c": 3}


def test_one_that_did_nothing_has_failed() -> None:
    told: list[str] = []
    entrants = {"a": lambda: 1.0, "b": lambda: 0.0}
    race.run("a race", "messages/s", entrants, 1, lambda: 5.0, lambda _: None, lambda name, _: told.append(name))
    assert told == ["b"]
