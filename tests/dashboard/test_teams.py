# SPDX-License-Identifier: Apache-2.0
"""Teams over time: the series of the history beside the current quota."""

from __future__ import annotations

from control.objects import local_queue, queue
from kuota.dashboard.models.teams import CurrentTeams, current_teams, teams_model
from kuota.history.accounts import Period
from kuota.history.records import JobRecord, Run
from kuota.history.series import series_report
from kuota.view.observed import ObservedState


def test_quota_is_that_of_the_queues_of_the_team_and_may_be_shared() -> None:
    other = local_queue("main", "b")
    other["metadata"]["namespace"] = "other"
    observed = ObservedState.of(
        [queue("a", 4), queue("b", 6), local_queue("x", "a"), local_queue("y", "b"), other]
    )
    model = teams_model(series_report([], Period(0, 20), 10), current_teams(observed))
    assert [("other", 6.0, True), ("team", 10.0, True)] == [
        (each.team, each.resources[0].quota, each.resources[0].shared) for each in model.teams
    ]
    assert [0.0, 0.0] == model.teams[0].resources[0].used == model.teams[0].waiting


def test_a_team_of_the_past_has_no_quota_and_its_unused_quota_is_shown() -> None:
    run = Run(0.0, 0.0, "cq", {"a100": {"nvidia.com/gpu": 2}}, 10.0, "Finished")
    record = JobRecord("uid", "past", "w", "Job", "j", "q", "", 0.0, (run,), 10.0)
    current = CurrentTeams(("past",), {("past", "cpu"): (4.0, False)})
    model = teams_model(series_report([record], Period(0, 20), 10), current)
    (team,) = model.teams
    assert [("nvidia.com/gpu", [2.0, 0.0], None), ("cpu", [0.0, 0.0], 4.0)] == [
        (each.resource, each.used, each.quota) for each in team.resources
    ]
