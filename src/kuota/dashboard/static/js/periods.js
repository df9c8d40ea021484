// SPDX-License-Identifier: Apache-2.0
// Periods that charts and tables of the past cover.

/** Name, words, length, and the step of a chart. */
const PERIODS = [
  ["1h", "1 h", 3600, 60],
  ["6h", "6 h", 6 * 3600, 300],
  ["1d", "1 d", 86_400, 900],
  ["7d", "7 d", 7 * 86_400, 2 * 3600],
  ["30d", "30 d", 30 * 86_400, 6 * 3600],
  ["90d", "90 d", 90 * 86_400, 86_400],
];

export const USUAL_PERIOD = "1d";

/** @type {[string, string][]} */
export const PERIOD_CHOICES = PERIODS.map(([name, words]) => [name, words]);

/** @param {string} name @returns {{name: string, since: string, until: string, step: number}} that ends now */
export function periodNamed(name) {
  const [found, , seconds, step] = PERIODS.find(([each]) => each === name) ?? PERIODS.find(([each]) => each === USUAL_PERIOD);
  const until = Math.floor(Date.now() / 1000);
  const text = (at) => new Date(at * 1000).toISOString().replace(/\.\d+Z$/, "Z");
  return { name: found, since: text(until - seconds), until: text(until), step };
}
