// SPDX-License-Identifier: Apache-2.0
// A part of a page that shows one response of the API. It asks again when its parameters change, and every minute.

import { get } from "../api.js";
import { Component, html } from "../dom.js";
import { Failure, Loading } from "./basics.js";
import { reportConnection } from "./live.js";

const REFRESH_MS = 60_000;

/** Properties: `path`, `parameters()`, `name` which identifies the parameters, and a function of the response as the only child. */
export class Fetched extends Component {
  componentDidMount() {
    this.load();
    this.refreshing = setInterval(() => document.hidden || this.refresh(), REFRESH_MS);
  }

  componentDidUpdate(before) {
    if (before.name !== this.props.name) this.load();
  }

  componentWillUnmount() {
    this.asking?.abort();
    clearInterval(this.refreshing);
    reportConnection("");
  }

  load() {
    this.setState({ error: undefined });
    return this.ask((error) => this.setState({ error }));
  }

  /** Ask again, unless a slow response is still awaited, and show the last one until there is another. */
  refresh() {
    if (this.asking) return undefined;
    return this.ask((error) => (this.state.found ? reportConnection("reconnecting") : this.setState({ error })));
  }

  /** @param {(error: any) => void} failed */
  async ask(failed) {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    try {
      const found = await get(this.props.path, this.props.parameters(), asking.signal);
      if (asking.signal.aborted) return;
      reportConnection("");
      this.setState({ found, error: undefined });
    } catch (error) {
      if (asking.signal.aborted) return;
      if (error.status === 401) dispatchEvent(new Event("kuota:signed-out"));
      failed(error);
    } finally {
      if (this.asking === asking) this.asking = undefined;
    }
  }

  render({ children }, { found, error }) {
    if (error) return html`<${Failure} error=${error} retry=${() => this.load()} />`;
    if (found === undefined) return html`<${Loading} />`;
    return [children].flat()[0](found);
  }
}
