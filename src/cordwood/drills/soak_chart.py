"""A soak as an SVG: one small line for each measure, over the same time."""

from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, LEFT, GAP = 720, 60, 150, 24


def chart(seconds: Sequence[float], samples: Mapping[str, Sequence[float]]) -> str:
    """Return the drawing. Each line has its own scale, from 0 to its highest; the quarters are marked."""
    whole = max(seconds, default=1.0) or 1.0
    rows = []
    for number, (name, values) in enumerate(samples.items()):
        top = number * (HEIGHT + GAP) + GAP
        highest = max(values, default=0.0) or 1.0
        points = " ".join(
            f"{LEFT + WIDTH * when / whole:.1f},{top + HEIGHT * (1 - value / highest):.1f}"
            for when, value in zip(seconds, values, strict=True)
        )
        rows.append(f'<text x="8" y="{top + 14}">{name}</text><text x="8" y="{top + 30}">max {highest:,.1f}</text>')
        rows.append(f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#ccc"/>')
        for quarter in (1, 2, 3):
            x = LEFT + WIDTH * quarter / 4
            rows.append(f'<line x1="{x}" y1="{top}" x2="{x}" y2="{top + HEIGHT}" stroke="#eee"/>')
        rows.append(f'<polyline points="{points}" fill="none" stroke="#246" stroke-width="1.5"/>')
    height = len(samples) * (HEIGHT + GAP) + 2 * GAP
    caption = f'<text x="{LEFT}" y="{height - 8}">{whole / 60:.1f} minutes; lines at the quarters</text>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}"'
    return f'{head} font-family="sans-serif" font-size="12">{"".join(rows)}{caption}</svg>\n'
