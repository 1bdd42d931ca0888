// The dead letters of a topic that were not sent back yet: why they were given up, and a way to send them back.
import {html} from "./html.js";
import {get} from "./broker.js";
import {Redrive, topicPath} from "./actions.js";
import {count, preview, time} from "./format.js";
import {header} from "./messages.js";
import {Trouble} from "./trouble.js";
import {Watch} from "./watch.js";

const MOST = 200;

const of = (row, name) => header(row.headers?.[`cordwood-${name}`] ?? "");
const within = (ranges, offset) => ranges.some(([first, end]) => first <= offset && offset < end);
const keyOf = (row) => `${row.partition}/${row.offset}`;

export class Dead extends Watch {
  every = 4;
  state = {chosen: new Set()};

  async load(signal) {
    const {topic} = this.props;
    const dead = `dlq.${topic}`;
    const {partitions} = await get(topicPath(dead), {}, signal);
    const each = Math.max(1, Math.ceil(MOST / partitions.length));
    const used = partitions.filter((p) => p.end_offset > p.start_offset).slice(0, 50);
    const pages = await Promise.all(used.map((p) => get("/v1/read", {
      topic: dead, partition: p.partition, offset: Math.max(p.start_offset, p.end_offset - each), limit: each,
    }, signal)));
    const all = partitions.reduce((sum, p) => sum + p.end_offset - p.start_offset, 0);
    return {rows: pages.flatMap((page) => page.messages).sort((a, b) => b.timestamp - a.timestamp), all};
  }

  open() {
    const sent = (row) => this.props.groups.find((group) => group.group === of(row, "group"))?.partitions[row.partition]?.redriven ?? [];
    return (this.state.rows ?? []).filter((row) => of(row, "topic") === this.props.topic && !within(sent(row), row.offset));
  }

  choose = (key, on) => this.setState(({chosen}) => {
    const next = new Set(chosen);
    if (on) next.add(key); else next.delete(key);
    return {chosen: next};
  });

  redrive = (rows) => {
    const orders = new Map();
    for (const row of rows) {
      const group = of(row, "group"), key = `${row.partition}/${group}`;
      if (!orders.has(key)) orders.set(key, {group, partition: row.partition, ranges: []});
      orders.get(key).ranges.push([row.offset, row.offset + 1]);
    }
    this.props.ask(Redrive, {topic: this.props.topic, chosen: [...orders.values()], done: () => { this.setState({chosen: new Set()}); this.refresh(); }});
  };

  render({topic, groups}, {chosen, rows, all, error}) {
    const open = this.open();
    const picked = open.filter((row) => chosen.has(keyOf(row)));
    const owners = groups.filter((group) => open.some((row) => of(row, "group") === group.group));
    return html`<section aria-labelledby="dead">
      <div class="row"><h2 id="dead">Dead letters</h2>
        <span class="quiet grow">${rows && `${count(open.length)} not sent back${all > rows.length ? `, of the newest ${count(rows.length)}` : ""} · `}<a href=${`#/topic/${encodeURIComponent(`dlq.${topic}`)}`}>dlq.${topic}</a></span>
        <button onClick=${() => this.redrive(picked)} disabled=${!picked.length}>Redrive chosen (${picked.length})</button>
        ${owners.map((group) => html`<button key=${group.group} onClick=${() => this.props.ask(Redrive, {topic, group: group.group, done: this.refresh})}>Redrive all of ${group.group}</button>`)}
      </div>
      <${Trouble} error=${error} />
      ${rows && !open.length && html`<p class="empty">No dead letter waits: all were sent back.</p>`}
      ${open.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Table of dead letters"><table>
        <caption class="unseen">Dead letters of ${topic}</caption>
        <thead><tr><th scope="col"><input type="checkbox" aria-label="Choose all dead letters" checked=${picked.length === open.length} onChange=${(event) => this.setState({chosen: new Set(event.target.checked ? open.map(keyOf) : [])})} /></th>
          <th scope="col">Error</th><th scope="col">Group</th><th scope="col" class="number">Attempts</th><th scope="col" class="number wide">From</th><th scope="col" class="wide">Time</th><th scope="col" class="wide">Value</th></tr></thead>
        <tbody>${open.map((row) => html`<tr key=${keyOf(row)}>
          <td><input type="checkbox" aria-label=${`Choose dead letter ${row.offset} of partition ${row.partition}`} checked=${chosen.has(keyOf(row))} onChange=${(event) => this.choose(keyOf(row), event.target.checked)} /></td>
          <td class="error">${of(row, "error") || html`<span class="quiet">none given</span>`}</td><td>${of(row, "group")}</td><td class="number">${of(row, "attempts")}</td>
          <td class="number wide">${of(row, "partition")}/${of(row, "offset")}</td><td class="wide time">${time(row.timestamp)}</td><td class="mono clip wide long">${preview(row, "value") ?? "null"}</td>
        </tr>`)}</tbody>
      </table></div>`}
    </section>`;
  }
}
