"""Charts as SVG that stands in a page: no script, nothing fetched; colours are the page's. Pure.

over_time    a bar for each step between two moments, an axis on both sides
across       a bar for each thing, beside its name
by_bound     a bar for each class of a histogram
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 760, 220
LEFT, RIGHT, TOP, BOTTOM = 70, 12, 12, 28
LINES = 4  # of the grid
LABELS = 5  # below the bars
ROW = 22
LONGEST = 2_000  # bars that are drawn; more would be thinner than a point
Say = Callable[[float], str]


class Bar(NamedTuple):
    """A bar from `at` to `end` of the axis below, and what it says when pointed at."""

    at: float
    end: float
    value: float
    says: str


def over_time(title: str, bars: Sequence[tuple[int, int]], step_ms: int, say: Say, *, binary: bool = False) -> str:
    """Return a chart of (time in milliseconds, value); with `binary` the lines are at parts of a power of two."""
    if not bars:
        return ""
    first, behind = bars[0][0], bars[-1][0] + step_ms
    span = behind - first
    drawn = [
        Bar((at - first) / span, (at + step_ms - first) / span, value, f"{clock(at)}: {say(value)}")
        for at, value in _thinned(bars)
    ]
    labels = [(number / (LABELS - 1), clock(first + span * number // (LABELS - 1), span)) for number in range(LABELS)]
    return _columns(title, drawn, labels, say, binary=binary)


def by_bound(title: str, bars: Sequence[tuple[str, int]], say: Say) -> str:
    """Return a chart of (what the class is, value), side by side."""
    drawn = [
        Bar((number + 0.08) / len(bars), (number + 0.92) / len(bars), value, f"{name}: {say(value)}")
        for number, (name, value) in enumerate(bars)
    ]
    labels = [((number + 0.5) / len(bars), name) for number, (name, _) in enumerate(bars)]
    return _columns(title, drawn, labels[:: -(-len(labels) // 12)], say, binary=False)


def across(title: str, bars: Sequence[tuple[str, float]], say: Say) -> str:
    """Return a chart of (name, value), one below the other."""
    most = max((value for _, value in bars), default=0) or 1
    name_width, space = 200, WIDTH - 200 - 110
    parts = []
    for number, (name, value) in enumerate(bars):
        y, wide = number * ROW, space * value / most
        parts.append(
            f'<g><title>{escape(name)}: {escape(say(value))}</title><text x="{name_width - 8}" y="{y + 15}"'
            f' text-anchor="end">{escape(_short(name, 26))}</text><rect class="bar" x="{name_width}" y="{y + 3}"'
            f' width="{wide:.1f}" height="{ROW - 7}"/><text x="{name_width + wide + 6:.1f}" y="{y + 15}">'
            f"{escape(say(value))}</text></g>"
        )
    return _svg(title, len(bars) * ROW + 4, parts)


def clock(time_ms: int, span_ms: int = 0) -> str:
    """Return a moment as people write it, in UTC; the day alone where a chart is of many days."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # a producer may say any time
        return f"{time_ms} ms"
    if span_ms > 20 * 86_400_000:
        return f"{moment:%Y-%m-%d}"
    if span_ms > 86_400_000:
        return f"{moment:%m-%d %H:%M}"
    if span_ms > 0:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{time_ms % 1000:03}" if time_ms % 1000 else "")


def _columns(title: str, bars: Sequence[Bar], labels: Iterable[tuple[float, str]], say: Say, *, binary: bool) -> str:
    most = _round(max((bar.value for bar in bars), default=0), binary=binary)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = []
    for number in range(LINES + 1):
        y = TOP + high - high * number / LINES
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(say(most * number / LINES))}</text>'
        )
    for bar in bars:
        x, tall = LEFT + wide * bar.at, high * bar.value / most
        thick = max(0.5, wide * (bar.end - bar.at) * 0.96)
        parts.append(
            f'<rect class="bar" x="{x:.2f}" y="{TOP + high - tall:.2f}" width="{thick:.2f}" height="{tall:.2f}">'
            f"<title>{escape(bar.says)}</title></rect>"
        )
    for at, text in labels:
        anchor = "start" if at == 0 else "end" if at == 1 else "middle"
        parts.append(
            f'<text x="{LEFT + wide * at:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{escape(text)}</text>'
        )
    return _svg(title, HEIGHT, parts)


def _svg(title: str, height: int, parts: Iterable[str]) -> str:
    return (
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def _round(most: float, *, binary: bool) -> float:
    """Return a number that is at least this one and good to read off when divided by the lines of the grid."""
    if binary:
        return float(1 << max(2, int(most - 1).bit_length()))
    size = 1.0
    while size * 10 < most:
        size *= 10
    return next((size * step for step in (1, 2, 4, 6, 8, 10) if size * step >= most), most) or 1


def _thinned(bars: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return as many bars as can be seen, the highest among neighbours."""
    share = -(-len(bars) // LONGEST)
    return [max(bars[at : at + share], key=lambda bar: bar[1]) for at in range(0, len(bars), share)]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
