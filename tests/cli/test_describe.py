# SPDX-License-Identifier: Apache-2.0
"""`kuota describe` against a running server."""

from __future__ import annotations

from cli.cluster import Cluster, condition, job, local_queue, pod_status, workload
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CORE_EVENTS,
    CRDS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    WORKLOADS,
    Resource,
)

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")


def test_a_job_is_described_with_the_reason_why_it_waits(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    cluster.create(WORKLOADS, workload("job-train", made))
    reserved = condition("QuotaReserved", holds=False, reason="Pending", message="2 more needed")
    cluster.status(WORKLOADS, "job-train", {"conditions": [reserved]})
    said = cluster.kuota("describe", "job", "train")
    assert "State:       PENDING\n" in said
    assert "Why:         2 more needed\n" in said
    assert "Workload:    job-train\n" in said
    assert "Events:      none\n" in said
    assert "this cluster does not serve visibility.kuota.dev" in said
    assert "QuotaReserved   False" in cluster.kuota("describe", "wl/job-train")


def test_a_node_is_described_with_what_is_free(cluster: Cluster) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}}
    cluster.create(NODES, node)
    offered = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    cluster.status(NODES, "here", {"allocatable": offered})
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}}
    for name in ("a", "b"):
        metadata = {"name": name, "namespace": "default"}
        spec = {"nodeName": "here", "containers": [container]}
        cluster.create(PODS, {"kind": "Pod", "metadata": metadata, "spec": spec})
    cluster.status(PODS, "b", {"phase": "Succeeded"})
    said = [line.split() for line in cluster.kuota("describe", "node", "here").splitlines()]
    for row in (["cpu", "4", "500m", "3500m"], ["memory", "8Gi", "0", "8Gi"]):
        assert row in said
    assert ["Pods:", "default/a"] in said


def test_an_inactive_admission_check_is_explained_with_its_queue(cluster: Cluster) -> None:
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    for name in ("budget", "nodes", "fine"):
        spec = {"controllerName": f"example.com/{name}"}
        made = kind | {"kind": "AdmissionCheck", "metadata": {"name": name}, "spec": spec}
        cluster.create(ADMISSION_CHECKS, made)
    broken = condition("Active", holds=False, message="ProvisioningRequestConfig 'x' not found")
    cluster.status(ADMISSION_CHECKS, "nodes", {"conditions": [broken]})
    cluster.status(ADMISSION_CHECKS, "fine", {"conditions": [condition("Active", holds=True)]})
    listed = [{"name": each} for each in ("budget", "nodes", "fine", "gone")]
    queue = kind | {"kind": "ClusterQueue", "metadata": {"name": "gpus"}}
    strategy = {"admissionChecksStrategy": {"admissionChecks": listed}}
    cluster.create(CLUSTER_QUEUES, queue | {"spec": strategy})
    said = cluster.kuota("describe", "cq", "gpus")
    assert "Check:       budget: no controller has reported on this check" in said
    assert "Check:       nodes: ProvisioningRequestConfig 'x' not found" in said
    assert "Check:       gone: does not exist" in said
    assert "Check:       fine" not in said
    alone = cluster.kuota("describe", "admissioncheck", "budget")
    assert "Inactive:    no controller has reported on this check" in alone


def test_who_waits_in_vain_is_reported_what_would_help(cluster: Cluster) -> None:
    cluster.kuota("create", "cq", "gpus")
    cluster.create(LOCAL_QUEUES, local_queue("research", "gpus"))
    stopped = condition("Active", holds=False, message="it is stopped")
    cluster.status(CLUSTER_QUEUES, "gpus", {"conditions": [stopped]})
    cluster.create(WORKLOADS, workload("w", cluster.create(JOBS, job("train"))))
    message = "9 is more than the 8 it could ever get"
    waits = condition("QuotaReserved", holds=False, reason="ExceedsMaxQuota", message=message)
    asked = [{"name": "main", "resources": {"nvidia.com/gpu": "9"}}]
    cluster.status(WORKLOADS, "w", {"conditions": [waits], "resourceRequests": asked})
    said = cluster.kuota("describe", "job/train")
    assert "Queue:       research (ClusterQueue gpus)\n" in said
    assert "Requests:    9 nvidia.com/gpu\n" in said
    why = "9 is more than the 8 it could ever get. ClusterQueue gpus: it is stopped"
    assert f"Why:         {why}\n" in said
    assert "To fix:      request less, or ask an admin to raise the quota" in said


def test_who_names_a_queue_that_is_not_there_is_reported_those_that_are(cluster: Cluster) -> None:
    cluster.create(WORKLOADS, workload("w", cluster.create(JOBS, job("train")), "reserch"))
    assert "To fix:      create LocalQueue reserch" in cluster.kuota("describe", "job/train")
    for name in ("research", "speech"):
        cluster.create(LOCAL_QUEUES, local_queue(name))
    out = "create LocalQueue reserch, or use another one of namespace default: research and speech"
    assert f"To fix:      {out}\n" in cluster.kuota("describe", "job/train")


def test_a_job_whose_pods_find_no_room_reports_why(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    cluster.create(WORKLOADS, workload("w", made))
    cluster.status(WORKLOADS, "w", {"conditions": [condition("Admitted")]})
    cluster.start_pod(made, "train-1", "Pending")
    full = condition("PodScheduled", holds=False, message="0/1 nodes are available")
    cluster.status(PODS, "train-1", {"phase": "Pending", "conditions": [full]})
    said = cluster.kuota("describe", "job/train")
    assert "Why:         pod train-1: 0/1 nodes are available\n" in said


def test_a_job_without_a_queue_reports_why_its_pods_wait(cluster: Cluster) -> None:
    cluster.start_pod(cluster.create(JOBS, job("train")), "train-1", "Pending")
    full = condition("PodScheduled", holds=False, message="0/1 nodes are available")
    cluster.status(PODS, "train-1", {"phase": "Pending", "conditions": [full]})
    said = cluster.kuota("describe", "job/train")
    assert "Why:         pod train-1: 0/1 nodes are available\n" in said


def test_a_job_whose_pods_fail_reports_why_until_one_runs(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    cluster.create(WORKLOADS, workload("w", made))
    waiting = condition("PodsReady", holds=False, message="Not all pods are ready")
    cluster.status(WORKLOADS, "w", {"conditions": [condition("Admitted"), waiting]})
    cluster.start_pod(made, "train-1")
    ended = {"terminated": {"exitCode": 128, "message": "it has no command"}}
    cluster.status(PODS, "train-1", pod_status("Failed", ended))
    said = "Why:         pod train-1: it has no command\n"
    assert said in cluster.kuota("describe", "job/train")
    cluster.start_pod(made, "train-2")
    assert said not in cluster.kuota("describe", "job/train")


def test_text_of_others_cannot_pass_for_another_line(cluster: Cluster) -> None:
    forged = "x\nState:       SUCCEEDED"
    made = job("train")
    made["metadata"]["annotations"] = {"note": forged}
    made = cluster.create(JOBS, made)
    cluster.start_pod(made, "train-1")
    ended = {"terminated": {"exitCode": 1, "message": forged}}
    cluster.status(PODS, "train-1", pod_status("Failed", ended))
    about = {"kind": "Job", "name": "train", "namespace": "default"}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}}
    texts = {"reason": forged, "source": {"component": forged}, "message": forged}
    cluster.create(CORE_EVENTS, event | {"involvedObject": about} | texts)
    said = cluster.kuota("describe", "job/train")
    assert 5 == said.count("SUCCEEDED")
    assert [] == [line for line in said.splitlines() if line.startswith("State:")]


PRIORITY = "prioritization in the ClusterQueue"


def _preempted_by(cluster: Cluster, uid: str) -> str:
    """What a Job is told that had to make room for the Workload with that uid."""
    victim = workload("w", cluster.create(JOBS, job("train")))
    victim["metadata"]["annotations"] = {"kuota.dev/preemptor-uid": uid}
    cluster.create(WORKLOADS, victim)
    message = f"preempted to make room for a workload (UID: {uid})"
    evicted = condition("Evicted", reason="Preempted", message=message)
    preempted = condition("Preempted", reason="InClusterQueue", message=message)
    cluster.status(WORKLOADS, "w", {"conditions": [evicted, preempted]})
    return cluster.kuota("describe", "job/train")


def test_who_was_preempted_is_reported_for_whom(cluster: Cluster) -> None:
    cluster.create(NAMESPACES, {"kind": "Namespace", "metadata": {"name": "lab"}})
    urgent = job("urgent")
    urgent["metadata"]["namespace"] = "lab"
    other = workload("w2", cluster.create(JOBS, urgent))
    other["metadata"]["namespace"] = "lab"
    taker = cluster.create(WORKLOADS, other)
    plain = f"by Job urgent in namespace lab ({PRIORITY})"
    assert f"State:       PREEMPTED: {plain}\n" in _preempted_by(cluster, taker["metadata"]["uid"])


def test_who_was_preempted_for_somebody_unknown_is_spared_the_uid(cluster: Cluster) -> None:
    plain = f"by another workload ({PRIORITY})"
    assert f"State:       PREEMPTED: {plain}\n" in _preempted_by(cluster, "gone")


def test_an_object_of_another_namespace_is_pointed_out(cluster: Cluster) -> None:
    cluster.create(NAMESPACES, {"metadata": {"name": "vision"}})
    made = job("train")
    made["metadata"]["namespace"] = "vision"
    cluster.create(JOBS, made)
    said = cluster.kuota("describe", "job", "train", code=1)
    hint = "not found in namespace default; there is one in namespace vision: say -n vision"
    assert f'jobs.batch "train" {hint}' in said
    assert "there is one" not in cluster.kuota("describe", "job", "none", code=1)


def test_a_misspelt_name_is_guessed(cluster: Cluster) -> None:
    cluster.create(JOBS, job("train"))
    assert "did you mean train?" in cluster.kuota("describe", "job", "trian", code=1)
    cluster.kuota("create", "cq", "team-a")
    assert "did you mean team-a?" in cluster.kuota("describe", "cq", "taem-a", code=1)


def test_the_name_of_a_job_needs_no_kind(cluster: Cluster) -> None:
    cluster.create(JOBS, job("train"))
    assert "Kind:        Job (batch/v1)\n" in cluster.kuota("describe", "train")
    said = cluster.kuota("describe", "other", code=2)
    assert "there is no job other in namespace default, and the server has no kind 'other'" in said
    assert "did you mean train?" in cluster.kuota("describe", "trian", code=2)


def test_the_name_of_a_job_of_another_kind_needs_no_kind(cluster: Cluster) -> None:
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    ring = cluster.create(JOB_SETS, kind | {"metadata": {"name": "ring", "namespace": "default"}})
    made = workload("jobset-ring", job("ring") | {"metadata": ring["metadata"]})
    made["metadata"]["ownerReferences"][0] |= kind
    cluster.create(WORKLOADS, made)
    assert "Kind:        JobSet" in cluster.kuota("describe", "ring")


def test_a_pod_group_is_described_by_its_workload(cluster: Cluster) -> None:
    made = workload("ring", cluster.create(JOBS, job("train")))
    group = {"kueue.x-k8s.io/is-group-workload": "true"}
    made["metadata"] = {"name": "ring", "namespace": "default", "annotations": group}
    cluster.create(WORKLOADS, made)
    for words in (("ring",), ("podgroup/ring",), ("PodGroup", "ring")):
        assert "Queue:       research\n" in cluster.kuota("describe", *words)


def test_a_job_without_a_workload_says_what_prevents_it(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train") | {"spec": job("train")["spec"] | {"suspend": True}})
    said = 'WorkloadPriorityClass "hihg" not found'
    about = {"kind": "Job", "namespace": "default", "name": "train", "uid": made["metadata"]["uid"]}
    metadata = {"name": "train.1", "namespace": "default"}
    event = {"involvedObject": about, "type": "Warning", "message": said, "metadata": metadata}
    cluster.create(CORE_EVENTS, {"apiVersion": "v1", "kind": "Event", "reason": "R"} | event)
    assert f"Why:         it has no Workload: {said}\n" in cluster.kuota("describe", "train")


def test_an_unknown_kind_is_guessed(cluster: Cluster) -> None:
    assert "did you mean job?" in cluster.kuota("describe", "jop", code=2)


def test_kinds_of_definitions_are_found(cluster: Cluster) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "rayjobs", "singular": "rayjob", "kind": "RayJob", "shortNames": ["rj"]}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rayjobs.ray.io"},
        "spec": {"group": "ray.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    cluster.create(CRDS, definition)
    manifest = "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: r}\n"
    assert "rayjob.ray.io/r created\n" == cluster.kuota("apply", "-f", "-", stdin=manifest)
    assert "RayJob (ray.io/v1)" in cluster.kuota("describe", "rj")
