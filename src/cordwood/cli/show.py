"""What a person sees: tables, sizes, progress. Plain when nobody watches."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table on standard output."""
    from rich.console import Console
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold", no_wrap=column == "file")
    for row in rows:
        drawn.add_row(*(str(cell) for cell in row))
    wide = None if sys.stdout.isatty() else 200  # a pipe has no width; do not fold what a program reads
    Console(width=wide).print(drawn)


def bytes_text(count: int) -> str:
    """Return a size as a person says it."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far long work is, on standard error and only on a terminal; give a function that advances it."""
    if not sys.stderr.isatty():
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda amount: progress.update(task, advance=amount)
