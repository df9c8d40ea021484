// SPDX-License-Identifier: Apache-2.0
// States, times, notes and links: the smallest parts of every page.

import { Component, html } from "../dom.js";
import { age, entry, moment, printable, wholeMoment } from "../format.js";
import { address } from "../router.js";
import { Icon } from "./icons.js";

/** The states of `kuota list workload`: tone, picture and words. */
export const STATES = {
  PENDING: ["wait", "clock", "Pending"],
  QUOTARESERVED: ["wait", "half", "Quota reserved"],
  ADMITTED: ["good", "play", "Admitted"],
  PREEMPTED: ["wait", "back", "Preempted"],
  SUCCEEDED: ["calm", "check", "Succeeded"],
  FAILED: ["bad", "cross", "Failed"],
  TIMEOUT: ["bad", "timer", "Timeout"],
  DEACTIVATED: ["calm", "pause", "Deactivated"],
};

/** @param {{state: string}} properties */
export function State({ state }) {
  const [tone, icon, words] = entry(STATES, state) ?? ["calm", "ring", state];
  return html`<span class="state ${tone}"><${Icon} name=${icon} />${words}</span>`;
}

/** A badge with a tone of its own. @param {{tone: string, icon: string, children?: any}} properties */
export function Badge({ tone, icon, children }) {
  return html`<span class="state ${tone}"><${Icon} name=${icon} />${children}</span>`;
}

const ticking = new Set();
setInterval(() => ticking.forEach((each) => each.tick()), 1000);

/** A duration that grows: how long ago something was. */
export class Age extends Component {
  componentDidMount() {
    ticking.add(this);
  }

  componentWillUnmount() {
    ticking.delete(this);
  }

  tick() {
    if (!this.props.until && age(this.props.since) !== this.shown) this.setState({});
  }

  render({ since, until }) {
    this.shown = age(since, until);
    return since ? html`<time class="nowrap" datetime=${since} title=${wholeMoment(since)}>${this.shown}</time>` : null;
  }
}

/** @param {{at: string}} properties */
export function Moment({ at }) {
  return at ? html`<time class="nowrap" datetime=${at} title=${wholeMoment(at)}>${moment(at)}</time>` : null;
}

/** Text that users control. @param {{children?: any}} properties */
export function Text({ children }) {
  return html`<bdi>${printable([children].flat(Infinity).join(""))}</bdi>`;
}

/** @param {{tone?: string, children?: any}} properties */
export function Note({ tone = "", children }) {
  return html`<div class="note ${tone}"><${Icon} name="note" /><div>${children}</div></div>`;
}

/** @param {{title: string, command?: string, children?: any}} properties */
export function Empty({ title, command, children }) {
  return html`<div class="empty">
    <h2>${title}</h2>
    <p>${children}</p>
    ${command && html`<code>${command}</code>`}
  </div>`;
}

export function Loading() {
  return html`<div class="loading" role="status"><span>Loading…</span></div>`;
}

/** @param {{error: {message: string}, retry?: () => void, children?: any}} properties */
export function Failure({ error, retry, children }) {
  return html`<div class="empty" role="alert">
    <h2>This page cannot be shown</h2>
    <p><${Text}>${error.message}<//></p>
    ${children}
    ${retry && html`<p><button class="button" onClick=${retry}>Try again</button></p>`}
  </div>`;
}

/** @param {string} namespace @param {string} name */
export const workloadAddress = (namespace, name) => address(["workloads", namespace, name]);
/** @param {string} name */
export const queueAddress = (name) => address(["queues", name]);

/** A link to a referenced workload; its name as text for other kinds. @param {{to: {kind: string, name: string, namespace: string}, children?: any}} properties */
export function Reference({ to, children }) {
  const words = children ?? (to.namespace ? `${to.namespace}/${to.name}` : to.name);
  if (to.kind === "Workload") return html`<a href=${workloadAddress(to.namespace, to.name)}><${Text}>${words}<//></a>`;
  if (to.kind === "ClusterQueue") return html`<a href=${queueAddress(to.name)}><${Text}>${words}<//></a>`;
  return html`<${Text}>${to.kind} ${words}<//>`;
}

/** @param {{title: string, crumbs?: [string, string][], lead?: any, children?: any}} properties */
export function PageHead({ title, crumbs, lead, children }) {
  return html`<div class="page-head">
    <div>
      ${crumbs && html`<nav class="crumbs" aria-label="Path"><ol>
        ${crumbs.map(([words, url]) => html`<li><a href=${url}><${Text}>${words}<//></a></li>`)}
      </ol></nav>`}
      <h1 tabindex="-1"><${Text}>${title}<//></h1>
      ${lead && html`<p class="lead">${lead}</p>`}
    </div>
    ${children}
  </div>`;
}
