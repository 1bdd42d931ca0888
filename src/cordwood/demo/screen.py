"""What a person sees of the demo: a live picture on a terminal, plain lines anywhere else."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from cordwood.demo.proof import Proof
from cordwood.demo.pulse import Pulse, chart

NAMES = ("acknowledged", "delivered")
WIDTH = 56  # steps of the pulse that are shown
FRAMES_S = 8


class Screen:
    """Tells the story; `live` redraws the picture while something happens."""

    def __init__(self, pulse: Pulse):
        self._pulse = pulse
        self._begun = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._plain = not _has_blocks()

    def say(self, line: str) -> None:
        """Tell what has happened, with the time since the beginning."""
        click.echo(f"{time.monotonic() - self._begun:6.1f} s  {line}")

    @contextmanager
    def live(self, doing: str) -> Iterator[None]:
        """Show that something goes on, and the pulse with it; what was shown is gone afterwards."""
        if not self._terminal:
            self.say(f"{doing} …")
            yield
            return
        from rich.console import Console
        from rich.live import Live

        with Live(
            get_renderable=lambda: self._picture(doing),
            console=Console(highlight=False),
            refresh_per_second=FRAMES_S,
            transient=True,
        ):
            yield

    def _picture(self, doing: str) -> Any:
        from rich.console import Group
        from rich.spinner import Spinner
        from rich.text import Text

        lines = chart(self._pulse, NAMES, WIDTH, plain=self._plain)
        return Group(Text(), *(Text(f"          {line}") for line in lines), Text(), Spinner("line", f" {doing} …"))

    def chart(self) -> None:
        """Show the rates through the whole story."""
        click.echo()
        for line in chart(self._pulse, NAMES, 2 * WIDTH, plain=self._plain):
            click.echo(f"  {line}")

    def proof(self, proof: Proof) -> None:
        """Show what was counted."""
        click.echo(f"\n  {'':<20}{'messages':>10}{'lost':>8}{'twice':>8}")
        for line in proof.lines:
            click.echo(
                f"  {line.what:<20}{line.count:>10,}{_cell(line.lost)}{_cell(line.twice)}   {line.note}".rstrip()
            )
        for wrong in proof.wrong:
            click.echo(f"  WRONG: {wrong}")
        click.echo(f"\n  lost {proof.lost}, duplicated {proof.twice}: {'all is there' if proof.holds else 'FAILED'}")

    def commands(self, what: str, commands: Sequence[str]) -> None:
        """Show what to try next."""
        click.echo(f"\n  {what}")
        for command in commands:
            click.echo(f"    {command}")


def _cell(count: int | None) -> str:
    return f"{'':>8}" if count is None else f"{count:>8,}"


def _has_blocks() -> bool:
    try:
        "▁█╰".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
