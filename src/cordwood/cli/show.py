"""What a person sees: tables, sizes, progress. Plain when nobody watches."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

_ENDLESS = 1 << 20  # more columns than any table has


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table on standard output."""
    from rich.console import Console
    from rich.table import Table

    wide = None if sys.stdout.isatty() else _ENDLESS  # a pipe has no width; do not fold what a program reads
    # What is in a cell may be anybody's text: brackets and colons in it mean nothing.
    console = Console(width=wide, markup=False, emoji=False, highlight=False)
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        longest = max((len(str(row[place])) for row in rows), default=0)
        # A file's name stays in one piece, unless that leaves the other columns no room.
        drawn.add_column(column, overflow="fold", no_wrap=column == "file" and 2 * longest <= console.width)
    for row in rows:
        drawn.add_row(*(str(cell) for cell in row))
    console.print(drawn)


def bytes_text(count: int) -> str:
    """Return a size as a person says it."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def age_text(ms: int) -> str:
    """Return how long ago something was, as a person says it."""
    seconds = max(0, ms) // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


@contextmanager
def progress_bar(what: str, total: int, *, sizes: bool = True) -> Iterator[Callable[[int], None]]:
    """Show how far long work is, on standard error and only on a terminal; give a function that advances it.

    `sizes`: what is counted are bytes, and not things.
    """
    if not sys.stderr.isatty():
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    count = DownloadColumn() if sizes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda amount: progress.update(task, advance=amount)
