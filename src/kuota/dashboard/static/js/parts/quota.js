// SPDX-License-Identifier: Apache-2.0
// Bars of quota: what is used, borrowed and lent of one flavor and resource.

import { html } from "../dom.js";
import { Text } from "./basics.js";

/** @typedef {import("../shapes.js").QuotaCell} QuotaCell */

/** @param {QuotaCell} cell */
function parts({ total, used, borrowed, lent }) {
  const own = Math.max(0, used.value - borrowed.value);
  const whole = Math.max(total.value, used.value + lent.value, Number.MIN_VALUE);
  return [["used", own], ["borrowed", borrowed.value], ["lent", lent.value]]
    .filter(([, value]) => value > 0)
    .map(([name, value]) => [name, (100 * value) / whole]);
}

/** @param {{segments: [string, number][]}} properties names and percentages */
export function Bar({ segments }) {
  return html`<div class="bar" aria-hidden="true">
    ${segments.map(([name, percent]) => html`<span class=${name} style=${{ width: `${percent}%` }}></span>`)}
  </div>`;
}

/** @param {QuotaCell} cell */
function remarks({ borrowed, lent, borrowingLimit, lendingLimit }) {
  return [
    borrowed.value > 0 && `borrows ${borrowed.text}`,
    lent.value > 0 && `lends ${lent.text}`,
    borrowingLimit && `borrowingLimit ${borrowingLimit.text}`,
    lendingLimit && `lendingLimit ${lendingLimit.text}`,
  ].filter(Boolean);
}

/** @param {{cell: QuotaCell}} properties */
export function Quota({ cell }) {
  return html`<li class="quota">
    <div class="quota-head">
      <span><strong><${Text}>${cell.resource}<//></strong> <span class="muted">on <${Text}>${cell.flavor}<//></span></span>
      <span class="nowrap"><strong>${cell.used.text}</strong> <span class="muted">of ${cell.total.text}</span></span>
    </div>
    <${Bar} segments=${parts(cell)} />
    <p class="small muted">${[...remarks(cell), `${cell.available.text} available`].join(" · ")}</p>
  </li>`;
}

/** @param {{cells: QuotaCell[]}} properties */
export function Quotas({ cells }) {
  return html`<ul class="quotas">${cells.map((each) => html`<${Quota} key=${`${each.flavor} ${each.resource}`} cell=${each} />`)}</ul>`;
}

export function QuotaLegend() {
  const items = [["used", "used of its own quota"], ["borrowed", "borrowed from others"], ["lent", "lent to others"]];
  return html`<ul class="legend" aria-label="Meaning of the bars">
    ${items.map(([name, words]) => html`<li><${Bar} segments=${[[name, 100]]} />${words}</li>`)}
  </ul>`;
}
