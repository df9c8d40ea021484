// SPDX-License-Identifier: Apache-2.0
// Jobs of the past, also those that were deleted since, as `kuota history` shows them.

import { html } from "../dom.js";
import { counted, entry, isDevice, rounded, shortResource, span } from "../format.js";
import { Badge, Empty, Moment, PageHead, Text, workloadAddress } from "../parts/basics.js";
import { Fetched } from "../parts/fetched.js";
import { Choice, FilterBar, Select } from "../parts/filters.js";
import { VirtualTable } from "../parts/virtual.js";
import { PERIOD_CHOICES, periodNamed, USUAL_PERIOD } from "../periods.js";
import { values } from "../rows.js";

const LIMIT = 5000;
const STATES = {
  Waiting: ["wait", "clock"], Running: ["good", "play"], Deactivated: ["calm", "pause"],
  Succeeded: ["calm", "check"], Failed: ["bad", "cross"], Deleted: ["calm", "cross"], Replaced: ["calm", "back"],
};
const FIELDS = ["q", "outcome", "namespace", "user"];

/** @param {{place: any}} properties */
export function HistoryPage({ place }) {
  const since = place.query.get("since") || USUAL_PERIOD;
  const filter = Object.fromEntries(FIELDS.map((each) => [each, place.query.get(each) ?? ""]));
  const parameters = () => {
    const { since: from, until } = periodNamed(since);
    return { since: from, until, limit: LIMIT };
  };
  return html`<${PageHead} title="History">
      <${Choice} label="Period" name="since" value=${since} options=${PERIOD_CHOICES} usual=${USUAL_PERIOD} />
    <//>
    <${Fetched} path="history" name=${since} parameters=${parameters}>${(found) => html`<${Jobs} found=${found} filter=${filter} />`}<//>`;
}

/** Values of rows that omit them. */
const DEFAULTS = { queue: "", clusterQueue: "", user: "", started: "", finished: "", state: "", cause: "", waitedSeconds: 0, ranSeconds: 0, preemptions: 0, resources: {} };

function Jobs({ found, filter }) {
  const all = found.items.map((each) => ({ ...DEFAULTS, ...each }));
  if (!all.length) return html`<${Empty} title="No jobs in this period">Choose a longer one.<//>`;
  const words = filter.q.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = all.filter((each) => (!filter.namespace || each.namespace === filter.namespace) && (!filter.user || each.user === filter.user) &&
    (!filter.outcome || each.state === filter.outcome) &&
    words.every((word) => [each.job, each.namespace, each.user, each.queue, each.clusterQueue, each.cause].some((text) => text.toLowerCase().includes(word))));
  const head = html`<div role="columnheader">Job</div><div role="columnheader" class="cell-state">Outcome</div>
    <div role="columnheader" class="cell-finished">Finished</div><div role="columnheader" class="number cell-waited">Waited</div>
    <div role="columnheader" class="number cell-ran">Ran</div><div role="columnheader" class="number cell-preempted">Preempted</div>
    <div role="columnheader" class="cell-why">Used</div>`;
  const active = FIELDS.filter((each) => each !== "q" && filter[each]).length;
  return html`<${FilterBar} label="History" q=${filter.q} placeholder="Name, team, user, queue or cause" active=${active}>
      <${Select} label="Outcome" name="outcome" value=${filter.outcome} options=${values(all, "state")} />
      <${Select} label="Team" name="namespace" value=${filter.namespace} options=${values(all, "namespace")} />
      <${Select} label="User" name="user" value=${filter.user} options=${values(all, "user")} />
    <//>
    <p class="small muted result-count"><span role="status">${counted(rows.length, "job")}</span>${found.remaining > 0 && ` · ${found.remaining} older ones are not shown`}</p>
    ${rows.length ? html`<${VirtualTable} rows=${rows} label="Jobs of the past" columns="past" heights=${[56, 104]} head=${head}
        rowKey=${(row) => `${row.namespace}/${row.workload}/${row.submitted}`} row=${cells} />`
      : html`<${Empty} title="No job matches">Change the search or the filters.<//>`}`;
}

function cells(row) {
  const [tone, icon] = entry(STATES, row.state) ?? ["calm", "ring"];
  return html`
    <div role="cell" class="cell-job"><a href=${workloadAddress(row.namespace, row.workload)} title=${row.job}><${Text}>${row.job || row.workload}<//></a>
      <span class="small muted clip"><${Text}>${row.namespace}<//>${row.user && html` · <${Text}>${row.user}<//>`}${row.queue && html` · <${Text}>${row.queue}<//>`}</span></div>
    <div role="cell" class="cell-state"><${Badge} tone=${tone} icon=${icon}>${row.state}<//></div>
    <div role="cell" class="cell-finished"><${Moment} at=${row.finished} /></div>
    <div role="cell" class="cell-waited number">${span(row.waitedSeconds)}</div>
    <div role="cell" class="cell-ran number">${span(row.ranSeconds)}</div>
    <div role="cell" class="cell-preempted number">${row.preemptions}</div>
    <div role="cell" class="cell-why"><span class="clip">${used(row.resources)}</span>
      ${row.cause && html`<span class="small muted clip" title=${row.cause}><${Text}>${row.cause}<//></span>`}</div>`;
}

function used(resources) {
  const entries = Object.entries(resources);
  const devices = entries.filter(([name]) => isDevice(name));
  return (devices.length ? devices : entries.filter(([name]) => name === "cpu"))
    .map(([name, { hours, lost }]) => `${rounded(hours)} ${shortResource(name)} hours${lost ? `, ${rounded(lost)} lost` : ""}`).join(" · ");
}
