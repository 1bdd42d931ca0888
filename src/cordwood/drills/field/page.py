"""The report of some drills as one HTML file that needs nothing else. Pure."""

from collections.abc import Sequence
from html import escape

from cordwood.drills.field.picture import picture
from cordwood.drills.field.roster import ROSTER
from cordwood.drills.field.run import Outcome

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .25rem .6rem; vertical-align: top }
tr + tr td { border-top: 1px solid #ddd }
pre { white-space: pre-wrap; font-size: 12px; background: #f5f5f2; padding: .6rem }
.passed { color: #2f7d4f } .failed { color: #b3382c } .skipped { color: #7a7a72 } .verdict { font-weight: 600 }
svg { width: 100%; font: 11px system-ui, sans-serif } svg .plot { fill: #fafaf7; stroke: #ddd }
svg line.fault { stroke: #b3382c; stroke-dasharray: 3 3 } svg text.fault { fill: #b3382c } svg text { fill: #444 }
td.time { white-space: nowrap; color: #777 } td.seen { overflow-wrap: anywhere }
"""


def page(outcomes: Sequence[Outcome], version: str, when: str) -> str:
    """Return the report."""
    rows = "".join(
        f'<tr><td><a href="#{one.name}">{one.name}</a></td><td class="verdict {one.verdict}">{one.verdict}</td>'
        f'<td>{one.seconds:.1f} s</td><td>{one.seed}</td><td class="seen">{escape(one.reason)}</td></tr>'
        for one in outcomes
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Cordwood drills</title><style>{STYLE}</style></head><body>"
        f"<h1>Drills</h1><p>Cordwood {escape(version)}, {escape(when)}. {_summary(outcomes)}</p>"
        "<table><tr><th>drill</th><th>verdict</th><th>took</th><th>seed</th><th>reason, or what was seen</th></tr>"
        f"{rows}</table>{''.join(map(_section, outcomes))}</body></html>\n"
    )


def _summary(outcomes: Sequence[Outcome]) -> str:
    verdicts = [one.verdict for one in outcomes]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ("passed", "failed", "skipped")) + "."


def _section(one: Outcome) -> str:
    drawn = picture(one.timeline, one.seconds) if one.verdict != "skipped" else ""
    steps = "".join(
        f'<tr><td class="time">{step.at_s:.2f} s</td>'
        f"<td>{'' if step.holds is None else '✓ ' if step.holds else '✗ '}{_text(step.what)}</td>"
        f'<td class="seen">{escape(step.seen)}</td></tr>'
        for step in one.steps
    )
    table = f"<table><tr><th>at</th><th>what was done, or expected</th><th>seen</th></tr>{steps}</table>"
    return (
        f'<section id="{one.name}"><h2>{one.name} <span class="{one.verdict}">{one.verdict}</span></h2>'
        f"<pre>{escape(ROSTER[one.name].text)}</pre><p>{escape(one.reason)}</p>{drawn}"
        f"{table if one.steps else ''}<p>Again: <code>{escape(one.again)}</code></p></section>"
    )


def _text(what: str) -> str:
    return f"<pre>{escape(what)}</pre>" if "\n" in what else escape(what)
