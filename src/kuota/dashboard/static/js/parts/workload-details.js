// SPDX-License-Identifier: Apache-2.0
// Details of a workload: pod sets, admission checks, devices, events, labels and conditions.

import { html } from "../dom.js";
import { entry } from "../format.js";
import { Age, Badge, Moment, Text } from "./basics.js";
import { Bar } from "./quota.js";

export function PodSets({ podSets }) {
  if (!podSets.length) return null;
  return html`<section class="card"><h2>Pod sets</h2>${podSets.map((each) => html`<div class="pod-set" key=${each.name}>
    <h3><${Text}>${each.name}<//> <span class="muted">${each.admitted !== null && each.admitted !== each.count
      ? `${each.admitted} of ${each.count} pods` : `${each.count} ${each.count === 1 ? "pod" : "pods"}`}</span></h3>
    <p class="small">requests <${Text}>${each.requests || "nothing"}<//>${each.count > 1 && each.requests && " in total"}</p>
    ${Object.keys(each.flavors).length > 0 && html`<p class="small muted">${Object.entries(each.flavors).map(([resource, flavor], at) =>
      html`${at ? ", " : ""}<${Text}>${resource}<//> on <${Text}>${flavor}<//>`)}</p>`}
    ${each.topology && html`<p class="small muted">topology <${Text}>${each.topology}<//></p>`}
    ${each.placement.length > 0 && html`<ul class="small bullets">${each.placement.map((one) => html`<li>
      <strong>${one.pods}</strong> in <${Text}>${one.domain.join(" / ")}<//>${one.ranks && html` <span class="muted">ranks ${one.ranks}</span>`}</li>`)}</ul>`}
  </div>`)}</section>`;
}

const CHECKS = { Ready: ["good", "check"], Pending: ["wait", "clock"], Retry: ["wait", "back"], Rejected: ["bad", "cross"] };

export function Checks({ checks }) {
  if (!checks.length) return null;
  return html`<section class="card"><h2>Admission checks</h2><ul class="lines">${checks.map((each) => {
    const [tone, icon] = entry(CHECKS, each.state) ?? ["calm", "ring"];
    return html`<li key=${each.name}><strong><${Text}>${each.name}<//></strong> <${Badge} tone=${tone} icon=${icon}>${each.state}<//>
      ${each.message && html`<p class="small muted"><${Text}>${each.message}<//></p>`}</li>`;
  })}</ul></section>`;
}

export function Devices({ devices }) {
  if (!devices.length) return null;
  return html`<section class="card"><h2>Devices</h2><ul class="lines">${devices.map((each) => html`<li key=${each.node + each.id}>
    <span class="mono"><${Text}>${each.id}<//></span> <span class="muted">on <${Text}>${each.node}<//></span>
    ${each.utilizationPercent !== null && html`<${Bar} segments=${[["used", each.utilizationPercent]]} />
      <p class="small muted">${each.utilizationPercent}% used${each.idleSince && html`, idle for <${Age} since=${each.idleSince} />`}</p>`}
  </li>`)}</ul></section>`;
}

export function Events({ events }) {
  if (!events.length) return null;
  return html`<section class="card flush"><h2>Events</h2><div class="scroll-x" tabindex="0" role="group" aria-label="Events"><table class="stacked" role="table">
    <thead><tr><th>Time</th><th>Reason</th><th>Object</th><th>Message</th></tr></thead>
    <tbody>${events.map((each, at) => html`<tr key=${at} role="row">
      <td role="cell"><${Moment} at=${each.time} />${each.count > 1 && html`<p class="small muted">${each.count} times</p>`}</td>
      <td role="cell">${each.type === "Warning" ? html`<${Badge} tone="bad" icon="note">${each.reason}<//>` : html`<${Text}>${each.reason}<//>`}</td>
      <td role="cell" class="small"><${Text}>${each.object.kind} ${each.object.name}<//></td>
      <td role="cell" class="message whole"><${Text}>${each.message}<//></td></tr>`)}</tbody>
  </table></div></section>`;
}

export function Labels({ labels }) {
  const entries = Object.entries(labels);
  if (!entries.length) return null;
  return html`<details class="card"><summary><h2>Labels</h2></summary><dl class="facts small mono-values">
    ${entries.map(([name, value]) => html`<dt><${Text}>${name}<//></dt><dd><${Text}>${value}<//></dd>`)}</dl></details>`;
}

export function Conditions({ conditions }) {
  if (!conditions.length) return null;
  return html`<details class="card"><summary><h2>Conditions</h2></summary><ul class="lines">${conditions.map((each) => html`<li key=${each.type}>
    <strong><${Text}>${each.type}<//></strong> is ${each.status} <span class="muted">(<${Text}>${each.reason}<//>, <${Moment} at=${each.since} />)</span>
    ${each.message && html`<p class="small"><${Text}>${each.message}<//></p>`}</li>`)}</ul></details>`;
}
