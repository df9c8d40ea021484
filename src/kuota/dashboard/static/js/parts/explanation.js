// SPDX-License-Identifier: Apache-2.0
// Why a workload waits, as `kuota describe` explains it: position, flavors that were tried, and what would help.

import { html } from "../dom.js";
import { Text } from "./basics.js";

/** @param {{why: any}} properties */
export function Explanation({ why }) {
  const tried = (why.tried ?? []).filter((each) => each.lacks?.length);
  const help = [...new Set((why.help ?? []).map((each) => each.text))];
  const protectedOnes = why.protected ?? [];
  return html`<section class="card explanation"><h2>Why it waits</h2>
    <p><${Text}>${why.text}<//></p>
    ${why.position && html`<p class="muted">Position <strong>${why.position}</strong> of ${why.waiting} in the ClusterQueue</p>`}
    ${tried.length > 0 && html`<h3>Tried</h3><ul class="bullets">${tried.map((each) => html`<li>
      <strong><${Text}>${each.flavor}<//></strong> <span class="muted">(<${Text}>${each.podSet}<//>)</span>${": "}
      <${Text}>${each.lacks.map((lack) => lack.text).join("; ")}<//></li>`)}</ul>`}
    ${protectedOnes.length > 0 && html`<h3>Not preempted</h3><ul class="bullets">${protectedOnes.map((each) => html`<li>
      <strong><${Text}>${each.workload}<//></strong>: <${Text}>${each.text}<//></li>`)}</ul>`}
    ${help.length > 0 && html`<h3>What would help</h3><ul class="bullets">${help.map((each) => html`<li><${Text}>${each}<//></li>`)}</ul>`}
  </section>`;
}
