"""Ratios: which block somebody is in, what the table and the JSON say, and what the chart needs."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from cordwood.bench import chart, ratios, table
from cordwood.bench.comparison import Comparison
from cordwood.bench.contest import race_names
from cordwood.bench.modes import CORDWOOD, NATS, RABBITMQ, SQLITE
from cordwood.bench.peers.roster import Entrant
from cordwood.bench.race import Lap, Race
from cordwood.errors import Refused

SAFE = Entrant("Cordwood (safe = default)", "Cordwood", CORDWOOD[0], "1")
INTERVAL = Entrant("Cordwood (interval)", "Cordwood", CORDWOOD[1], "1")
FULL = Entrant("SQLite (safe)", "SQLite", SQLITE[0], "3")
NORMAL = Entrant("SQLite (NORMAL)", "SQLite", SQLITE[2], "3")
RABBIT = Entrant("RabbitMQ (default)", "RabbitMQ", RABBITMQ[1], "3.10")
ABSENT = Entrant("NATS JetStream (safe)", "NATS JetStream", NATS[0], left_out="nats-server is not installed")


def _race(name: str, **rates: float) -> Race:
    labels = {"safe": SAFE, "interval": INTERVAL, "full": FULL, "normal": NORMAL, "rabbit": RABBIT}
    return Race(name, "msgs/s", {labels[short].label: [Lap(rate, 500.0)] for short, rate in rates.items()})


FOUND = Comparison(
    "2 cores",
    [SAFE, INTERVAL, FULL, NORMAL, RABBIT, ABSENT],
    [
        _race("batches", safe=800, interval=1600, full=100, normal=3200, rabbit=50),
        _race("64 callers", safe=90, interval=80, full=10, normal=20),
    ],
    ["SQLite (safe) failed: the disk is full"],
)


def test_ours_safe_is_beside_everybody_and_interval_beside_those_who_may_lose() -> None:
    first, second = ratios.blocks(FOUND)
    assert (first.ours, [line.entrant for line in first.lines]) == (SAFE, [INTERVAL, FULL, NORMAL, RABBIT])
    assert (second.ours, [line.entrant for line in second.lines]) == (INTERVAL, [NORMAL, RABBIT])


def test_a_ratio_is_ours_by_theirs_and_none_where_one_did_not_take_part() -> None:
    first, second = ratios.blocks(FOUND)
    assert [line.ratios for line in first.lines] == [
        {"batches": 0.5, "64 callers": 90 / 80},
        {"batches": 8.0, "64 callers": 9.0},
        {"batches": 0.25, "64 callers": 4.5},
        {"batches": 16.0},
    ]
    assert second.lines[0].ratios == {"batches": 0.5, "64 callers": 4.0}
    assert first.rates == {"batches": 800, "64 callers": 90}


def test_without_unsafe_peers_there_is_one_block() -> None:
    only = Comparison("", [SAFE, INTERVAL, FULL], [_race("batches", safe=2, interval=3, full=1)])
    assert [block.ours for block in ratios.blocks(only)] == [SAFE]


def test_the_table_names_version_setting_survival_and_who_is_left_out() -> None:
    page = io.StringIO()
    table.show(FOUND, Console(width=118, file=page))
    said = page.getvalue()
    lines = {line.strip().split("  ")[0]: line.split() for line in said.splitlines() if line.strip()}
    assert lines["SQLite (safe)"][-3:] == ["yes", "8.00×", "9.00×"]
    assert lines["RabbitMQ (default)"][-3:] == ["no", "32.0×", "–"]  # of the second block
    assert lines["synced writes of bare disk"][-2:] == ["500", "500"]
    assert f"SQLite (NORMAL) 3: {NORMAL.mode.setting}. Power cut: {NORMAL.mode.survival}." in said
    assert "NATS JetStream (safe) is left out: nats-server is not installed." in said
    assert "SQLite (safe) failed: the disk is full." in said


def test_every_race_has_its_column_on_paper() -> None:
    page = io.StringIO()
    rates = {"safe": 1_234_567.0, "interval": 950_000.0, "full": 800.0}
    table.show(
        Comparison("", [SAFE, INTERVAL, FULL], [_race(name, **rates) for name in race_names()]),
        Console(width=118, file=page),
    )
    (line,) = [
        line for line in page.getvalue().splitlines() if line.strip().startswith("SQLite (safe) ") and "×" in line
    ]
    assert line.split()[2:] == ["yes", *["1,543×"] * len(race_names())]


def test_the_json_has_systems_races_and_ratios() -> None:
    found = json.loads(json.dumps(ratios.as_json(FOUND)))
    assert found["systems"][-1]["left_out"] == "nats-server is not installed"
    assert [one["survives_power_loss"] for one in found["systems"]] == [True, False, True, False, False, True]
    assert found["races"][0]["laps"]["SQLite (safe)"] == [{"rate": 100, "probe": 500.0}]
    assert {"ours": SAFE.label, "theirs": FULL.label, "race": "batches", "ratio": 8.0} in found["ratios"]
    assert found["failures"] == ["SQLite (safe) failed: the disk is full"]


@pytest.mark.parametrize(
    ("rate", "said"), [(950, "950"), (12_345, "12.3k"), (999_900, "1.0M"), (150_000, "150k"), (2_500_000, "2.5M")]
)
def test_a_rate_is_said_in_few_letters(rate: float, said: str) -> None:
    assert table.short(rate) == said


@pytest.mark.parametrize(("ratio", "said"), [(0.004, "0.004×"), (0.85, "0.85×"), (12.34, "12.3×"), (1234, "1,234×")])
def test_a_ratio_has_three_figures_at_least(ratio: float, said: str) -> None:
    assert table.times(ratio) == said


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_chart_is_drawn_by_its_suffix(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"chart{suffix}"
    chart.check(path)
    chart.save(FOUND, path)
    assert path.read_bytes().startswith(b"<?xml" if suffix == ".svg" else b"\x89PNG")


def test_a_chart_that_could_not_be_drawn_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"ends in \.svg or \.png"):
        chart.check(tmp_path / "chart.pdf")
    with pytest.raises(Refused, match="no directory"):
        chart.check(tmp_path / "absent" / "chart.svg")
