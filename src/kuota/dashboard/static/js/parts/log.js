// SPDX-License-Identifier: Apache-2.0
// The log of a container, which is followed while it runs. Lines are text, whatever they contain.

import { apiUrl, failure } from "../api.js";
import { Component, createRef, html } from "../dom.js";
import { printable } from "../format.js";
import { Note, Text } from "./basics.js";

const TAIL = 500;
const KEPT_LINES = 5000;

/** Properties: `namespace` and `pod`. */
export class Log extends Component {
  constructor() {
    super();
    this.box = createRef();
    this.state = { container: "", lines: [], rest: "", error: "", ended: false, previous: false };
  }

  componentDidMount() {
    this.read(this.props.pod.containers[0] ?? "", false);
  }

  componentWillUnmount() {
    this.reading?.abort();
  }

  componentDidUpdate() {
    const box = this.box.current;
    if (box && this.atEnd !== false) box.scrollTop = box.scrollHeight;
  }

  async read(container, previous) {
    this.reading?.abort();
    const reading = (this.reading = new AbortController());
    this.atEnd = true;
    this.setState({ container, previous, lines: [], rest: "", error: "", ended: false });
    const { namespace, pod } = this.props;
    try {
      const url = apiUrl("logs", { namespace, pod: pod.name, container, previous, follow: !previous, tail: TAIL });
      const response = await fetch(url, { signal: reading.signal });
      if (!response.ok) throw await failure(response);
      const decoder = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await decoder.read(); !part.done; part = await decoder.read()) this.add(part.value);
      this.setState({ ended: true });
    } catch (error) {
      if (!reading.signal.aborted) this.setState({ error: error.message });
    }
  }

  /** @param {string} text */
  add(text) {
    this.setState(({ lines, rest }) => {
      const parts = (rest + text).split("\n");
      const last = parts.pop() ?? "";
      return { lines: [...lines, ...parts.map(printable)].slice(-KEPT_LINES), rest: last };
    });
  }

  scrolled() {
    const box = this.box.current;
    this.atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  }

  render({ pod }, { container, previous, lines, rest, error, ended }) {
    const all = rest ? [...lines, printable(rest)] : lines;
    return html`<div class="log">
      <div class="log-head">
        <h3>Log of <${Text}>${pod.name}<//></h3>
        ${pod.containers.length > 1 && html`<label class="field">Container
          <select value=${container} onChange=${(event) => this.read(event.target.value, previous)}>
            ${pod.containers.map((each) => html`<option value=${each} selected=${each === container}>${each}</option>`)}</select></label>`}
        ${pod.restarts > 0 && html`<label class="check small"><input type="checkbox" checked=${previous}
          onChange=${(event) => this.read(container, event.target.checked)} /> previous run</label>`}
        <span class="small muted">${error ? "" : ended ? "ended" : "following"}</span>
      </div>
      ${error ? html`<div role="alert"><${Note} tone="bad"><${Text}>${error}<//><//></div>`
        : html`<pre ref=${this.box} class="log-lines" tabindex="0" role="region" aria-label="Log of ${pod.name}" onScroll=${() => this.scrolled()}>${
          all.length ? all.join("\n") : ended ? "The log is empty." : ""}</pre>`}
    </div>`;
  }
}
