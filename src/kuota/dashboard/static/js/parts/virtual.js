// SPDX-License-Identifier: Apache-2.0
// A table of any length: only the rows in view, and the one with the focus, are in the document.

import { Component, createRef, html } from "../dom.js";

const SPARE = 8;
/** The height of the column headers and of the border. */
const HEAD_PX = 43;
const STEPS = { ArrowDown: 1, ArrowUp: -1 };

/**
 * Properties: `rows`, `rowKey(row)`, `row(row, index)` which returns cells, `head` with the column headers, `label`,
 * `columns` which is the name of the CSS class with the widths, and `heights` of a row on a screen and on a phone.
 */
export class VirtualTable extends Component {
  constructor() {
    super();
    this.box = createRef();
    this.phone = matchMedia("(max-width: 720px)");
    this.state = { top: 0, height: 600, active: -1 };
    this.resized = () => this.setState({ height: this.box.current.clientHeight });
    this.rotated = () => this.setState({});
  }

  componentDidMount() {
    this.observer = new ResizeObserver(this.resized);
    this.observer.observe(this.box.current);
    this.phone.addEventListener("change", this.rotated);
    this.resized();
  }

  componentDidUpdate() {
    if (this.wanted === undefined) return;
    const link = this.box.current.querySelector(`[data-index="${this.wanted}"] a`);
    this.wanted = undefined;
    link?.focus({ preventScroll: true });
  }

  componentWillUnmount() {
    this.observer.disconnect();
    this.phone.removeEventListener("change", this.rotated);
  }

  get rowHeight() {
    return this.props.heights[this.phone.matches ? 1 : 0];
  }

  /** Move the focus to the link of another row. @param {KeyboardEvent} event */
  keyed(event) {
    const row = event.target.closest?.("[data-index]");
    if (!row) return;
    const last = this.props.rows.length - 1;
    const page = Math.max(1, Math.floor(this.state.height / this.rowHeight) - 1);
    const at = Number(row.dataset.index);
    const steps = { ...STEPS, PageDown: page, PageUp: -page, Home: -at, End: last - at };
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.wanted = Math.min(last, Math.max(0, at + steps[event.key]));
    this.reveal(this.wanted);
    this.setState({ active: this.wanted });
  }

  /** @param {number} index */
  reveal(index) {
    const box = this.box.current;
    const top = index * this.rowHeight;
    const head = box.firstElementChild.offsetHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + this.rowHeight + head > box.scrollTop + box.clientHeight) {
      box.scrollTop = top + this.rowHeight + head - box.clientHeight;
    }
    this.setState({ top: box.scrollTop });
  }

  shown() {
    const { top, height, active } = this.state;
    const count = this.props.rows.length;
    const first = Math.max(0, Math.min(Math.floor(top / this.rowHeight), count) - SPARE);
    const last = Math.min(count, Math.ceil((top + height) / this.rowHeight) + SPARE);
    const indices = Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at);
    if (active >= 0 && active < count && (active < first || active >= last)) indices.push(active);
    return indices;
  }

  render({ rows, row, rowKey, head, label, columns }) {
    const height = this.rowHeight;
    const whole = rows.length * height + (this.phone.matches ? 2 : HEAD_PX);
    return html`<div class="virtual ${columns}" style=${{ height: `${whole}px` }} ref=${this.box} role="table" aria-label=${label} aria-rowcount=${rows.length + 1}
        tabindex="0" onScroll=${() => this.setState({ top: this.box.current.scrollTop })}
        onKeyDown=${(event) => this.keyed(event)}
        onFocusIn=${(event) => this.setState({ active: Number(event.target.closest("[data-index]")?.dataset.index ?? -1) })}>
      <div role="rowgroup" class="virtual-head"><div role="row" aria-rowindex="1">${head}</div></div>
      <div role="rowgroup" class="virtual-body" style=${{ height: `${rows.length * height}px` }}>
        ${this.shown().map((at) => html`<div role="row" key=${rowKey(rows[at])} class="virtual-row" aria-rowindex=${at + 2}
          data-index=${at} style=${{ height: `${height}px`, transform: `translateY(${at * height}px)` }}>${row(rows[at], at)}</div>`)}
      </div>
    </div>`;
  }
}

/** A column header that sorts. @param {{name: string, sort: string, onSort: (sort: string) => void, number?: boolean, children?: any}} properties */
export function SortHead({ name, sort, onSort, number, children }) {
  const direction = sort === name ? "ascending" : sort === `-${name}` ? "descending" : "none";
  const arrow = { ascending: "↑", descending: "↓", none: "" }[direction];
  return html`<div role="columnheader" aria-sort=${direction} class="cell-${name} ${number ? "number" : ""}">
    <button onClick=${() => onSort(direction === "ascending" ? `-${name}` : name)}>${children}<span aria-hidden="true"> ${arrow}</span></button>
  </div>`;
}
