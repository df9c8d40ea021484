// SPDX-License-Identifier: Apache-2.0
// What happened to a workload, in order.

import { html } from "../dom.js";
import { entry } from "../format.js";
import { Moment, queueAddress, Reference, Text } from "./basics.js";
import { Icon } from "./icons.js";

/** Tone and picture of a step. */
const STEPS = {
  "submitted": ["calm", "dot"],
  "waiting": ["wait", "clock"],
  "quota reserved": ["wait", "half"],
  "admission check": ["calm", "check"],
  "admitted": ["good", "play"],
  "pods ready": ["good", "check"],
  "preempted": ["wait", "back"],
  "evicted": ["wait", "back"],
  "requeued": ["wait", "clock"],
  "resumed": ["good", "play"],
  "held": ["calm", "pause"],
  "released": ["calm", "play"],
  "finished": ["good", "check"],
  "failed": ["bad", "cross"],
};

/** @param {{entries: any[]}} properties */
export function Timeline({ entries }) {
  if (!entries.length) return html`<p class="muted">Nothing is recorded.</p>`;
  return html`<ol class="timeline">${entries.map((each, at) => html`<${Entry} key=${`${each.time}${each.step}${at}`} event=${each} />`)}</ol>`;
}

function Entry({ event }) {
  const text = event.text === event.step ? "" : event.text;
  const [tone, icon] = entry(STEPS, event.step) ?? ["calm", "ring"];
  return html`<li class="entry ${tone}">
    <span class="entry-icon"><${Icon} name=${icon} /></span>
    <div class="entry-head"><strong>${event.step}</strong>
      ${event.where && html` <span class="muted">in <a href=${queueAddress(event.where)}><${Text}>${event.where}<//></a></span>`}
      ${event.count > 1 && html` <span class="muted">${event.count} times</span>`}</div>
    <span class="entry-time small muted"><${Moment} at=${event.time} /></span>
    ${(text || event.by || event.user) && html`<p class="entry-text"><${Text}>${text}<//>
      ${event.by && html` <span class="nowrap">by <${Reference} to=${event.by} /></span>`}
      ${event.user && html` <span class="muted">by user <${Text}>${event.user}<//></span>`}</p>`}
  </li>`;
}
