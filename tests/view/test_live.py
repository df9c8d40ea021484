# SPDX-License-Identifier: Apache-2.0
"""Rows of the live view, from stored objects."""

from __future__ import annotations

from datetime import UTC, datetime

from kuota.api.base import Json
from kuota.api.workload import PREEMPTOR_UID
from kuota.view.live import age, execution, gets, queue_rows, span, workload_rows
from kuota.view.workload_state import LiveState, pods_by_owner, state, why

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


def _condition(kind: str, status: str = "True", **more: str) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-11-15T11:00:00Z"} | more


def _workload(name: str, *conditions: Json, active: bool = True, priority: int = 0) -> Json:
    return {
        "metadata": {"name": name, "namespace": "lab", "creationTimestamp": "2026-11-15T10:00:00Z"},
        "spec": {"queueName": "q", "active": active, "priority": priority},
        "status": {"conditions": list(conditions)},
    }


def test_conditions_and_failed_pods_tell_the_state() -> None:
    reserved, admitted = _condition("QuotaReserved"), _condition("Admitted")
    failed = _condition("Finished", reason="Failed")
    time_up = "DeactivatedDueToMaximumExecutionTimeExceeded"
    states = {
        LiveState.PENDING: _workload("a"),
        LiveState.QUOTARESERVED: _workload("a", reserved),
        LiveState.ADMITTED: _workload("a", reserved, admitted),
        LiveState.SUCCEEDED: _workload("a", reserved, admitted, _condition("Finished")),
        LiveState.FAILED: _workload("a", reserved, admitted, failed),
        LiveState.PREEMPTED: _workload("a", _condition("Evicted", reason="Preempted")),
        LiveState.TIMEOUT: _workload("a", _condition("Evicted", reason=time_up), active=False),
        LiveState.DEACTIVATED: _workload("a", active=False),
    }
    assert list(states) == [state(each) for each in states.values()]


def test_a_failed_pod_gives_the_cause_of_its_jobs_failure() -> None:
    owned = {"ownerReferences": [{"kind": "Job", "name": "a", "uid": "u1"}]}
    message = "Job has reached the specified backoff limit"
    workload = _workload("a", _condition("Finished", reason="Failed", message=message))
    workload["metadata"] |= owned
    ended = {"name": "main", "state": {"terminated": {"exitCode": 128, "message": "no command"}}}
    pod = {"metadata": {"name": "p"} | owned, "status": {"containerStatuses": [ended]}}
    failed = pods_by_owner([pod])
    assert (LiveState.FAILED, "no command") == (state(workload, failed), why(workload, (), failed))
    late = {"metadata": {"name": "p"} | owned, "status": {"reason": "DeadlineExceeded"}}
    assert LiveState.TIMEOUT is state(workload, pods_by_owner([late]))


def test_a_preemptor_is_named() -> None:
    evicted = _condition("Evicted", reason="Preempted")
    rule = _condition("Preempted", reason="InClusterQueue")
    workload = _workload("a", evicted, rule)
    workload["metadata"]["annotations"] = {PREEMPTOR_UID: "u2"}
    preemptor = _workload("urgent")
    preemptor["metadata"]["uid"] = "u2"
    rule_words = "(prioritization in the ClusterQueue)"
    assert f"by Workload urgent in namespace lab {rule_words}" == why(workload, [preemptor])
    assert f"by another workload {rule_words}" == why(workload)


def test_a_reason_is_given_for_everything_that_does_not_run() -> None:
    assert "not evaluated yet" == why(_workload("a"))
    assert "no room" == why(_workload("a", _condition("QuotaReserved", "False", message="no room")))
    reserved = _workload("a", _condition("QuotaReserved"))
    reserved["status"]["admissionChecks"] = [{"name": "budget", "state": "Pending"}]
    assert "quota is reserved; waiting for budget (Pending)" == why(reserved)


def test_what_was_given_is_added_up_by_flavor() -> None:
    given = _workload("a")
    pods = {"flavors": {"cpu": "any", "nvidia.com/gpu": "gold"}}
    usage = {"cpu": "1500m", "nvidia.com/gpu": "2"}
    assignments = [pods | {"resourceUsage": usage}, pods | {"resourceUsage": {"cpu": "500m"}}]
    given["status"]["admission"] = {"podSetAssignments": assignments}
    assert "2 cpu on any, 2 nvidia.com/gpu on gold" == gets(given)


def test_running_work_comes_first_then_the_most_important() -> None:
    low, high = _workload("low"), _workload("high", priority=9)
    runs = _workload("runs", _condition("Admitted"))
    over = _workload("over", _condition("Finished"))
    rows = workload_rows([over, low, high, runs], NOW)
    assert ["runs", "high", "low", "over"] == [row.workload for row in rows]
    assert ("lab/runs", "2h") == (rows[0].name, rows[0].age)


def test_queues_show_what_they_have_use_and_borrow() -> None:
    quota = {"name": "cpu", "nominalQuota": "4"}
    used = {"name": "cpu", "total": "5", "borrowed": "1"}
    queue = {
        "metadata": {"name": "a"},
        "spec": {"resourceGroups": [{"flavors": [{"name": "f", "resources": [quota]}]}]},
        "status": {
            "flavorsReservation": [{"name": "f", "resources": [used]}],
            "conditions": [_condition("Active", "False", message="flavor f is missing")],
        },
    }
    (row,) = queue_rows([queue])
    assert "flavor f is missing" == row.inactive
    (cells,) = row.quotas
    assert ("4", "5", "1") == (cells.nominal, cells.used, cells.borrowed)


def test_times_are_short() -> None:
    spans = {0: "0s", 59: "59s", 60: "1m", 185: "3m5s", 3600: "1h", 7800: "2h10m", -5: "0s"}
    assert list(spans.values()) == [span(each) for each in spans]
    assert "" == age("nonsense", NOW)
    assert "1h" == execution(_workload("a", _condition("Admitted")), NOW)
    assert "" == execution(_workload("a"), NOW)
