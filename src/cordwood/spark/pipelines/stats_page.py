"""What `stats` found, as one page of HTML that needs nothing else: tables, and a chart beside each."""

from collections.abc import Iterable, Sequence
from html import escape

from cordwood.spark.pipelines import chart
from cordwood.spark.pipelines.lags import Delay, GroupStats
from cordwood.spark.pipelines.stats import Stats

SHOWN = 60  # bars of partitions in a chart, and characters of a key; the tables have all
_STYLE = """
:root { color-scheme: light dark; --bar: #2f6fb7; --line: #8884; --dim: #667; }
@media (prefers-color-scheme: dark) { :root { --bar: #7db7ff; --dim: #99a; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1.5rem; }
h1 { margin-bottom: 0; overflow-wrap: anywhere; }
h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; }
p, summary { color: var(--dim); }
table { border-collapse: collapse; margin: .6rem 0 1rem; }
th, td { border-top: 1px solid var(--line); padding: .25rem 1.2rem .25rem 0; text-align: right; }
th { color: var(--dim); font-weight: 600; }
th:first-child, td:first-child { overflow-wrap: anywhere; text-align: left; }
td { font-variant-numeric: tabular-nums; }
svg { height: auto; max-width: 100%; }
svg text { fill: var(--dim); font-size: 12px; }
svg .bar { fill: var(--bar); }
svg .grid { stroke: var(--line); }
dl { display: flex; flex-wrap: wrap; gap: .5rem 2.5rem; }
dt { color: var(--dim); }
dd { font-size: 1.4rem; margin: 0; }
"""


def page(stats: Stats) -> str:
    """Return the page."""
    step = duration(stats.bucket_ms)
    over_time = [(one.time_ms, one.messages) for one in stats.over_time]
    size_over_time = [(one.time_ms, one.bytes) for one in stats.over_time]
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(stats.topic)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(stats.topic)}</h1><p>{_when(stats)}</p>{_figures(stats)}",
        f"<h2>Over time</h2><p>Each bar is {step}; times are UTC.</p>",
        chart.over_time("Messages over time", over_time, stats.bucket_ms, count),
        chart.over_time("Bytes over time", size_over_time, stats.bucket_ms, size, binary=True),
        "<details><summary>As a table</summary>",
        _table(
            "over-time",
            ("time", "messages", "bytes"),
            ((chart.clock(one.time_ms), one.messages, one.bytes) for one in stats.over_time),
        ),
        "</details><h2>Partitions</h2>",
        chart.across(
            "Messages by partition",
            [(f"partition {one.partition}", one.messages) for one in stats.partitions[:SHOWN]],
            count,
        ),
        _table(
            "partitions",
            ("partition", "first offset", "end", "messages", "bytes"),
            ((one.partition, one.start, one.end, one.messages, one.bytes) for one in stats.partitions),
        ),
        f"<h2>Keys</h2><p>{stats.keys.distinct:,} keys; {stats.keys.without:,} messages have none.</p>",
        chart.across("Messages by key", [(shown(one.key), one.messages) for one in stats.keys.top], count),
        _table(
            "keys",
            ("key", "messages", "bytes"),
            ((shown(one.key), one.messages, one.bytes) for one in stats.keys.top),
        ),
        "<h2>Sizes</h2>",
        _sizes(stats),
        "<h2>Groups</h2>",
        "".join(map(_group, stats.groups)) or "<p>There are none.</p>",
        "</body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def shown(key: bytes) -> str:
    """Return a key as it may be shown to anybody: text where it is that, else its bytes in hexadecimal; not all."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    text = text if text.isprintable() and text else f"0x{key.hex()}"
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def count(value: float) -> str:
    """Return a number of things as people write it."""
    for unit, least, one in (("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e4, 1e3)):
        if value >= least:
            return f"{value / one:.3g} {unit}"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def size(value: float) -> str:
    """Return bytes as people write them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def duration(time_ms: float) -> str:
    """Return how long something takes as people write it."""
    for unit, one in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if time_ms >= one:
            return f"{time_ms / one:.3g} {unit}"
    return f"{time_ms:.3g} ms"


def _when(stats: Stats) -> str:
    made = f"Made {chart.clock(stats.made_ms // 1000 * 1000)} UTC."
    if stats.first_ms is None or stats.last_ms is None:
        return f"There is no message. {made}"
    return f"Messages from {chart.clock(stats.first_ms)} to {chart.clock(stats.last_ms)}. {made}"


def _figures(stats: Stats) -> str:
    seconds = 0.0 if stats.first_ms is None or stats.last_ms is None else (stats.last_ms - stats.first_ms) / 1000
    figures = [("messages", f"{stats.messages:,}"), ("keys and values", size(stats.bytes))]
    if seconds:
        figures += [
            ("messages a second", count(stats.messages / seconds)),
            ("bytes a second", size(stats.bytes / seconds)),
        ]
    return f"<dl>{''.join(f'<div><dt>{name}</dt><dd>{value}</dd></div>' for name, value in figures)}</dl>"


def _sizes(stats: Stats) -> str:
    found = stats.sizes
    if found is None:
        return "<p>There is no message.</p>"
    rows = [("p50", found.p50), ("p90", found.p90), ("p99", found.p99), ("max", found.max)]
    return (
        "<p>Bytes of a message's key and value.</p>"
        + chart.across("Size percentiles", rows, size)
        + _table("sizes", ("share", "bytes"), rows)
    )


def _group(group: GroupStats) -> str:
    oldest = "" if group.oldest_ms is None else f", the oldest of them from {duration(group.oldest_ms)} ago"
    lags = [one for one in group.partitions if one.lag][:SHOWN]
    return (
        f"<h3>{escape(group.group)}</h3><p>{group.lag:,} messages not done{oldest}; {group.in_flight:,} on lease.</p>"
        + (chart.across("Lag", [(f"partition {one.partition}", one.lag) for one in lags], count) if lags else "")
        + _table(
            "lag",
            ("partition", "floor", "end", "lag", "oldest"),
            (
                (one.partition, one.floor, one.end, one.lag, "" if one.oldest_ms is None else duration(one.oldest_ms))
                for one in group.partitions
            ),
        )
        + _delay(group.delay)
    )


def _delay(delay: Delay | None) -> str:
    if delay is None:
        return "<p>The broker has counted no ack of this group since it was started.</p>"
    names = [*(f"≤ {duration(bound)}" for bound in delay.bounds_ms), "longer"]
    bars = list(zip(names, delay.counts, strict=True))
    rows = [(name, at_most(bound)) for name, bound in zip(("p50", "p90", "p99"), _shares(delay), strict=True)]
    return (
        f"<p>From a message's time to its ack: {duration(delay.mean_ms)} on average, over {delay.messages:,} messages"
        " since the broker was started.</p>"
        + chart.by_bound("Messages by the time to their ack", bars, count)
        + _table("delay", ("share", "time to ack"), rows)
    )


def _shares(delay: Delay) -> tuple[int | None, ...]:
    return delay.p50_ms, delay.p90_ms, delay.p99_ms


def at_most(bound_ms: int | None) -> str:
    """Return a bound of a histogram as people write it."""
    return "longer than all bounds" if bound_ms is None else f"at most {duration(bound_ms)}"


def _table(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers are written with commas."""
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    return f'<table class="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
