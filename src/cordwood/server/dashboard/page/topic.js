// One topic: where its messages are, how far its groups are, its dead letters, and its messages.
import {html} from "./html.js";
import {Refused, get} from "./broker.js";
import {DeleteTopic, TopicSettings, groupPath, topicPath} from "./actions.js";
import {Browser} from "./browser.js";
import {Dead} from "./dead.js";
import {bytes, count, rate, time} from "./format.js";
import {Groups} from "./groups.js";
import {Places, PlacesLegend, placesOf} from "./strip.js";
import {Tail} from "./tail.js";
import {Trouble} from "./trouble.js";
import {Watch} from "./watch.js";

const MOST_GROUPS = 20;
const MOST_PARTITIONS = 64;

const listed = ({live, topic}) => Boolean(live?.topics.some((line) => line.name === topic));

export class Topic extends Watch {
  async load(signal) {
    const info = await get(topicPath(this.props.topic), {}, signal);
    let {blind} = this.state; // that a token may not see more than the topic itself need be heard once only
    const names = blind ? [] : info.groups.slice(0, MOST_GROUPS);
    const groups = await Promise.all(names.map((name) => get(groupPath(info.name, name), {}, signal).catch((error) => {
      if (error.status === 403) blind = error;
      else if (error.status !== 404) throw error; // or deleted meanwhile
      return null;
    })));
    return {info, groups: groups.filter(Boolean), blind};
  }

  // The live stream tells of a topic that somebody deletes, or makes again: it is not asked for to find out.
  componentDidUpdate(before) {
    const was = listed(before), is = listed(this.props);
    if (was && !is) this.setState({error: new Refused(404, {message: `There is no topic ${this.props.topic} any more.`})});
    else if (is && !was && this.state.error) this.setState({error: null}, this.refresh);
    else super.componentDidUpdate(before);
  }

  render({topic, live, beat, ask, forget}, {info, groups, blind, error}) {
    if (error && (!info || error.status === 404)) return html`<${Trouble} error=${error} /><p class="empty"><a href="#/">Back to all topics</a></p>`;
    if (!info) return html`<p class="empty">Loading…</p>`;
    const {partitions, settings} = info;
    const starts = Object.fromEntries(partitions.map((p) => [p.partition, p.start_offset]));
    const now = live?.topics.find((line) => line.name === topic);
    const dead = live?.topics.find((line) => line.name === `dlq.${topic}`);
    const messages = partitions.reduce((sum, p) => sum + p.end_offset - p.start_offset, 0);
    const holes = partitions.flatMap((p) => (p.holes ?? []).map(([first, end]) => `${p.partition}: ${count(first)} to ${count(end - 1)}`));
    const limits = [settings.retention_ms && `retention_ms ${count(settings.retention_ms)}`, settings.retention_bytes && `retention_bytes ${bytes(settings.retention_bytes)}`, settings.discard !== "none" && `discard ${settings.discard}`].filter(Boolean);
    return html`
      <div class="row head"><h1><a href="#/" aria-label="All topics">Topics</a> <span class="quiet">/</span> <span class="name">${topic}</span></h1><span class="grow"></span>
        <button onClick=${() => ask(TopicSettings, {topic, now: settings, done: this.refresh})}>Settings…</button>
        <button onClick=${() => ask(DeleteTopic, {topic, messages, groups: info.groups.length, done: () => forget(topic)})}>Delete topic…</button></div>
      <${Trouble} error=${error} />
      <dl class="facts card">
        <div><dt>Produced</dt><dd>${rate(now?.produced)}/s</dd></div><div><dt>Messages</dt><dd>${count(messages)}</dd></div>
        <div><dt>Size</dt><dd>${bytes(partitions.reduce((sum, p) => sum + p.bytes, 0))}</dd></div><div><dt>Objects in the tier</dt><dd>${count(partitions.reduce((sum, p) => sum + (p.objects ?? 0), 0))}</dd></div>
        <div><dt>Created</dt><dd>${time(info.created_at, false)}</dd></div><div><dt>Retention</dt><dd>${limits.length ? limits.join(", ") : "kept"}</dd></div>
      </dl>
      ${holes.length > 0 && html`<p class="trouble">Offsets that were lost with a journal, by partition: ${holes.join("; ")}</p>`}
      <section aria-labelledby="partitions">
        <div class="row"><h2 id="partitions">Partitions</h2><${PlacesLegend} /></div>
        <div class="scroll" tabindex="0" role="region" aria-label="Table of partitions"><table>
          <caption class="unseen">Partitions of ${topic}</caption>
          <thead><tr><th scope="col" class="number slim">Partition</th><th scope="col" class="broad">Where its bytes are</th><th scope="col" class="number">Start</th><th scope="col" class="number">Tiered to</th><th scope="col" class="number">End</th><th scope="col" class="number wide">Size</th></tr></thead>
          <tbody>${partitions.slice(0, MOST_PARTITIONS).map((p) => html`<tr key=${p.partition}><td class="number">${p.partition}</td><td class="broad"><${Places} ...${placesOf([p])} /></td>
            <td class="number">${count(p.start_offset)}</td><td class="number">${count(p.tiered_offset)}</td><td class="number">${count(p.end_offset)}</td><td class="number wide">${bytes(p.bytes)}</td></tr>`)}</tbody>
        </table></div>
        ${partitions.length > MOST_PARTITIONS && html`<p class="quiet">${count(partitions.length - MOST_PARTITIONS)} more partitions: <code>cordwood topic show ${topic}</code></p>`}
      </section>
      ${blind ? html`<section aria-labelledby="unseen"><h2 id="unseen">Groups and messages</h2><${Trouble} error=${blind} /></section>` : html`<${Groups} topic=${topic} groups=${groups} starts=${starts} hidden=${info.groups.length - groups.length} ask=${ask} refresh=${this.refresh} />
      ${dead && html`<${Dead} topic=${topic} groups=${groups} beat=${beat} ask=${ask} />`}
      <${Browser} key=${`messages ${info.id}`} topic=${topic} partitions=${partitions} />
      <${Tail} key=${`tail ${info.id}`} topic=${topic} />`}`;
  }
}
