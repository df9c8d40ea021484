// SPDX-License-Identifier: Apache-2.0
// What teams wasted in a period, by cause, as `kuota usage --waste` shows it.

import { html } from "../dom.js";
import { byResource, isDevice, resourceHours, shortResource } from "../format.js";
import { periodNamed } from "../periods.js";
import { Text } from "./basics.js";
import { Fetched } from "./fetched.js";

/** Name in the report, title of the column, and what it means. @type {[string, string, string][]} */
const CAUSES = [
  ["waiting", "Free", "quota was free while jobs of the team waited for it"],
  ["preempted", "Preempted", "runs that were preempted"],
  ["evicted", "Evicted", "runs that were evicted for another reason"],
  ["failedStart", "Failed start", "runs of jobs that never started"],
  ["idle", "Idle", "allocated devices that were not used"],
];

/** @param {{since: string}} properties */
export function WasteTable({ since }) {
  const parameters = () => {
    const { since: from, until } = periodNamed(since);
    return { since: from, until };
  };
  return html`<section class="card flush"><div class="section-head"><h2>Waste</h2></div>
    <${Fetched} path="waste" name=${since} parameters=${parameters}>${(found) => html`<${Table} items=${found.items} />`}<//>
  </section>`;
}

/** One row per team and device; CPUs if there are no devices. */
function rowsOf(items) {
  const all = items.flatMap(({ group, resources }) =>
    Object.entries(resources).sort(([a], [b]) => byResource(a, b)).map(([resource, causes]) => ({ group, resource, causes })));
  const devices = all.filter(({ resource }) => isDevice(resource));
  return devices.length ? devices : all.filter(({ resource }) => resource === "cpu");
}

function Table({ items }) {
  const rows = rowsOf(items);
  if (!rows.length) return html`<p class="muted inset below">Nothing was wasted in this period.</p>`;
  return html`<div class="scroll-x" tabindex="0" role="group" aria-label="Waste"><table>
      <thead><tr><th>Team</th><th>Resource hours</th>
        ${CAUSES.map(([name, title, meaning]) => html`<th key=${name} class="number" title=${meaning}>${title}</th>`)}
        <th class="number">Total</th></tr></thead>
      <tbody>${rows.map((row) => html`<${Row} key=${`${row.group} ${row.resource}`} ...${row} />`)}</tbody>
    </table></div>
    <dl class="meanings muted small">${CAUSES.map(([name, title, meaning]) => html`<div key=${name}><dt>${title}</dt><dd>${meaning}</dd></div>`)}</dl>`;
}

function Row({ group, resource, causes }) {
  const hours = CAUSES.map(([name]) => causes[name] ?? 0);
  const total = hours.reduce((sum, each) => sum + each, 0);
  return html`<tr><td><${Text}>${group}<//></td><td><${Text}>${shortResource(resource)}<//></td>
    ${hours.map((each) => html`<td class="number">${resourceHours(each, resource)}</td>`)}
    <td class="number"><strong>${resourceHours(total, resource)}</strong></td></tr>`;
}
