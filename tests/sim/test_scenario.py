# SPDX-License-Identifier: Apache-2.0
"""The initial state of a simulation from manifests."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.config.load import load
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


WITH_PODS = load(
    """
    apiVersion: config.kueue.x-k8s.io/v1beta2
    kind: Configuration
    integrations: {frameworks: [batch/job, pod]}
    """
)


def pod(name: str, of: int = 2, queue: str = "q", **marks: str) -> Json:
    """A Pod of the group `team`."""
    labels = {"kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/pod-group-name": "team"}
    notes = {"kueue.x-k8s.io/pod-group-total-count": str(of)}
    notes |= {f"kuota.dev/{key.replace('_', '-')}": value for key, value in marks.items()}
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    meta = {"name": name, "namespace": "default", "labels": labels, "annotations": notes}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def test_the_pods_of_a_group_are_one_submission_with_the_name_of_the_group() -> None:
    between = job("j", "q")
    found = load_scenario([pod("a", runs_for="5s"), between, pod("b", runs_for="9s")], WITH_PODS)
    assert [("j", "Job"), ("team", "PodGroup")] == [(e.name, e.kind) for e in found.submissions]
    group = found.submissions[1]
    assert [2] == [each.count for each in group.workload.pod_sets]
    assert 9.0 == group.runs_for
    assert () == found.invalid


def test_a_group_is_submitted_with_its_last_pod() -> None:
    (group,) = load_scenario([pod("a", submit_after="7s"), pod("b")], WITH_PODS).submissions
    assert (7.0, None) == (group.at, group.runs_for)


def test_a_group_that_cannot_be_queued_says_why() -> None:
    for pods, why in (
        ([pod("a")], "the group has 1 of 2 pods"),
        ([pod("a"), pod("b", queue="other")], "different queue names"),
        ([pod("a"), pod("b", of=1)], "pod-group-total-count"),
    ):
        found = load_scenario(pods, WITH_PODS)
        (stranded,) = found.unqueued
        assert () == found.submissions
        assert "default/team" == str(stranded.key)
        assert why in stranded.why


def test_a_faulty_pod_of_a_group_is_reported_at_its_place() -> None:
    wrong = pod("b", runs_for="soon")
    (fault,) = load_scenario([flavor(), pod("a"), wrong], WITH_PODS).invalid
    assert 2 == fault.index


def test_a_group_that_has_a_workload_is_not_submitted_twice() -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": e, "uid": e} for e in ("a", "b")]
    template = {"spec": pod("a")["spec"]}
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "team", "namespace": "default", "ownerReferences": owners},
        "spec": {"queueName": "q", "podSets": [{"name": "x", "count": 2, "template": template}]},
    }
    found = load_scenario([pod("a"), pod("b"), workload], WITH_PODS).submissions
    assert [("team", "Workload")] == [(each.name, each.kind) for each in found]
