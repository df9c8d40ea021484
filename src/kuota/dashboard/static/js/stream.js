// SPDX-License-Identifier: Apache-2.0
// One stream of server-sent events per page, which reconnects by itself and reports the state of the connection.

import { apiUrl, get } from "./api.js";

/** @typedef {"connecting" | "live" | "reconnecting" | "ended"} Connection */

const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 15_000;
/** A hidden page gives its connection back after this time: browsers allow six per server. */
const HIDDEN_MS = 60_000;

/**
 * @typedef {object} Listener
 * @property {(model: any) => void} snapshot
 * @property {(change: any) => void} change
 * @property {(state: Connection) => void} connection
 * @property {(status: {code?: number, message: string}) => void} error the stream has ended for good
 */

export class Stream {
  /** @param {string} view @param {Record<string, unknown>} parameters @param {Listener} listener */
  constructor(view, parameters, listener) {
    this.url = apiUrl("stream", { view, ...parameters });
    this.listener = listener;
    this.retryMs = FIRST_RETRY_MS;
    this.onVisibility = () => this.visibilityChanged();
    document.addEventListener("visibilitychange", this.onVisibility);
    listener.connection("connecting");
    this.open();
  }

  open() {
    this.source = new EventSource(this.url);
    this.source.addEventListener("snapshot", (event) => {
      this.retryMs = FIRST_RETRY_MS;
      this.listener.connection("live");
      this.listener.snapshot(JSON.parse(event.data).model);
    });
    this.source.addEventListener("change", (event) => this.listener.change(JSON.parse(event.data)));
    // The server's event and the browser's have the same name; only the server's has data.
    this.source.addEventListener("error", (event) => (event.data ? this.end(JSON.parse(event.data)) : this.lost()));
  }

  lost() {
    this.listener.connection("reconnecting");
    if (this.source.readyState !== EventSource.CLOSED) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.retry(), this.retryMs * (0.75 + Math.random() / 2));
    this.retryMs = Math.min(this.retryMs * 2, LAST_RETRY_MS);
  }

  /** The browser hides why a stream was refused, so ask for the session before the next attempt. */
  async retry() {
    try {
      await get("session");
    } catch (error) {
      if (error.status === 401) return this.end({ code: 401, message: error.message });
      return this.stopped ? undefined : this.lost();
    }
    if (!this.stopped) this.open();
  }

  /** @param {{code?: number, message: string}} status */
  end(status) {
    this.close();
    this.listener.connection("ended");
    this.listener.error(status);
  }

  visibilityChanged() {
    clearTimeout(this.hidden);
    if (document.visibilityState === "hidden") {
      this.hidden = setTimeout(() => {
        this.paused = true;
        this.source.close();
      }, HIDDEN_MS);
    } else if (this.paused) {
      this.paused = false;
      this.listener.connection("connecting");
      this.open();
    }
  }

  close() {
    this.stopped = true;
    this.source.close();
    clearTimeout(this.timer);
    clearTimeout(this.hidden);
    document.removeEventListener("visibilitychange", this.onVisibility);
  }
}
