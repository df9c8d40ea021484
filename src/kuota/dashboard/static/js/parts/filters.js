// SPDX-License-Identifier: Apache-2.0
// Fields that filter a list. Their values are parameters of the address.

import { Component, html } from "../dom.js";
import { setQuery } from "../router.js";
import { STATES } from "./basics.js";

/** @param {{label: string, name: string, value: string, options: string[], all?: string}} properties */
export function Select({ label, name, value, options, all = "all" }) {
  const known = value && !options.includes(value) ? [...options, value] : options;
  return html`<label class="field">${label}
    <select value=${value} onChange=${(event) => setQuery({ [name]: event.target.value })}>
      <option value="" selected=${!value}>${all}</option>
      ${known.map((each) => html`<option key=${each} value=${each} selected=${each === value}>${each}</option>`)}
    </select></label>`;
}

const GROUP_WORDS = [["waiting", "Waiting"], ["running", "Running"], ["finished", "Finished"]];

/** @param {{value: string}} properties */
export function StateSelect({ value }) {
  const option = (name, words) => html`<option value=${name} selected=${name === value}>${words}</option>`;
  return html`<label class="field">State
    <select value=${value} onChange=${(event) => setQuery({ state: event.target.value })}>
      ${option("", "all")}
      <optgroup label="Groups">${GROUP_WORDS.map(([name, words]) => option(name, words))}</optgroup>
      <optgroup label="States">${Object.entries(STATES).map(([name, [, , words]]) => option(name, words))}</optgroup>
    </select></label>`;
}

/** Links of which one is current. @param {{label: string, name: string, value: string, options: [string, string][], usual: string}} properties */
export function Choice({ label, name, value, options, usual }) {
  return html`<nav class="choice" aria-label=${label}>
    ${options.map(([each, words]) => html`<a key=${each} href=${withParameter(name, each === usual ? "" : each)}
      aria-current=${each === value ? "true" : undefined}>${words}</a>`)}
  </nav>`;
}

function withParameter(name, value) {
  const query = new URLSearchParams(location.search);
  if (value) query.set(name, value);
  else query.delete(name);
  const text = query.toString();
  return location.pathname + (text ? `?${text}` : "");
}

/** A search field, and further filters that fold away on a phone. Properties: `label`, `q`, `placeholder`, `active` filters, and the fields. */
export class FilterBar extends Component {
  render({ label, q, placeholder, active, children }, { open }) {
    return html`<form class="filters folding ${open ? "open" : ""}" role="search" aria-label=${label} onSubmit=${(event) => event.preventDefault()}>
      <label class="field grow">Search
        <input type="search" value=${q} placeholder=${placeholder} onInput=${(event) => setQuery({ q: event.target.value })} /></label>
      <button type="button" class="button filter-toggle" aria-expanded=${String(Boolean(open))} onClick=${() => this.setState({ open: !open })}>
        Filters${active ? ` (${active})` : ""}</button>
      ${children}
    </form>`;
  }
}
