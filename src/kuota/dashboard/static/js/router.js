// SPDX-License-Identifier: Apache-2.0
// Addresses of pages. Everything that a view depends on is in the URL, so that it can be shared.

import { BASE } from "./api.js";

/** @typedef {{page: string, parts: string[], query: URLSearchParams, path: string}} Place */

/** @returns {Place} */
export function here() {
  const path = location.pathname;
  const parts = path.slice(BASE.length).split("/").filter(Boolean).map(decoded);
  return { page: parts[0] ?? "", parts: parts.slice(1), query: new URLSearchParams(location.search), path };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {string[]} parts @param {Record<string, string>} [query] parameters that are empty are left out */
export function address(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  const search = new URLSearchParams(given).toString();
  return `${BASE}/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/** @param {string} url @param {{replace?: boolean}} [options] */
export function navigate(url, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", url);
  dispatchEvent(new Event("kuota:navigate"));
}

/** Change parameters of the current address; an empty value removes one. @param {Record<string, string>} changes */
export function setQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  navigate(location.pathname + (text ? `?${text}` : ""), { replace: true });
}

let byLink = false;

/** Whether the viewer came to this page from another one of the dashboard. */
export const arrivedByLink = () => byLink;

/** Screen readers read the heading of a new page. */
export function focusHeading() {
  (document.querySelector("main h1") ?? document.getElementById("content"))?.focus({ preventScroll: true });
}

/** A new page begins at its top. */
export function arrive() {
  byLink = true;
  scrollTo(0, 0);
  focusHeading();
}

/** Call `changed` whenever the address changes, and follow links of the dashboard without a reload. @param {() => void} changed */
export function follow(changed) {
  addEventListener("popstate", changed);
  addEventListener("kuota:navigate", changed);
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    const modified = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0;
    if (!link || modified || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !url.pathname.startsWith(`${BASE}/`) || url.hash) return;
    event.preventDefault();
    if (url.href !== location.href) navigate(url.pathname + url.search);
  });
}
