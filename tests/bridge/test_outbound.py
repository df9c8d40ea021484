# SPDX-License-Identifier: Apache-2.0
"""Effects of decisions: at most one status patch per Workload, no empty patch, and events."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bridge.objects import (
    NOON,
    admission,
    believed,
    check,
    condition,
    events,
    fitting,
    patched,
    patches,
    pod_set,
    refused,
    reserved,
    summary,
    workload,
)
from kuota.api.gates import Gates
from kuota.api.workload import Workload
from kuota.bridge.effects import MAX_NOTE, Effect, Event, Patch, StatusPatch
from kuota.bridge.outbound import Outbound, admission_json, requests_json, shows_requests
from kuota.engine.decisions import Admit, Decision, Evict, Migrate, Preempt, Victim, Wait, WaitCause
from kuota.engine.reasons import (
    EvictionReason,
    PreemptionReason,
    Reason,
    RejectionCause,
    WaitReason,
)

COARSE = Gates.of({"UnadmittedWorkloadsObservability": False}, check=False)
SHORT = Reason(cause=RejectionCause.INSUFFICIENT, flavor="a100", resource="gpu", missing=2)
NEW = workload("new", pod_set(gpu="4"))


class Cluster:
    """The stored objects, and what the effects of one decision make of them."""

    def __init__(self, *objects: Workload, gates: Gates | None = None) -> None:
        self.objects = {each.key: each for each in objects}
        self.outbound = Outbound(gates or Gates(), self.objects.get)
        self.effects: list[Effect] = []

    def carry_out(self, decision: Decision, now: float = 60) -> None:
        self.effects = self.outbound.effects(decision, NOON + now)
        for key, patch in patches(self.effects).items():
            assert patch.status
            self.objects[key] = patched(self.objects[key], patch.status)

    def conditions(self, name: str) -> dict[str, str]:
        return summary(self[name])

    def __getitem__(self, name: str) -> Workload:
        return next(obj for key, obj in self.objects.items() if key.name == name)


def admit(obj: Workload, *checks: str, replaced: Workload | None = None, **more: Any) -> Admit:
    return Admit(
        workload=believed(obj),
        cluster_queue="gpus",
        assignment=fitting(),
        checks=checks,
        replaced=believed(replaced) if replaced is not None else None,
        **more,
    )


def wait(obj: Workload, why: WaitCause = WaitCause.NO_FIT, *reasons: Reason) -> Wait:
    return Wait(
        workload=believed(obj),
        cluster_queue="gpus",
        reason=WaitReason.WAITING_FOR_QUOTA,
        why=why,
        assignment=refused(*reasons or (SHORT,)),
    )


def victim(obj: Workload, *, leaving: bool = False) -> Victim:
    reason = PreemptionReason.IN_CLUSTER_QUEUE
    stored = believed(obj)
    return Victim(
        workload=stored, cluster_queue="gpus", path="/gpus", reason=reason, leaving=leaving
    )


def preempt(obj: Workload, *victims: Victim) -> Preempt:
    return Preempt(
        workload=believed(obj),
        cluster_queue="gpus",
        path="/gpus",
        assignment=refused(SHORT),
        victims=victims,
    )


class TestAdmit:
    def test_without_checks_one_patch_reserves_and_admits(self) -> None:
        cluster = Cluster(NEW)
        cluster.carry_out(admit(NEW))
        assert cluster.conditions("new") == {
            "QuotaReserved": "True/QuotaReserved",
            "Admitted": "True/Admitted",
        }
        given = cluster["new"].status.admission
        assert given is not None
        assert given.cluster_queue == "gpus"
        assert events(cluster.effects) == ["new: QuotaReserved", "new: Admitted"]

    def test_the_event_reports_how_long_it_was_queued(self) -> None:
        cluster = Cluster(NEW)
        cluster.carry_out(admit(NEW))
        (event, _) = [effect for effect in cluster.effects if isinstance(effect, Event)]
        assert event.note == "Quota reserved in ClusterQueue gpus, 60s after it was queued"

    def test_a_check_that_is_not_ready_holds_it_back(self) -> None:
        obj = workload("new", status={"admissionChecks": [check("budget", "Pending")]})
        cluster = Cluster(obj)
        cluster.carry_out(admit(obj, "budget"))
        assert cluster.conditions("new")["Admitted"] == "False/UnsatisfiedAdmissionChecks"
        assert events(cluster.effects) == ["new: QuotaReserved"]

    def test_a_check_that_is_not_listed_yet_leaves_admission_to_others(self) -> None:
        cluster = Cluster(NEW)
        cluster.carry_out(admit(NEW, "budget"))
        assert cluster.conditions("new") == {"QuotaReserved": "True/QuotaReserved"}

    def test_placement_put_off_holds_it_back(self) -> None:
        cluster = Cluster(NEW)
        assignment = fitting()
        delayed = replace(assignment.pod_sets[0], delayed_topology="Pending")
        decision = admit(NEW)
        cluster.carry_out(replace(decision, assignment=replace(assignment, pod_sets=(delayed,))))
        assert cluster.conditions("new")["Admitted"] == "False/PendingDelayedTopologyRequests"

    def test_a_second_pass_reports_only_what_is_new(self) -> None:
        ready = {"admissionChecks": [check("prov", "Ready")]}
        obj = reserved("new", status=ready)
        cluster = Cluster(obj)
        cluster.carry_out(admit(obj, "prov", second_pass=True))
        assert events(cluster.effects) == ["new: Admitted"]
        obj = reserved("new", condition("Admitted"), status=ready)
        cluster = Cluster(obj)
        cluster.carry_out(admit(obj, "prov", second_pass=True))
        assert events(cluster.effects) == []

    def test_requests_shown_while_it_waited_are_taken_down(self) -> None:
        obj = workload("new", status={"resourceRequests": [{"name": "main"}]})
        cluster = Cluster(obj)
        cluster.carry_out(admit(obj))
        assert cluster["new"].status.resource_requests is None

    def test_the_slice_it_replaces_is_finished(self) -> None:
        old = reserved("old", condition("Admitted"))
        cluster = Cluster(NEW, old)
        cluster.carry_out(admit(NEW, replaced=old))
        assert cluster.conditions("old")["Finished"] == "True/WorkloadSliceReplaced"
        assert "Evicted" not in cluster.conditions("old")
        assert events(cluster.effects)[-1] == "old: WorkloadSliceReplaced"


class TestWait:
    def test_the_reason_is_written_with_the_requests_and_reported(self) -> None:
        cluster = Cluster(NEW)
        cluster.carry_out(wait(NEW))
        assert cluster.conditions("new") == {
            "QuotaReserved": "False/WaitingForQuota",
            "Admitted": "False/NoReservation",
        }
        (shown,) = cluster["new"].status.resource_requests or []
        assert (shown.name, shown.resources) == ("main", {"gpu": "4"})
        assert events(cluster.effects) == ["new: WaitingForQuota!"]

    def test_the_second_time_only_the_event_is_left(self) -> None:
        cluster = Cluster(NEW)
        cluster.carry_out(wait(NEW))
        cluster.carry_out(wait(NEW), now=120)
        assert patches(cluster.effects) == {}
        assert events(cluster.effects) == ["new: WaitingForQuota!"]

    def test_with_coarse_reasons_it_is_just_pending(self) -> None:
        cluster = Cluster(NEW, gates=COARSE)
        cluster.carry_out(wait(NEW))
        assert cluster.conditions("new") == {"QuotaReserved": "False/Pending"}
        assert events(cluster.effects) == ["new: Pending!"]

    def test_a_closed_gate_is_a_condition_of_its_own(self) -> None:
        cluster = Cluster(NEW)
        cluster.carry_out(wait(NEW, WaitCause.GATED))
        assert cluster.conditions("new")["BlockedOnPreemptionGates"] == "True/PreemptionGated"

    def test_a_second_pass_that_failed_is_reported_and_not_written(self) -> None:
        obj = reserved("new")
        cluster = Cluster(obj)
        cluster.carry_out(wait(obj))
        assert patches(cluster.effects) == {}
        assert events(cluster.effects) == ["new: SecondPassFailed!"]

    def test_waiting_for_the_second_pass_is_silent(self) -> None:
        obj = reserved("new")
        assert Cluster(obj).outbound.effects(wait(obj, WaitCause.SECOND_PASS), NOON) == []

    def test_a_long_story_is_cut_in_the_event(self) -> None:
        many = [replace(SHORT, flavor=f"flavor-{i}") for i in range(100)]
        (_, event) = Cluster(NEW).outbound.effects(wait(NEW, WaitCause.NO_FIT, *many), NOON)
        assert isinstance(event, Event)
        assert len(event.note.encode()) == MAX_NOTE
        assert event.note.endswith(" ...")


class TestPreempt:
    def test_victims_are_evicted_and_the_preemptor_waits_for_them(self) -> None:
        old = reserved("old", condition("Admitted"))
        cluster = Cluster(NEW, old)
        cluster.carry_out(preempt(NEW, victim(old)))
        assert cluster.conditions("old") == {
            "QuotaReserved": "True/Test",
            "Admitted": "True/Test",
            "Preempted": "True/InClusterQueue",
            "Evicted": "True/Preempted",
        }
        assert cluster.conditions("new")["QuotaReserved"] == "False/WaitingForPreemptedWorkloads"
        assert events(cluster.effects) == [
            "old: EvictedDueToPreempted",
            "old: Preempted",
            "new: PreemptedWorkload",
            "new: WaitingForPreemptedWorkloads!",
        ]

    def test_a_victim_names_its_preemptor_for_programs(self) -> None:
        cluster = Cluster(NEW, reserved("old", condition("Admitted")))
        cluster.carry_out(preempt(NEW, victim(cluster["old"])))
        noted = [each for each in cluster.effects if isinstance(each, Patch)]
        body = {"metadata": {"annotations": {"kuota.dev/preemptor-uid": NEW.metadata.uid}}}
        assert [("old", body)] == [(each.key.name, each.body) for each in noted]
        again = replace(cluster["old"].metadata, annotations=body["metadata"]["annotations"])
        old = replace(cluster["old"], metadata=again)
        (*effects,) = Cluster(NEW, old).outbound.effects(preempt(NEW, victim(old)), NOON)
        assert not any(isinstance(each, Patch) for each in effects)

    def test_who_is_leaving_already_is_not_evicted_again(self) -> None:
        old = reserved("old", condition("Evicted"))
        cluster = Cluster(NEW, old)
        cluster.carry_out(preempt(NEW, victim(old, leaving=True)))
        assert list(patches(cluster.effects)) == [NEW.key]

    def test_a_victim_that_is_gone_needs_no_eviction(self) -> None:
        cluster = Cluster(NEW)
        cluster.carry_out(preempt(NEW, victim(reserved("old"))))
        assert list(patches(cluster.effects)) == [NEW.key]


def test_a_migration_moves_the_sibling_away_first() -> None:
    old = reserved("old")
    decision = Migrate(
        workload=believed(NEW),
        cluster_queue="gpus",
        assignment=refused(SHORT),
        sibling=believed(old),
    )
    cluster = Cluster(NEW, old)
    cluster.carry_out(decision)
    assert cluster.conditions("old")["Evicted"] == "True/FlavorMigration"
    assert "Preempted" not in cluster.conditions("old")
    assert events(cluster.effects) == [
        "old: EvictedDueToFlavorMigration",
        "new: WaitingForPreemptedWorkloads!",
    ]


def test_a_sibling_that_is_on_its_way_is_not_moved_again() -> None:
    old = reserved("old", condition("Evicted", reason="FlavorMigration"))
    decision = Migrate(
        workload=believed(NEW),
        cluster_queue="gpus",
        assignment=refused(SHORT),
        sibling=believed(old),
        leaving=True,
    )
    cluster = Cluster(NEW, old)
    cluster.carry_out(decision)
    assert list(patches(cluster.effects)) == [NEW.key]


def test_nodes_without_replacement_evict_the_workload_on_them() -> None:
    old = reserved("old", status={"unhealthyNodes": [{"name": "n1"}]})
    reason = EvictionReason.NODE_FAILURES
    decision = Evict(workload=believed(old), cluster_queue="gpus", reason=reason, detail="n1")
    cluster = Cluster(old)
    cluster.carry_out(decision)
    assert cluster.conditions("old")["Evicted"] == "True/NodeFailures"
    assert cluster["old"].status.unhealthy_nodes is None
    (event,) = [effect for effect in cluster.effects if isinstance(effect, Event)]
    assert "n1" in event.note


@pytest.mark.parametrize(
    "decision",
    [
        admit(NEW),
        wait(NEW),
        preempt(NEW),
        Evict(workload=believed(NEW), cluster_queue="gpus", reason=EvictionReason.NODE_FAILURES),
        Migrate(
            workload=believed(NEW),
            cluster_queue="gpus",
            assignment=fitting(),
            sibling=believed(NEW),
        ),
    ],
    ids=lambda decision: type(decision).__name__,
)
def test_what_is_gone_needs_nothing(decision: Decision) -> None:
    assert Cluster().outbound.effects(decision, NOON) == []


def test_a_patch_names_the_version_it_was_made_from() -> None:
    (patch, *_) = Cluster(NEW).outbound.effects(wait(NEW), NOON)
    assert isinstance(patch, StatusPatch)
    assert patch.resource_version == "7"


def test_an_admission_is_recorded_in_quantities() -> None:
    recorded = admission("gpus", gpu="a100")
    assert admission_json("gpus", fitting()) == recorded


def test_shown_requests_are_compared_by_value() -> None:
    pod_sets = believed(workload("a", pod_set(cpu="1500m", memory="1Ki"), pod_set("idle"))).pod_sets
    assert requests_json(pod_sets) == [
        {"name": "main", "resources": {"cpu": "1500m", "memory": "1Ki"}},
        {"name": "idle"},
    ]
    same = [{"name": "main", "resources": {"cpu": "1.5", "memory": 1024}}, {"name": "idle"}]
    less = [{"name": "main", "resources": {"cpu": "1.5"}}, {"name": "idle"}]
    assert shows_requests(workload("a", status={"resourceRequests": same}), pod_sets)
    assert not shows_requests(workload("a", status={"resourceRequests": less}), pod_sets)
    assert not shows_requests(workload("a"), pod_sets)


def test_an_admission_that_outlived_its_reservation_is_unset_before_it_is_set_anew() -> None:
    lost = condition("QuotaReserved", False, "PendingEvaluation")
    left = workload("w", pod_set(gpu="4"), conditions=[lost], status={"admission": admission()})
    effects = Outbound(Gates(), {left.key: left}.get).effects(admit(left), NOON)
    found = [each.status.get("admission") for each in effects if isinstance(each, StatusPatch)]
    assert [None, "gpus"] == [each and each["clusterQueue"] for each in found]


def test_resources_of_devices_are_written_with_binary_suffixes() -> None:
    found = admission_json("gpus", fitting(), frozenset({"gpu"}))
    assert found == admission_json("gpus", fitting()), "amounts below 1024 have no suffix"
    (pod_set_found,) = requests_json(believed(workload("a", pod_set(gpu="2048"))).pod_sets, {"gpu"})
    assert pod_set_found["resources"] == {"gpu": "2Ki"}
    (plain,) = requests_json(believed(workload("a", pod_set(gpu="2048"))).pod_sets)
    assert plain["resources"] == {"gpu": "2048"}
