// SPDX-License-Identifier: Apache-2.0
// Requests to the dashboard's API. Errors carry the message of the server's Status.

export const BASE = "/dashboard";

/** A response that is not a success. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let csrf = "";

/** @param {string} value the token that requests with a body carry */
export function setCsrf(value) {
  csrf = value;
}

/** @param {string} path @param {Record<string, unknown>} parameters those that are empty are left out */
export function apiUrl(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== "" && value !== undefined && value !== null && value !== false) query.set(name, String(value));
  }
  const text = query.toString();
  return `${BASE}/api/${path}${text ? `?${text}` : ""}`;
}

/** @param {string} path @param {Record<string, unknown>} [parameters] @param {AbortSignal} [signal] */
export async function get(path, parameters, signal) {
  const response = await fetch(apiUrl(path, parameters), { headers: { Accept: "application/json" }, signal });
  if (!response.ok) throw await failure(response);
  return response.json();
}

/** @param {string} path @param {object} body @returns {Promise<any>} the decoded response; null if it has no body */
export async function post(path, body) {
  const response = await fetch(apiUrl(path), {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Kuota-CSRF": csrf },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw await failure(response);
  return response.status === 204 ? null : response.json();
}

/** @param {Response} response */
export async function failure(response) {
  let message = `The server answered ${response.status} ${response.statusText}`.trim();
  try {
    message = (await response.json()).message || message;
  } catch {
    // Not a Status: a proxy in between answered.
  }
  return new ApiError(response.status, message);
}
