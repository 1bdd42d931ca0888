// The whole broker: how fast, how late, how healthy; its topics and its groups.
import {html} from "./html.js";
import {get, segment} from "./broker.js";
import {CreateTopic, topicPath} from "./actions.js";
import {Chart} from "./chart.js";
import {bytes, count, duration, millis, rate, time} from "./format.js";
import {Places, PlacesLegend, placesOf} from "./strip.js";
import {Watch} from "./watch.js";

const PAGE = 20; // topics, or groups, in a table

const RATES = [
  {name: "produced", kind: "one", read: (p) => p.rates?.produced},
  {name: "delivered", kind: "two", read: (p) => p.rates?.delivered},
  {name: "acked", kind: "three", read: (p) => p.rates?.acked},
];
const SYNC = [
  {name: "p50", kind: "one", read: (p) => p.sync_ms?.p50},
  {name: "p99", kind: "two", read: (p) => p.sync_ms?.p99},
];
const COMMIT = [
  {name: "mean", kind: "one", read: (p) => p.group_frames?.mean},
  {name: "p99", kind: "two", read: (p) => p.group_frames?.p99},
];
const LAG = [{name: "all groups", kind: "one", read: (p) => p.lag}];

const lastPage = (lines) => Math.max(0, Math.ceil(lines.length / PAGE) - 1);
const link = (topic) => html`<a class="name" href=${`#/topic/${segment(topic)}`}>${topic}</a>`;
const Status = ({word}) => html`<span class=${`status ${word}`}>${word}</span>`;

export class Overview extends Watch {
  every = 3;
  state = {places: {}, filter: "", topicPage: 0, groupPage: 0};

  topics() {
    const {filter} = this.state;
    return this.props.live.topics.filter((line) => line.name.includes(filter)).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  // Only what is on the screen is asked for.
  async load(signal) {
    if (!this.props.live) return {};
    const topics = this.topics(), from = Math.min(this.state.topicPage, lastPage(topics)) * PAGE;
    const names = topics.slice(from, from + PAGE).map((line) => line.name);
    const found = await Promise.all(names.map((name) => get(topicPath(name), {}, signal).catch((error) => {
      if (error.status === 404) return null; // deleted meanwhile
      throw error;
    })));
    return {places: Object.fromEntries(found.filter(Boolean).map((info) => [info.name, placesOf(info.partitions)]))};
  }

  componentDidUpdate(before, state) {
    super.componentDidUpdate(before);
    const names = (live) => live?.topics.map((line) => line.name).join();
    if (state.topicPage !== this.state.topicPage || state.filter !== this.state.filter || names(before.live) !== names(this.props.live)) this.refresh();
  }

  render({live, history, ask}, {places, filter, ...state}) {
    if (!live) return html`<p class="empty">Waiting for the broker…</p>`;
    const topics = this.topics(), topicPage = Math.min(state.topicPage, lastPage(topics)), shown = topics.slice(topicPage * PAGE, (topicPage + 1) * PAGE);
    const groups = live.groups.filter((line) => line.topic.includes(filter)).sort((a, b) => b.lag - a.lag);
    const groupPage = Math.min(state.groupPage, lastPage(groups));
    return html`
      <h1 class="unseen">Overview</h1>
      ${!live.partial && this.health(live, history)}
      <section aria-labelledby="topics">
        <div class="row"><h2 id="topics">Topics</h2><${PlacesLegend} /><span class="grow"></span>
          ${live.topic_count > 0 && html`<label class="inline">Filter <input type="search" value=${filter} onInput=${(event) => this.setState({filter: event.target.value, topicPage: 0, groupPage: 0})} /></label>`}
          <button class="primary" onClick=${() => ask(CreateTopic, {})}>Create topic…</button></div>
        ${live.topic_count === 0 && html`<div class="empty"><p>There is no topic yet. Make one here, or from a shell:</p>
          <pre>cordwood topic create clicks --endpoint ${location.origin}</pre><pre>curl -d '{"name": "clicks"}' ${location.origin}/v1/topics</pre></div>`}
        ${live.topic_count > 0 && !topics.length && html`<p class="empty">No topic has “${filter}” in its name.</p>`}
        ${shown.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Table of topics"><table>
          <caption class="unseen">Topics</caption>
          <thead><tr><th scope="col">Topic</th><th scope="col" class="number">In /s</th><th scope="col" class="number">Messages</th><th scope="col" class="number">Size</th><th scope="col" class="number wide">Partitions</th><th scope="col" class="broad wide">Where its bytes are</th></tr></thead>
          <tbody>${shown.map((line) => html`<tr key=${line.name}><th scope="row">${link(line.name)}</th><td class="number">${rate(line.produced)}</td><td class="number">${count(line.messages)}</td><td class="number">${bytes(line.bytes)}</td>
            <td class="number wide">${count(line.partitions)}</td><td class="broad wide">${places[line.name] && html`<${Places} ...${places[line.name]} />`}</td></tr>`)}</tbody>
        </table></div>`}
        ${this.pages(topics.length, topicPage, (page) => this.setState({topicPage: page}), "topics")}
        ${live.topic_count > live.topics.length && html`<p class="quiet">The oldest ${count(live.topics.length)} of ${count(live.topic_count)} topics are listed; <code>cordwood topic list</code> has all.</p>`}
      </section>
      ${live.topic_count > 0 && html`<section aria-labelledby="groups">
        <div class="row"><h2 id="groups">Groups</h2></div>
        ${!live.groups.length && html`<p class="empty">No group yet. The first consumer makes one: <code>cordwood consume TOPIC --group NAME</code></p>`}
        ${groups.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Table of groups"><table>
          <caption class="unseen">Groups, those that are furthest behind first</caption>
          <thead><tr><th scope="col">Group</th><th scope="col">Topic</th><th scope="col" class="number">Lag</th><th scope="col" class="number">In flight</th><th scope="col" class="number wide">Delivered /s</th><th scope="col" class="number wide">Acked /s</th></tr></thead>
          <tbody>${groups.slice(groupPage * PAGE, (groupPage + 1) * PAGE).map((line) => html`<tr key=${`${line.topic} ${line.group}`}><th scope="row" class="name">${line.group}</th><td>${link(line.topic)}</td><td class="number">${count(line.lag)}</td><td class="number">${count(line.in_flight)}</td><td class="number wide">${rate(line.delivered)}</td><td class="number wide">${rate(line.acked)}</td></tr>`)}</tbody>
        </table></div>`}
        ${this.pages(groups.length, groupPage, (page) => this.setState({groupPage: page}), "groups")}
        ${live.group_count > live.groups.length && html`<p class="quiet">${count(live.groups.length)} of ${count(live.group_count)} groups are listed; <code>cordwood group list</code> has all.</p>`}
      </section>`}`;
  }

  health(live, history) {
    const {journal, tier} = live;
    const now = history.at(-1)?.at ?? live.at;
    const chart = (title, lines, show, least) => html`<${Chart} title=${title} points=${history} lines=${lines} show=${show} least=${least} now=${now} />`;
    return html`<div class="charts">
        ${chart("Messages per second", RATES, rate, 10)}
        ${chart("Sync latency", SYNC, millis, 0.1)}
        ${chart("Messages not done", LAG, rate, 10)}
        ${chart("Frames in a group commit", COMMIT, rate, 2)}
      </div>
      <div class="cards">
        <section class="card" aria-label="Broker"><h2>Broker</h2><dl class="facts">
          <div><dt>Up</dt><dd>${duration(live.at - live.started_at)}</dd></div><div><dt>Durability</dt><dd>${live.durability}</dd></div>
          <div><dt>Connections</dt><dd>${count(live.connections)}</dd></div><div><dt>Bytes in</dt><dd>${live.rates ? bytes(live.rates.produced_bytes) : "–"}/s</dd></div></dl></section>
        <section class="card" aria-label="Journal"><h2>Journal <${Status} word=${journal.status} /></h2>
          ${journal.error && html`<p class="trouble">${journal.error}. Reads go on; nothing more is taken until the broker is started again.</p>`}
          <dl class="facts"><div><dt>On disk</dt><dd>${bytes(journal.bytes)}</dd></div><div><dt>In memory</dt><dd>${bytes(journal.cache_bytes)}</dd></div><div><dt>Not yet durable</dt><dd>${bytes(journal.pending_bytes)}</dd></div></dl></section>
        <section class="card" aria-label="Tier"><h2>Tier <${Status} word=${tier.status} /></h2>
          ${tier.error && html`<p class="trouble">Since ${time(tier.since, false)}: ${tier.error}. History waits in the journal, and is shipped when the store is back.</p>`}
          ${tier.status === "none" ? html`<p class="quiet">No store: all history is in the ${live.durability === "memory" ? "memory" : "journal"}.</p>` : html`<dl class="facts"><div><dt>Waits to be shipped</dt><dd>${bytes(tier.backlog_bytes)}</dd></div><div><dt>Shipped since start</dt><dd>${bytes(tier.bytes_shipped)}</dd></div><div><dt>In objects</dt><dd>${count(tier.objects_shipped)}</dd></div></dl>`}</section>
      </div>`;
  }

  pages(total, page, go, what) {
    if (total <= PAGE) return null;
    return html`<nav class="row" aria-label=${`Pages of ${what}`}>
      <button onClick=${() => go(page - 1)} disabled=${page === 0}>← Previous</button>
      <span class="quiet">${page * PAGE + 1} to ${Math.min(total, (page + 1) * PAGE)} of ${count(total)}</span>
      <button onClick=${() => go(page + 1)} disabled=${(page + 1) * PAGE >= total}>Next →</button></nav>`;
  }
}
