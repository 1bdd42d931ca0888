"""Results for people and for programs: tables, plots, JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from cordwood.bench.peers.roster import Entrant
from cordwood.bench.race import Race
from cordwood.bench.result import Bar, Result

MOST_TIMES = 64  # longer bars say no more; a figure of 0 where little is wanted would be without end


def show_table(results: Sequence[Result], console: Console) -> None:
    """Print a line for each result, then what each line means and which bars are missed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in ("ours", "beside", "ratio", "spread", "wanted", "met"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        compared = result.raw is not None
        met = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[result.met]
        table.add_row(
            result.name,
            f"{_number(result.ours)} {result.unit}".rstrip(),
            f"{_number(result.raw)} {result.against}" if result.raw is not None else "",
            _number(result.figure) if compared else "",
            f"{_number(result.low)} – {_number(result.high)}",
            str(result.bar) if result.bar else "",
            met,
        )
    console.print(table)
    for result in results:
        if result.note:
            console.print(f"[dim]{result.name}: {result.note}.[/]", soft_wrap=True, highlight=False)
    noisy = [result.name for result in results if result.raw is not None and result.high > 2 * result.low]
    if noisy:
        console.print(f"\nMore than twofold between rounds, so run again: {'; '.join(noisy)}.", highlight=False)
    missed = [result.name for result in results if result.met is False]
    console.print(f"\nMissed: {'; '.join(missed)}." if missed else "\nEvery bar is met.", highlight=False)


def show_races(races: Sequence[Race], systems: Sequence[Entrant], console: Console) -> None:
    """Print a line for each race and a column for each system, then who they are and who is left out."""
    present = [system for system in systems if not system.left_out]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in [*(system.label for system in present), "synced writes/s"]:
        table.add_column(heading, justify="right")
    for race in races:
        best = max(race.laps, key=race.rate)
        rates = [
            f"[bold]{_number(race.rate(system.label))}[/]"
            if system.label == best
            else _number(race.rate(system.label))
            for system in present
        ]
        table.add_row(race.name, *rates, _number(race.probe))
    console.print(table)
    for system in present:
        console.print(
            f"[dim]{system.label} {system.version}: {system.mode.setting}.[/]", soft_wrap=True, highlight=False
        )
    for system in systems:
        if system.left_out:
            console.print(f"{system.label}: left out: {system.left_out}.", soft_wrap=True, highlight=False)
    console.print("Messages a second; synced writes are those of the bare disk, just before.\n", highlight=False)
    usual = median(race.probe for race in races)
    slow = [race.name for race in races if race.slowest_probe < usual / 2]
    if slow:
        console.print(f"Others used the disk, so run again: {'; '.join(slow)}.\n", highlight=False)


def save_json(results: Sequence[Result], races: Sequence[Race], systems: Sequence[Entrant], path: Path) -> None:
    """Write the results, with their bars and whether these are met, and every lap of every race."""
    found = {
        "results": [{**asdict(result), "met": result.met} for result in results],
        "races": [asdict(race) for race in races],
        "systems": [asdict(system) for system in systems],
    }
    path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def save_plot(results: Sequence[Result], path: Path, title: str) -> None:
    """Draw how many times as good as wanted each figure is, as SVG: right of the line is met."""
    pyplot = _pyplot()
    judged = [result for result in reversed(results) if result.bar is not None]
    scores = [min(result.score or 0, MOST_TIMES) for result in judged]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.42 * len(judged)), layout="constrained")
    colours = ["#3a7d44" if result.met else "#b3392f" for result in judged]
    axes.barh(range(len(judged)), [score - 1 for score in scores], left=1, color=colours, height=0.62)
    for place, (result, score) in enumerate(zip(judged, scores, strict=True)):
        axes.annotate(
            f"{_number(result.figure)}  (wanted {result.bar})",
            (max(score, 1), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log", base=2)
    low, high = min(0.5, *scores) / 1.1, max(2, *scores)
    axes.set_xlim(low, high * (high / low) ** 0.45)  # room for the words behind the longest bar
    axes.set_xticks([2.0**power for power in range(-4, 9) if low <= 2.0**power <= high])
    axes.set_yticks(range(len(judged)), _full_names(results, judged))
    axes.set_xlabel("times as good as wanted (right of 1× is met)")
    _finish(figure, axes, path, title)
    pyplot.close(figure)


def save_race_plot(races: Sequence[Race], ours: str, bars: Mapping[str, Bar], path: Path, title: str) -> None:
    """Draw how many times as fast as each peer ours is, as SVG: a line a race, a dot a peer, a mark the bar."""
    pyplot = _pyplot()
    shown = [race for race in reversed(races) if ours in race.laps]
    peers = list(dict.fromkeys(name for race in races for name in race.others(ours)))
    figure, axes = pyplot.subplots(figsize=(9, 1.6 + 0.36 * len(shown)), layout="constrained")
    for peer in peers:
        places = [place for place, race in enumerate(shown) if peer in race.laps]
        axes.scatter([shown[place].ratio(ours, peer) for place in places], places, label=peer, s=42, zorder=3)
    wanted = [(place, bars[race.name].value) for place, race in enumerate(shown) if race.name in bars]
    if wanted:
        places, values = zip(*wanted, strict=True)
        axes.scatter(values, places, marker="|", s=300, color="black", label="wanted of the best", zorder=2)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log", base=10)
    low, high = axes.get_xlim()
    ticks = [step * 10.0**power for power in range(-3, 5) for step in (1, 3)]
    axes.set_xticks([tick for tick in ticks if low <= tick <= high])
    axes.set_yticks(range(len(shown)), [race.name for race in shown])
    axes.grid(axis="y", color="#dddddd")
    axes.set_xlabel(f"times as fast as the peer (right of 1× {ours} is faster)")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    _finish(figure, axes, path, title)
    pyplot.close(figure)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "cordwood"  # the same results give the same file
    from matplotlib import pyplot

    return pyplot


def _finish(figure: Any, axes: Any, path: Path, title: str) -> None:
    """Give the axis its "n×", take away the frame, and write the file."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def _full_names(results: Sequence[Result], judged: Sequence[Result]) -> list[str]:
    """Return the names for a plot, where a line that begins with … has lost the line it belongs to."""
    names, above = {}, ""
    for result in results:
        if result.name.startswith("…"):
            names[id(result)] = f"{above}: {result.name.removeprefix('… ')}"
        else:
            names[id(result)] = above = result.name
    return [names[id(result)] for result in judged]


def _number(value: float) -> str:
    """Return three figures of a number, and never an exponent."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"
