// A question before something is done: it names what will happen, and shows the broker's sentence when that is refused.
import {Component, createRef, html} from "./html.js";
import {Trouble} from "./trouble.js";

// `title`; `does`: what will happen; `act(form)` does it and returns a sentence; `danger`: a name that has to be typed;
// `word`: on the button; children: further fields. `close(sentence)` is called at the end, without one if it was left.
export class Dialog extends Component {
  box = createRef();
  state = {typed: "", error: null, busy: false};

  componentDidMount() {
    this.box.current.showModal();
  }

  componentWillUnmount() {
    this.box.current.close(); // gives the focus back
  }

  submit = async (event) => {
    event.preventDefault();
    if (this.state.busy) return;
    this.setState({busy: true, error: null});
    try {
      const said = await this.props.act(new FormData(event.target));
      this.props.close(said);
    } catch (error) {
      this.setState({error, busy: false});
    }
  };

  cancel = (event) => {
    event?.preventDefault();
    this.props.close();
  };

  render({title, does, danger, word, children}, {typed, error, busy}) {
    return html`<dialog ref=${this.box} aria-labelledby="dialog-title" onCancel=${this.cancel}>
      <form onSubmit=${this.submit} autocomplete="off">
        <h2 id="dialog-title">${title}</h2>
        ${does && html`<p>${does}</p>`}
        ${children}
        ${danger && html`<label>Type <b class="name">${danger}</b> to confirm
          <input name="typed" value=${typed} onInput=${(event) => this.setState({typed: event.target.value})} spellcheck="false" autocapitalize="off" /></label>`}
        <${Trouble} error=${error} change />
        <div class="buttons">
          <button type="button" onClick=${this.cancel}>Cancel</button>
          <button type="submit" class=${danger ? "danger" : "primary"} disabled=${busy || (danger && typed !== danger)}>${word}</button>
        </div>
      </form>
    </dialog>`;
  }
}
