# SPDX-License-Identifier: Apache-2.0
"""Evictions: what is reset, what is counted, and what is kept for the next attempt."""

from __future__ import annotations

import pytest

from bridge.objects import NOON, at, check, condition, events, patched, reserved, summary, workload
from kuota.api.base import Json
from kuota.api.workload import Workload
from kuota.bridge.conditions import Conditions
from kuota.bridge.eviction import evicted_status, eviction_event
from kuota.engine.reasons import EvictionReason


def status(
    obj: Workload, reason: EvictionReason = EvictionReason.PREEMPTED, cause: str = ""
) -> Json:
    conditions = Conditions(obj.status.conditions, NOON + 60, obj.metadata.generation)
    return evicted_status(obj, conditions, reason, "words", NOON + 60, cause)


def test_the_quota_stays_reserved_while_its_pods_are_leaving() -> None:
    obj = reserved("train", condition("Admitted"))
    after = patched(obj, status(obj))
    assert summary(after) == {
        "QuotaReserved": "True/Test",
        "Admitted": "True/Test",
        "Evicted": "True/Preempted",
    }
    assert after.status.admission == obj.status.admission


@pytest.mark.parametrize(
    ("before", "reset"),
    [
        pytest.param({"state": "Ready"}, {}, id="ready"),
        pytest.param(
            {"state": "Ready", "retryCount": 2}, {"retryCount": 2}, id="ready: the count stays"
        ),
        pytest.param(
            {"state": "Rejected", "retryCount": 2}, {"retryCount": 2}, id="rejected: so it does"
        ),
        pytest.param({"state": "Retry"}, {"retryCount": 1}, id="retry: counted"),
        pytest.param(
            {"state": "Retry", "retryCount": 2, "requeueAfterSeconds": 60},
            {"retryCount": 3, "requeueAfterSeconds": 60},
            id="retry again: counted on, and its delay kept",
        ),
    ],
)
def test_an_answered_check_has_to_be_passed_again(before: Json, reset: Json) -> None:
    obj = reserved(status={"admissionChecks": [check("prov", **before)]})
    (found,) = status(obj)["admissionChecks"]
    said = f"Reset to Pending after eviction. Previously: {before['state']}"
    asked: Json = {"name": "prov", "state": "Pending", "message": said}
    assert found == asked | {"lastTransitionTime": at(60)} | reset


def test_a_check_without_an_answer_is_left_alone() -> None:
    pending = check("slow", "Pending", retryCount=2)
    assert "admissionChecks" not in status(reserved(status={"admissionChecks": [pending]}))
    both = reserved(status={"admissionChecks": [pending, check("prov", "Ready")]})
    assert status(both)["admissionChecks"][0] == pending


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [("Preempted", "", 1)]),
        ([("Preempted", "", 1)], [("Preempted", "", 2)]),
        ([("Preempted", "x", 1)], [("Preempted", "x", 1), ("Preempted", "", 1)]),
    ],
)
def test_evictions_are_counted_by_reason_and_cause(
    before: list[tuple[str, str, int]], after: list[tuple[str, str, int]]
) -> None:
    def listed(counts: list[tuple[str, str, int]]) -> list[Json]:
        return [{"reason": r, "underlyingCause": c, "count": n} for r, c, n in counts]

    obj = reserved(status={"schedulingStats": {"evictions": listed(before)}})
    assert status(obj)["schedulingStats"]["evictions"] == listed(after)


def test_the_cause_of_a_deactivation_is_part_of_its_reason_and_of_no_other() -> None:
    obj = reserved()
    found = status(obj, EvictionReason.DEACTIVATED, "AdmissionCheck")
    assert summary(patched(obj, found))["Evicted"] == "True/DeactivatedDueToAdmissionCheck"
    assert found["schedulingStats"]["evictions"][0]["reason"] == "Deactivated"
    found = status(obj, EvictionReason.PODS_READY_TIMEOUT, "WaitForStart")
    assert summary(patched(obj, found))["Evicted"] == "True/PodsReadyTimeout"


def test_what_tied_it_to_its_place_is_gone_and_its_gates_are_closed() -> None:
    gates = [
        {"name": "open", "position": "Open", "lastTransitionTime": at(5)},
        {"name": "shut", "position": "Closed", "lastTransitionTime": at(5)},
    ]
    obj = reserved(
        "train",
        condition("BlockedOnPreemptionGates"),
        status={"clusterName": "w", "unhealthyNodes": [{"name": "n"}], "preemptionGates": gates},
    )
    after = patched(obj, status(obj))
    assert after.status.cluster_name is None
    assert after.status.unhealthy_nodes is None
    assert summary(after)["BlockedOnPreemptionGates"] == "False/Preempted"
    assert status(obj)["preemptionGates"] == [
        {"name": "open", "position": "Closed", "lastTransitionTime": at(60)},
        {"name": "shut", "position": "Closed", "lastTransitionTime": at(5)},
    ]


def test_the_event_names_reason_and_cause_and_is_only_for_who_had_quota() -> None:
    reason = EvictionReason.PODS_READY_TIMEOUT
    found = eviction_event(reserved(), reason, "words", "WaitForStart")
    assert events([*found]) == ["train: EvictedDueToPodsReadyTimeoutDueToWaitForStart"]
    assert eviction_event(workload(), reason, "words") == []
