// Lines over the last minutes. Drawn as SVG that stretches; all text is HTML beside it.
import {Component, html} from "./html.js";
import {clock, duration} from "./format.js";

export const SPAN_MS = 5 * 60_000;
const LEAST_MS = 60_000;
const GAP_MS = 3500; // longer without a snapshot: the line is broken

function path(points, read, from, span, top) {
  let out = "", last = -Infinity;
  for (const point of points) {
    const value = read(point);
    if (value == null) { last = -Infinity; continue; }
    const x = ((point.at - from) / span) * 1000;
    const y = 100 - (value / top) * 96;
    out += `${point.at - last > GAP_MS ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
    last = point.at;
  }
  return out;
}

// 1, 2 or 5 and zeros: the least that is not below `value`.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value * 0.999);
}

// `lines`: [{name, read, kind}], `show`: a value as text, `least`: the scale's smallest top.
export class Chart extends Component {
  state = {at: null};

  point = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    this.setState({at: (event.clientX - box.left) / box.width});
  };

  leave = () => this.setState({at: null});

  render({title, points, lines, show, least, now}, {at}) {
    const span = Math.min(SPAN_MS, Math.max(LEAST_MS, now - (points[0]?.at ?? now)));
    const from = now - span;
    const shown = points.filter((point) => point.at >= from);
    const most = Math.max(least, ...shown.flatMap((point) => lines.map((line) => line.read(point) ?? 0)));
    const top = ceiling(most);
    const wanted = from + (at ?? 1) * span;
    const near = shown.reduce((best, point) => (!best || Math.abs(point.at - wanted) < Math.abs(best.at - wanted) ? point : best), null);
    const x = near && at !== null ? ((near.at - from) / span) * 1000 : null;
    return html`<figure class="chart card">
      <figcaption>
        <h2>${title}</h2>
        <span class="quiet">${x === null ? "" : clock(near.at)}</span>
      </figcaption>
      <ul class="legend">
        ${lines.map((line) => html`<li key=${line.name} class=${line.kind}><span class="swatch"></span>${line.name} <b>${near ? show(line.read(near)) : "–"}</b></li>`)}
      </ul>
      <div class="plot" onPointerMove=${this.point} onPointerLeave=${this.leave}>
        <span class="top quiet">${show(top)}</span>
        <svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" aria-label=${`${title}, the last ${duration(span)}`}>
          <path class="grid" d="M0 4H1000M0 52H1000M0 99.5H1000" />
          ${lines.map((line) => html`<path key=${line.name} class=${`line ${line.kind}`} d=${path(shown, line.read, from, span, top)} />`)}
          ${x !== null && html`<path class="cross" d=${`M${x} 0V100`} />`}
        </svg>
        <span class="quiet left">${duration(span)} ago</span><span class="quiet right">now</span>
      </div>
    </figure>`;
  }
}
