// SPDX-License-Identifier: Apache-2.0
// Nodes and their devices: what is in use, by whom, and how much of it is really used.

import { html } from "../dom.js";
import { byResource, bytes, counted, jobName, shortResource } from "../format.js";
import { Age, Badge, Empty, Note, PageHead, Reference, Text } from "../parts/basics.js";
import { Live } from "../parts/live.js";
import { Bar } from "../parts/quota.js";
import { setQuery } from "../router.js";

/** @param {{place: any}} properties */
export function NodesPage({ place }) {
  const q = place.query.get("q") ?? "";
  return html`<${PageHead} title="Nodes and devices" lead="Who holds each device, since when, and whether it is used." />
    <${Live} view="nodes">${(model) => html`<${Nodes} model=${model} q=${q} />`}<//>`;
}

function Nodes({ model, q }) {
  if (!model.nodes.length) return html`<${Empty} title="There are no nodes">Nothing can run here yet.<//>`;
  const nodes = model.nodes.filter((each) => !q || JSON.stringify(each).toLowerCase().includes(q.toLowerCase()));
  const devices = model.nodes.flatMap((each) => each.devices);
  const idle = devices.filter((each) => each.idleSince);
  return html`<div class="stack">
    ${model.note && html`<${Note}><${Text}>${model.note}<//><//>`}
    ${devices.length > 0 && html`<dl class="figures">
      <div><dt>Devices</dt><dd>${devices.length}</dd></div>
      <div><dt>Held</dt><dd>${devices.filter((each) => each.held).length}</dd></div>
      <div><dt>Held, but idle</dt><dd>${idle.length}</dd></div>
      <div><dt>Nodes</dt><dd>${model.nodes.length}</dd></div>
    </dl>`}
    ${model.nodes.length > 1 && html`<form class="filters" role="search" aria-label="Nodes" onSubmit=${(event) => event.preventDefault()}>
      <label class="field grow">Search<input type="search" value=${q} placeholder="Node, flavor, job or device"
        onInput=${(event) => setQuery({ q: event.target.value })} /></label></form>`}
    ${nodes.map((each) => html`<${Node} key=${each.name} node=${each} />`)}
    ${!nodes.length && html`<${Empty} title="No node matches">Change the search.<//>`}
  </div>`;
}

function Node({ node }) {
  const amounts = node.resources.toSorted((a, b) => byResource(a.resource, b.resource));
  return html`<section class="card node" aria-label="Node ${node.name}">
    <div class="node-head"><h2><${Text}>${node.name}<//></h2>
      ${node.unusable ? html`<${Badge} tone="bad" icon="cross"><${Text}>${node.unusable}<//><//>` : html`<${Badge} tone="good" icon="check">usable<//>`}
      <p class="small muted"><${Text}>${[...node.flavors, node.domain.join(" / ")].filter(Boolean).join(" · ")}<//></p></div>
    <ul class="quotas">${amounts.map((each) => html`<li class="quota" key=${each.resource}>
      <div class="quota-head"><strong><${Text}>${each.resource}<//></strong>
        <span class="nowrap"><strong>${each.used.text}</strong> <span class="muted">of ${each.allocatable.text}</span></span></div>
      <${Bar} segments=${[["used", Math.min(100, each.usedPercent)]]} /></li>`)}</ul>
    ${node.devices.length > 0 && html`<h3>Devices</h3><ul class="devices">${node.devices.map((each) => html`<${Device} key=${each.resource + each.id} device=${each} />`)}</ul>`}
    ${(node.contents.length > 0 || node.hiddenPods > 0) && html`<h3>Pods</h3><ul class="chips small">
      ${node.contents.map((each) => html`<li key=${each.owner.namespace + each.owner.name}>
        <${Reference} to=${each.owner}>${each.owner.namespace}/${jobName(each.job) || each.owner.name}<//> <span class="muted">× ${each.pods}</span></li>`)}
      ${node.hiddenPods > 0 && html`<li class="muted">${counted(node.hiddenPods, "pod")} of other teams</li>`}</ul>`}
  </section>`;
}

function Device({ device }) {
  const { utilizationPercent: used, memoryUsedBytes: memory, memoryTotalBytes: total } = device;
  return html`<li class="device ${device.held ? "held" : ""}">
    <div class="device-head"><strong>${shortResource(device.resource)}</strong> <span class="mono small muted clip" title=${device.id}><${Text}>${device.id}<//></span></div>
    <${Holder} device=${device} />
    ${used !== null && html`<${Bar} segments=${[["used", used]]} /><p class="small muted">${used}% utilization</p>`}
    ${memory !== null && html`<p class="small muted">${bytes(memory)}${total !== null ? ` of ${bytes(total)}` : ""}</p>`}
    ${device.idleSince && html`<${Badge} tone="wait" icon="pause">idle for <${Age} since=${device.idleSince} /><//>`}
  </li>`;
}

function Holder({ device }) {
  if (!device.held) return html`<p class="small muted">free</p>`;
  const since = device.since && html` <span class="muted nowrap">for <${Age} since=${device.since} /></span>`;
  const { workload, holder } = device;
  if (workload) return html`<p class="small"><${Reference} to=${workload}>${workload.namespace}/${jobName(device.job) || workload.name}<//>${since}</p>`;
  if (holder) return html`<p class="small"><${Reference} to=${holder} />${since}</p>`;
  return html`<p class="small">held by another team${since}</p>`;
}
