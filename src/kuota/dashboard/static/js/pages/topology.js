// SPDX-License-Identifier: Apache-2.0
// A picture of the domains of each flavor with a topology, and of what runs in them.

import { html } from "../dom.js";
import { byResource, counted, jobName, shortResource } from "../format.js";
import { Empty, Note, PageHead, Reference, Text } from "../parts/basics.js";
import { Select } from "../parts/filters.js";
import { Live } from "../parts/live.js";
import { Bar } from "../parts/quota.js";

/** @param {{place: any}} properties */
export function TopologyPage({ place }) {
  const chosen = { flavor: place.query.get("flavor") ?? "", resource: place.query.get("resource") ?? "" };
  return html`<${PageHead} title="Topology" lead="Blocks, racks and hosts: what is free in each, and which workloads it contains." />
    <${Live} view="topology">${(model) => html`<${Topology} model=${model} chosen=${chosen} />`}<//>`;
}

function Topology({ model, chosen }) {
  if (!model.flavors.length) {
    return html`${model.notes.map((each) => html`<${Note}><${Text}>${each}<//><//>`)}
      <${Empty} title="No flavor has a topology">A ResourceFlavor with topologyName places pods close to each other.<//>`;
  }
  const resources = [...new Set(model.flavors.flatMap((each) => each.domains.flatMap((one) => one.resources.map((amount) => amount.resource))))].sort(byResource);
  const resource = resources.includes(chosen.resource) ? chosen.resource : resources[0];
  const flavors = model.flavors.filter((each) => !chosen.flavor || each.flavor === chosen.flavor);
  return html`<div class="stack">
    <form class="filters" role="search" aria-label="Topology" onSubmit=${(event) => event.preventDefault()}>
      <${Select} label="Flavor" name="flavor" value=${chosen.flavor} options=${model.flavors.map((each) => each.flavor)} />
      <${Select} label="Resource" name="resource" value=${chosen.resource} options=${resources} all=${resources[0] ?? ""} />
    </form>
    ${model.notes.map((each) => html`<${Note}><${Text}>${each}<//><//>`)}
    <ul class="legend" aria-label="Meaning of the bars">
      <li><${Bar} segments=${[["used", 100]]} />placed workloads</li><li><${Bar} segments=${[["borrowed", 100]]} />other pods</li></ul>
    ${flavors.map((each) => html`<${Flavor} key=${each.flavor} flavor=${each} resource=${resource} />`)}
  </div>`;
}

function Flavor({ flavor, resource }) {
  return html`<section class="card" aria-label="Flavor ${flavor.flavor}">
    <div class="flavor-head"><h2><${Text}>${flavor.flavor}<//></h2>
      <p class="small muted">topology <${Text}>${flavor.topology}<//> · ${counted(flavor.nodes, "node")} · <${Text}>${flavor.levels.join(" → ")}<//></p></div>
    <ul class="domains">${flavor.domains.map((each) => html`<${Domain} key=${each.name} domain=${each} resource=${resource} />`)}</ul>
    ${flavor.unused.length > 0 && html`<h3>Nodes that are not used</h3><ul class="bullets small">${flavor.unused.map((each) => html`<li>
      <strong><${Text}>${each.name}<//></strong>: <${Text}>${each.reason}<//></li>`)}</ul>`}
  </section>`;
}

function Domain({ domain, resource }) {
  const leaf = !domain.children.length;
  const amount = domain.resources.find((each) => each.resource === resource);
  return html`<li class="domain ${leaf ? "leaf" : "inner"}">
    <div class="domain-head"><span><strong><${Text}>${domain.name}<//></strong> <span class="small muted"><${Text}>${domain.level.split("/").at(-1)}<//></span></span>
      ${amount && html`<span class="small nowrap">${amount.free.text} of ${amount.total.text} ${shortResource(resource)} free</span>`}</div>
    ${amount && html`<${Bar} segments=${segments(amount)} />`}
    ${leaf ? html`<${Contents} domain=${domain} />`
      : html`<ul class="domains">${domain.children.map((each) => html`<${Domain} key=${each.name} domain=${each} resource=${resource} />`)}</ul>`}
  </li>`;
}

function segments({ total, placed, others }) {
  const whole = Math.max(total.value, placed.value + others.value, Number.MIN_VALUE);
  return [["used", (100 * placed.value) / whole], ["borrowed", (100 * others.value) / whole]].filter(([, percent]) => percent > 0);
}

function Contents({ domain }) {
  if (!domain.contents.length && !domain.hiddenPods) return html`<p class="small muted">empty</p>`;
  return html`<ul class="chips small">
    ${domain.contents.map((each) => html`<li key=${`${each.workload.namespace}/${each.workload.name}`}>
      <${Reference} to=${each.workload}>${each.workload.namespace}/${jobName(each.job) || each.workload.name}<//> <span class="muted">× ${each.pods}</span></li>`)}
    ${domain.hiddenPods > 0 && html`<li class="muted">${counted(domain.hiddenPods, "pod")} of other teams</li>`}
  </ul>`;
}
