# SPDX-License-Identifier: Apache-2.0
"""Passes over Workloads under other feature gates and timeouts, and after other controllers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bridge.lifecycles import holding, running, waiting
from bridge.objects import NOON, check, condition
from bridge.passes import LOCAL, QUEUE, passed
from kuota.api.backoff import Backoff
from kuota.api.gates import Gates
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.engine.model import CheckRule

SHORT = LifecycleConfig(timeout_s=60, recovery_timeout_s=30, backoff=Backoff(base=60, cap=3600))


def test_lost_pods_may_take_any_time_to_recover_without_a_recovery_timeout() -> None:
    lost = condition("PodsReady", False, reason="WaitForRecovery")
    patient = replace(SHORT, recovery_timeout_s=None)
    found = passed(running(lost), NOON + 9999, patient)
    assert (True, None) == (found.idle, found.result.requeue_after_s)


COARSE = LifecycleConfig(gates=Gates.of({"UnadmittedWorkloadsObservability": False}, check=False))
GATED = "kueue.x-k8s.io/admission-gated-by"


@pytest.mark.parametrize(
    ("config", "reason"), [(LifecycleConfig(), "PendingEvaluation"), (COARSE, "Pending")]
)
def test_a_workload_whose_gates_were_removed_waits_with_the_reason_of_the_feature_gate(
    config: LifecycleConfig, reason: str
) -> None:
    gated = condition("QuotaReserved", False, reason="AdmissionGated")
    found = passed(waiting(gated), config=config)
    assert f"False/{reason}" == found.conditions["QuotaReserved"]
    assert ["AdmissionGateCleared"] == found.events


def test_coarse_reasons_only_report_queues_that_cannot_admit() -> None:
    pending = condition("QuotaReserved", False, reason="Inadmissible")
    assert passed(waiting(pending), config=COARSE).idle
    unfit = passed(waiting(), config=COARSE, namespace_matches=False)
    assert unfit.idle
    stopped = passed(waiting(), config=COARSE, local_queue=replace(LOCAL, stop_policy="Hold"))
    assert "False/Inadmissible" == stopped.conditions["QuotaReserved"]


def test_a_stopped_queue_withdraws_the_reservation_of_an_evicted_workload_too() -> None:
    evicted = condition("Evicted", reason="AdmissionCheck")
    held = holding(evicted, status={"admissionChecks": [check("a", "Pending")]})
    queue = replace(QUEUE, checks=(CheckRule(name="a"),))
    found = passed(held, cluster_queue=queue, local_queue=replace(LOCAL, stop_policy="Hold"))
    assert "False/Suspended" == found.conditions["QuotaReserved"]


def test_the_order_of_listed_checks_is_left_alone() -> None:
    queue = replace(QUEUE, checks=(CheckRule(name="a"), CheckRule(name="b")))
    listed = {"admissionChecks": [check("b", "Pending"), check("a", "Pending")]}
    found = passed(holding(status=listed), cluster_queue=queue)
    assert ["b", "a"] == [each.name for each in found.after.status.admission_checks or ()]
    assert "False/UnsatisfiedAdmissionChecks" == found.conditions["Admitted"]


def test_an_admitted_workload_is_timed_from_the_pass_that_admits_it() -> None:
    found = passed(holding(), config=SHORT)
    assert "True/Admitted" == found.conditions["Admitted"]
    assert 60 == found.result.requeue_after_s
