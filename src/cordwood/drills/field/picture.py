"""A timeline drawn as SVG: bars for what was counted in each moment, lines for faults. Pure."""

from html import escape

from cordwood.drills.field.stage import Timeline

WIDTH, HEIGHT = 960, 200
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 34, 26
BUCKETS = 120
LABELS = 14  # faults that are named; of more, each kind once
COLOURS = {
    "acknowledged": "#2f7d4f",
    "delivered": "#3b6fb6",
    "read": "#b58a2c",
    "refused": "#b3382c",
    "acked": "#7a5aa6",
}


def picture(timeline: Timeline, seconds: float) -> str:
    """Return the picture of a drill that took so long."""
    seconds = max(seconds, 0.001)
    shown = [series for series in COLOURS if timeline.total(series)]
    heights = {series: [0] * BUCKETS for series in shown}
    for at, series, number in timeline.counted:
        if series in heights:
            heights[series][min(BUCKETS - 1, max(0, int(at / seconds * BUCKETS)))] += number
    top = max((max(counts) for counts in heights.values()), default=0) or 1
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="operations over time">',
        f'<rect x="{LEFT}" y="{TOP}" width="{_x(1) - LEFT}" height="{_y(0) - TOP}" class="plot"/>',
    ]
    parts += [_line(series, heights[series], top, filled=number == 0) for number, series in enumerate(shown)]
    parts += _marks(timeline, seconds)
    parts += _axes(seconds, top)
    for number, series in enumerate(shown):
        x = LEFT + 130 * number
        parts.append(f'<rect x="{x}" y="4" width="10" height="10" fill="{COLOURS[series]}"/>')
        parts.append(f'<text x="{x + 14}" y="13">{series} {timeline.total(series)}</text>')
    return "".join([*parts, "</svg>"])


def _line(series: str, counts: list[int], top: int, *, filled: bool) -> str:
    """Return steps over the buckets; the first series is filled, so that the others show over it."""
    points = [f"{_x(0):.1f},{_y(0):.1f}"]
    for bucket, count in enumerate(counts):
        y = _y(count / top)
        points += [f"{_x(bucket / BUCKETS):.1f},{y:.1f}", f"{_x((bucket + 1) / BUCKETS):.1f},{y:.1f}"]
    points.append(f"{_x(1):.1f},{_y(0):.1f}")
    colour = COLOURS[series]
    fill = f'fill="{colour}" fill-opacity="0.35"' if filled else 'fill="none"'
    return f'<polyline points="{" ".join(points)}" {fill} stroke="{colour}" stroke-width="1.2"/>'


def _marks(timeline: Timeline, seconds: float) -> list[str]:
    parts = []
    named: set[str] = set()
    crowded = len(timeline.marks) > LABELS
    for at, what in timeline.marks:
        x = _x(min(1.0, at / seconds))
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{_y(0)}" class="fault"/>')
        if not crowded or what not in named:
            named.add(what)
            parts.append(f'<text x="{x + 2:.1f}" y="{TOP - 4}" class="fault">{escape(what)}</text>')
    return parts


def _axes(seconds: float, top: int) -> list[str]:
    ticks = [
        f'<text x="{_x(part / 4):.1f}" y="{HEIGHT - 8}" text-anchor="{"end" if part == 4 else "middle"}">'
        f"{seconds * part / 4:.1f} s</text>"
        for part in range(5)
    ]
    return [*ticks, f'<text x="{LEFT - 6}" y="{TOP + 10}" text-anchor="end">{top}</text>']


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
