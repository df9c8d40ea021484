# SPDX-License-Identifier: Apache-2.0
"""Teams over time: what the history recorded about each, beside its current quota. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuota.api.device_resources import resource_order
from kuota.api.quantity import as_float, written
from kuota.history import series
from kuota.history.series import SeriesReport
from kuota.view.observed import ObservedState

from ..shapes import ResourceSeries, TeamSeries, TeamsModel

_ZERO = (0.0, False)
Quotas = Mapping[tuple[str, str], tuple[float, bool]]
"""Quota by team and resource, and whether other teams share it."""


class CurrentTeams(msgspec.Struct, frozen=True):
    """The teams that have a LocalQueue, and their quota."""

    names: tuple[str, ...] = ()
    quotas: Quotas = {}


def teams_model(found: SeriesReport, current: CurrentTeams) -> TeamsModel:
    """Return a series for every team of the report, and for every current one."""
    recorded = {each.team: each for each in found.items}
    names = sorted({*recorded, *current.names})
    steps = len(found.times)
    return TeamsModel(
        since=found.since,
        until=found.until,
        step_seconds=found.step_seconds,
        times=found.times,
        teams=[
            _team(recorded.get(name) or _without_jobs(name, steps), current.quotas, steps)
            for name in names
        ],
    )


def _team(team: series.TeamSeries, quotas: Quotas, steps: int) -> TeamSeries:
    used = {each.resource: each for each in team.resources}
    offered = {resource for name, resource in quotas if name == team.team}
    names = sorted({*used, *offered}, key=resource_order)
    resources = [
        _resource(used.get(name) or _unused(name, steps), quotas.get((team.team, name)))
        for name in names
    ]
    return TeamSeries(**msgspec.structs.asdict(team) | {"resources": resources})


def _resource(used: series.ResourceSeries, quota: tuple[float, bool] | None) -> ResourceSeries:
    nominal, shared = quota if quota is not None else (None, False)
    return ResourceSeries(**msgspec.structs.asdict(used), quota=nominal, shared=shared)


def _without_jobs(team: str, steps: int) -> series.TeamSeries:
    zeros, none = [0.0] * steps, [0] * steps
    return series.TeamSeries(
        team=team, waiting=zeros, running=zeros, submitted=none, finished=none, preemptions=none
    )


def _unused(resource: str, steps: int) -> series.ResourceSeries:
    zeros = [0.0] * steps
    return series.ResourceSeries(resource=resource, used=zeros, hours=zeros, lost=zeros)


def current_teams(observed: ObservedState) -> CurrentTeams:
    """Return the teams of now."""
    names = sorted({key.namespace for key in observed.state.local_queues})
    return CurrentTeams(tuple(names), _quotas(observed))


def _quotas(observed: ObservedState) -> Quotas:
    """Return the current nominal quota of the ClusterQueues that each team's LocalQueues name."""
    state = observed.state
    users: dict[str, set[str]] = {}
    for local in state.local_queues.values():
        users.setdefault(local.cluster_queue, set()).add(local.key.namespace)
    found: dict[tuple[str, str], tuple[float, bool]] = {}
    for name, teams in users.items():
        queue = state.queues.get(name)
        for column, quota in queue.node.quotas.items() if queue is not None else ():
            amount = as_float(written(quota.nominal, column.resource))
            for team in teams:
                total, shared = found.get((team, column.resource), _ZERO)
                found[team, column.resource] = total + amount, shared or len(teams) > 1
    return found
