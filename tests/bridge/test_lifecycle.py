# SPDX-License-Identifier: Apache-2.0
"""The writes of one pass over a Workload."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bridge.lifecycles import OWNER, holding, owned, running, waiting
from bridge.objects import NOON, admission, at, check, condition, workload
from bridge.passes import LOCAL, QUEUE, passed
from kuota.api.backoff import Backoff
from kuota.api.gates import Gates
from kuota.api.workload import Workload
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.lifecycle_reason import cluster_obstacle, local_obstacle
from kuota.bridge.lifecycle_view import LifecycleConfig, WorkloadPassInput
from kuota.engine.model import CheckRule, ConcurrentAdmission

SHORT = LifecycleConfig(timeout_s=60, recovery_timeout_s=30, backoff=Backoff(base=60, cap=3600))


def test_a_new_workload_whose_turn_has_not_come_says_nothing() -> None:
    assert passed(waiting()).idle


def test_a_new_workload_may_be_made_to_say_that_it_waits() -> None:
    config = LifecycleConfig(
        gates=Gates.of({"UnadmittedWorkloadsExplicitStatus": True}, check=False)
    )
    found = passed(waiting(), config=config).conditions
    assert {"QuotaReserved": "False/PendingEvaluation", "Admitted": "False/NoReservation"} == found


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        pytest.param({"local_queue": None}, "Misconfigured", id="no local queue"),
        pytest.param({"local_queue_deleting": True}, "Misconfigured", id="local queue going"),
        pytest.param(
            {"local_queue": replace(LOCAL, stop_policy="Hold")}, "Suspended", id="stopped locally"
        ),
        pytest.param({"cluster_queue": None}, "Misconfigured", id="no cluster queue"),
        pytest.param({"cluster_queue_active": False}, "Suspended", id="inactive"),
        pytest.param({"cluster_queue": replace(QUEUE, deleting=True)}, "Suspended", id="going"),
        pytest.param(
            {"cluster_queue": replace(QUEUE, stop_policy="Hold")}, "Suspended", id="stopped"
        ),
        pytest.param({"namespace_matches": False}, "Misconfigured", id="foreign namespace"),
        pytest.param({"faults": ("too much",)}, "Misconfigured", id="never fits"),
    ],
)
def test_a_workload_says_what_is_in_its_way(view: dict[str, Any], reason: str) -> None:
    found = passed(waiting(), **view)
    assert f"False/{reason}" == found.conditions["QuotaReserved"]
    assert 1 == found.writes


def test_what_the_scheduler_said_stays_until_something_else_is_in_the_way() -> None:
    said = condition("QuotaReserved", False, "NoMatchingFlavor")
    assert "False/NoMatchingFlavor" == passed(waiting(said)).conditions["QuotaReserved"]
    gone = passed(waiting(said), local_queue=None)
    assert "False/Misconfigured" == gone.conditions["QuotaReserved"]
    back = passed(waiting(condition("QuotaReserved", False, "Misconfigured")))
    assert "False/PendingEvaluation" == back.conditions["QuotaReserved"]


def test_an_orphan_is_finished_and_released() -> None:
    label = {"kueue.x-k8s.io/job-uid": "u"}
    found = passed(owned(workload("w"), ownerReferences=None, labels=label))
    assert "True/OwnerNotFound" == found.conditions["Finished"]
    assert found.body["metadata"]["finalizers"] is None
    deleting = {"ownerReferences": None, "deletionTimestamp": at(0)}
    found = passed(owned(workload("w"), **deleting))
    assert "Finished" not in found.conditions
    assert found.body["metadata"]["finalizers"] is None


@pytest.mark.parametrize(
    ("kept_s", "after_s", "deleted", "requeue_after_s"),
    [(None, 9999, False, None), (0, 0, True, None), (60, 20, False, 40), (60, 60, True, None)],
)
def test_a_finished_workload_is_kept_as_long_as_configured(
    kept_s: float | None, after_s: float, deleted: bool, requeue_after_s: float | None
) -> None:
    config = LifecycleConfig(retain_finished_s=kept_s)
    found = passed(waiting(condition("Finished")), NOON + after_s, config)
    assert (deleted, requeue_after_s) == (found.deleted, found.result.requeue_after_s)
    assert (["Deleted"] if deleted else []) == found.events


def test_a_finished_workload_under_deletion_is_left_to_the_controller_of_its_owner() -> None:
    ended = owned(waiting(condition("Finished")), deletionTimestamp=at(0))
    assert passed(ended).idle
    kept = passed(ended, NOON + 60, LifecycleConfig(retain_finished_s=60))
    assert {"metadata": {"finalizers": None}} == kept.body
    assert ([], False) == (kept.events, kept.deleted)


def test_a_retry_moves_the_time_later_and_never_earlier() -> None:
    retry = check("ok", "Retry", requeueAfterSeconds=60)
    found = passed(waiting(status={"admissionChecks": [retry]}))
    state = found.after.status.requeue_state
    assert state is not None
    assert (None, at(60)) == (state.count, _z(state.requeue_at))
    later = {"count": 3, "requeueAt": at(100)}
    found = passed(waiting(status={"admissionChecks": [retry], "requeueState": later}))
    state = found.after.status.requeue_state
    assert state is not None
    assert (3, at(100)) == (state.count, _z(state.requeue_at))


def _z(moment: Any) -> str:
    return str(moment.isoformat().replace("+00:00", "Z"))


def test_deactivation_takes_three_writes_of_which_each_can_be_taken_up() -> None:
    late = running(maximumExecutionTimeSeconds=10, active=True)
    first = passed(late, NOON + 10)
    target = "True/MaximumExecutionTimeExceeded"
    assert target == first.conditions["DeactivationTarget"]
    second = passed(first.after, NOON + 11)
    assert {"spec": {"active": False}} == second.body
    third = passed(_with_spec(first.after, active=False), NOON + 12)
    reason = "True/DeactivatedDueToMaximumExecutionTimeExceeded"
    assert reason == third.conditions["Evicted"]
    assert "DeactivationTarget" not in third.conditions
    assert ["EvictedDueToDeactivatedDueToMaximumExecutionTimeExceeded"] == third.events


def _with_spec(obj: Workload, **spec: Any) -> Workload:
    record = msgspec.to_builtins(obj)
    return msgspec.convert(record | {"spec": record["spec"] | spec}, Workload)


def test_a_waiting_workload_is_deactivated_without_a_word() -> None:
    found = passed(waiting(active=False))
    assert "True/Deactivated" == found.conditions["Evicted"]
    assert "Requeued" not in found.conditions
    assert [] == found.events
    settled = passed(found.after)
    assert "False/Deactivated" == settled.conditions["QuotaReserved"]


def test_tries_are_forgotten_with_the_deactivation() -> None:
    evicted = condition("Evicted", reason="PodsReadyTimeout")
    found = passed(waiting(evicted, active=False, status={"requeueState": {"count": 5}}))
    assert found.after.status.requeue_state is None
    assert "True/PodsReadyTimeout" == found.conditions["Evicted"]
    assert found.after.status.scheduling_stats is None


@pytest.mark.parametrize("reason", ["Deactivated", "DeactivatedDueToAdmissionCheck"])
def test_who_is_active_again_queues_again_whoever_deactivated_it(reason: str) -> None:
    found = passed(waiting(condition("Requeued", False, reason)))
    assert "True/Reactivated" == found.conditions["Requeued"]


@pytest.mark.parametrize("reason", ["PodsReadyTimeout", "AdmissionCheck"])
def test_a_back_off_is_cleared_at_its_time_and_then_the_workload_is_requeued(reason: str) -> None:
    delayed = waiting(
        condition("Requeued", False, reason),
        status={"requeueState": {"count": 1, "requeueAt": at(60)}},
    )
    early = passed(delayed, NOON + 20)
    assert (0, 40) == (early.writes, early.result.requeue_after_s)
    cleared = passed(delayed, NOON + 60)
    assert f"False/{reason}" == cleared.conditions["Requeued"]
    state = cleared.after.status.requeue_state
    assert state is not None
    assert (1, None) == (state.count, state.requeue_at)
    over = passed(cleared.after, NOON + 60)
    assert "True/BackoffFinished" == over.conditions["Requeued"]


def test_a_back_off_ends_at_its_time_also_for_one_that_still_holds_quota() -> None:
    going = running(
        condition("Evicted", reason="PodsReadyTimeout"),
        condition("Requeued", False, "PodsReadyTimeout"),
        status={"requeueState": {"count": 2, "requeueAt": at(60)}},
    )
    early = passed(going, NOON + 20)
    assert (0, 40) == (early.writes, early.result.requeue_after_s)
    over = passed(going, NOON + 60)
    assert "True/BackoffFinished" == over.conditions["Requeued"]
    state = over.after.status.requeue_state
    assert state is not None
    assert (2, None) == (state.count, state.requeue_at)


def test_a_queue_that_runs_again_brings_back_whom_it_drained() -> None:
    found = passed(waiting(condition("Requeued", False, "LocalQueueStopped")))
    assert "True/LocalQueueRestarted" == found.conditions["Requeued"]
    found = passed(waiting(condition("Requeued", False, "ClusterQueueStopped")))
    assert "True/ClusterQueueRestarted" == found.conditions["Requeued"]


def test_required_checks_are_listed_by_name_and_others_dropped() -> None:
    queue = replace(QUEUE, checks=(CheckRule(name="b"), CheckRule(name="a")))
    found = passed(
        waiting(status={"admissionChecks": [check("old", "Ready")]}), cluster_queue=queue
    )
    listed = [(each.name, each.state) for each in found.after.status.admission_checks or ()]
    assert [("a", "Pending"), ("b", "Pending")] == listed


def test_the_last_check_that_is_ready_admits() -> None:
    queue = replace(QUEUE, checks=(CheckRule(name="ok"),))
    ready = {"admissionChecks": [check("ok", "Ready")]}
    found = passed(holding(status=ready), NOON + 7, cluster_queue=queue)
    assert "True/Admitted" == found.conditions["Admitted"]
    assert (["Admitted"], 1) == (found.events, found.writes)


@pytest.mark.parametrize(
    ("states", "written"),
    [
        (("Pending", "Ready"), {}),
        (("Retry", "Ready"), {"Evicted": "True/AdmissionCheck"}),
        (("Retry", "Rejected"), {"DeactivationTarget": "True/AdmissionCheck"}),
    ],
)
def test_checks_may_take_a_running_workload_down(
    states: tuple[str, str], written: dict[str, str]
) -> None:
    queue = replace(QUEUE, checks=(CheckRule(name="a"), CheckRule(name="b")))
    listed = [check(name, state) for name, state in zip("ab", states, strict=True)]
    found = passed(running(status={"admissionChecks": listed}), cluster_queue=queue)
    written_conditions = {
        k: v for k, v in found.conditions.items() if k in ("Evicted", "DeactivationTarget")
    }
    assert written == written_conditions


@pytest.mark.parametrize(
    ("policy", "admitted", "written"),
    [
        ("Hold", True, {}),
        ("Hold", False, {"QuotaReserved": "False/Suspended"}),
        ("HoldAndDrain", True, {"Evicted": "True/{}Stopped"}),
        ("HoldAndDrain", False, {"QuotaReserved": "False/Suspended"}),
    ],
)
@pytest.mark.parametrize("which", ["LocalQueue", "ClusterQueue"])
def test_a_stopped_queue_takes_quota_as_its_policy_says(
    which: str, policy: str, admitted: bool, written: dict[str, str]
) -> None:
    view: dict[str, Any] = (
        {"local_queue": replace(LOCAL, stop_policy=policy)}
        if which == "LocalQueue"
        else {"cluster_queue": replace(QUEUE, stop_policy=policy), "cluster_queue_active": False}
    )
    # With a check to pass it stays a mere reservation.
    waiting = {"admissionChecks": [check("ok", "Pending")]}
    if "cluster_queue" in view:
        view["cluster_queue"] = replace(view["cluster_queue"], checks=(CheckRule(name="ok"),))
    else:
        view["cluster_queue"] = replace(QUEUE, checks=(CheckRule(name="ok"),))
    obj = running(status=waiting) if admitted else holding(status=waiting)
    found = passed(obj, **view)
    written_conditions = {k: v for k, v in found.conditions.items() if k in written}
    assert {k: v.format(which) for k, v in written.items()} == written_conditions
    assert bool(written) or found.writes == 0


@pytest.mark.parametrize("policy", ["None", "Hold", "HoldAndDrain"])
def test_a_cluster_queue_under_deletion_is_missing_even_if_it_is_stopped(policy: str) -> None:
    queue = replace(QUEUE, deleting=True, stop_policy=policy, checks=(CheckRule(name="ok"),))
    obj = holding(status={"admissionChecks": [check("ok", "Pending")]})
    found = passed(obj, cluster_queue=queue, cluster_queue_active=False)
    assert "False/Misconfigured" == found.conditions["QuotaReserved"]


def test_unknown_devices_do_not_end_the_hold_of_a_workload() -> None:
    held = waiting(condition("QuotaReserved", False, "OnHold"))
    found = passed(held, devices_unknown=True, faults=("no such class",))
    assert "False/OnHold" == found.conditions["QuotaReserved"]
    assert "Requeued" not in found.conditions
    lost = passed(waiting(), devices_unknown=True, faults=("no such class",))
    assert "False/Misconfigured" == lost.conditions["QuotaReserved"]


def test_pods_that_are_late_cost_the_quota_and_then_the_activity() -> None:
    early = passed(running(), NOON + 20, SHORT)
    assert (0, 40) == (early.writes, early.result.requeue_after_s)
    late = passed(running(), NOON + 60, SHORT)
    assert "True/PodsReadyTimeout" == late.conditions["Evicted"]
    state = late.after.status.requeue_state
    assert state is not None
    assert (1, at(120)) == (state.count, _z(state.requeue_at))
    limited = msgspec.structs.replace(SHORT, backoff_limit=0)
    given_up = passed(running(), NOON + 60, limited)
    assert "True/RequeuingLimitExceeded" == given_up.conditions["DeactivationTarget"]


@pytest.mark.parametrize(
    ("count", "evicted", "given_up"),
    [
        (0, "True/PodsReadyTimeout", ""),
        (1, "True/PodsReadyTimeout", ""),
        (2, "", "True/RequeuingLimitExceeded"),
        (3, "", "True/RequeuingLimitExceeded"),
    ],
)
def test_a_workload_is_given_up_only_after_as_many_retries_as_are_allowed(
    count: int, evicted: str, given_up: str
) -> None:
    limited = msgspec.structs.replace(SHORT, backoff_limit=2)
    found = passed(running(status={"requeueState": {"count": count}}), NOON + 60, limited)
    assert evicted == found.conditions.get("Evicted", "")
    assert given_up == found.conditions.get("DeactivationTarget", "")


def test_pods_that_were_lost_have_a_time_of_their_own() -> None:
    lost = condition("PodsReady", False, "WaitForRecovery", since=100)
    found = passed(running(lost), NOON + 110, SHORT)
    assert 20 == found.result.requeue_after_s
    found = passed(running(lost), NOON + 130, SHORT)
    assert "True/PodsReadyTimeout" == found.conditions["Evicted"]
    patient = msgspec.structs.replace(SHORT, recovery_timeout_s=None)
    assert passed(running(lost), NOON + 9999, patient).idle


def test_a_running_workload_with_nothing_to_do_is_left_alone() -> None:
    ready = condition("PodsReady", True, "Started")
    found = passed(running(ready), NOON + 9999)
    assert (True, None) == (found.idle, found.result.requeue_after_s)


def test_an_admission_ends_with_its_reservation_whoever_ended_that() -> None:
    lost = condition("QuotaReserved", False, "PendingEvaluation")
    left = waiting(lost, status={"admission": admission(gpu="a100")})
    assert passed(left).after.status.admission is None


VARIANTS = LifecycleConfig(gates=Gates.of({"ConcurrentAdmission": True}), timeout_s=60)
PARENT = "kueue.x-k8s.io/concurrent-admission-parent"
ABOVE = {"kind": "Workload", "name": "w", "uid": "u", "controller": True}
CONCURRENT = replace(QUEUE, concurrent_admission=ConcurrentAdmission())


class TestConcurrentAdmission:
    def test_a_workload_stands_aside_for_variants_where_there_are_any(self) -> None:
        found = passed(waiting(), config=VARIANTS, cluster_queue=CONCURRENT)
        assert {"metadata": {"labels": {PARENT: "true"}}} == found.body
        assert passed(waiting(), cluster_queue=CONCURRENT).idle
        over = waiting(condition("Finished"))
        assert passed(over, config=VARIANTS, cluster_queue=CONCURRENT).idle
        variant = owned(waiting(), ownerReferences=[ABOVE])
        assert passed(variant, config=VARIANTS, cluster_queue=CONCURRENT).idle
        assert {} == passed(running(), config=VARIANTS, cluster_queue=CONCURRENT).body

    def test_a_parent_says_who_waits_in_its_place(self) -> None:
        parent = owned(waiting(), labels={PARENT: "true"})
        found = passed(parent, config=VARIANTS, cluster_queue=CONCURRENT)
        assert "False/PendingEvaluation" == found.conditions["QuotaReserved"]
        assert passed(found.after, config=VARIANTS, cluster_queue=CONCURRENT).idle

    def test_elsewhere_it_queues_itself_again(self) -> None:
        parent = owned(waiting(), labels={PARENT: "true"})
        found = passed(parent, config=VARIANTS)
        assert {"metadata": {"labels": {PARENT: None}}} == found.body
        assert passed(owned(running(), labels={PARENT: "true"}), config=VARIANTS).body == {}

    def test_checks_are_for_variants(self) -> None:
        queue = replace(CONCURRENT, checks=(CheckRule(name="slow"),))
        listed = {"admissionChecks": [check("slow", "Pending")]}
        parent = owned(waiting(status=listed), labels={PARENT: "true"})
        found = passed(parent, config=VARIANTS, cluster_queue=queue)
        assert found.after.status.admission_checks is None
        variant = owned(waiting(), ownerReferences=[ABOVE])
        found = passed(variant, config=VARIANTS, cluster_queue=queue)
        assert ["slow"] == [each.name for each in found.after.status.admission_checks or ()]

    def test_time_is_for_parents(self) -> None:
        limited = running(maximumExecutionTimeSeconds=30)
        for owner, waits in ((OWNER, True), (ABOVE, False)):
            obj = owned(limited, ownerReferences=[owner], labels={PARENT: str(waits).lower()})
            found = passed(obj, now=NOON + 90, config=VARIANTS, cluster_queue=CONCURRENT)
            assert waits is not found.idle


def test_messages_name_the_queue_that_is_missing() -> None:
    def said(obj: dict[str, Any]) -> list[str]:
        view = WorkloadPassInput(stored=StoredWorkload.of(obj), config=LifecycleConfig())
        found = (local_obstacle(view), cluster_obstacle(view))
        return [each[1] for each in found if each is not None]

    named = {"metadata": {"name": "w", "namespace": "ml"}, "spec": {"queueName": "main"}}
    assert said(named)[0] == "LocalQueue main does not exist"
    unnamed = named | {"spec": {}}
    assert said(unnamed)[0] == "The workload names no LocalQueue"
    admitted = named | {"status": {"admission": {"clusterQueue": "gpus"}}}
    assert said(admitted)[1] == "ClusterQueue gpus does not exist"
