// SPDX-License-Identifier: Apache-2.0
// The frame of all pages: header, navigation, state of the connection, theme and session.

import { BASE, post } from "../api.js";
import { Component, html } from "../dom.js";
import { address } from "../router.js";
import { chooseTheme, chosenTheme, nextTheme } from "../theme.js";
import { Text } from "./basics.js";
import { Icon } from "./icons.js";

const PAGES = [["", "Quota"], ["workloads", "Jobs"], ["topology", "Topology"], ["nodes", "Nodes"], ["teams", "Teams"], ["history", "History"]];

/** Pages that belong to an entry of the navigation under another name. */
const PARENTS = { queues: "" };

const CONNECTIONS = {
  connecting: ["waiting", "ring", "Connecting"],
  live: ["live", "dot", "Live"],
  reconnecting: ["waiting", "ring", "Reconnecting"],
  ended: ["ended", "cross", "Not connected"],
};

class Connection extends Component {
  constructor() {
    super();
    this.changed = (event) => this.setState({ now: event.detail });
  }

  componentWillMount() {
    addEventListener("kuota:connection", this.changed);
  }

  componentWillUnmount() {
    removeEventListener("kuota:connection", this.changed);
  }

  render(_, { now }) {
    const [tone, icon, words] = CONNECTIONS[now] ?? ["", "", ""];
    return html`<span class="connection ${tone}" role="status">
      ${words && html`<${Icon} name=${icon} />${words}`}
    </span>`;
  }
}

class ThemeButton extends Component {
  render() {
    const now = chosenTheme();
    const icon = { system: "auto", light: "sun", dark: "moon" }[now];
    const words = `Colors: ${now}. Change to ${nextTheme(now)}`;
    return html`<button class="button plain" title=${words} aria-label=${words} onClick=${() => {
      chooseTheme(nextTheme(now));
      this.setState({});
    }}><${Icon} name=${icon} /></button>`;
  }
}

async function signOut() {
  await post("sign-out", {}).catch(() => undefined);
  dispatchEvent(new Event("kuota:signed-out"));
}

/** @param {{session: any, page: string, tall: boolean, children?: any}} properties */
export function Shell({ session, page, tall, children }) {
  const current = PARENTS[page] ?? page;
  return html`<a class="skip" href="#content" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("content").focus();
    }}>Skip to content</a>
    <header class="top">
      <a class="brand" href="${BASE}/"><img src="${BASE}/static/icon.svg" alt="" />Kuota</a>
      ${session && html`<nav class="nav" aria-label="Pages"><ul>
        ${PAGES.map(([name, words]) => html`<li><a href=${name ? address([name]) : `${BASE}/`}
          aria-current=${name === current ? "page" : undefined}>${words}</a></li>`)}
      </ul></nav>`}
      <div class="tools">
        <${Connection} />
        ${session && html`<span class="who" title="Signed in as ${session.user} (${session.role})"><${Text}>${session.user}<//></span>`}
        <${ThemeButton} />
        ${session && html`<button class="button plain" title="Sign out" aria-label="Sign out" onClick=${signOut}><${Icon} name="out" /></button>`}
      </div>
    </header>
    <main id="content" class="content ${tall ? "tall" : ""}" tabindex="-1">${children}</main>`;
}
