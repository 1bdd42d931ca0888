"""The verdict of a soak, and a very short one of a real broker."""

import json
from pathlib import Path

import pytest

from cordwood.drills import soak
from cordwood.drills.soak_chart import chart


def test_what_grows_is_named_and_what_breathes_is_not() -> None:
    rss = soak.MEASURES[0]
    assert soak.grown(rss, [50.0] * 5 + [100.0] * 15) is None, "the first quarter is warm-up"
    assert soak.grown(rss, [100.0, 104.0, 101.0, 99.0] * 5) is None
    assert soak.grown(rss, [100.0 + 2 * number for number in range(40)]) is not None
    assert soak.grown(rss, [200.0 - number for number in range(40)]) is None


def test_the_quarters_are_compared_by_their_medians() -> None:
    assert soak.quarters([9, 9, 1, 1, 5, 5, 3, 3]) == (1, 3)
    assert soak.quarters([4.0]) == (4.0, 4.0)


def test_the_chart_has_a_line_for_each_measure() -> None:
    drawn = chart([1.0, 2.0, 3.0], {"rss": [1.0, 2.0, 1.0], "p99": [0.0, 0.0, 0.0]})
    assert drawn.count("<polyline") == 2
    assert "nan" not in drawn


def test_a_short_soak_counts_every_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "PEAK_S", 0.5)
    monkeypatch.setattr(soak, "SHORTEST_MINUTES", 0.05)
    said = soak.main(0.05, str(tmp_path / "soak"))
    facts = json.loads((tmp_path / "soak.json").read_text())
    assert facts["messages"] > 0
    # On a busy machine something may have grown within three seconds; nothing may be lost.
    assert not [line for line in facts["wrong"] if "grew" not in line], facts["wrong"]
    assert said == (1 if facts["wrong"] else 0)
    assert (tmp_path / "soak.svg").read_text().startswith("<svg")
