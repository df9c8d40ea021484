// SPDX-License-Identifier: Apache-2.0
// Actions on workloads and queues. Each needs a confirmation; the API server checks the permissions.

import { post } from "../api.js";
import { Component, html } from "../dom.js";
import { entry } from "../format.js";
import { Note, Text } from "./basics.js";
import { Dialog } from "./dialog.js";

/** @type {Record<string, {label: string, verb: string, title: string, text: (name: string) => string}>} */
const ACTIONS = {
  hold: {
    label: "Hold…",
    verb: "Hold",
    title: "Hold this workload?",
    text: (name) => `${name} stops if it runs, gives its quota back, and does not start again until someone releases it.`,
  },
  release: {
    label: "Release…",
    verb: "Release",
    title: "Release this workload?",
    text: (name) => `${name} returns to its queue and starts as soon as there is quota for it.`,
  },
  setPriority: {
    label: "Change priority…",
    verb: "Change priority",
    title: "Change the priority?",
    text: (name) => `The priority of ${name} decides when it starts, and whom it may preempt.`,
  },
  stopQueue: {
    label: "Stop queue…",
    verb: "Stop queue",
    title: "Stop this queue?",
    text: (name) => `${name} admits nothing more until someone resumes it.`,
  },
  resumeQueue: {
    label: "Resume queue…",
    verb: "Resume queue",
    title: "Resume this queue?",
    text: (name) => `${name} admits workloads again.`,
  },
};

/** Whether the viewer may change the object. A priority is changed at the job, whose kind decides. */
function permitted(session, { kind, namespace }, action) {
  const where = entry(session.changes, kind);
  return action === "setPriority" || where === null || Boolean(where?.includes(namespace));
}

/**
 * Buttons for the given actions, and their confirmation. Properties: `session`, `actions`, `target` with kind, namespace
 * and name, `label` for people, and for priorities `classes` and `priorityClass`.
 */
export class Actions extends Component {
  constructor() {
    super();
    this.state = { open: "", busy: false, error: "", done: "", drain: false, priorityClass: "" };
  }

  open(name) {
    this.setState({ open: name, error: "", done: "", drain: false, priorityClass: this.props.priorityClass ?? "" });
  }

  async confirm(event) {
    event.preventDefault();
    const { open, drain, priorityClass } = this.state;
    this.setState({ busy: true, error: "" });
    const more = open === "setPriority" ? { priorityClass } : open === "stopQueue" ? { drain } : {};
    try {
      const { message } = await post("actions", { action: open, ...this.props.target, ...more });
      this.setState({ open: "", busy: false, done: message });
    } catch (error) {
      this.setState({ busy: false, error: error.message });
    }
  }

  render({ session, actions, target, label }, { open, busy, error, done, drain, priorityClass }) {
    const offered = actions.filter((name) => name in ACTIONS && permitted(session, target, name));
    if (!session.actions || !offered.length) return null;
    const close = () => this.setState({ open: "" });
    return html`<div class="actions">
      <div class="buttons">
        ${offered.map((name) => html`<button class="button" key=${name} onClick=${() => this.open(name)}>
          ${ACTIONS[name].label}<span class="visually-hidden"> ${label}</span></button>`)}
      </div>
      <p role="status" class="small">${done && html`<${Text}>${done}<//>`}</p>
      ${open && html`<${Dialog} title=${ACTIONS[open].title} onClose=${close}>
        <form onSubmit=${(event) => this.confirm(event)}>
          <p><${Text}>${ACTIONS[open].text(label)}<//></p>
          ${open === "stopQueue" && html`<label class="check"><input type="checkbox" checked=${drain}
            onChange=${(event) => this.setState({ drain: event.target.checked })} />
            <span>Also evict the workloads that it has admitted</span></label>`}
          ${open === "setPriority" && this.choice(priorityClass)}
          <p class="small muted">An Event records that <${Text}>${session.user}<//> did this.</p>
          ${error && html`<div role="alert"><${Note} tone="bad"><${Text}>${error}<//><//></div>`}
          <div class="buttons">
            <button type="button" class="button" onClick=${close}>Cancel</button>
            <button type="submit" class="button primary" disabled=${busy || (open === "setPriority" && !this.props.classes.length)}>${ACTIONS[open].verb}</button>
          </div>
        </form>
      <//>`}
    </div>`;
  }

  /** A class can be replaced, but not removed. */
  choice(priorityClass) {
    const { classes, priorityClass: former } = this.props;
    if (!classes.length) return html`<${Note}>There is no WorkloadPriorityClass. An admin can create one.<//>`;
    return html`<label class="field">Priority class
      <select required value=${priorityClass} onChange=${(event) => this.setState({ priorityClass: event.target.value })}>
        ${!former && html`<option value="" selected=${!priorityClass}>choose one</option>`}
        ${classes.map((each) => html`<option value=${each.name} selected=${each.name === priorityClass}>
          ${each.name} (${each.value})</option>`)}
      </select>
    </label>`;
  }
}
