// SPDX-License-Identifier: Apache-2.0
// A part of a page that shows one response of the API, and asks again when its parameters change.

import { get } from "../api.js";
import { Component, html } from "../dom.js";
import { Failure, Loading } from "./basics.js";

/** Properties: `path`, `parameters()`, `name` which identifies the parameters, and a function of the response as the only child. */
export class Fetched extends Component {
  componentDidMount() {
    this.load();
  }

  componentDidUpdate(before) {
    if (before.name !== this.props.name) this.load();
  }

  componentWillUnmount() {
    this.asking?.abort();
  }

  async load() {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    this.setState({ error: undefined });
    try {
      const found = await get(this.props.path, this.props.parameters(), asking.signal);
      if (!asking.signal.aborted) this.setState({ found });
    } catch (error) {
      if (asking.signal.aborted) return;
      if (error.status === 401) dispatchEvent(new Event("kuota:signed-out"));
      this.setState({ error });
    }
  }

  render({ children }, { found, error }) {
    if (error) return html`<${Failure} error=${error} retry=${() => this.load()} />`;
    if (found === undefined) return html`<${Loading} />`;
    return [children].flat()[0](found);
  }
}
