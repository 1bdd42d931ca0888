"""The chart: a panel for each block, a line for each race, a mark for each system and mode.

A full mark survives a power cut, a hollow one does not. Right of 1× Cordwood is faster.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cordwood.bench.comparison import Comparison
from cordwood.bench.peers.roster import CORDWOOD, PEERS, Entrant
from cordwood.bench.ratios import Block, blocks
from cordwood.errors import Refused

_COLOURS = dict(
    zip(
        (system.name for system in (*PEERS, CORDWOOD)),
        ("#c0392b", "#2471a3", "#d68910", "#1e8449", "#7d3c98", "#555555"),
        strict=True,
    )
)
_MARKS = "osD"  # by place of the mode


def check(path: Path) -> None:
    """Refuse a file that could not be drawn in the end, before anything is measured."""
    if path.suffix not in (".svg", ".png"):
        raise Refused(f"--chart {path}: say a file that ends in .svg or .png")
    if not path.parent.is_dir():
        raise Refused(f"--chart {path}: there is no directory {path.parent}")
    if find_spec("matplotlib") is None:
        raise Refused("--chart needs matplotlib: pip install 'cordwood[bench]'")


def save(found: Comparison, path: Path) -> None:
    """Draw the ratios, as SVG or PNG by the file's suffix."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "cordwood"  # the same results give the same file
    from matplotlib import pyplot

    drawn = blocks(found)
    names = [race.name for race in reversed(found.races)]
    figure, panels = pyplot.subplots(
        1,
        len(drawn),
        figsize=(6.2 * len(drawn) + 1.4, 2.6 + 0.42 * len(names)),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for panel, block in zip(panels[0], drawn, strict=True):
        _draw(panel, block, names)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _draw(panel: Any, block: Block, names: list[str]) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    for line in block.lines:
        places = [place for place, name in enumerate(names) if name in line.ratios]
        panel.scatter(
            [line.ratios[names[place]] for place in places],
            places,
            label=line.entrant.label,
            s=44,
            marker=_mark(line.entrant),
            facecolors=_COLOURS[line.entrant.system] if line.entrant.mode.survives else "white",
            edgecolors=_COLOURS[line.entrant.system],
            linewidths=1.4,
            zorder=3,
        )
    panel.axvline(1, color="black", linewidth=1)
    panel.set_xscale("log", base=10)
    low, high = panel.get_xlim()
    ticks = [step * 10.0**power for power in range(-4, 6) for step in (1, 3)]
    panel.set_xticks([tick for tick in ticks if low <= tick <= high])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    panel.set_yticks(range(len(names)), names)
    panel.grid(axis="y", color="#dddddd")
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.tick_params(axis="y", length=0)
    panel.set_title(f"{block.ours.label}: times as fast", loc="left", fontsize=11)
    panel.set_xlabel("right of 1× Cordwood is faster; hollow: a power cut takes messages", fontsize=9)


def _mark(one: Entrant) -> str:
    modes = next(system.modes for system in (*PEERS, CORDWOOD) if system.name == one.system)
    return _MARKS[modes.index(one.mode)]
