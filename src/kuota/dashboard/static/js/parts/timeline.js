// SPDX-License-Identifier: Apache-2.0
// What happened to a workload, in order.

import { html } from "../dom.js";
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
  return html`<ol class="timeline">${entries.map((each, at) => html`<${Entry} key=${`${each.time}${each.step}${at}`} entry=${each} />`)}</ol>`;
}

function Entry({ entry }) {
  const [tone, icon] = STEPS[entry.step] ?? ["calm", "ring"];
  return html`<li class="entry ${tone}">
    <span class="entry-icon"><${Icon} name=${icon} /></span>
    <div class="entry-head"><strong>${entry.step}</strong>
      ${entry.where && html` <span class="muted">in <a href=${queueAddress(entry.where)}><${Text}>${entry.where}<//></a></span>`}
      ${entry.count > 1 && html` <span class="muted">${entry.count} times</span>`}</div>
    <span class="entry-time small muted"><${Moment} at=${entry.time} /></span>
    ${(entry.text || entry.by || entry.user) && html`<p class="entry-text"><${Text}>${entry.text}<//>
      ${entry.by && html` <span class="nowrap">by <${Reference} to=${entry.by} /></span>`}
      ${entry.user && html` <span class="muted">by user <${Text}>${entry.user}<//></span>`}</p>`}
  </li>`;
}
