// SPDX-License-Identifier: Apache-2.0
// The table of jobs, of any length.

import { html } from "../dom.js";
import { reasonOf } from "../rows.js";
import { Age, Empty, queueAddress, State, Text, workloadAddress } from "./basics.js";
import { SortHead, VirtualTable } from "./virtual.js";

/** @param {{rows: any[], sort: string, onSort: (sort: string) => void, label: string, filtered: boolean}} properties */
export function JobTable({ rows, sort, onSort, label, filtered }) {
  if (!rows.length) {
    return filtered
      ? html`<${Empty} title="No job matches">Change the search or the filters.<//>`
      : html`<${Empty} title="There are no jobs yet" command="kuota run -q QUEUE --gpus 1 -- COMMAND">Submit one, for example with<//>`;
  }
  const head = html`
    <${SortHead} name="job" sort=${sort} onSort=${onSort}>Job<//>
    <${SortHead} name="state" sort=${sort} onSort=${onSort}>State<//>
    <${SortHead} name="queue" sort=${sort} onSort=${onSort}>Queue<//>
    <${SortHead} name="priority" sort=${sort} onSort=${onSort} number>Priority<//>
    <${SortHead} name="age" sort=${sort} onSort=${onSort} number>Age<//>
    <div role="columnheader" class="cell-why">Requests, and why it waits</div>`;
  return html`<${VirtualTable} rows=${rows} label=${label} columns="jobs" heights=${[56, 98]} head=${head}
    rowKey=${(row) => row.key} row=${cells} />`;
}

function cells(row) {
  return html`
    <div role="cell" class="cell-job">
      <a href=${workloadAddress(row.namespace, row.name)} title=${row.job}><${Text}>${row.job}<//></a>
      <span class="small muted clip"><${Text}>${row.namespace}<//> · ${row.kind}${row.user && html` · <${Text}>${row.user}<//>`}</span>
    </div>
    <div role="cell" class="cell-state"><${State} state=${row.state} /></div>
    <div role="cell" class="cell-queue clip">${row.clusterQueue
      ? html`<a class="quiet" href=${queueAddress(row.clusterQueue)} tabindex="-1"><${Text}>${row.clusterQueue}<//></a>`
      : html`<span class="muted"><${Text}>${row.queue || "–"}<//></span>`}</div>
    <div role="cell" class="cell-priority number">${row.priority}</div>
    <div role="cell" class="cell-age number"><${Age} since=${row.created} /></div>
    <div role="cell" class="cell-why"><span class="clip"><${Text}>${row.gets || row.requests}<//></span>
      ${row.why && html`<span class="small muted clip" title=${reasonOf(row)}><${Text}>${reasonOf(row)}<//></span>`}</div>`;
}
