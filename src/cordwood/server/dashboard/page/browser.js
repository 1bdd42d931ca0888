// The log of one partition, page by page, from an offset or a time.
import {Component, html} from "./html.js";
import {get} from "./broker.js";
import {count} from "./format.js";
import {begin, end} from "./loads.js";
import {Messages} from "./messages.js";
import {Trouble} from "./trouble.js";

const PAGE = 25;

export class Browser extends Component {
  state = {partition: 0, by: "newest", value: "", rows: null, error: null};

  componentDidMount() {
    this.there = true;
    this.newest();
  }

  componentWillUnmount() {
    this.there = false;
    this.reading?.abort();
  }

  // What was empty is looked at again when something comes; and what was broken off.
  componentDidUpdate({partitions}) {
    const {partition, by, rows, error} = this.state;
    const more = rows ? !rows.length && partitions[partition].end_offset < this.bounds.end_offset : !error && !this.reading;
    if (by === "newest" && more) this.newest();
  }

  get bounds() {
    return this.props.partitions[this.state.partition];
  }

  // Read from a place. Paging back stops before `below`, where the page before this one began.
  async read(query, below = Infinity) {
    const {topic} = this.props, {partition} = this.state;
    this.reading?.abort();
    const control = this.reading = begin();
    if (!control) return;
    try {
      const {messages} = await get("/v1/read", {topic, partition, limit: PAGE, ...query}, control.signal);
      if (this.there && !control.signal.aborted) this.setState({rows: messages.filter((row) => row.offset < below), error: null});
    } catch (error) {
      if (this.there && !control.signal.aborted) this.setState({error});
    } finally {
      end(control);
      if (this.reading === control) this.reading = null;
    }
  }

  newest = () => this.read({offset: Math.max(this.bounds.start_offset, this.bounds.end_offset - PAGE)});

  show = (event) => {
    event?.preventDefault();
    const {by, value} = this.state;
    if (by === "newest") this.newest();
    else if (by === "offset") this.read({offset: value || 0});
    else this.read({timestamp: new Date(value).getTime()});
  };

  next = () => this.read({offset: this.state.rows.at(-1).offset + 1});

  previous = () => {
    const first = this.state.rows[0]?.offset ?? this.bounds.end_offset;
    this.read({offset: Math.max(this.bounds.start_offset, first - PAGE)}, first);
  };

  render({topic, partitions}, {partition, by, value, rows, error}) {
    const {start_offset: start, end_offset: end} = this.bounds;
    const first = rows?.[0]?.offset, last = rows?.at(-1)?.offset;
    return html`<section aria-labelledby="browse">
      <h2 id="browse">Messages</h2>
      <form class="row" onSubmit=${this.show}>
        <label>Partition <select value=${partition} onChange=${(event) => this.setState({partition: Number(event.target.value)}, this.show)}>${partitions.map((p) => html`<option value=${p.partition}>${p.partition}</option>`)}</select></label>
        <label>From <select value=${by} onChange=${(event) => this.setState({by: event.target.value, value: ""})}><option value="newest">the newest</option><option value="offset">an offset</option><option value="time">a time</option></select></label>
        ${by === "offset" && html`<label>Offset <input inputmode="numeric" pattern="[0-9]+" required value=${value} onInput=${(event) => this.setState({value: event.target.value})} /></label>`}
        ${by === "time" && html`<label>Time <input type="datetime-local" step="0.001" required value=${value} onInput=${(event) => this.setState({value: event.target.value})} /></label>`}
        <button type="submit">Show</button>
        <span class="grow"></span>
        <button type="button" onClick=${this.previous} disabled=${!rows || (first ?? end) <= start}>← Previous</button>
        <button type="button" onClick=${this.next} disabled=${last === undefined || last + 1 >= end}>Next →</button>
      </form>
      <p class="quiet" aria-live="polite">${rows?.length ? `Offsets ${count(first)} to ${count(last)} of ${count(start)} to ${count(end - 1)}` : ""}</p>
      <${Trouble} error=${error} />
      ${rows?.length ? html`<${Messages} rows=${rows} caption=${`Messages of ${topic}, partition ${partition}`} />` : rows && html`<p class="empty">${end > start ? "There is no message at or after this place. Go back with Previous." : html`This partition is empty. Send a message: <code>cordwood produce ${topic}</code>`}</p>`}
    </section>`;
  }
}
