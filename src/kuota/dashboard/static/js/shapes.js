// SPDX-License-Identifier: Apache-2.0
// Types of the responses that several modules use, for editors. The source is src/kuota/dashboard/shapes.

/**
 * @typedef {{text: string, value: number}} Amount
 * @typedef {{kind: string, name: string, namespace: string}} Ref
 *
 * @typedef {object} WorkloadRow
 * @property {string} key namespace and name
 * @property {string} namespace
 * @property {string} name
 * @property {string} state
 * @property {string} kind
 * @property {string} job
 * @property {string} queue
 * @property {string} clusterQueue
 * @property {string} user
 * @property {string} reason
 * @property {string} why
 * @property {string} wayOut
 * @property {Ref | null} preemptedBy
 * @property {number} priority
 * @property {string} priorityClass
 * @property {number} pods
 * @property {string} requests
 * @property {string} gets
 * @property {string[]} flavors
 * @property {number} devices
 * @property {string} created
 * @property {string} since
 * @property {string} admitted
 * @property {string} finished
 * @property {number} evictions
 * @property {boolean} held
 * @property {string} order
 *
 * @typedef {object} QuotaCell
 * @property {string} flavor
 * @property {string} resource
 * @property {Amount} nominal
 * @property {Amount} total
 * @property {Amount} used
 * @property {Amount} borrowed
 * @property {Amount} lent
 * @property {Amount} available
 * @property {Amount | null} borrowingLimit
 * @property {Amount | null} lendingLimit
 *
 * @typedef {object} Session
 * @property {string} user
 * @property {string} role
 * @property {string[] | null} namespaces
 * @property {string} csrf
 * @property {string} server
 * @property {string} version
 * @property {boolean} actions
 * @property {Record<string, string[] | null>} changes
 */

export {};
