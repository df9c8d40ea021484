// SPDX-License-Identifier: Apache-2.0
// Light and dark: the system decides until the viewer chooses.

const KEY = "kuota-theme";

/** @typedef {"system" | "light" | "dark"} Theme */

/** @returns {Theme} */
export function chosenTheme() {
  try {
    const found = localStorage.getItem(KEY);
    return found === "light" || found === "dark" ? found : "system";
  } catch {
    return "system"; // Storage is blocked.
  }
}

/** @param {Theme} theme */
export function chooseTheme(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Storage is blocked: the choice lasts until the next reload.
  }
  showTheme(theme);
}

/** @param {Theme} theme */
export function showTheme(theme) {
  document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event("kuota:theme"));
}

/** @param {Theme} theme @returns {Theme} the one that the button offers next */
export function nextTheme(theme) {
  return theme === "system" ? "light" : theme === "light" ? "dark" : "system";
}
