// SPDX-License-Identifier: Apache-2.0
// Starts the dashboard: finds out who is signed in, and shows the page of the current address.

import { get, setCsrf } from "./api.js";
import { Component, html, render } from "./dom.js";
import { entry } from "./format.js";
import { HistoryPage } from "./pages/history.js";
import { NodesPage } from "./pages/nodes.js";
import { QueuePage } from "./pages/queue.js";
import { SignInPage } from "./pages/sign-in.js";
import { TeamsPage } from "./pages/teams.js";
import { TopologyPage } from "./pages/topology.js";
import { TreePage } from "./pages/tree.js";
import { WorkloadPage } from "./pages/workload.js";
import { WorkloadsPage } from "./pages/workloads.js";
import { Empty, Failure, Loading } from "./parts/basics.js";
import { Shell } from "./parts/shell.js";
import { arrive, follow, here, navigate } from "./router.js";
import { chosenTheme, showTheme } from "./theme.js";

/** Pages by the first part of the address and the number of further parts: component, title, whether it fills the window. */
const ROUTES = {
  "/0": [TreePage, "Quota", false],
  "queues/1": [QueuePage, "Queue", false],
  "workloads/0": [WorkloadsPage, "Jobs", true],
  "workloads/2": [WorkloadPage, "Job", false],
  "topology/0": [TopologyPage, "Topology", false],
  "nodes/0": [NodesPage, "Nodes", false],
  "teams/0": [TeamsPage, "Teams", false],
  "history/0": [HistoryPage, "History", true],
};

class App extends Component {
  constructor() {
    super();
    this.state = { session: undefined, place: here(), error: undefined };
  }

  componentDidMount() {
    follow(() => this.setState({ place: here() }));
    addEventListener("kuota:signed-out", () => this.setState({ session: null }));
    if (here().page === "sign-in") this.setState({ session: null });
    else this.load();
  }

  async load() {
    try {
      const session = await get("session");
      setCsrf(session.csrf);
      this.setState({ session, error: undefined });
    } catch (error) {
      this.setState(error.status === 401 ? { session: null } : { error });
    }
  }

  signedIn() {
    if (here().page === "sign-in") navigate("/dashboard/", { replace: true });
    this.load();
  }

  componentDidUpdate(_, before) {
    const { place, session } = this.state;
    const page = session ? entry(ROUTES, `${place.page}/${place.parts.length}`)?.[1] ?? "Not found" : "Sign in";
    document.title = [place.parts.at(-1), page, "Kuota"].filter(Boolean).join(" · ");
    if (before.place.path !== place.path) arrive();
  }

  render(_, { session, place, error }) {
    if (error) return html`<${Shell} page=""><${Failure} error=${error} retry=${() => this.load()} /><//>`;
    if (session === undefined) return html`<${Shell} page=""><${Loading} /><//>`;
    if (session === null) return html`<${Shell} page=""><${SignInPage} onDone=${() => this.signedIn()} /><//>`;
    const [Page, , tall] = entry(ROUTES, `${place.page}/${place.parts.length}`) ?? [NotFoundPage, "", false];
    return html`<${Shell} session=${session} page=${place.page} tall=${tall}>
      <${Page} key=${place.path} session=${session} place=${place} />
    <//>`;
  }
}

function NotFoundPage() {
  return html`<h1 tabindex="-1" class="visually-hidden">Not found</h1>
    <${Empty} title="There is no such page">Choose one in the navigation.<//>`;
}

showTheme(chosenTheme());
render(html`<${App} />`, document.getElementById("app"));
