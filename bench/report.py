"""Results for people and for programs: a table, a plot, JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from bench.result import Result


def show_table(results: Sequence[Result], console: Console) -> None:
    """Print a line for each result, then what each line means and which bars are missed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in ("ours", "raw", "ratio", "spread", "wanted", "met"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        compared = result.raw is not None
        met = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[result.met]
        table.add_row(
            result.name,
            f"{_number(result.ours)} {result.unit}".rstrip(),
            _number(result.raw) if result.raw is not None else "",
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


def save_json(results: Sequence[Result], path: Path) -> None:
    """Write the results, with their bars and whether these are met."""
    rows = [{**asdict(result), "met": result.met} for result in results]
    path.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")


def save_plot(results: Sequence[Result], path: Path, title: str) -> None:
    """Draw how many times as good as wanted each figure is, as SVG: right of the line is met."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "cordwood"  # the same results give the same file
    from matplotlib import pyplot
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    judged = [result for result in reversed(results) if result.bar is not None]
    scores = [result.score or 0 for result in judged]
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
    ticks = [2.0**power for power in range(-4, 9) if low <= 2.0**power <= high]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.set_yticks(range(len(judged)), _full_names(results, judged))
    axes.set_xlabel("times as good as wanted (right of 1× is met)")
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


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
