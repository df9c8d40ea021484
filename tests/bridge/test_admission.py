# SPDX-License-Identifier: Apache-2.0
"""Reservation and admission: conditions, transitions, and status patches."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bridge.lifecycles import waiting
from bridge.objects import (
    NOON,
    admission,
    at,
    check,
    condition,
    patched,
    reserved,
    summary,
    workload,
)
from bridge.passes import passed
from kuota.api.base import ObjectMeta, OwnerReference
from kuota.api.gates import Gates
from kuota.api.workload import Admission, Workload
from kuota.bridge.admission import (
    WorkloadPhase,
    admitted_status,
    lost_quota,
    phase,
    released_status,
    required_checks,
    reserve,
    withdrawn_status,
)
from kuota.bridge.conditions import Conditions
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.engine.model import CheckRule, ClusterQueue, ResourceGroup
from kuota.engine.reasons import WaitReason

COARSE = Gates.of({"UnadmittedWorkloadsObservability": False}, check=False)
EXPLICIT = Gates.of({"UnadmittedWorkloadsExplicitStatus": True}, check=False)
ADMITTED = condition("Admitted")
PUT_OFF = {"name": "main", "count": 1, "delayedTopologyRequest": "Pending"}
PLACED = PUT_OFF | {"topologyAssignment": {"levels": ["rack"], "slices": []}}


def synced(obj: Workload, gates: Gates | None = None, now: float = 10.9) -> Workload:
    return patched(obj, admitted_status(obj, NOON + now, gates or Gates()))


def admitted(obj: Workload, gates: Gates | None = None) -> str | None:
    return summary(synced(obj, gates)).get("Admitted")


class TestAdmitted:
    def test_a_reservation_without_checks_is_enough(self) -> None:
        assert admitted(reserved()) == "True/Admitted"

    def test_an_admission_that_lasts_is_confirmed_for_the_new_generation(self) -> None:
        obj = reserved("train", condition("Admitted", reason="Admitted"))
        changed = replace(obj, metadata=replace(obj.metadata, generation=7))
        (found,) = (c for c in synced(changed).status.conditions or () if c.type == "Admitted")
        (before,) = (c for c in obj.status.conditions or () if c.type == "Admitted")
        assert (7, before.last_transition_time) == (
            found.observed_generation,
            found.last_transition_time,
        )
        assert {} == admitted_status(changed, NOON, COARSE)

    def test_all_checks_have_to_be_ready(self) -> None:
        checks = {"admissionChecks": [check("a", "Ready"), check("b", "Pending")]}
        assert admitted(reserved(status=checks)) == "False/UnsatisfiedAdmissionChecks"
        assert admitted(reserved(status=checks), COARSE) is None

    def test_a_topology_put_off_has_to_be_found_first(self) -> None:
        def given(assignment: dict[str, Any]) -> Workload:
            recorded = {"clusterQueue": "gpus", "podSetAssignments": [assignment]}
            return reserved(status={"admission": recorded})

        assert admitted(given(PUT_OFF)) == "False/PendingDelayedTopologyRequests"
        assert admitted(given(PLACED)) == "True/Admitted"

    def test_a_workload_without_a_decision_gets_no_condition_unless_reported(self) -> None:
        assert admitted_status(workload(), NOON, Gates()) == {}
        assert admitted(workload(), EXPLICIT) == "False/NoReservation"

    def test_one_that_waits_says_so(self) -> None:
        waiting = workload(conditions=[condition("QuotaReserved", False, "WaitingForQuota")])
        assert admitted(waiting) == "False/NoReservation"
        assert admitted_status(waiting, NOON, COARSE) == {}

    @pytest.mark.parametrize(
        ("obj", "granular", "coarse"),
        [
            pytest.param(
                workload(conditions=[ADMITTED]), "NoReservation", "NoReservation", id="quota"
            ),
            pytest.param(
                reserved("a", ADMITTED, status={"admissionChecks": [check("b", "Retry")]}),
                "UnsatisfiedAdmissionChecks",
                "UnsatisfiedChecks",
                id="check",
            ),
            pytest.param(
                workload(conditions=[ADMITTED], status={"admissionChecks": [check("b", "Retry")]}),
                "NoReservation",
                "NoReservationUnsatisfiedChecks",
                id="both",
            ),
        ],
    )
    def test_losing_what_it_rests_on_ends_it_and_counts_the_time(
        self, obj: Workload, granular: str, coarse: str
    ) -> None:
        assert admitted(obj) == f"False/{granular}"
        assert admitted(obj, COARSE) == f"False/{coarse}"
        assert synced(obj).status.accumulated_past_execution_time_seconds == 10

    def test_times_add_up_over_admissions(self) -> None:
        obj = workload(conditions=[ADMITTED], status={"accumulatedPastExecutionTimeSeconds": 30})
        assert synced(obj).status.accumulated_past_execution_time_seconds == 40

    def test_being_up_to_date_writes_nothing(self) -> None:
        once = synced(reserved())
        assert admitted_status(once, NOON + 60, Gates()) == {}


@given(
    held=st.booleans(),
    states=st.lists(st.sampled_from(["Ready", "Pending", "Retry", "Rejected"]), max_size=3),
    was=st.sampled_from([None, True, False]),
    granular=st.booleans(),
)
def test_admitted_is_true_exactly_with_quota_and_all_checks_ready(
    held: bool, states: list[str], was: bool | None, granular: bool
) -> None:
    conditions = [condition("QuotaReserved", held)]
    if was is not None:
        conditions.append(condition("Admitted", was))
    listed = {"admissionChecks": [check(f"c{i}", state) for i, state in enumerate(states)]}
    obj = workload(conditions=conditions, status=listed)
    gates = Gates() if granular else COARSE
    after = synced(obj, gates)
    claims = summary(after).get("Admitted", "False/").startswith("True")
    assert claims == (held and all(state == "Ready" for state in states))
    assert admitted_status(after, NOON + 60, gates) == {}


def test_the_phase_is_the_furthest_point_reached() -> None:
    assert phase(workload()) is WorkloadPhase.PENDING
    assert phase(reserved()) is WorkloadPhase.QUOTA_RESERVED
    assert phase(reserved("a", ADMITTED)) is WorkloadPhase.ADMITTED
    assert phase(reserved("a", ADMITTED, condition("Finished"))) is WorkloadPhase.FINISHED


@pytest.mark.parametrize("before", list(WorkloadPhase))
@pytest.mark.parametrize("after", list(WorkloadPhase))
def test_only_who_had_quota_and_waits_again_was_sent_back(
    before: WorkloadPhase, after: WorkloadPhase
) -> None:
    had = before in (WorkloadPhase.QUOTA_RESERVED, WorkloadPhase.ADMITTED)
    assert lost_quota(before, after) == (had and after is WorkloadPhase.PENDING)


def test_a_reservation_ends_eviction_preemption_and_blocking() -> None:
    before = workload(
        conditions=[
            condition("Evicted", True, "Preempted", "made room"),
            condition("Preempted", True, "InClusterQueue", "made room"),
            condition("BlockedOnPreemptionGates", False, "Test"),
        ]
    )
    conditions = Conditions(before.status.conditions, NOON, 3)
    reserve(conditions, "gpus")
    after = patched(before, {"conditions": conditions.json()})
    assert summary(after) == {
        "Evicted": "False/QuotaReserved",
        "Preempted": "False/QuotaReserved",
        "BlockedOnPreemptionGates": "False/Test",
        "QuotaReserved": "True/QuotaReserved",
    }


class TestRequiredChecks:
    QUEUE = ClusterQueue(
        name="gpus",
        groups=(ResourceGroup(resources=("gpu",), flavors=("a100", "spot"), quotas={}),),
        checks=(
            CheckRule(name="budget"),
            CheckRule(name="provisioning", flavors=frozenset({"spot"})),
            CheckRule(name="audit", flavors=frozenset({"spot", "a100"})),
        ),
    )

    def test_with_an_admission_those_of_its_flavors(self) -> None:
        given = msgspec.convert(admission(gpu="a100"), Admission)
        assert required_checks(self.QUEUE, given) == ("budget", "audit")
        given = msgspec.convert(admission(gpu="spot"), Admission)
        assert required_checks(self.QUEUE, given) == ("budget", "provisioning", "audit")

    def test_before_it_only_those_that_hold_for_every_flavor(self) -> None:
        assert required_checks(self.QUEUE, None) == ("budget", "audit")


class TestRelease:
    def evicted(self, reason: str) -> Workload:
        return reserved("train", ADMITTED, condition("Evicted", True, reason, "words"))

    def released(self, obj: Workload, gates: Gates | None = None) -> Workload:
        return patched(obj, released_status(obj, NOON + 20, gates or Gates()))

    def test_the_quota_goes_back_and_the_workload_queues_again(self) -> None:
        after = self.released(self.evicted("Preempted"))
        assert summary(after) == {
            "QuotaReserved": "False/PendingEvaluation",
            "Admitted": "False/NoReservation",
            "Evicted": "True/Preempted",
            "Requeued": "True/Preempted",
        }
        assert after.status.admission is None
        assert after.status.accumulated_past_execution_time_seconds == 20

    @pytest.mark.parametrize(
        ("reason", "again"),
        [
            ("NodeFailures", True),
            ("PodsReadyTimeout", False),
            ("AdmissionCheck", False),
            ("ClusterQueueStopped", False),
            ("DeactivatedDueToRequeuingLimitExceeded", False),
        ],
    )
    def test_only_some_evictions_let_it_queue_at_once(self, reason: str, again: bool) -> None:
        assert summary(self.released(self.evicted(reason)))["Requeued"] == f"{again}/{reason}"

    @pytest.mark.parametrize(("controller", "again"), [(True, False), (None, True)])
    def test_a_single_pod_does_not_come_back_but_a_group_does(
        self, controller: bool | None, again: bool
    ) -> None:
        obj = self.evicted("Preempted")
        owner = OwnerReference(kind="Pod", name="p", controller=controller)
        meta = ObjectMeta(name="train", namespace="ml", owner_references=[owner])
        after = self.released(replace(obj, metadata=meta))
        assert summary(after)["Requeued"] == f"{again}/Preempted"

    def test_with_coarse_reasons_it_is_just_pending(self) -> None:
        after = self.released(self.evicted("Preempted"), COARSE)
        assert summary(after)["QuotaReserved"] == "False/Pending"

    def test_a_stopped_queue_takes_quota_back_without_an_eviction(self) -> None:
        obj = reserved("train", condition("Admitted", False, "UnsatisfiedAdmissionChecks"))
        status = withdrawn_status(obj, WaitReason.SUSPENDED, "gpus is stopped", NOON, Gates())
        after = patched(obj, status)
        assert summary(after) == {
            "QuotaReserved": "False/Suspended",
            "Admitted": "False/NoReservation",
        }
        assert after.status.admission is None


def test_preemption_gates_of_the_status_follow_the_spec_and_keep_their_order() -> None:
    gates = Gates.of({"MultiKueueOrchestratedPreemption": True}, check=False)
    config = LifecycleConfig(gates=gates)
    listed = [
        {"name": name, "position": "Open", "lastTransitionTime": at(0)} for name in ("b", "a", "x")
    ]
    wanted = [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    obj = waiting(preemptionGates=wanted, status={"preemptionGates": listed})
    found = passed(obj, config=config).after
    positions = [(each.name, each.position) for each in found.status.preemption_gates or ()]
    assert [("b", "Open"), ("a", "Open"), ("c", "Closed")] == positions
    assert passed(found, config=config).idle


@pytest.mark.parametrize("reason", ["WaitingForQuota", "PendingEvaluation", "OnHold"])
def test_a_reason_that_still_applies_is_observed_for_a_new_generation(reason: str) -> None:
    obj = waiting(condition("QuotaReserved", False, reason) | {"observedGeneration": 2})
    found = passed(obj)
    (after,) = (each for each in found.after.status.conditions or () if each.reason == reason)
    assert (3, at(0)) == (
        after.observed_generation,
        msgspec.to_builtins(after.last_transition_time),
    )
    assert passed(found.after).idle
