# SPDX-License-Identifier: Apache-2.0
"""Teams over time, from the history of jobs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.history.accounts import By, Period, usage
from kuota.history.records import FINISHED, PREEMPTED, RESIZED, JobRecord, RecordedOutcome, Run
from kuota.history.series import MOST_STEPS, TeamSeries, series_report

GPU = "nvidia.com/gpu"


def _record(uid: str, submitted: float, *runs: Run, finished: float | None = None) -> JobRecord:
    outcome = RecordedOutcome.SUCCEEDED if finished is not None else RecordedOutcome.NONE
    named = (uid, "team", f"w-{uid}", "Job", uid, "main", "ann", submitted)
    return JobRecord(*named, runs, finished, outcome)


def _run(started: float, ended: float | None = None, ending: str = "", gpus: int = 2) -> Run:
    return Run(started, started, "cq", {"gold": {GPU: gpus}}, ended, ending)


def _team(*records: JobRecord, until: float = 7200, step: float = 3600) -> TeamSeries:
    (found,) = series_report(records, Period(0, until), step).items
    return found


def test_steps_show_usage_waiting_preemptions_and_hours() -> None:
    record = _record(
        "a",
        0,
        _run(1800, 3600, PREEMPTED),
        _run(5400, 7200, FINISHED),
        finished=7200,
    )
    team = _team(record, until=10800)
    (gpu,) = team.resources
    assert ([1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0]) == (gpu.used, gpu.hours, gpu.lost)
    assert ([0.5, 0.5, 0.0], [0.5, 0.5, 0.0]) == (team.waiting, team.running)
    assert ([1, 0, 0], [0, 0, 1], [0, 1, 0]) == (
        *(team.submitted, team.finished),
        team.preemptions,
    )


def test_what_continues_counts_until_the_end_of_the_period() -> None:
    team = _team(_record("a", 0, _run(3600)), _record("b", 3600))
    assert ([0.0, 2.0], [1.0, 1.0]) == (team.resources[0].used, team.waiting)
    assert [0, 0] == team.finished


def test_the_last_step_is_averaged_over_its_own_length() -> None:
    model = series_report([_record("a", 0, _run(0))], Period(0, 5400), 3600)
    assert ["1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z"] == model.times
    (gpu,) = model.items[0].resources
    assert ([2.0, 2.0], [2.0, 1.0]) == (gpu.used, gpu.hours)


def test_jobs_outside_the_period_and_long_series_are_bounded() -> None:
    early = _record("a", 0, _run(1, 2, FINISHED), finished=2)
    model = series_report([early, _record("b", 500)], Period(100, 400), 10)
    assert [] == model.items
    assert MOST_STEPS == len(series_report([], Period(0, 1e9), 1).times)
    assert 1 == len(series_report([], Period(5, 5), 0).times)


def test_hours_of_an_admission_that_was_preempted_are_lost_as_in_the_accounts() -> None:
    resized = Run(0, 0, "cq", {"gold": {GPU: 4}}, 3600, RESIZED)
    rest = Run(0, 3600, "cq", {"gold": {GPU: 2}}, 7200, PREEMPTED)
    record = _record("a", 0, resized, rest)
    (account,) = usage([record], By.TEAM, Period(0, 7200))
    (gpu,) = _team(record).resources
    assert (6.0, [4.0, 2.0]) == (account.resources[GPU].lost, gpu.lost)


_MOMENTS = st.lists(st.integers(0, 20_000), min_size=2, max_size=9, unique=True).map(sorted)


@settings(max_examples=60, deadline=None)
@given(_MOMENTS, st.booleans(), st.integers(100, 30_000), st.integers(7, 9_000))
def test_steps_add_up_to_the_accounts(
    moments: list[int], preempted: bool, until: int, step: int
) -> None:
    ending = PREEMPTED if preempted else FINISHED
    pairs = zip(moments[1::2], moments[2::2], strict=False)
    runs = [_run(start, end, ending) for start, end in pairs]
    record = _record("a", moments[0], *runs, finished=moments[-1])
    period = Period(50, until)
    model = series_report([record], period, step)
    (account,) = usage([record], By.TEAM, period) or (None,)
    if account is None:
        assert [] == model.items
        return
    (team,) = model.items
    for each in team.resources:
        total = account.resources.get(each.resource)
        expected = (total.hours, total.lost) if total is not None else (0.0, 0.0)
        assert pytest.approx(expected) == (sum(each.hours), sum(each.lost))
    lengths = [
        min(period.since + (at + 1) * model.step_seconds, until)
        - (period.since + at * model.step_seconds)
        for at in range(len(model.times))
    ]
    waited = sum(each * length for each, length in zip(team.waiting, lengths, strict=True))
    assert pytest.approx(account.waiting_hours * 3600) == waited
    assert account.preemptions == sum(team.preemptions)
