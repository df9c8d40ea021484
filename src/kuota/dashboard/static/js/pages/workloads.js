// SPDX-License-Identifier: Apache-2.0
// All jobs, with search, filters and order in the address.

import { html } from "../dom.js";
import { counted } from "../format.js";
import { PageHead } from "../parts/basics.js";
import { FilterBar, Select, StateSelect } from "../parts/filters.js";
import { JobTable } from "../parts/jobs.js";
import { Live } from "../parts/live.js";
import { setQuery } from "../router.js";
import { matching, ordering, values } from "../rows.js";

const FIELDS = ["q", "state", "namespace", "queue", "user"];

/** @param {{place: any}} properties */
export function WorkloadsPage({ place }) {
  const filter = Object.fromEntries(FIELDS.map((each) => [each, place.query.get(each) ?? ""]));
  const sort = place.query.get("sort") || "state";
  return html`<${PageHead} title="Jobs" />
    <${Live} view="workloads">${(model) => html`<${Jobs} model=${model} filter=${filter} sort=${sort} />`}<//>`;
}

function Jobs({ model, filter, sort }) {
  const all = [...model.rows.values()];
  const rows = all.filter(matching(filter)).sort(ordering(sort));
  const active = FIELDS.filter((each) => each !== "q" && filter[each]).length;
  const words = rows.length === all.length ? counted(all.length, "job") : `${rows.length.toLocaleString("en-US")} of ${counted(all.length, "job")}`;
  return html`
    <${FilterBar} label="Jobs" q=${filter.q} placeholder="Name, team, user, queue or reason" active=${active}>
      <${StateSelect} value=${filter.state} />
      <${Select} label="Team" name="namespace" value=${filter.namespace} options=${values(all, "namespace")} />
      <${Select} label="Queue" name="queue" value=${filter.queue} options=${values(all, "clusterQueue")} />
      <${Select} label="User" name="user" value=${filter.user} options=${values(all, "user")} />
    <//>
    <p class="small muted result-count"><span role="status">${words}</span>
      ${(active > 0 || filter.q) && html` · <a href="/dashboard/workloads">Show all</a>`}</p>
    <${JobTable} rows=${rows} sort=${sort} onSort=${(value) => setQuery({ sort: value === "state" ? "" : value })} label="Jobs" filtered=${all.length > 0} />`;
}
