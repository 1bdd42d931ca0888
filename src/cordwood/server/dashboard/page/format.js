// Numbers, sizes, times and bytes as a person reads them.

const grouped = new Intl.NumberFormat("en");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const count = (value) => grouped.format(value);

export function rate(value) {
  if (value == null) return "–";
  if (value >= 10_000_000) return `${(value / 1e6).toFixed(0)} M`;
  if (value >= 1_000_000) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 10_000) return `${(value / 1e3).toFixed(0)} k`;
  return value > 0 && value < 10 ? value.toFixed(1) : grouped.format(Math.round(value));
}

export function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit += 1; }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

export function millis(value) {
  if (value == null) return "–";
  return value < 1 ? `${Math.round(value * 1000)} µs` : value < 100 ? `${value.toFixed(1)} ms` : `${Math.round(value)} ms`;
}

export function duration(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 120) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

const two = (value) => String(value).padStart(2, "0");

// In the browser's time zone; with `exact` to the millisecond.
export function time(ms, exact = true) {
  const at = new Date(ms);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const hour = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return exact ? `${day} ${hour}.${String(at.getMilliseconds()).padStart(3, "0")}` : `${day} ${hour}`;
}

export const clock = (ms) => time(ms, false).slice(11);

// A message's `name` (key or value) as bytes; null for none.
export function contents(row, name) {
  const coded = row[`${name}_base64`];
  if (coded !== undefined) return Uint8Array.from(atob(coded), (c) => c.charCodeAt(0));
  return row[name] == null ? null : new TextEncoder().encode(row[name]);
}

// One line for a table.
export function preview(row, name, most = 200) {
  const text = row[name];
  if (text != null) return text.length > most ? `${text.slice(0, most)}…` : text;
  const coded = contents(row, name);
  if (coded === null) return null;
  return [...coded.subarray(0, 24)].map((b) => b.toString(16).padStart(2, "0")).join(" ") + (coded.length > 24 ? " …" : "");
}

export function hex(data, most = 4096) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, most); at += 16) {
    const row = [...data.subarray(at, Math.min(at + 16, most))];
    const codes = row.map((b) => b.toString(16).padStart(2, "0"));
    const shown = row.map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : "."));
    lines.push(`${at.toString(16).padStart(6, "0")}  ${codes.join(" ").padEnd(47)}  ${shown.join("")}`);
  }
  if (data.length > most) lines.push(`… ${count(data.length - most)} more bytes`);
  return lines.join("\n");
}

// JSON with line breaks, or null if it is none. The text itself is kept: JSON.stringify would round long numbers.
export function indented(text) {
  try { JSON.parse(text); } catch { return null; }
  let out = "", depth = 0;
  const newline = () => `\n${"  ".repeat(depth)}`;
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (c === '"') {
      const from = at;
      for (at += 1; text[at] !== '"'; at += 1) if (text[at] === "\\") at += 1;
      out += text.slice(from, at + 1);
    } else if (c === "{" || c === "[") {
      const empty = /^\s*[}\]]/.exec(text.slice(at + 1, at + 100));
      if (empty) { out += c + empty[0].trim(); at += empty[0].length; } else { depth += 1; out += c + newline(); }
    } else if (c === "}" || c === "]") {
      depth -= 1; out += newline() + c;
    } else if (c === ",") out += c + newline();
    else if (c === ":") out += ": ";
    else if (!/\s/.test(c)) out += c;
  }
  return out;
}
