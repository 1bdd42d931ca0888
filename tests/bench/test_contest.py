"""The contest: who is in which race."""

from dataclasses import replace
from pathlib import Path

from cordwood.bench.contest import LOOP, SINGLES, Loads, race_names, races
from cordwood.bench.load import Load, make_messages
from cordwood.bench.modes import SQLITE
from cordwood.bench.peers.sqlite import Sqlite

LOAD = Load(make_messages(100, 10_000), seconds=0.001)


def test_who_confirms_nothing_is_not_waited_for(tmp_path: Path) -> None:
    systems = {"tells": Sqlite(SQLITE[2]), "tells nothing": Sqlite(replace(SQLITE[2], confirms=False))}
    for system in systems.values():
        system.start(tmp_path)
    found = races(systems, Loads(LOAD, LOAD), 1, lambda: 1.0, lambda _: None, only=(SINGLES, LOOP))
    assert {race.name: list(race.laps) for race in found} == {
        SINGLES: ["tells"],
        LOOP: ["tells", "tells nothing"],
    }


def test_every_race_has_a_name_of_its_own() -> None:
    assert len(set(race_names())) == len(race_names()) == 10
