// SPDX-License-Identifier: Apache-2.0
// The pods of a workload, and the log of the chosen one.

import { html } from "../dom.js";
import { entry } from "../format.js";
import { setQuery } from "../router.js";
import { Age, Badge, Text } from "./basics.js";
import { Log } from "./log.js";

const PHASES = {
  Pending: ["wait", "clock"],
  Running: ["good", "play"],
  Succeeded: ["calm", "check"],
  Failed: ["bad", "cross"],
};

/** @param {{namespace: string, pods: any[]}} properties */
export function Pods({ namespace, pods }) {
  const name = new URLSearchParams(location.search).get("pod");
  const chosen = pods.find((each) => each.name === name);
  return html`<section class="card flush"><h2>Pods</h2>
    ${pods.length ? html`<div class="scroll-x" tabindex="0" role="group" aria-label="Pods"><table class="stacked" role="table">
      <thead><tr><th>Name</th><th>Phase</th><th>Node</th><th class="number">Restarts</th><th class="number">Age</th><th>Log</th></tr></thead>
      <tbody>${pods.map((each) => html`<${Pod} key=${each.name} pod=${each} chosen=${each === chosen} />`)}</tbody>
    </table></div>` : html`<p class="muted inset below">It has no pods now.</p>`}
    ${chosen && html`<${Log} key=${chosen.name} namespace=${namespace} pod=${chosen} />`}
  </section>`;
}

function Pod({ pod, chosen }) {
  const [tone, icon] = entry(PHASES, pod.phase) ?? ["calm", "ring"];
  return html`<tr role="row">
    <td role="cell" class="whole"><span class="mono"><${Text}>${pod.name}<//></span>${pod.why && html`<p class="small muted"><${Text}>${pod.why}<//></p>`}</td>
    <td role="cell"><${Badge} tone=${tone} icon=${icon}>${pod.deleted ? "Terminating" : pod.phase}<//></td>
    <td role="cell" data-label="on"><${Text}>${pod.node}<//></td>
    <td role="cell" class="number" data-label="restarts">${pod.restarts}</td>
    <td role="cell" class="number" data-label="age"><${Age} since=${pod.created} /></td>
    <td role="cell"><button class="button" aria-expanded=${chosen} onClick=${() => setQuery({ pod: chosen ? "" : pod.name })}>
      ${chosen ? "Hide log" : "Show log"}<span class="visually-hidden"> of ${pod.name}</span></button></td>
  </tr>`;
}
