// The page: what the address says is shown, with what the live stream says; and a word on how that stream is.
import {Component, html, render} from "./html.js";
import {GiveToken} from "./actions.js";
import {Live, get, hasToken, onUnauthenticated, useToken} from "./broker.js";
import {SPAN_MS} from "./chart.js";
import {clock} from "./format.js";
import {Overview} from "./overview.js";
import {Topic} from "./topic.js";
import {Trouble} from "./trouble.js";

const THEMES = {system: "light", light: "dark", dark: "system"};
const SLOW_MS = 3000; // between two looks, when the token may not see the live stream
const SAID_MS = 10_000;
const HIDDEN_MS = 3000;
const LATE = 10; // snapshots from before a deletion that may come after it; there is one, as a rule
const STATES = {connecting: "Connecting…", live: "Live", lost: "Reconnecting…", token: "Token wanted", refused: "Not live"};

function place() {
  const found = /^#\/topic\/(.+)$/.exec(location.hash);
  try { return found ? decodeURIComponent(found[1]) : null; } catch { return null; }
}

// A snapshot without some topics and their groups.
function without(live, names) {
  const topics = live.topics.filter((line) => !names.has(line.name));
  const groups = live.groups.filter((line) => !names.has(line.topic));
  const topic_count = live.topic_count - live.topics.length + topics.length;
  return {...live, topics, groups, topic_count, group_count: live.group_count - live.groups.length + groups.length};
}

class App extends Component {
  gone = new Map(); // topics that were just deleted here → in how many snapshots they may still be
  state = {state: "connecting", live: null, history: [], beat: 0, round: 0, topic: place(), dialog: null, said: "", theme: window.cordwoodTheme.get()};

  componentDidMount() {
    this.stream = new Live(this.hear, this.change);
    onUnauthenticated(() => this.change("token", null));
    addEventListener("hashchange", () => {
      this.setState({topic: place()}, () => { document.querySelector("main").focus(); scrollTo(0, 0); });
    });
    document.addEventListener("visibilitychange", this.attend);
    this.attend();
  }

  // Nobody looks at a hidden tab; and a browser has six connections for all tabs of one broker.
  attend = () => {
    clearTimeout(this.leaving);
    if (document.hidden) this.leaving = setTimeout(() => this.stream.stop(), HIDDEN_MS);
    else if (!this.stream.busy && ["connecting", "live", "lost"].includes(this.state.state)) this.stream.start();
  };

  componentDidUpdate() {
    document.title = this.state.topic ? `${this.state.topic} · Cordwood` : "Cordwood";
  }

  hear = (heard) => {
    const live = this.current(heard);
    const lag = live.groups.reduce((sum, group) => sum + group.lag, 0);
    const {at, rates, sync_ms, group_frames} = live;
    this.setState(({history, beat}) => {
      const kept = history.filter((point) => point.at > at - SPAN_MS - 2000 && point.at < at);
      return {live, beat: beat + 1, history: [...kept, {at, rates, sync_ms, group_frames, lag}]};
    });
  };

  // What was heard, without what was just deleted here: it may be from before that, and nobody shall ask for what is gone.
  current(live) {
    for (const [name, left] of this.gone) {
      if (left && live.topics.some((line) => line.name === name)) this.gone.set(name, left - 1);
      else this.gone.delete(name);
    }
    return without(live, this.gone);
  }

  change = (state, error) => {
    if (state === "token") this.stream.stop();
    this.setState((old) => {
      const again = state === "live" && old.state === "lost"; // what was loaded before may be old
      return {state, error, beat: again ? Math.ceil((old.beat + 1) / 12) * 12 - 1 : old.beat, dialog: state === "token" && old.state !== "token" ? {kind: GiveToken, props: {error: hasToken() ? "The broker does not accept this token." : "", use: this.use}} : old.dialog};
    });
    clearInterval(this.slow);
    if (state === "refused") {
      this.slow = setInterval(this.look, SLOW_MS);
      this.look();
    }
  };

  // For a token that may not see everything: the lists of what it may see, without rates.
  look = async () => {
    try {
      const [{topics}, {groups}] = await Promise.all([get("/v1/topics"), get("/v1/groups")]);
      const live = this.current({at: Date.now(), partial: true, topics, groups, topic_count: topics.length, group_count: groups.length});
      if (this.state.state === "refused") this.setState(({beat}) => ({beat: beat + 3, live}));
    } catch (error) {
      if (this.state.state === "refused") this.setState({error});
    }
  };

  use = (token) => {
    useToken(token);
    this.setState(({round}) => ({state: "connecting", live: null, history: [], round: round + 1})); // what another may see goes
    this.stream.start();
    return "";
  };

  ask = (kind, {done, ...props}) => this.setState({dialog: {kind, props, done}});

  close = (said) => {
    const done = this.state.dialog?.done;
    this.setState({dialog: null, topic: place()}); // the place, too: its event comes later than the next drawing
    if (said === undefined) return;
    this.gone.delete(place()); // it was made again
    this.setState({said});
    clearTimeout(this.saying);
    this.saying = setTimeout(() => this.setState({said: ""}), SAID_MS);
    done?.();
  };

  // A topic that was just deleted.
  forget = (name) => {
    this.gone.set(name, LATE);
    this.setState(({live}) => ({live: live && without(live, this.gone)}));
  };

  turn = () => {
    const theme = THEMES[this.state.theme];
    window.cordwoodTheme.set(theme);
    this.setState({theme});
  };

  render(_, {state, error, live, history, beat, round, topic, dialog, said, theme}) {
    const stale = Boolean(live) && state !== "live" && state !== "refused";
    if (!dialog) this.beat = beat; // nothing moves behind a question
    const Page = topic === null ? Overview : Topic;
    return html`
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("main").focus(); }}>Skip to the content</a>
      <header>
        <a class="brand" href="#/"><img src="/dashboard/icon.svg" alt="" width="24" height="24" />Cordwood</a>
        <span class=${`pill ${state}`} role="status">${STATES[state]}</span>
        ${state === "lost" && html`<button onClick=${() => this.stream.start()}>Try now</button>`}
        <span class="grow"></span>
        ${state === "token" && !dialog && html`<button class="primary" onClick=${() => this.ask(GiveToken, {use: this.use})}>Give a token…</button>`}
        ${hasToken() && state !== "token" && html`<button onClick=${() => { useToken(null); this.use(null); }}>Forget token</button>`}
        <a href="/docs">API</a>
        <button onClick=${this.turn} aria-label=${`Theme: ${theme}. Change it`}>${{system: "◐", light: "☀", dark: "☾"}[theme]}<span class="word"> ${theme}</span></button>
      </header>
      ${stale && html`<p class="stale" role="alert">${error?.status ? error.message : "The broker does not answer."} What is shown is as of ${clock(live.at)}; it comes back by itself.</p>`}
      ${state === "refused" && html`<div class="notice"><${Trouble} error=${error} /></div>`}
      <p class="said" role="status">${said}</p>
      <main id="main" tabindex="-1" class=${stale ? "old" : ""}>
        ${state === "lost" && !live && html`<p class="empty">${error?.status ? error.message : html`The broker at ${location.origin} does not answer. Is it running? <code>cordwood serve</code>`}</p>`}
        ${(live || topic !== null) && html`<${Page} key=${`${round} ${topic ?? ""}`} topic=${topic} live=${live} history=${history} beat=${this.beat} ask=${this.ask} forget=${this.forget} />`}
      </main>
      ${dialog && html`<${dialog.kind} ...${dialog.props} close=${this.close} />`}`;
  }
}

render(html`<${App} />`, document.body);
