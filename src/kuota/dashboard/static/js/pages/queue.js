// SPDX-License-Identifier: Apache-2.0
// One ClusterQueue: its quota, whom it lends to, and its pending workloads in order with the reason each one waits.

import { BASE } from "../api.js";
import { html } from "../dom.js";
import { counted } from "../format.js";
import { Actions } from "../parts/actions.js";
import { Age, Badge, Empty, Note, PageHead, queueAddress, State, Text, workloadAddress } from "../parts/basics.js";
import { Live } from "../parts/live.js";
import { QuotaLegend, Quotas } from "../parts/quota.js";
import { VirtualTable } from "../parts/virtual.js";
import { address } from "../router.js";
import { reasonOf } from "../rows.js";

/** @param {{session: any, place: any}} properties */
export function QueuePage({ session, place }) {
  const [name] = place.parts;
  return html`<${Live} view="queue" title=${name} parameters=${{ name }}>
    ${(model) => html`<${Queue} session=${session} meta=${model.meta} rows=${inOrder(model.rows)} />`}<//>`;
}

const inOrder = (rows) => [...rows.values()].sort((a, b) => (a.order < b.order ? -1 : a.order > b.order ? 1 : 0));

function Queue({ session, meta, rows }) {
  const { queue } = meta;
  const stopped = queue.stopPolicy !== "None";
  const crumbs = [["Quota", `${BASE}/`], ...meta.path.map((each) => [each, address([], { q: each })])];
  return html`
    <${PageHead} title=${queue.name} crumbs=${crumbs} lead=${html`ClusterQueue ${status(queue, stopped)}`}>
      <${Actions} session=${session} label="ClusterQueue ${queue.name}" actions=${[stopped ? "resumeQueue" : "stopQueue"]}
        target=${{ kind: "ClusterQueue", namespace: "", name: queue.name }} />
    <//>
    <div class="stack">
      ${queue.inactive && html`<${Note} tone="wait"><${Text}>${queue.inactive}<//><//>`}
      <div class="columns wide-left">
        <section class="card"><h2>Quota</h2>
          ${queue.quotas.length ? html`<${Quotas} cells=${queue.quotas} /><div class="legend-below"><${QuotaLegend} /></div>`
            : html`<p class="muted">It has no quota.</p>`}
          <${Loans} meta=${meta} />
        </section>
        <section class="card"><h2>Workloads</h2>
          <dl class="figures">
            <div><dt>Pending</dt><dd>${queue.pending}</dd></div>
            <div><dt>Reserving quota</dt><dd>${queue.reserving}</dd></div>
            <div><dt>Admitted</dt><dd>${queue.admitted}</dd></div>
          </dl>
          <p class="small more"><a href=${address(["workloads"], { queue: queue.name })}>All jobs of this queue</a></p>
          <dl class="facts small">
            ${queue.queueingStrategy && html`<dt>Strategy</dt><dd>${queue.queueingStrategy}</dd>`}
            <dt>Weight</dt><dd>${queue.weight}</dd>
            ${queue.share !== null && html`<dt>Share</dt><dd>${queue.share}</dd>`}
          </dl>
        </section>
      </div>
      <${LocalQueues} session=${session} queues=${queue.localQueues} />
      <${Pending} meta=${meta} rows=${rows} />
    </div>`;
}

function status(queue, stopped) {
  if (stopped) return html`<${Badge} tone="wait" icon="pause">stopped (${queue.stopPolicy})<//>`;
  return queue.inactive ? html`<${Badge} tone="bad" icon="cross">inactive<//>` : html`<${Badge} tone="good" icon="check">active<//>`;
}

function Loans({ meta }) {
  const lines = [
    ...meta.lenders.map((each) => [each, "borrows", each.lender ? ["from", each.lenderKind, each.lender] : null]),
    ...meta.borrowers.map((each) => [each, "lends", ["to", "ClusterQueue", each.borrower]]),
  ];
  if (!lines.length) return null;
  return html`<ul class="loans small">${lines.map(([loan, verb, other]) => html`<li>
    ${verb} <strong>${loan.amount.text} <${Text}>${loan.resource}<//></strong> on <${Text}>${loan.flavor}<//>
    ${other ? html` ${other[0]} ${other[1] === "ClusterQueue" ? html`<a href=${queueAddress(other[2])}><${Text}>${other[2]}<//></a>`
      : html`cohort <${Text}>${other[2]}<//>`}` : " beyond all quota"}</li>`)}</ul>`;
}

function LocalQueues({ session, queues }) {
  if (!queues.length) return null;
  return html`<section class="card flush"><h2>LocalQueues</h2><div class="scroll-x" tabindex="0" role="group" aria-label="LocalQueues"><table class="stacked" role="table">
    <thead><tr><th>Team</th><th>Name</th><th class="number">Pending</th><th class="number">Admitted</th><th>State</th>
      ${session.actions && html`<th><span class="visually-hidden">Actions</span></th>`}</tr></thead>
    <tbody>${queues.map((each) => html`<tr key=${`${each.namespace}/${each.name}`} role="row">
      <td role="cell"><${Text}>${each.namespace}<//></td><td role="cell"><${Text}>${each.name}<//></td>
      <td role="cell" class="number" data-label="pending">${each.pending}</td><td role="cell" class="number" data-label="admitted">${each.admitted}</td>
      <td role="cell">${each.stopPolicy !== "None" ? html`<${Badge} tone="wait" icon="pause">stopped (${each.stopPolicy})<//>`
        : each.inactive ? html`<${Text}>${each.inactive}<//>` : html`<${Badge} tone="good" icon="check">active<//>`}</td>
      ${session.actions && html`<td role="cell" class="end"><${Actions} session=${session} label="LocalQueue ${each.namespace}/${each.name}"
        actions=${[each.stopPolicy !== "None" ? "resumeQueue" : "stopQueue"]}
        target=${{ kind: "LocalQueue", namespace: each.namespace, name: each.name }} /></td>`}
    </tr>`)}</tbody></table></div></section>`;
}

function Pending({ meta, rows }) {
  const { hidden, positions } = meta;
  const place = (at) => positions?.[at] ?? at + 1;
  const head = html`<div role="columnheader" class="number">Position</div><div role="columnheader">Job</div>
    <div role="columnheader" class="cell-state">State</div><div role="columnheader" class="number cell-priority">Priority</div>
    <div role="columnheader" class="number cell-age">Waits</div><div role="columnheader" class="cell-why">Waits because</div>`;
  return html`<section class="card flush"><h2>Pending, in order</h2>
    ${hidden > 0 && html`<p class="small muted inset">${counted(hidden, "workload")} of other teams ${hidden === 1 ? "is" : "are"} not shown.</p>`}
    ${rows.length ? html`<${VirtualTable} rows=${rows} label="Pending workloads" columns="pending" heights=${[56, 98]} head=${head}
        rowKey=${(row) => row.key} row=${(row, at) => pendingCells(row, place(at))} />`
      : html`<${Empty} title="Nothing waits here">${hidden ? "None of the pending workloads is yours." : "Every workload of this queue has its quota."}<//>`}
  </section>`;
}

function pendingCells(row, position) {
  return html`
    <div role="cell" class="cell-position number muted">${position}</div>
    <div role="cell" class="cell-job"><a href=${workloadAddress(row.namespace, row.name)} title=${row.job}><${Text}>${row.job}<//></a>
      <span class="small muted clip"><${Text}>${row.namespace}<//> · <${Text}>${row.requests}<//></span></div>
    <div role="cell" class="cell-state"><${State} state=${row.state} /></div>
    <div role="cell" class="cell-priority number">${row.priority}</div>
    <div role="cell" class="cell-age number"><${Age} since=${row.since || row.created} /></div>
    <div role="cell" class="cell-why"><span class="clip-2" title=${reasonOf(row)}><${Text}>${reasonOf(row)}<//></span></div>`;
}
