// SPDX-License-Identifier: Apache-2.0
// Words for numbers and times, in the same form as the command line.

const UNITS = [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]];

/** Format a duration in its two largest units: "3m5s", "2h10m", "40s". @param {number} seconds */
export function span(seconds) {
  let left = Math.max(0, Math.floor(seconds));
  const parts = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    left %= size;
    if (count || parts.length) parts.push(count ? `${count}${unit}` : "");
    if (parts.length === 2) break;
  }
  return parts.join("") || "0s";
}

/** @param {string} since @param {string} [until] now if it is empty */
export function age(since, until) {
  if (!since) return "";
  return span(((until ? Date.parse(until) : Date.now()) - Date.parse(since)) / 1000);
}

const MOMENT = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const WHOLE = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });

/** Look up what a server or an address names, which may be any text. @template T @param {Record<string, T>} table @param {string} name */
export function entry(table, name) {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** @param {string} stamp */
export function moment(stamp) {
  return stamp ? MOMENT.format(new Date(stamp)) : "";
}

/** @param {string} stamp */
export function wholeMoment(stamp) {
  return stamp ? WHOLE.format(new Date(stamp)) : "";
}

/** @param {number} number @param {string} one @param {string} [many] */
export function counted(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en-US")} ${number === 1 ? one : many}`;
}

/** @param {number} value */
export function rounded(value) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** @param {number} value */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; value >= 1024 && at < units.length - 1; at += 1) value /= 1024;
  return `${rounded(value)} ${units[at]}`;
}

/** "nvidia.com/gpu" is "GPU" where there is little room. @param {string} resource */
export function shortResource(resource) {
  const name = resource.split("/").at(-1) ?? resource;
  return name === "gpu" ? "GPU" : name === "cpu" ? "CPU" : name;
}

/** The name of a job that is given with its kind: "Job/train". @param {string} job */
export function jobName(job) {
  return job.split("/").at(-1) ?? job;
}

const NO_DEVICES = new Set(["cpu", "memory", "ephemeral-storage", "storage", "pods"]);

/** Whether a resource is a device, as `kuota.api.device_resources` defines it. @param {string} resource */
export function isDevice(resource) {
  return !NO_DEVICES.has(resource) && !/^(hugepages|attachable-volumes)-/.test(resource);
}

/** Devices first, then by name. @param {string} a @param {string} b */
export function byResource(a, b) {
  return Number(isDevice(b)) - Number(isDevice(a)) || a.localeCompare(b);
}

const GIB = 2 ** 30;

/** Whether amounts of a resource are bytes. @param {string} resource */
function isSize(resource) {
  return resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
}

/** Amounts multiplied by hours; sizes are in GiB. @param {number} hours @param {string} resource */
export function resourceHours(hours, resource) {
  return isSize(resource) ? `${rounded(hours / GIB)} GiB` : rounded(hours);
}

/** Make control characters visible, drop colors of terminals, and show what would reorder text. @param {string} text */
export function printable(text) {
  return text
    .replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "")
    // eslint-disable-next-line no-control-regex
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\ufffd")
    .replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (found) => `<U+${found.charCodeAt(0).toString(16).toUpperCase()}>`);
}
