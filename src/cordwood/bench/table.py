"""The table for people: a line for each system and mode, a column for each race, then who they are."""

from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table

from cordwood.bench.comparison import Comparison
from cordwood.bench.ratios import Block, blocks


def show(found: Comparison, console: Console) -> None:
    """Print a table for each block, then version and setting of each, and who is left out."""
    for block in blocks(found):
        console.print(_table(found, block))
    console.print(
        "Above 1× Cordwood is faster. Power cut: whether what was acknowledged survives one.\n", highlight=False
    )
    for one in found.entrants:
        if not one.left_out:
            _say(console, f"{one.label} {one.version}: {one.mode.setting}. Power cut: {one.mode.survival}.")
    for one in found.entrants:
        if one.left_out:
            _say(console, f"{one.label} is left out: {one.left_out}.")
    for failure in found.failures:
        _say(console, f"{failure}.")
    _say(console, f"\nMeasured on {found.machine}.")
    usual = median(race.probe for race in found.races)
    noisy = [race.name for race in found.races if race.slowest_probe < usual / 2]
    if noisy:
        _say(console, f"Others used this disk in between, so run again for better figures: {'; '.join(noisy)}.")


def times(ratio: float) -> str:
    """Return a ratio as it is said: 0.004×, 0.85×, 12.3×, 140×."""
    if ratio < 0.1:
        return f"{ratio:.3f}×"
    return f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.1f}×" if ratio >= 10 else f"{ratio:.2f}×"


def short(rate: float) -> str:
    """Return a rate in few letters: 950, 12.3k, 1.2M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if rate >= 0.9995 * size:
            return f"{rate / size:.0f}{unit}" if rate >= 99.95 * size else f"{rate / size:.1f}{unit}"
    return f"{rate:.0f}"


def _table(found: Comparison, block: Block) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, title_justify="left", title_style="bold")
    table.title = f"How many times as fast {block.ours.label} is as"
    table.add_column("", no_wrap=True)
    table.add_column("power cut")
    for race in found.races:
        table.add_column(race.name.replace("consume,", "take"), justify="right", min_width=7)  # no longer word
    for line in block.lines:
        survives = "yes" if line.entrant.mode.survives else "no"
        cells = (_cell(line.ratios.get(race.name)) for race in found.races)
        table.add_row(line.entrant.label, survives, *cells)
    table.add_section()
    rates = (short(block.rates[race.name]) if race.name in block.rates else "–" for race in found.races)
    table.add_row("its messages a second", "yes" if block.ours.mode.survives else "no", *rates)
    table.add_row("synced writes of bare disk", "", *(short(race.probe) for race in found.races))
    return table


def _cell(ratio: float | None) -> str:
    if ratio is None:
        return "–"
    return times(ratio) if ratio >= 1 else f"[red]{times(ratio)}[/]"


def _say(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False, markup=False)
