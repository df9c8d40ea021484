// SPDX-License-Identifier: Apache-2.0
// A part of a page that shows the model of a stream and follows its changes.

import { Component, html } from "../dom.js";
import { apply, keyed } from "../rows.js";
import { Stream } from "../stream.js";
import { arrivedByLink, focusHeading } from "../router.js";
import { Failure, Loading, PageHead } from "./basics.js";

/** Report the state of the page's connection to the header. @param {string} state "" if the page has none */
export function reportConnection(state) {
  dispatchEvent(new CustomEvent("kuota:connection", { detail: state }));
}

/** Models that consist of rows are kept as a map, which changes update. */
function begun(model) {
  return model && Array.isArray(model.rows) ? { ...model, rows: keyed(model.rows) } : model;
}

function changed(model, change) {
  if (change.model) return begun(change.model);
  apply(model.rows, change);
  return { ...model, meta: change.meta ?? model.meta };
}

/** Properties: `view`, `parameters`, `title` of a page without heading of its own until there is a model, `missing` to show if the object does not exist, and a function of the model as the only child. */
export class Live extends Component {
  componentDidMount() {
    this.start();
  }

  componentDidUpdate(before, { model }) {
    if (this.name(before) !== this.name(this.props)) this.start();
    // The heading that had the focus is replaced by the one of the model.
    else if (!model && this.state.model && arrivedByLink() && document.activeElement === document.body) focusHeading();
  }

  componentWillUnmount() {
    this.stream.close();
    reportConnection("");
  }

  name({ view, parameters }) {
    return JSON.stringify([view, parameters]);
  }

  start() {
    this.stream?.close();
    this.setState({ model: undefined, error: undefined });
    this.stream = new Stream(this.props.view, this.props.parameters ?? {}, {
      snapshot: (model) => this.setState({ model: begun(model), error: undefined }),
      change: (change) => this.setState(({ model }) => ({ model: changed(model, change) })),
      connection: reportConnection,
      error: (error) => {
        if (error.code === 401) dispatchEvent(new Event("kuota:signed-out"));
        this.setState({ error });
      },
    });
  }

  render({ children, title, missing }, { model, error }) {
    const head = title && html`<${PageHead} title=${title} />`;
    if (error) return html`${head}<${Failure} error=${error} retry=${() => this.start()}>${error.code === 404 && missing}<//>`;
    if (model === undefined) return html`${head}<${Loading} />`;
    return [children].flat()[0](model);
  }
}
