// SPDX-License-Identifier: Apache-2.0
// The cohort tree with quota, usage, and lent and borrowed amounts at every node.

import { Component, html } from "../dom.js";
import { byResource, counted } from "../format.js";
import { Badge, Empty, Note, PageHead, queueAddress, Text } from "../parts/basics.js";
import { Live } from "../parts/live.js";
import { QuotaLegend, Quotas } from "../parts/quota.js";
import { setQuery } from "../router.js";

/** @param {{place: any}} properties */
export function TreePage({ place }) {
  const filter = { q: place.query.get("q") ?? "", resource: place.query.get("resource") ?? "" };
  return html`<${PageHead} title="Quota" lead="Cohorts and ClusterQueues: what each may use, what it uses, and what it lends and borrows." />
    <${Live} view="tree">${(model) => html`<${Tree} model=${model} filter=${filter} />`}<//>`;
}

function Tree({ model, filter }) {
  if (!model.roots.length) {
    return html`<${Empty} title="There are no queues yet" command="kuota apply -f queues.yaml">
      Quota is defined by ClusterQueues, and shared by cohorts.<//>`;
  }
  const roots = model.roots.map((each) => filtered(each, filter.q.toLowerCase())).filter(Boolean);
  return html`<div class="stack">
    <div class="tree-tools"><${Filters} model=${model} filter=${filter} /><${QuotaLegend} /></div>
    ${model.cyclic.length > 0 && html`<${Note} tone="bad">These cohorts are not in the tree, because their parents form a
      cycle: <${Text}>${model.cyclic.join(", ")}<//><//>`}
    ${roots.map((each) => html`<section class="card tree-root" key=${each.kind + each.name}>
      <ul class="tree"><${Node} node=${each} resource=${filter.resource} /></ul></section>`)}
    ${!roots.length && html`<${Empty} title="No queue matches">No cohort or ClusterQueue contains “<${Text}>${filter.q}<//>”.<//>`}
  </div>`;
}

function Filters({ model, filter }) {
  const resources = [...resourcesOf(model.roots)].sort(byResource);
  return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
    <label class="field">Name
      <input type="search" value=${filter.q} onInput=${(event) => setQuery({ q: event.target.value })} /></label>
    <label class="field">Resource
      <select value=${filter.resource} onChange=${(event) => setQuery({ resource: event.target.value })}>
        <option value="">all</option>
        ${resources.map((each) => html`<option value=${each} selected=${each === filter.resource}>${each}</option>`)}
      </select></label>
  </form>`;
}

function resourcesOf(nodes, found = new Set()) {
  for (const node of nodes) {
    for (const cell of node.quotas) found.add(cell.resource);
    resourcesOf(node.children, found);
  }
  return found;
}

/** The node without what does not match; null if nothing does. */
function filtered(node, q) {
  if (!q || node.name.toLowerCase().includes(q)) return node;
  const children = node.children.map((each) => filtered(each, q)).filter(Boolean);
  return children.length ? { ...node, children } : null;
}

/** Properties: `node`, `resource` that is shown, and `depth`. */
class Node extends Component {
  render({ node, resource, depth = 0 }, { closed }) {
    const cells = node.quotas.filter((each) => !resource || each.resource === resource);
    const toggle = () => this.setState({ closed: !closed });
    return html`<li class="tree-node">
      <div class="tree-row" style=${{ "--depth": depth }}>
        <${Title} node=${node} closed=${closed} toggle=${toggle} />
        <div>
          ${node.inactive && html`<${Note} tone="wait"><${Text}>${node.inactive}<//><//>`}
          ${cells.length > 0 ? html`<${Quotas} cells=${cells} />` : html`<p class="small muted">no quota of its own</p>`}
        </div>
        <${Counts} node=${node} />
      </div>
      ${node.children.length > 0 && !closed && html`<ul class="tree">${node.children.map((each) => html`<${Node}
        key=${each.kind + each.name} node=${each} resource=${resource} depth=${depth + 1} />`)}</ul>`}
    </li>`;
  }
}

function Title({ node, closed, toggle }) {
  const queue = node.kind === "ClusterQueue";
  return html`<div class="tree-title">
    <span class="small muted">${queue ? "ClusterQueue" : node.exists ? "Cohort" : "Cohort, implicit"}</span>
    <span class="tree-name">
      ${queue ? html`<a href=${queueAddress(node.name)}><${Text}>${node.name}<//></a>` : html`<${Text}>${node.name}<//>`}
      ${node.children.length > 0 && html`<button class="toggle" aria-expanded=${String(!closed)} onClick=${toggle}>
        <span class="visually-hidden">${closed ? "Show" : "Hide"} what is below ${node.name}</span><span aria-hidden="true">›</span></button>`}
    </span>
    ${node.stopPolicy !== "None" && html`<span><${Badge} tone="wait" icon="pause">stopped<//></span>`}
    ${node.inactive && node.stopPolicy === "None" && html`<span><${Badge} tone="bad" icon="cross">inactive<//></span>`}
  </div>`;
}

function Counts({ node }) {
  return html`<div class="tree-counts small"><span class=${node.pending > 0 ? "waits" : "muted"}>${counted(node.pending, "pending", "pending")}</span>
    <span class="muted">${counted(node.admitted, "admitted", "admitted")}</span>
    ${node.share !== null && html`<span class="muted">share ${node.share}</span>`}</div>`;
}
