// SPDX-License-Identifier: Apache-2.0
// A modal dialog. The browser keeps the focus inside and returns it afterwards.

import { Component, createRef, html } from "../dom.js";

/** Properties: `title`, `onClose`, and the content. It is open for as long as it exists. */
export class Dialog extends Component {
  constructor() {
    super();
    this.element = createRef();
  }

  componentDidMount() {
    this.opener = document.activeElement;
    this.element.current.showModal();
  }

  componentWillUnmount() {
    this.element.current.close();
    this.opener?.focus?.();
  }

  render({ title, onClose, children }) {
    return html`<dialog ref=${this.element} aria-labelledby="dialog-title" onCancel=${(event) => {
      event.preventDefault();
      onClose();
    }}>
      <h2 id="dialog-title">${title}</h2>
      ${children}
    </dialog>`;
  }
}
