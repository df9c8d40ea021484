// SPDX-License-Identifier: Apache-2.0
// Small pictures. They repeat what the text beside them says, so screen readers skip them.

import { html } from "../dom.js";

/** @type {Record<string, any>} */
const SHAPES = {
  clock: (h) => h`<circle cx="8" cy="8" r="6" /><path d="M8 4.5V8l2.5 1.5" />`,
  half: (h) => h`<circle cx="8" cy="8" r="6" /><path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />`,
  play: (h) => h`<path d="M4.5 2.5v11l9-5.5z" fill="currentColor" />`,
  back: (h) => h`<path d="M3 8h10M7 4L3 8l4 4" />`,
  check: (h) => h`<path d="M2.5 8.5l3.5 4 7.5-9" />`,
  cross: (h) => h`<path d="M3.5 3.5l9 9M12.5 3.5l-9 9" />`,
  pause: (h) => h`<path d="M5 3v10M11 3v10" />`,
  timer: (h) => h`<circle cx="8" cy="9" r="5" /><path d="M6 1.5h4M8 6v3" />`,
  dot: (h) => h`<circle cx="8" cy="8" r="5" fill="currentColor" />`,
  ring: (h) => h`<circle cx="8" cy="8" r="5" />`,
  note: (h) => h`<circle cx="8" cy="8" r="6" /><path d="M8 7.5V11M8 5v.1" />`,
  sun: (h) => h`<circle cx="8" cy="8" r="3" /><path d="M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1" />`,
  moon: (h) => h`<path d="M13.5 9.5A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7z" />`,
  auto: (h) => h`<circle cx="8" cy="8" r="6" /><path d="M8 2a6 6 0 0 0 0 12z" fill="currentColor" />`,
  out: (h) => h`<path d="M6 2.500H3v11h3M7 8h7M11 5l3 3-3 3" />`,
};

/** @param {{name: string}} properties */
export function Icon({ name }) {
  return html`<svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"
    stroke-linejoin="round" aria-hidden="true">${SHAPES[name](html)}</svg>`;
}
