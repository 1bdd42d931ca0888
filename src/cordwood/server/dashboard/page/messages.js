// Messages in a table; one of them opened: its key, headers and value, as text, JSON or hex.
import {Component, html} from "./html.js";
import {bytes, contents, count, hex, indented, preview, time} from "./format.js";

const MOST = 100_000; // characters of a value that are drawn

const cut = (text) => (text.length > MOST ? `${text.slice(0, MOST)}\n… ${count(text.length - MOST)} more characters` : text);

function seen(row, view) {
  const data = contents(row, "value");
  if (data === null) return "null: a tombstone";
  if (view === "hex") return hex(data);
  if (row.value == null) return `${bytes(data.length)} that are not text; look at them as hex`;
  if (view === "json") return cut(indented(row.value) ?? `not JSON:\n${row.value}`);
  return cut(row.value);
}

export function header(value) {
  if (value === null) return "null";
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map(header).join(", ");
  return hex(contents({value_base64: value.base64}, "value"));
}

const keyOf = (row) => `${row.partition}/${row.offset}`;

export class Messages extends Component {
  state = {open: null, view: "text"};

  toggle = (key) => this.setState(({open}) => ({open: open === key ? null : key}));

  render({rows, caption}, {open, view}) {
    return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table class="messages">
      <caption class="unseen">${caption}</caption>
      <thead><tr><th scope="col" class="slim"><span class="unseen">Open</span></th><th scope="col" class="number slim">Partition</th><th scope="col" class="number slim">Offset</th><th scope="col" class="wide">Time</th><th scope="col">Key</th><th scope="col">Value</th></tr></thead>
      <tbody>${rows.map((row) => {
        const key = keyOf(row), shown = open === key;
        return html`<tr key=${key} class=${shown ? "opened" : ""}>
          <td><button class="bare" aria-expanded=${shown} aria-label=${`Message ${row.offset} of partition ${row.partition}`} onClick=${() => this.toggle(key)}>${shown ? "▾" : "▸"}</button></td>
          <td class="number">${row.partition}</td><td class="number">${count(row.offset)}</td><td class="wide time">${time(row.timestamp)}</td>
          <td class="mono clip">${preview(row, "key", 60) ?? html`<span class="quiet">none</span>`}</td>
          <td class="mono clip long">${preview(row, "value") ?? html`<span class="quiet">null</span>`}</td>
        </tr>
        ${shown && html`<tr key=${`${key}+`} class="detail"><td colspan="6">${this.detail(row, view)}</td></tr>`}`;
      })}</tbody>
    </table></div>`;
  }

  detail(row, view) {
    const headers = Object.entries(row.headers ?? {});
    const data = contents(row, "value");
    return html`<div>
      <dl class="facts">
        <div><dt>Time</dt><dd>${time(row.timestamp)}</dd></div>
        <div><dt>Key</dt><dd class="mono">${preview(row, "key", 1000) ?? "none"}</dd></div>
        <div><dt>Value</dt><dd>${data === null ? "null" : bytes(data.length)}</dd></div>
      </dl>
      ${headers.length > 0 && html`<table class="headers"><caption>Headers</caption><tbody>${headers.map(([name, value]) => html`<tr><th scope="row" class="mono">${name}</th><td class="mono">${header(value)}</td></tr>`)}</tbody></table>`}
      <div class="choice" role="group" aria-label="Show the value as">
        ${[["text", "Text"], ["json", "JSON"], ["hex", "Hex"]].map(([kind, name]) => html`<button aria-pressed=${view === kind} onClick=${() => this.setState({view: kind})}>${name}</button>`)}
      </div>
      <pre class="value" tabindex="0" role="region" aria-label="Value">${seen(row, view)}</pre>
    </div>`;
  }
}
