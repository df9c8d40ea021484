// SPDX-License-Identifier: Apache-2.0
// Teams over time: usage against quota, waiting and preemptions, and what each used in the period.

import { html } from "../dom.js";
import { byResource, counted, rounded, shortResource } from "../format.js";
import { Empty, PageHead, Text } from "../parts/basics.js";
import { Chart } from "../parts/chart.js";
import { Fetched } from "../parts/fetched.js";
import { Choice, Select } from "../parts/filters.js";
import { UsageTable } from "../parts/usage.js";
import { WasteTable } from "../parts/waste.js";
import { PERIOD_CHOICES, periodNamed, USUAL_PERIOD } from "../periods.js";

/** @param {{place: any}} properties */
export function TeamsPage({ place }) {
  const since = place.query.get("since") || USUAL_PERIOD;
  const by = place.query.get("by") || "team";
  const chosen = place.query.get("resource") ?? "";
  const only = place.query.get("team") ?? "";
  const parameters = () => {
    const { since: from, until, step } = periodNamed(since);
    return { since: from, until, step };
  };
  return html`<${PageHead} title="Teams over time" lead="Usage against quota, waiting jobs and preemptions of each team.">
      <${Choice} label="Period" name="since" value=${since} options=${PERIOD_CHOICES} usual=${USUAL_PERIOD} />
    <//>
    <div class="stack">
      <${Fetched} path="teams" name=${since} parameters=${parameters}>
        ${(model) => html`<${Teams} model=${model} chosen=${chosen} only=${only} />`}<//>
      <${UsageTable} by=${by} since=${since} />
      <${WasteTable} since=${since} />
    </div>`;
}

function Teams({ model, chosen, only }) {
  if (!model.teams.length) return html`<${Empty} title="Nothing is recorded in this period">Choose a longer one, or come back when jobs have run.<//>`;
  const resources = [...new Set(model.teams.flatMap((each) => each.resources.map((one) => one.resource)))].sort(byResource);
  const resource = resources.includes(chosen) ? chosen : resources[0];
  const times = model.times.map((each) => Date.parse(each) / 1000);
  const until = Date.parse(model.until) / 1000;
  const teams = model.teams.filter((each) => !only || each.team === only);
  return html`<form class="filters" role="search" aria-label="Teams" onSubmit=${(event) => event.preventDefault()}>
      <${Select} label="Team" name="team" value=${only} options=${model.teams.map((each) => each.team)} />
      ${resources.length > 1 && html`<${Select} label="Resource" name="resource" value=${chosen} options=${resources} all=${resources[0]} />`}
    </form>
    <div class="teams">${teams.map((each) => html`<${Team} key=${each.team} team=${each} times=${times} until=${until} resource=${resource} />`)}</div>`;
}

const sum = (values) => values.reduce((total, each) => total + each, 0);

function Team({ team, times, until, resource }) {
  const used = team.resources.find((each) => each.resource === resource);
  const zeros = times.map(() => 0);
  const name = shortResource(resource ?? "");
  const usage = [
    { label: `${name} in use`, color: "used", values: used?.used ?? zeros, fill: true },
    ...(used && used.quota !== null ? [{ label: used.shared ? "quota (shared)" : "quota", color: "text", values: times.map(() => used.quota), dash: [5, 4] }] : []),
  ];
  const flow = [
    { label: "waiting", color: "borrowed", values: team.waiting, fill: true },
    { label: "running", color: "good", values: team.running },
    { label: "preemptions", color: "bad", values: team.preemptions, dash: [2, 3] },
  ];
  const hours = sum(used?.hours ?? []);
  const peak = Math.max(0, ...(used?.used ?? []));
  return html`<section class="card team" aria-label="Team ${team.team}">
    <h2><${Text}>${team.team}<//></h2>
    <dl class="figures">
      <div><dt>${name} hours</dt><dd>${rounded(hours)}</dd></div>
      <div><dt>of these lost</dt><dd>${rounded(sum(used?.lost ?? []))}</dd></div>
      <div><dt>Preemptions</dt><dd>${sum(team.preemptions)}</dd></div>
      <div><dt>Finished</dt><dd>${sum(team.finished)}</dd></div>
    </dl>
    <${Chart} height=${170} times=${times} until=${until} series=${usage}
      label="Usage of ${resource} by ${team.team}: at most ${rounded(peak)}${used?.quota != null ? `, quota ${rounded(used.quota)}` : ""}, ${rounded(hours)} hours in all" />
    <${Chart} height=${120} times=${times} until=${until} series=${flow}
      label="Jobs of ${team.team}: at most ${rounded(Math.max(0, ...team.waiting))} waiting and ${counted(sum(team.preemptions), "preemption")}" />
  </section>`;
}
