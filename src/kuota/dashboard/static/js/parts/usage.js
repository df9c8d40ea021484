// SPDX-License-Identifier: Apache-2.0
// The account of a period, as `kuota usage` shows it.

import { html } from "../dom.js";
import { byResource, entry, isDevice, resourceHours, rounded, shortResource } from "../format.js";
import { periodNamed } from "../periods.js";
import { Text } from "./basics.js";
import { Fetched } from "./fetched.js";
import { Choice } from "./filters.js";

/** @type {[string, string][]} */
const GROUPINGS = [["team", "Team"], ["queue", "Queue"], ["user", "User"], ["flavor", "Flavor"]];

/** @param {{by: string, since: string}} properties */
export function UsageTable({ by, since }) {
  const parameters = () => {
    const { since: from, until } = periodNamed(since);
    return { by, since: from, until };
  };
  return html`<section class="card flush"><div class="section-head"><h2>Usage</h2>
      <${Choice} label="Group by" name="by" value=${by} options=${GROUPINGS} usual="team" /></div>
    <${Fetched} path="usage" name=${`${by} ${since}`} parameters=${parameters}>${(found) => html`<${Table} by=${by} items=${found.items} />`}<//>
  </section>`;
}

function Table({ by, items }) {
  if (!items.length) return html`<p class="muted inset below">Nothing was used in this period.</p>`;
  const resources = [...new Set(items.flatMap((each) => Object.keys(each.resources)))].sort(byResource);
  const devices = resources.filter((each) => isDevice(each));
  return html`<div class="scroll-x" tabindex="0" role="group" aria-label="Usage"><table>
    <thead><tr><th>${entry(Object.fromEntries(GROUPINGS), by) ?? by}</th><th class="number">Jobs</th>
      ${resources.map((each) => html`<th class="number">${shortResource(each)} hours</th>`)}
      ${devices.map((each) => html`<th class="number">Lost ${shortResource(each)} hours</th>`)}
      <th class="number">Hours waited</th><th class="number">Preemptions</th></tr></thead>
    <tbody>${items.map((each) => html`<tr key=${each.group}>
      <td>${each.group ? html`<${Text}>${each.group}<//>` : html`<span class="muted">(unknown)</span>`}</td>
      <td class="number">${each.jobs}</td>
      ${resources.map((name) => html`<td class="number">${resourceHours(each.resources[name]?.hours ?? 0, name)}</td>`)}
      ${devices.map((name) => html`<td class="number">${resourceHours(each.resources[name]?.lost ?? 0, name)}</td>`)}
      <td class="number">${rounded(each.waitingHours)}</td><td class="number">${each.preemptions}</td></tr>`)}</tbody>
  </table></div>`;
}
