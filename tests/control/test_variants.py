# SPDX-License-Identifier: Apache-2.0
"""Concurrent admission: variants of a Workload try the flavors of a Job at the same time."""

from __future__ import annotations

from control.objects import check, job, workload_class
from control.stage import Stage, run_scene
from control.variants import (
    GATE,
    ON,
    PARENT,
    active,
    admitted,
    only,
    opened,
    quota,
    runs_on,
    says,
    setting,
    told_of,
    variants,
)
from kuota.kube.resources import CLUSTER_QUEUES, JOBS

BY_PRIORITY = {"withinClusterQueue": "LowerPriority"}


def test_a_workload_becomes_a_parent_with_a_variant_for_each_flavor() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage)
        await stage.api.apply(job("j", "9"))
        await stage.rest()
        parent = stage.workload("j")
        assert "true" == parent["metadata"]["labels"][PARENT]
        assert "False/PendingEvaluation" == stage.says("j", "QuotaReserved")
        found = variants(stage, "j")
        assert ["reserved", "spot"] == list(found)
        for each in found.values():
            (owner,) = each["metadata"]["ownerReferences"]
            assert (parent["metadata"]["uid"], True) == (owner["uid"], owner["controller"])
            assert PARENT not in each["metadata"]["labels"]
            assert [{"name": GATE}] == each["spec"]["preemptionGates"]
            assert parent["spec"]["podSets"] == each["spec"]["podSets"]
            assert "False/ExceedsMaxQuota" == says(each, "QuotaReserved")
        assert "CreatedVariant" in told_of(stage, "j")
        assert stage.suspended("j")

    run_scene(scene, gates=ON)


def test_the_parent_takes_the_admission_of_the_variant_that_won() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage, flavors={"reserved": 0, "spot": 4})
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        assert ["spot"] == admitted(stage, "j")
        assert "spot" == runs_on(stage, "j")
        assert "True/Admitted" == stage.says("j", "Admitted")
        assert 1 == stage.active("j")
        # The parent holds what its variant holds: only one of them is counted.
        status = stage.get(CLUSTER_QUEUES, "cq")["status"]
        assert (1, 1) == (status["admittedWorkloads"], status["reservingWorkloads"])
        used = {each["name"]: each["resources"][0]["total"] for each in status["flavorsUsage"]}
        assert {"reserved": "0", "spot": "4"} == used
        assert ["reserved", "spot"] == active(stage, "j")

    run_scene(scene, gates=ON)


def test_a_job_moves_to_a_preferred_flavor_when_there_is_room() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage, flavors={"reserved": 0, "spot": 4})
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        assert "spot" == runs_on(stage, "j")
        stage.kubelet.grace_s = 20
        await quota(stage, reserved=4, spot=4)
        await stage.rest()
        spot = variants(stage, "j")["spot"]
        assert "True/FlavorMigration" == says(spot, "Evicted")
        assert "True/VariantEvicted" == stage.says("j", "Evicted")
        assert stage.suspended("j")
        # Its pods are still there, and so is their quota.
        assert "True/QuotaReserved" == says(spot, "QuotaReserved")
        await stage.rest(20)
        assert "reserved" == runs_on(stage, "j")
        assert 1 == stage.active("j")
        assert "False/QuotaReserved" == stage.says("j", "Evicted")
        assert ["reserved"] == active(stage, "j")
        assert "DeactivatedVariant" in told_of(stage, "j", "spot")
        (counted,) = [
            each
            for each in variants(stage, "j")["spot"]["status"]["schedulingStats"]["evictions"]
            if each["reason"] == "FlavorMigration"
        ]
        assert 1 == counted["count"]

    run_scene(scene, gates=ON)


def test_one_that_made_room_for_nothing_comes_back() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage, flavors={"reserved": 0, "spot": 4})
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        stage.kubelet.grace_s = 20
        await quota(stage, reserved=4, spot=4)
        await stage.rest()
        assert "True/VariantEvicted" == stage.says("j", "Evicted")
        # The quota is taken away again in the meantime.
        await quota(stage, reserved=0, spot=4)
        await stage.rest(20)
        assert "spot" == runs_on(stage, "j")
        assert 1 == stage.active("j")

    run_scene(scene, gates=ON)


def test_the_first_admission_is_retained_where_that_is_wanted() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage, "RetainFirstAdmission", flavors={"reserved": 0, "spot": 4})
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        assert ["spot"] == active(stage, "j")
        await quota(stage, reserved=4, spot=4)
        await stage.rest(60)
        assert "spot" == runs_on(stage, "j")
        assert ["spot"] == active(stage, "j")

    run_scene(scene, gates=ON)


def test_no_variant_migrates_to_a_flavor_that_is_not_preferred() -> None:
    async def scene(stage: Stage) -> None:
        flavors = {"reserved": 0, "on-demand": 0, "spot": 4}
        await setting(stage, last="reserved", flavors=flavors)
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        assert "spot" == runs_on(stage, "j")
        assert ["reserved", "spot"] == sorted(active(stage, "j"))
        await quota(stage, **flavors | {"on-demand": 4})
        await stage.rest()
        assert "spot" == runs_on(stage, "j")
        await quota(stage, **flavors | {"reserved": 4})
        await stage.rest()
        assert "reserved" == runs_on(stage, "j")

    run_scene(scene, gates=ON)


def test_checks_are_passed_by_variants_while_others_still_try() -> None:
    async def scene(stage: Stage) -> None:
        strategy = {"admissionChecks": [{"name": "slow", "onFlavors": ["reserved"]}]}
        await stage.api.apply(check("slow"))
        flavors = {"reserved": 4, "spot": 0}
        await setting(stage, flavors=flavors, admissionChecksStrategy=strategy)
        await stage.activate("slow")
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        found = variants(stage, "j")
        assert "False/UnsatisfiedAdmissionChecks" == says(found["reserved"], "Admitted")
        assert "" == runs_on(stage, "j")
        await quota(stage, reserved=4, spot=4)
        await stage.rest()
        assert "spot" == runs_on(stage, "j")
        assert 1 == stage.active("j")
        # The preferred one passes its check: the Job moves.
        await stage.answer(variants(stage, "j")["reserved"], "slow", "Ready")
        await stage.rest()
        assert "reserved" == runs_on(stage, "j")
        assert not stage.workload("j")["status"].get("admissionChecks")
        assert ["reserved"] == admitted(stage, "j")

    run_scene(scene, gates=ON)


def test_one_variant_preempts_at_a_time() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage, "RetainFirstAdmission", preemption=BY_PRIORITY)
        await stage.api.apply(workload_class("high", 100), job("a", "4"), job("b", "4"))
        await stage.rest()
        assert 2 == stage.active("a") + stage.active("b")
        stage.kubelet.grace_s = 600
        high = {"kueue.x-k8s.io/priority-class": "high"}
        await stage.api.apply(job("j", "4", labels=high))
        await stage.rest()
        assert ["reserved"] == opened(stage, "j")
        assert "PreemptionUngatedVariant" in told_of(stage, "j", "reserved")
        await stage.rest(290)
        assert ["reserved"] == opened(stage, "j")
        # Its victims do not go: after five minutes the next one may try.
        await stage.rest(20)
        assert ["reserved", "spot"] == opened(stage, "j")
        await stage.rest(300)
        assert 1 == stage.active("j")

    run_scene(scene, gates=ON)


def test_who_needs_to_preempt_says_so_even_where_reasons_are_coarse() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage, preemption=BY_PRIORITY)
        await stage.api.apply(workload_class("high", 100), job("a", "4"), job("b", "4"))
        await stage.rest()
        # Too large at first, so that it has given a reason before it needs to preempt.
        high = {"kueue.x-k8s.io/priority-class": "high"}
        await stage.api.apply(job("j", "1", labels=high, parallelism=9))
        await stage.rest()
        await stage.edit(JOBS, "j", {"spec": {"parallelism": 4}})
        await stage.rest()
        assert 4 == stage.active("j")

    run_scene(scene, gates=ON | {"UnadmittedWorkloadsObservability": False})


def test_a_preempted_job_comes_back_on_whatever_flavor_is_free() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage, preemption=BY_PRIORITY)
        await stage.api.apply(workload_class("high", 100), job("j", "4"))
        await stage.rest()
        assert "reserved" == runs_on(stage, "j")
        high = {"kueue.x-k8s.io/priority-class": "high"}
        await stage.api.apply(job("rival", "4", labels=high, pod=only("reserved")))
        await stage.rest()
        assert "reserved" == runs_on(stage, "rival")
        assert "spot" == runs_on(stage, "j")
        assert {"Stopped", "Started"} <= set(stage.events("Job", "j"))
        assert ["reserved", "spot"] == sorted(active(stage, "j"))

    run_scene(scene, gates=ON)
