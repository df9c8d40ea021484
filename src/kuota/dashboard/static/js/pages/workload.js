// SPDX-License-Identifier: Apache-2.0
// One workload: state, why it waits, timeline, pods with their logs, and events.

import { html } from "../dom.js";
import { Actions } from "../parts/actions.js";
import { Age, Moment, Note, PageHead, queueAddress, Reference, State, Text } from "../parts/basics.js";
import { Explanation } from "../parts/explanation.js";
import { Live } from "../parts/live.js";
import { Pods } from "../parts/pods.js";
import { Timeline } from "../parts/timeline.js";
import { Checks, Conditions, Devices, Events, Labels, PodSets } from "../parts/workload-details.js";
import { complete, reasonOf } from "../rows.js";
import { address } from "../router.js";

/** @param {{session: any, place: any}} properties */
export function WorkloadPage({ session, place }) {
  const [namespace, name] = place.parts;
  const missing = html`<p>If it was deleted, its job is in the <a href=${address(["history"], { namespace })}>history</a>.</p>`;
  return html`<${Live} view="workload" title=${name} parameters=${{ namespace, name }} missing=${missing}>
    ${(model) => html`<${Workload} session=${session} model=${model} row=${complete(model.row)} />`}<//>`;
}

function Workload({ session, model, row }) {
  const crumbs = [["Jobs", address(["workloads"])], [row.namespace, address(["workloads"], { namespace: row.namespace })]];
  return html`
    <${PageHead} title=${row.job} crumbs=${crumbs} lead=${html`${row.kind} <${State} state=${row.state} />
        ${row.since && html` <span class="small">${row.finished ? "" : "for "}<${Age} since=${row.since} />${row.finished && " ago"}</span>`}`}>
      <${Actions} session=${session} label="${row.namespace}/${row.job}" actions=${model.actions} classes=${model.priorityClasses}
        priorityClass=${row.priorityClass} target=${{ kind: "Workload", namespace: row.namespace, name: row.name }} />
    <//>
    <div class="stack">
      <${Why} row=${row} explained=${model.explanation?.text} />
      <div class="columns wide-left">
        <div class="stack">
          ${model.explanation && html`<${Explanation} why=${model.explanation} />`}
          ${model.note && html`<${Note}><${Text}>${model.note}<//><//>`}
          <section class="card"><h2>Timeline</h2><${Timeline} entries=${model.timeline} /></section>
        </div>
        <div class="stack">
          <section class="card"><h2>Overview</h2><${Facts} row=${row} model=${model} /></section>
          <${PodSets} podSets=${model.podSets} />
          <${Checks} checks=${model.checks} />
          <${Devices} devices=${model.devices} />
        </div>
      </div>
      <${Pods} namespace=${row.namespace} pods=${model.pods} />
      <${Events} events=${model.events} />
      <${Labels} labels=${model.labels} />
      <${Conditions} conditions=${model.conditions} />
    </div>`;
}

function Why({ row, explained }) {
  const reason = reasonOf(row);
  const why = row.why === explained ? "" : reason.charAt(0).toUpperCase() + reason.slice(1);
  if (!why && !row.wayOut && !row.preemptedBy) return null;
  const tone = ["FAILED", "TIMEOUT"].includes(row.state) ? "bad" : row.state === "ADMITTED" || row.state === "SUCCEEDED" ? "" : "wait";
  return html`<${Note} tone=${tone}>
    ${why && html`<p><${Text}>${why}<//></p>`}
    ${row.preemptedBy && html`<p class="small">It made room for <${Reference} to=${row.preemptedBy} /></p>`}
    ${row.wayOut && html`<p class="small"><strong>To fix:</strong> <${Text}>${row.wayOut}<//></p>`}
  <//>`;
}

function Facts({ row, model }) {
  const fact = (name, value) => value && html`<dt>${name}</dt><dd>${value}</dd>`;
  const text = (value) => value && html`<${Text}>${value}<//>`;
  return html`<dl class="facts">
    ${fact("Team", text(row.namespace))}
    ${fact("User", text(row.user))}
    ${fact("Queue", row.clusterQueue ? html`<${Text}>${row.queue}<//> (<a href=${queueAddress(row.clusterQueue)}><${Text}>${row.clusterQueue}<//></a>)` : text(row.queue))}
    ${fact("Priority", html`${row.priority}${row.priorityClass && html` (<${Text}>${row.priorityClass}<//>)`}`)}
    ${fact("Requests", text(row.requests))}
    ${fact("Quota", text(row.gets))}
    ${fact("Submitted", html`<${Moment} at=${row.created} />`)}
    ${fact("Admitted", row.admitted && html`<${Moment} at=${row.admitted} />`)}
    ${fact("Finished", row.finished && html`<${Moment} at=${row.finished} />`)}
    ${fact("Ran", row.admitted && row.finished && html`<${Age} since=${row.admitted} until=${row.finished} />`)}
    ${fact("Evictions", row.evictions || null)}
    ${fact("Time limit", model.timeLimitSeconds && `${model.timeLimitSeconds} s`)}
    ${fact("Tries again", model.requeueAt && html`<${Moment} at=${model.requeueAt} />`)}
    ${fact("Preempted", model.preempts.length > 0 && html`<ul>${model.preempts.map((each) => html`<li><${Reference} to=${each} /></li>`)}</ul>`)}
    ${fact("Workload", html`<span class="mono"><${Text}>${row.name}<//></span>`)}
  </dl>`;
}
