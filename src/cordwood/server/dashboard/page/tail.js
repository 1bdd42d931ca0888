// Messages as they come. The newest few are kept; when more come than can be shown, the rest is only counted.
import {Component, html} from "./html.js";
import {lines, request} from "./broker.js";
import {count} from "./format.js";
import {begin, end} from "./loads.js";
import {Messages} from "./messages.js";
import {Trouble} from "./trouble.js";

const KEPT = 100;
const DRAW_MS = 200;

export class Tail extends Component {
  state = {rows: [], seen: 0, running: false, error: null};

  componentWillUnmount() {
    this.stop();
  }

  start = async () => {
    const control = this.control = begin();
    if (!control) return;
    this.setState({running: true, error: null, rows: [], seen: 0});
    let rows = [], seen = 0, timer = null;
    const draw = () => { timer = null; this.setState({rows, seen}); };
    let error = null;
    try {
      const answer = await request("GET", "/v1/read", {
        query: {topic: this.props.topic, from: "latest", follow: "true"}, accept: "application/x-ndjson", signal: control.signal,
      });
      end(control); // from here on it ends with the topic
      for await (const found of lines(answer)) {
        seen += found.length;
        rows = [...found.slice(-KEPT).reverse().map((line) => JSON.parse(line)), ...rows].slice(0, KEPT);
        timer ??= setTimeout(draw, DRAW_MS);
      }
      error = new Error("The stream ended: the topic was deleted, or the broker stops.");
    } catch (failure) {
      if (!control.signal.aborted) error = failure instanceof TypeError ? new Error("The stream was cut; start it again.") : failure;
    }
    end(control);
    clearTimeout(timer);
    if (this.control !== control) return;
    this.control = null;
    this.setState({running: false, rows, seen, error});
  };

  stop = () => {
    const control = this.control;
    this.control = null;
    control?.abort();
    this.setState({running: false});
  };

  render({topic}, {rows, seen, running, error}) {
    return html`<section class="tail" aria-labelledby="tail">
      <div class="row"><h2 id="tail">Live tail</h2>
        <button onClick=${running ? this.stop : this.start}>${running ? "Stop" : "Start"}</button>
        <span class="quiet">${running || seen ? `${count(seen)} came${seen > KEPT ? `, the newest ${KEPT} are shown` : ""}` : "Shows messages as they come, from now on."}</span>
      </div>
      <${Trouble} error=${error} />
      ${rows.length > 0 && html`<${Messages} rows=${rows} caption=${`Newest messages of ${topic}, newest first`} />`}
    </section>`;
  }
}
