# SPDX-License-Identifier: Apache-2.0
"""Teams over time."""

from __future__ import annotations

from .base import Shape


class ResourceSeries(Shape):
    """One resource of a team. Each list has one value per step.

    `used` is the average amount in use, `hours` the amount multiplied by the hours, and `lost` the
    part of `hours` in runs that an eviction ended. `quota` is the current nominal quota of the
    ClusterQueues that the team uses, None if it has none; `shared` if other teams use them, too.
    """

    resource: str
    used: list[float]
    hours: list[float]
    lost: list[float]
    quota: float | None = None
    shared: bool = False


class TeamSeries(Shape):
    """A team, which is a namespace. Each list has one value per step.

    `waiting` is the average number of waiting jobs, `running` of running ones. `submitted`,
    `finished` and `preemptions` count what happened in the step.
    """

    team: str
    resources: list[ResourceSeries]
    waiting: list[float]
    running: list[float]
    submitted: list[int]
    finished: list[int]
    preemptions: list[int]


class TeamsModel(Shape):
    """Teams over time. `times` are the beginnings of the steps; the last one ends at `until`."""

    since: str
    until: str
    step_seconds: float
    times: list[str]
    teams: list[TeamSeries] = []
