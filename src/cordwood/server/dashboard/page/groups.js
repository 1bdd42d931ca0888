// The groups of a topic: how far each is, in every partition.
import {Component, html} from "./html.js";
import {DeleteGroup, GroupSettings, Seek} from "./actions.js";
import {count, time} from "./format.js";
import {Strip, StripLegend} from "./strip.js";

const MOST_PARTITIONS = 64; // drawn

export class Groups extends Component {
  state = {near: false};

  render({topic, groups, starts, hidden, ask, refresh}, {near}) {
    return html`<section aria-labelledby="groups">
      <div class="row"><h2 id="groups">Groups</h2><${StripLegend} /><span class="grow"></span>
        <label class="check"><input type="checkbox" checked=${near} onChange=${(event) => this.setState({near: event.target.checked})} /> only above the floor</label></div>
      ${!groups.length && html`<p class="empty">No group reads this topic yet. The first consumer makes one: <code>cordwood consume ${topic} --group NAME</code></p>`}
      ${groups.map((group) => html`<article key=${group.group} class="card group" aria-label=${`Group ${group.group}`}>
        <div class="row">
          <h3>${group.group}</h3>
          <dl class="facts grow">
            <div><dt>Lag</dt><dd>${count(group.lag)}</dd></div><div><dt>In flight</dt><dd>${count(group.in_flight)}</dd></div>
            <div><dt>Consumers</dt><dd>${count(group.consumers)}</dd></div><div><dt>Mode</dt><dd>${group.settings.mode}</dd></div>
            <div><dt>Moved</dt><dd>${time(group.moved_at, false)}</dd></div>
          </dl>
          <button onClick=${() => ask(Seek, {topic, group: group.group, partitions: group.partitions.length, done: refresh})}>Seek<span class="unseen"> group ${group.group}</span>…</button>
          <button onClick=${() => ask(GroupSettings, {topic, group: group.group, now: group.settings, done: refresh})}>Settings<span class="unseen"> of group ${group.group}</span>…</button>
          <button onClick=${() => ask(DeleteGroup, {topic, group: group.group, lag: group.lag, done: refresh})}>Delete<span class="unseen"> group ${group.group}</span>…</button>
        </div>
        <div class="scroll" tabindex="0" role="region" aria-label=${`Partitions of group ${group.group}`}><table>
          <caption class="unseen">Group ${group.group} by partition</caption>
          <thead><tr><th scope="col" class="number slim">Partition</th><th scope="col" class="broad">Offsets</th><th scope="col" class="number">Floor</th><th scope="col" class="number">Lag</th><th scope="col" class="number">In flight</th><th scope="col" class="number wide">Delayed</th><th scope="col" class="number wide">Blocked</th><th scope="col" class="number wide">Retried</th></tr></thead>
          <tbody>${group.partitions.slice(0, MOST_PARTITIONS).map((p) => html`<tr key=${p.partition}>
            <td class="number">${p.partition}</td><td class="broad"><${Strip} partition=${p} from=${near ? p.floor : starts[p.partition] ?? 0} /></td>
            <td class="number">${count(p.floor)}</td><td class="number">${count(p.lag)}</td><td class="number">${count(p.in_flight)}</td>
            <td class="number wide">${count(p.delayed)}</td><td class="number wide">${count(p.blocked)}</td><td class="number wide">${count(p.retried)}</td>
          </tr>`)}</tbody>
        </table></div>
        ${group.partitions.length > MOST_PARTITIONS && html`<p class="quiet">${count(group.partitions.length - MOST_PARTITIONS)} more partitions: <code>cordwood group show ${topic} ${group.group}</code></p>`}
      </article>`)}
      ${hidden > 0 && html`<p class="quiet">${count(hidden)} more groups: <code>cordwood group list</code></p>`}
    </section>`;
  }
}
