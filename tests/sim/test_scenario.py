# SPDX-License-Identifier: Apache-2.0
"""The initial state of a simulation from manifests."""

from __future__ import annotations

from kuota.api.gates import Gates
from kuota.engine.model import ClusterQueue, LocalQueue, Namespace
from kuota.sim.scenario import load_scenario
from manifests import cluster_queue, flavor, job, local_queue


def test_objects_of_the_older_version_mean_the_same() -> None:
    newer = cluster_queue("a", 4)
    older = newer | {"apiVersion": "kueue.x-k8s.io/v1beta1", "spec": dict(newer["spec"])}
    older["spec"]["cohort"] = older["spec"].pop("cohortName")
    assert load_scenario([newer]).known == load_scenario([older]).known


def test_objects_of_the_same_kind_but_another_group_are_left_out() -> None:
    foreign = job("j", "a") | {"apiVersion": "batch.volcano.sh/v1alpha1"}
    assert () == load_scenario([foreign]).submissions


def test_undated_workloads_are_created_in_the_order_of_the_manifests() -> None:
    names = ["z", "a", "m"]
    scenario = load_scenario([job(name, "q") for name in names])
    ordered = sorted(scenario.submissions, key=lambda each: each.workload.created)
    assert names == [each.name for each in ordered]


def test_undated_workloads_come_after_dated_ones() -> None:
    dated = job("dated", "q")
    dated["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    undated, old = load_scenario([job("undated", "q"), dated]).submissions
    assert undated.workload.created >= old.workload.created


def test_an_object_without_namespace_is_in_the_default_one() -> None:
    queue = local_queue("a")
    del queue["metadata"]["namespace"]
    scenario = load_scenario([queue])
    (local,) = [each for each in scenario.known if isinstance(each, LocalQueue)]
    assert "default/a" == str(local.key)
    assert ["default"] == [each.name for each in scenario.known if isinstance(each, Namespace)]


def test_a_local_queue_called_default_takes_jobs_that_name_none() -> None:
    (arrival,) = load_scenario([local_queue("default", "a"), job("j")]).submissions
    assert "default" == arrival.workload.queue


def test_finished_jobs_are_over() -> None:
    done = job("j", "a") | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert () == load_scenario([done]).submissions


def test_what_cannot_be_decoded_is_a_fault_with_its_place() -> None:
    wrong = job("j", "a")
    wrong["spec"]["template"]["spec"]["nodeSelector"] = {"a": 1}
    (misfit,) = load_scenario([flavor(), wrong]).invalid
    assert 1 == misfit.index
    assert "spec.template.spec.nodeSelector" in misfit.fault.path


def test_defaults_are_filled_in() -> None:
    (queue,) = load_scenario([cluster_queue("a", 4)]).known
    assert isinstance(queue, ClusterQueue)
    assert "Never" == queue.preemption.reclaim_within_cohort


def test_flavors_that_would_be_tried_at_once_are_tried_one_by_one() -> None:
    queue = cluster_queue("a", 4)
    queue["spec"]["concurrentAdmissionPolicy"] = {"migration": {"mode": "TryPreferredFlavors"}}
    scenario = load_scenario([queue], gates=Gates.of({"ConcurrentAdmission": True}))
    (known,) = [each for each in scenario.known if isinstance(each, ClusterQueue)]
    assert known.concurrent_admission is None
    assert any("variants" in note for note in scenario.notes)
    assert () == load_scenario([queue]).notes
