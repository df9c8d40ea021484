# SPDX-License-Identifier: Apache-2.0
"""The Ray kinds: what KubeRay adds to pods, and jobs that contain anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.podset import Injection, MergeConflict
from kuota.api.rules.metadata import ELASTIC_JOB
from kuota.bridge.jobs.fields import at
from kuota.bridge.jobs.kind import PodSetsUnknown
from kuota.bridge.jobs.ray_cluster import RayCluster
from kuota.bridge.jobs.ray_job import RayJob
from kuota.bridge.jobs.ray_service import RayService
from kuota.bridge.jobs.ray_spec import RayKind
from kuota.bridge.jobs.topology_request import TopologyRequestError

CLUSTER, JOB, SERVICE = RayCluster(), RayJob(), RayService()
KINDS: tuple[RayKind, ...] = (CLUSTER, JOB, SERVICE)
GATES = Gates()

_words = st.sampled_from(
    [
        "spec",
        "status",
        "metadata",
        "rayClusterSpec",
        "rayClusterConfig",
        "headGroupSpec",
        "workerGroupSpecs",
        "template",
        "containers",
        "resources",
        "requests",
        "replicas",
        "numOfHosts",
        "groupName",
        "annotations",
        "schedulingGates",
        "submissionMode",
        "submitterPodTemplate",
        "enableInTreeAutoscaling",
        "autoscalerOptions",
        "gcsFaultToleranceOptions",
        "clusterSelector",
        "conditions",
        "cpu",
    ]
)
_leaves = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(
        ["", "head", "K8sJobMode", "SidecarMode", "true", ELASTIC_JOB, "ready", "1e999"]
    )
)
_anything = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=4),
    max_leaves=12,
)


def _job(kind: RayKind, cluster: Any, **more: Any) -> Json:
    spec: Any = cluster if len(kind.cluster_path) == 1 else {kind.cluster_path[1]: cluster}
    meta = {"name": "a", "namespace": "n", "annotations": {ELASTIC_JOB: "true"}}
    return {"kind": kind.gvk.kind, "metadata": meta, "spec": spec} | more


@given(st.sampled_from(KINDS), _anything, _anything, _anything, st.booleans())
def test_no_malformed_job_makes_a_function_raise_anything_unexpected(
    kind: RayKind, cluster: Any, status: Any, rest: Any, managed: bool
) -> None:
    job = _job(kind, cluster, status=status)
    if isinstance(rest, dict) and isinstance(job["spec"], dict):
        job["spec"] = rest | job["spec"]
    kind.suspended(job)
    kind.active(job)
    kind.pods_ready(job)
    kind.end(job)
    kind.suspended(kind.suspend(job))
    list(kind.faults(job, None, GATES, managed=managed, default_queue=False))
    list(kind.faults(job, job, GATES, managed=managed, default_queue=False))
    kind.defaulted(job, GATES, managed=managed)
    if isinstance(kind, RayJob | RayService):
        kind.skipped(job, GATES)
        job = kind.resolved(job, lambda _, key: {"spec": cluster})
        kind.recorded(job, GATES)
    try:
        sets = kind.pod_sets(job, GATES)
        kind.start(job, [Injection(name=each["name"]) for each in sets], GATES)
        kind.stop(job, sets)
    except (PodSetsUnknown, TopologyRequestError, MergeConflict):
        return


def _cluster(**more: Any) -> Json:
    head = {"template": {"spec": {"containers": [{"name": "ray", "image": "ray:2"}]}}}
    group = {"groupName": "Workers", "replicas": 2, "numOfHosts": 3, "template": {"spec": {}}}
    return {"headGroupSpec": head, "workerGroupSpecs": [group], **more}


def _requests(kind: RayKind, job: Json) -> list[tuple[str, Any]]:
    containers = kind.pod_sets(job, GATES)[0]["template"]["spec"]["containers"]
    return [(each["name"], each.get("resources", {}).get("requests")) for each in containers]


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.gvk.kind)
def test_the_head_is_charged_for_what_kuberay_adds(kind: RayKind) -> None:
    scaled = _job(kind, _cluster(enableInTreeAutoscaling=True, gcsFaultToleranceOptions={}))
    assert [
        ("ray", {"cpu": "200m", "memory": "256Mi"}),
        ("autoscaler", {"cpu": "500m", "memory": "512Mi"}),
    ] == _requests(kind, scaled)
    assert [("head", 1), ("workers", 6)] == [
        (each["name"], each["count"]) for each in kind.pod_sets(scaled, GATES)
    ]


def _workers(replicas: int, **annotations: str) -> Json:
    prefixed = {f"kueue.x-k8s.io/podset-{name}": value for name, value in annotations.items()}
    template = {"metadata": {"annotations": prefixed}, "spec": {}}
    return {"groupName": "workers", "replicas": replicas, "template": template}


def _fault_paths(kind: RayKind, *groups: Json) -> list[str]:
    job = _job(kind, _cluster(workerGroupSpecs=list(groups)))
    found = kind.faults(job, None, GATES, managed=False, default_queue=False)
    return [each.path.removeprefix(f"{kind.shown_path}.workerGroupSpecs") for each in found]


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.gvk.kind)
def test_a_topology_group_of_worker_groups_with_one_name_is_reported_at_the_last_one(
    kind: RayKind,
) -> None:
    grouped = {"group-name": "g", "required-topology": "rack"}
    path = "[1].template.metadata.annotations[kueue.x-k8s.io/podset-group-name]"
    assert [path, path] == _fault_paths(kind, _workers(2, **grouped), _workers(3, **grouped))


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.gvk.kind)
def test_slices_of_worker_groups_with_one_name_are_compared_as_in_kueue(kind: RayKind) -> None:
    """A RayCluster compares them with each group, the other kinds with the first group."""
    sliced = {"slice-size": "2", "slice-required-topology": "rack"}
    paths = _fault_paths(kind, _workers(1, **sliced), _workers(4, **sliced))
    at = "template.metadata.annotations[kueue.x-k8s.io/podset-slice-size]"
    wrong = [0] if kind is CLUSTER else [0, 1]
    assert [f"[{index}].{at}" for index in wrong] == paths


def test_a_submitter_without_a_template_is_given_one_when_the_job_starts() -> None:
    job = _job(JOB, _cluster())
    job["spec"] |= {"submissionMode": "K8sJobMode", "suspend": True}
    names = [each["name"] for each in JOB.pod_sets(job, GATES)]
    assert ["head", "workers", "submitter"] == names
    given = [Injection(name=each, node_selector={"zone": each}) for each in names]
    running = JOB.started(job, given, GATES)
    submitter = at(running, ("spec", "submitterPodTemplate", "spec"))
    assert isinstance(submitter, dict)
    assert {"zone": "submitter"} == submitter["nodeSelector"]
    assert "ray:2" == submitter["containers"][0]["image"]
    # It matches the Workload afterwards, too.
    assert (
        JOB.pod_sets(running, GATES)[2]["template"]["spec"]["containers"]
        == (JOB.pod_sets(job, GATES)[2]["template"]["spec"]["containers"])
    )


def test_an_autoscaler_that_contradicts_the_job_is_reported() -> None:
    job = _job(JOB, _cluster(enableInTreeAutoscaling=True), status={"rayClusterName": "live"})
    other = {"metadata": {"name": "live"}, "spec": {"workerGroupSpecs": [{"groupName": "x"}]}}
    with pytest.raises(PodSetsUnknown, match="worker group 'x'"):
        JOB.pod_sets(JOB.resolved(job, lambda *_: other), GATES)


def test_the_size_of_the_live_cluster_is_part_of_the_name_of_a_slice() -> None:
    job = _job(JOB, _cluster(enableInTreeAutoscaling=True), status={"rayClusterName": "live"})
    job["metadata"]["generation"] = 2
    group = {"groupName": "workers", "replicas": 5}
    live = {"metadata": {"generation": 7}, "spec": {"workerGroupSpecs": [group]}}
    resolved = JOB.resolved(job, lambda *_: live)
    assert 5 == JOB.pod_sets(resolved, GATES)[1]["count"]
    recorded = JOB.recorded(resolved, GATES)
    job["metadata"]["annotations"] |= recorded
    assert "2_7" == JOB.slice_suffix(job)
