// SPDX-License-Identifier: Apache-2.0
// The rows of a view, as a snapshot and later changes describe them. Searching, filtering and sorting of jobs.

import { entry } from "./format.js";

/** @typedef {import("./shapes.js").WorkloadRow} WorkloadRow */

/** Values of rows that omit them. */
const DEFAULTS = Object.freeze({
  kind: "Workload", job: "", queue: "", clusterQueue: "", user: "", reason: "", why: "", wayOut: "", preemptedBy: null,
  priority: 0, priorityClass: "", pods: 0, requests: "", gets: "", flavors: [], devices: 0, created: "", since: "",
  admitted: "", finished: "", evictions: 0, held: false, order: "",
});

/** @param {object} row @returns {WorkloadRow} with all fields */
export function complete(row) {
  const whole = { ...DEFAULTS, ...row };
  if (!whole.job) whole.job = whole.name;
  return whole;
}

/** @param {object[]} rows @returns {Map<string, WorkloadRow>} */
export function keyed(rows) {
  return new Map(rows.map((each) => [each.key, complete(each)]));
}

/** Apply a change to the rows. @param {Map<string, WorkloadRow>} rows @param {{upsert?: object[], remove?: string[]}} change */
export function apply(rows, { upsert = [], remove = [] }) {
  for (const key of remove) rows.delete(key);
  for (const row of upsert) rows.set(row.key, complete(row));
}

/** Why a workload does not run, as a phrase of its own; the server sends the preemptor to those who may see it. @param {WorkloadRow} row */
export function reasonOf(row) {
  if (row.state !== "PREEMPTED" || !row.why.startsWith("by ")) return row.why;
  const by = row.preemptedBy;
  const why = by ? row.why.replace("another workload", () => `${by.kind} ${by.name} in namespace ${by.namespace}`) : row.why;
  return `preempted ${why}`;
}

/** Groups of states that filters offer besides the states themselves. */
export const GROUPS = {
  waiting: ["PENDING", "PREEMPTED", "QUOTARESERVED"],
  running: ["ADMITTED"],
  finished: ["SUCCEEDED", "FAILED", "TIMEOUT"],
};

const SEARCHED = ["job", "name", "namespace", "user", "queue", "clusterQueue", "priorityClass", "kind", "why"];

/**
 * @typedef {{q: string, state: string, namespace: string, queue: string, user: string}} Filter
 * @param {Filter} filter
 * @returns {(row: WorkloadRow) => boolean}
 */
export function matching({ q, state, namespace, queue, user }) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const states = state ? entry(GROUPS, state) ?? [state.toUpperCase()] : null;
  return (row) =>
    (!states || states.includes(row.state)) &&
    (!namespace || row.namespace === namespace) &&
    (!queue || row.clusterQueue === queue) &&
    (!user || row.user === user) &&
    words.every((word) => SEARCHED.some((field) => row[field].toLowerCase().includes(word)));
}

const RANKS = { ADMITTED: 0, QUOTARESERVED: 1, PENDING: 2, PREEMPTED: 2, DEACTIVATED: 3, SUCCEEDED: 4, FAILED: 4, TIMEOUT: 4 };

/** @param {string} a @param {string} b */
const text = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** @type {Record<string, (a: WorkloadRow, b: WorkloadRow) => number>} */
const ORDERS = {
  job: (a, b) => text(a.job, b.job) || text(a.namespace, b.namespace),
  namespace: (a, b) => text(a.namespace, b.namespace) || text(a.job, b.job),
  state: (a, b) => RANKS[a.state] - RANKS[b.state] || text(a.state, b.state) || b.priority - a.priority || text(a.created, b.created),
  queue: (a, b) => text(a.clusterQueue, b.clusterQueue) || text(a.order, b.order),
  priority: (a, b) => b.priority - a.priority || text(a.created, b.created),
  devices: (a, b) => b.devices - a.devices,
  age: (a, b) => text(b.created, a.created),
};

/** @param {string} sort a column, with "-" in front for the opposite direction */
export function ordering(sort) {
  const opposite = sort.startsWith("-");
  const order = entry(ORDERS, opposite ? sort.slice(1) : sort) ?? ORDERS.state;
  const whole = (a, b) => order(a, b) || text(a.key, b.key);
  return opposite ? (a, b) => whole(b, a) : whole;
}

/** @param {Iterable<WorkloadRow>} rows @param {keyof WorkloadRow} field @returns {string[]} the values in use, in order */
export function values(rows, field) {
  const found = new Set();
  for (const row of rows) if (row[field]) found.add(row[field]);
  return [...found].sort();
}
