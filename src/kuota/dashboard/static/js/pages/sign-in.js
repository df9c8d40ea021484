// SPDX-License-Identifier: Apache-2.0
// Sign-in with a one-time link or with a token. Neither remains in the address or in the page.

import { post } from "../api.js";
import { Component, createRef, html } from "../dom.js";
import { Note, Text } from "../parts/basics.js";

/** Properties: `onDone`. */
export class SignInPage extends Component {
  constructor() {
    super();
    this.field = createRef();
    this.state = { busy: false, error: "" };
  }

  componentDidMount() {
    const code = new URLSearchParams(location.hash.slice(1)).get("code");
    if (!code) return;
    history.replaceState(null, "", location.pathname + location.search);
    this.send({ code });
  }

  submit(event) {
    event.preventDefault();
    const token = this.field.current.value.trim();
    if (token) this.send({ token });
  }

  async send(body) {
    this.setState({ busy: true, error: "" });
    try {
      await post("sign-in", body);
      this.props.onDone();
    } catch (error) {
      this.setState({ busy: false, error: error.message });
      this.field.current.value = "";
      this.field.current.focus();
    }
  }

  render(_, { busy, error }) {
    return html`<div class="sign-in card">
      <h1 tabindex="-1">Sign in to Kuota</h1>
      ${error && html`<div role="alert"><${Note} tone="bad"><${Text}>${error}<//><//></div>`}
      <p>On the machine that runs Kuota, this command opens the dashboard and signs you in:</p>
      <p><code class="command">kuota dashboard</code></p>
      <form onSubmit=${(event) => this.submit(event)}>
        <label class="field">Or sign in with a token
          <input ref=${this.field} type="password" name="token" autocomplete="off" spellcheck=${false} required disabled=${busy} />
        </label>
        <button class="button primary" type="submit" disabled=${busy}>${busy ? "Signing in…" : "Sign in"}</button>
      </form>
    </div>`;
  }
}
