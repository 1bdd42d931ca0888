// The page: what the address says is shown, with what the live stream says; and a word on how that stream is.
import {Component, html, render} from "./html.js";
import {GiveToken} from "./actions.js";
import {Live, hasToken, onUnauthenticated, useToken} from "./broker.js";
import {SPAN_MS} from "./chart.js";
import {clock} from "./format.js";
import {Overview} from "./overview.js";
import {Topic} from "./topic.js";
import {Trouble} from "./trouble.js";

const THEMES = {system: "light", light: "dark", dark: "system"};
const SLOW_MS = 3000; // between two looks, when the token may not see the live stream
const SAID_MS = 10_000;
const STATES = {connecting: "Connecting…", live: "Live", lost: "Reconnecting…", token: "Token wanted", refused: "No live numbers"};

function place() {
  const found = /^#\/topic\/(.+)$/.exec(location.hash);
  try { return found ? decodeURIComponent(found[1]) : null; } catch { return null; }
}

class App extends Component {
  state = {state: "connecting", live: null, history: [], beat: 0, round: 0, topic: place(), dialog: null, said: "", theme: window.cordwoodTheme.get()};

  componentDidMount() {
    this.stream = new Live(this.hear, this.change);
    onUnauthenticated(() => this.change("token", null));
    addEventListener("hashchange", () => {
      this.setState({topic: place()}, () => { document.querySelector("main").focus(); scrollTo(0, 0); });
    });
    this.stream.start();
  }

  componentDidUpdate() {
    document.title = this.state.topic ? `${this.state.topic} · Cordwood` : "Cordwood";
  }

  hear = (live) => this.setState(({history, beat}) => {
    const lag = live.groups.reduce((sum, group) => sum + group.lag, 0);
    const {at, rates, sync_ms, group_frames} = live;
    const kept = history.filter((point) => point.at > at - SPAN_MS - 2000 && point.at < at);
    return {live, beat: beat + 1, history: [...kept, {at, rates, sync_ms, group_frames, lag}]};
  });

  change = (state, error) => {
    if (state === "token") this.stream.stop();
    this.setState((old) => {
      const again = state === "live" && old.state === "lost"; // what was loaded before may be old
      return {state, error, beat: again ? Math.ceil((old.beat + 1) / 12) * 12 - 1 : old.beat, dialog: state === "token" && old.state !== "token" ? {kind: GiveToken, props: {error: hasToken() ? "The broker does not accept this token." : "", use: this.use}} : old.dialog};
    });
    clearInterval(this.slow);
    if (state === "refused") this.slow = setInterval(() => this.setState(({beat}) => ({beat: beat + 3})), SLOW_MS);
  };

  use = (token) => {
    useToken(token);
    this.setState(({round}) => ({state: "connecting", round: round + 1}));
    this.stream.start();
    return "";
  };

  ask = (kind, {done, ...props}) => this.setState({dialog: {kind, props, done}});

  close = (said) => {
    const done = this.state.dialog?.done;
    this.setState({dialog: null});
    if (said === undefined) return;
    this.setState({said});
    clearTimeout(this.saying);
    this.saying = setTimeout(() => this.setState({said: ""}), SAID_MS);
    done?.();
  };

  turn = () => {
    const theme = THEMES[this.state.theme];
    window.cordwoodTheme.set(theme);
    this.setState({theme});
  };

  render(_, {state, error, live, history, beat, round, topic, dialog, said, theme}) {
    const stale = Boolean(live) && state !== "live" && state !== "refused";
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
      ${stale && html`<p class="stale" role="alert">The broker does not answer. What is shown is as of ${clock(live.at)}; it comes back by itself.</p>`}
      ${state === "refused" && html`<${Trouble} error=${error} /><form class="row" onSubmit=${(event) => { event.preventDefault(); location.hash = `#/topic/${encodeURIComponent(new FormData(event.target).get("topic"))}`; }}>
        <label class="inline">Open a topic by its name <input name="topic" required /></label><button>Open</button></form>`}
      <p class="said" role="status">${said}</p>
      <main id="main" tabindex="-1" class=${stale ? "old" : ""}>
        ${state === "lost" && !live && html`<p class="empty">The broker at ${location.origin} does not answer. Is it running? <code>cordwood serve</code></p>`}
        ${(live || topic !== null) && html`<${Page} key=${`${round} ${topic ?? ""}`} topic=${topic} live=${live} history=${history} beat=${beat} ask=${this.ask} />`}
      </main>
      ${dialog && html`<${dialog.kind} ...${dialog.props} close=${this.close} />`}`;
  }
}

render(html`<${App} />`, document.body);
