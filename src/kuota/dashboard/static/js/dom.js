// SPDX-License-Identifier: Apache-2.0
// The one place that names the rendering libraries. All text reaches the page through text nodes and attributes.

import { Component, createRef, Fragment, h, render } from "../vendor/preact/preact.mjs";
import htm from "../vendor/htm/htm.mjs";

/** Builds elements from a template literal. */
const html = htm.bind(h);

export { Component, createRef, Fragment, html, render };
