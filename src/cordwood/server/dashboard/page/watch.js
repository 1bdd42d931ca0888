// A part of the page that loads what it shows, again every few seconds while the broker is heard, and keeps it meanwhile.
import {Component} from "./html.js";
import {Gone} from "./broker.js";
import {begin, end} from "./loads.js";

export class Watch extends Component {
  every = 2; // seconds
  state = {};

  componentDidMount() {
    this.there = true;
    this.refresh();
  }

  componentWillUnmount() {
    this.there = false;
    this.loading?.abort();
  }

  componentDidUpdate(before) {
    const {beat} = this.props;
    if (beat !== before.beat && beat % this.every === 0) this.refresh();
  }

  // `load(signal)` returns what becomes the state. What was refused is shown in its place; a broker that is gone is not: what
  // was known stays, and the page says that it is old.
  refresh = async () => {
    if (this.loading || this.state.error?.status === 404) return;
    const control = this.loading = begin();
    if (!control) return;
    try {
      const found = await this.load(control.signal);
      if (this.there) this.setState({...found, error: null});
    } catch (error) {
      if (this.there && !control.signal.aborted && !(error instanceof Gone)) this.setState({error});
    } finally {
      end(control);
      this.loading = null;
    }
  };
}
