// What an operator can do, each as a dialog that names it first.
import {Component, html} from "./html.js";
import {change, segment} from "./broker.js";
import {Dialog} from "./dialog.js";
import {count} from "./format.js";

export const topicPath = (topic) => `/v1/topics/${segment(topic)}`;
export const groupPath = (topic, group) => `/v1/groups/${segment(topic)}/${segment(group)}`;

// name → what it means, and the words it takes, if it is not a number
const TOPIC_SETTINGS = {
  retention_ms: ["Messages older than this many milliseconds go; 0 keeps them"],
  retention_bytes: ["A partition larger than this loses its oldest; 0 keeps them"],
  discard: ["Whether what every group has done goes", ["none", "acked"]],
  hold_max_ms: ["How long an idle group holds retention back"],
  max_buffered_messages: ["What the slowest group may leave undone; 0 is no limit"],
  max_buffered_bytes: ["The same in bytes; 0 is no limit"],
};
const GROUP_SETTINGS = {
  mode: ["How the group shares a partition", ["shared", "ordered"]],
  max_in_flight: ["The most messages on lease, per partition"],
  lease_ms: ["How long a consumer may keep a message"],
  max_attempts: ["Deliveries before a message is given up; 0 is never"],
  on_exhausted: ["What happens to a message given up", ["dlq", "block", "drop"]],
  backoff_ms: ["The pause after the first failed delivery; it doubles"],
  max_backoff_ms: ["The longest such pause"],
};

// What was typed as the broker takes it: a number, a word, or null for the broker's own default.
const typed = (text, words) => (text === "" ? null : words || !/^\d{1,15}$/.test(text) ? text : Number(text));

function Setting({name, value, known: [meaning, words], onInput}) {
  return html`<label><span class="name">${name}</span> <span class="quiet">${meaning}</span>
    ${words
      ? html`<select name=${name} onChange=${onInput} value=${value}><option value="">the broker's default</option>${words.map((word) => html`<option value=${word}>${word}</option>`)}</select>`
      : html`<input name=${name} inputmode="numeric" value=${value} onInput=${onInput} placeholder="the broker's default" />`}
  </label>`;
}

export function CreateTopic({close}) {
  const act = async (form) => {
    const body = {name: form.get("name").trim()};
    for (const [name, value] of form) if (name !== "name" && value !== "") body[name] = typed(value, TOPIC_SETTINGS[name]?.[1]);
    const made = await change("POST", "/v1/topics", body);
    location.hash = `#/topic/${segment(made.name)}`;
    return `Topic ${made.name} is there, with ${made.partitions.length} partition${made.partitions.length > 1 ? "s" : ""}.`;
  };
  return html`<${Dialog} title="Create a topic" does="Makes an empty topic. The number of its partitions is fixed from then on." act=${act} word="Create topic" close=${close}>
    <label>Name <input name="name" required maxlength="240" spellcheck="false" autocapitalize="off" /></label>
    <label>Partitions <input name="partitions" inputmode="numeric" placeholder="the broker's default" /></label>
    <details><summary>Retention and limits</summary>
      ${Object.entries(TOPIC_SETTINGS).map(([name, known]) => html`<${Setting} name=${name} known=${known} value="" />`)}
    </details>
  <//>`;
}

// Change settings of a topic or a group; only what differs is sent.
class Settings extends Component {
  state = {values: {}};

  input = (event) => {
    const {name, value} = event.target;
    this.setState(({values}) => ({values: {...values, [name]: value}}));
  };

  changes() {
    const {known, now} = this.props;
    return Object.entries(this.state.values)
      .map(([name, text]) => [name, typed(text.trim(), known[name][1])])
      .filter(([name, value]) => value !== now[name]);
  }

  act = async () => {
    const changes = this.changes();
    if (!changes.length) return "Nothing was changed.";
    await change("PATCH", this.props.path, Object.fromEntries(changes));
    return `Settings of ${this.props.what} are changed.`;
  };

  render({what, known, now, close}, {values}) {
    const changes = this.changes();
    return html`<${Dialog} title=${`Settings of ${what}`} act=${this.act} word="Change settings" close=${close}>
      <p>Empty is the broker's default.</p>
      <div class="fields">${Object.entries(known).map(([name, meaning]) => html`<${Setting} key=${name} name=${name} known=${meaning} value=${values[name] ?? now[name]} onInput=${this.input} />`)}</div>
      <p aria-live="polite">${changes.length ? "This will change " : "Nothing is changed yet."}${changes.map(([name, value], at) => html`${at ? ", " : ""}<b>${name}</b> from ${String(now[name])} to ${value === null ? "the broker's default" : String(value)}`)}</p>
    <//>`;
  }
}

export const TopicSettings = ({topic, now, close}) =>
  html`<${Settings} what=${`topic ${topic}`} path=${topicPath(topic)} known=${TOPIC_SETTINGS} now=${now} close=${close} />`;

export const GroupSettings = ({topic, group, now, close}) =>
  html`<${Settings} what=${`group ${group}`} path=${groupPath(topic, group)} known=${GROUP_SETTINGS} now=${now} close=${close} />`;

export function DeleteTopic({topic, messages, groups, close}) {
  const act = async () => {
    await change("DELETE", topicPath(topic));
    location.replace("#/"); // nobody wants to come back to it
    return `Topic ${topic} is deleted.`;
  };
  const does = `Deletes the topic with its ${count(messages)} messages, its history in the tier, and ${count(groups)} groups. This cannot be undone.`;
  return html`<${Dialog} title=${`Delete topic ${topic}`} does=${does} danger=${topic} act=${act} word="Delete topic" close=${close} />`;
}

export function DeleteGroup({topic, group, lag, close}) {
  const act = async () => {
    await change("DELETE", groupPath(topic, group));
    return `Group ${group} is deleted.`;
  };
  const does = `Deletes the group: what it has done is forgotten, ${count(lag)} messages are left undone, and its consumers are told. The messages stay.`;
  return html`<${Dialog} title=${`Delete group ${group}`} does=${does} danger=${group} act=${act} word="Delete group" close=${close} />`;
}

export class Seek extends Component {
  state = {place: "earliest", partition: "", value: ""};

  set = (event) => this.setState({[event.target.name]: event.target.value});

  act = async () => {
    const {place, partition, value} = this.state;
    const body = {};
    if (place === "time") body.timestamp = new Date(value).getTime();
    else body.to = place === "offset" ? Number(value) : place;
    if (partition !== "") body.partition = Number(partition);
    await change("POST", `${groupPath(this.props.topic, this.props.group)}/seek`, body);
    return `Group ${this.props.group} goes on from ${this.where()}.`;
  };

  where() {
    const {place, value} = this.state;
    const name = {earliest: "the earliest message", latest: "the end", offset: `offset ${value || "…"}`, time: value ? value.replace("T", " ") : "…"}[place];
    return this.state.partition === "" ? name : `${name} of partition ${this.state.partition}`;
  }

  render({group, partitions, close}, {place, partition, value}) {
    const does = `Group ${group} goes on from ${this.where()}, as if it had never been further: what is above is delivered again, what is below is not. Leases there end.`;
    return html`<${Dialog} title=${`Seek group ${group}`} does=${does} act=${this.act} word="Seek" close=${close}>
      <label>Go on from <select name="place" value=${place} onChange=${this.set}>
        <option value="earliest">the earliest message</option><option value="latest">the end</option><option value="offset">an offset</option><option value="time">a time</option>
      </select></label>
      ${place === "offset" && html`<label>Offset <input name="value" inputmode="numeric" pattern="[0-9]+" required value=${value} onInput=${this.set} /></label>`}
      ${place === "time" && html`<label>Time <input name="value" type="datetime-local" step="0.001" required value=${value} onInput=${this.set} /></label>`}
      <label>Partition <select name="partition" value=${partition} onChange=${this.set}>
        <option value="">all ${count(partitions)}</option>${Array.from({length: partitions}, (_, n) => html`<option value=${n}>${n}</option>`)}
      </select></label>
    <//>`;
  }
}

// `chosen`: Map of "group/partition" → {group, partition, ranges}, or null for all of one group.
export function Redrive({topic, group, chosen, close}) {
  const orders = chosen ?? [{group}];
  const many = chosen ? chosen.reduce((sum, order) => sum + order.ranges.length, 0) : null;
  const act = async () => {
    let sent = 0;
    for (const {group: name, ...body} of orders) sent += (await change("POST", `${groupPath(topic, name)}/redrive`, body)).redriven;
    return sent === 1 ? "1 dead letter was sent back." : `${count(sent)} dead letters were sent back.`;
  };
  const does = `Sends ${chosen ? `${count(many)} chosen dead letters` : `all dead letters of group ${group}`} back to ${topic} as new messages, for the group that gave them up. Other groups do not get them again.`;
  return html`<${Dialog} title="Redrive dead letters" does=${does} act=${act} word="Redrive" close=${close} />`;
}

export function GiveToken({error, use, close}) {
  const act = (form) => use(form.get("token").trim());
  return html`<${Dialog} title="This broker wants a token" does="It is kept until this tab is closed, and sent with every request." act=${act} word="Use token" close=${close}>
    ${error && html`<p class="trouble" role="alert">${error}</p>`}
    <label>Token <input name="token" type="password" required autocomplete="off" /></label>
    <p class="quiet">Whoever runs the broker makes one: <code>cordwood token create NAME --admin '*'</code></p>
  <//>`;
}
