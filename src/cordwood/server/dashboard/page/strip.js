// Runs of offsets, or shares of bytes, as a bar.
import {html} from "./html.js";
import {bytes, count} from "./format.js";

const WIDTH = 1000;
const LEAST = 3; // so that a single message in a million can be seen

function bar(first, end, from, to, kind) {
  const low = Math.max(first, from), high = Math.min(end, to);
  if (high <= low) return null;
  const scale = WIDTH / (to - from);
  const width = Math.max(LEAST, (high - low) * scale);
  return html`<rect class=${kind} x=${Math.min((low - from) * scale, WIDTH - width)} width=${width} y="0" height="10" />`;
}

// What a group did of one partition, from `from` to its end.
export function Strip({partition, from}) {
  const {floor, end_offset: end, done, leased, lag, in_flight: out} = partition;
  const said = `Offsets ${count(from)} to ${count(end)}: done below ${count(floor)}, ${count(done.length)} done ranges above it, ${count(out)} in flight, ${count(lag)} not done`;
  if (end <= from) return html`<span class="quiet">empty</span>`;
  return html`<svg class="strip" viewBox=${`0 0 ${WIDTH} 10`} preserveAspectRatio="none" role="img" aria-label=${said}>
    <title>${said}</title>
    <rect class="open" x="0" y="0" width=${WIDTH} height="10" />
    ${bar(from, floor, from, end, "floor")}
    ${done.map(([first, stop]) => bar(first, stop, from, end, "done"))}
    ${leased.map(([first, stop]) => bar(first, stop, from, end, "out"))}
  </svg>`;
}

export const StripLegend = () => html`<ul class="legend">
  <li class="floor"><span class="swatch"></span>done, below the floor</li>
  <li class="done"><span class="swatch"></span>done, above it</li>
  <li class="out"><span class="swatch"></span>in flight</li>
  <li class="open"><span class="swatch"></span>not done</li>
</ul>`;

// Where bytes are: in the tier, in the journal, and in memory too.
export function Places({tiered, journal, memory}) {
  const total = tiered + journal;
  const said = `${bytes(tiered)} in the tier, ${bytes(journal)} in the journal, ${bytes(memory)} of that in memory too`;
  if (!total) return html`<span class="quiet">empty</span>`;
  return html`<svg class="strip" viewBox=${`0 0 ${WIDTH} 10`} preserveAspectRatio="none" role="img" aria-label=${said}>
    <title>${said}</title>
    ${bar(0, tiered, 0, total, "tier")}
    ${bar(tiered, total - memory, 0, total, "journal")}
    ${bar(total - memory, total, 0, total, "memory")}
  </svg>`;
}

export const PlacesLegend = () => html`<ul class="legend">
  <li class="tier"><span class="swatch"></span>tier</li>
  <li class="journal"><span class="swatch"></span>journal</li>
  <li class="memory"><span class="swatch"></span>journal and memory</li>
</ul>`;

export const placesOf = (partitions) => partitions.reduce(
  (sum, p) => ({
    tiered: sum.tiered + (p.tiered_bytes ?? 0),
    journal: sum.journal + (p.journal_bytes ?? 0),
    memory: sum.memory + (p.memory_bytes ?? 0),
  }),
  {tiered: 0, journal: 0, memory: 0},
);
