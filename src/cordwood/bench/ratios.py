"""Ratios: how many times as fast Cordwood is, pure figures for table, chart and JSON.

    block      ours                        theirs
    1          safe (its default)          everybody in every mode
    2          --sync interval             those modes that a power cut takes messages from

A ratio is taken within each round, and the median of the rounds counts. A mode that was not in a race has none.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cordwood.bench.comparison import Comparison
from cordwood.bench.modes import CORDWOOD
from cordwood.bench.peers.roster import CORDWOOD as OURS
from cordwood.bench.peers.roster import Entrant


@dataclass(frozen=True, slots=True)
class Line:
    """One peer in one mode: ours / theirs, by race."""

    entrant: Entrant
    ratios: dict[str, float]


@dataclass(frozen=True, slots=True)
class Block:
    """Ours in one mode, its messages a second by race, and the lines beside it."""

    ours: Entrant
    rates: dict[str, float]
    lines: list[Line]


def blocks(found: Comparison) -> list[Block]:
    """Return both blocks; one without a line is left out."""
    present = [one for one in found.entrants if not one.left_out]
    safe, relaxed = (_ours(present, mode.name) for mode in CORDWOOD)
    everybody = [one for one in present if one != safe]
    unsafe = [one for one in everybody if not one.mode.survives and one != relaxed]
    made = [_block(found, safe, everybody), _block(found, relaxed, unsafe)]
    return [block for block in made if block.lines]


def as_json(found: Comparison) -> dict[str, Any]:
    """Return everything that was measured, and the ratios."""
    return {
        "machine": found.machine,
        "systems": [
            {
                "label": one.label,
                "system": one.system,
                "mode": one.mode.name,
                "version": one.version,
                "setting": one.mode.setting,
                "survives_power_loss": one.mode.survives,
                "but": one.mode.but,
                "left_out": one.left_out,
            }
            for one in found.entrants
        ],
        "races": [
            {
                "name": race.name,
                "unit": race.unit,
                "synced_writes_per_second": race.probe,
                "laps": {label: [asdict(lap) for lap in laps] for label, laps in race.laps.items()},
            }
            for race in found.races
        ],
        "ratios": [
            {"ours": block.ours.label, "theirs": line.entrant.label, "race": race, "ratio": ratio}
            for block in blocks(found)
            for line in block.lines
            for race, ratio in line.ratios.items()
        ],
        "failures": list(found.failures),
    }


def _ours(present: list[Entrant], mode: str) -> Entrant:
    return next(one for one in present if one.system == OURS.name and one.mode.name == mode)


def _block(found: Comparison, ours: Entrant, others: list[Entrant]) -> Block:
    rates = {race.name: race.rate(ours.label) for race in found.races if ours.label in race.laps}
    lines = [Line(other, dict(_ratios(found, ours.label, other.label))) for other in others]
    return Block(ours, rates, lines)


def _ratios(found: Comparison, ours: str, theirs: str) -> Iterator[tuple[str, float]]:
    for race in found.races:
        if ours in race.laps and theirs in race.laps:
            yield race.name, race.ratio(ours, theirs)
