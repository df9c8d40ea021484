# SPDX-License-Identifier: Apache-2.0
"""Copies of jobs in worker clusters, and the status that comes back."""

from __future__ import annotations

import pytest

from kuota.api.base import Json
from kuota.api.config.frameworks import dispatched
from kuota.api.gates import Gates
from kuota.bridge.jobs.dispatch import ForeignObject, OriginMissing, is_owned
from kuota.bridge.jobs.fields import at, put
from kuota.bridge.jobs.kind import JobKind
from kuota.bridge.jobs.registry import BUILT_IN, JOB
from kuota.control.checks.multikueue.copies import workload_named

from .kinds import EXAMPLES

GATES = Gates()
ORIGIN = "kueue.x-k8s.io/multikueue-origin"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
NOW = "2026-01-02T03:04:05Z"
BY_KIND = {each.gvk.kind: each for each in BUILT_IN}
DISPATCHED = [each for each in BUILT_IN if each.dispatch() is not None]


def batch_job(**status: object) -> Json:
    labels = {"controller-uid": "u", "batch.kubernetes.io/job-name": "j", "app": "a"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ml", "uid": "u", "resourceVersion": "7"},
        "spec": {
            "managedBy": "kueue.x-k8s.io/multikueue",
            "suspend": True,
            "selector": {"matchLabels": {"controller-uid": "u"}},
            "template": {"metadata": {"labels": labels}, "spec": {}},
        },
        "status": status,
    }


def test_the_dispatched_kinds_are_those_of_kueue() -> None:
    expected = {each.gvk for each in BUILT_IN if each.gvk in dispatched([each.framework])}
    assert expected == {each.gvk for each in DISPATCHED}


@pytest.mark.parametrize("kind", DISPATCHED, ids=lambda each: each.gvk.kind)
def test_a_copy_names_its_workload_and_its_origin_and_has_no_other_manager(kind: JobKind) -> None:
    dispatch = kind.dispatch()
    assert dispatch is not None
    job = EXAMPLES.get(kind.gvk.kind) or batch_job()
    if kind.managed_by:
        job = put(job, kind.managed_by, "kueue.x-k8s.io/multikueue")
    assert dispatch.refusal(job, GATES) == ""
    copy = dispatch.copy(job, "wl", "here", GATES)
    meta = copy["metadata"]
    assert meta["labels"][ORIGIN] == "here"
    assert "uid" not in meta
    assert "resourceVersion" not in meta
    assert at(copy, kind.managed_by or ("none",)) is None
    if not dispatch.shared:
        assert workload_named(copy) == "wl"
    assert is_owned(copy, "here")


@pytest.mark.parametrize(
    "kind", [each for each in DISPATCHED if each.managed_by], ids=lambda each: each.gvk.kind
)
def test_a_job_that_its_own_controller_manages_is_not_dispatched(kind: JobKind) -> None:
    dispatch = kind.dispatch()
    assert dispatch is not None
    job = put({"spec": {}}, kind.managed_by, kind.native_manager)
    assert ".".join(map(str, kind.managed_by)) in dispatch.refusal(job, GATES)
    assert dispatch.refusal({"spec": {}}, GATES)


def test_the_name_of_a_workload_is_a_label_only_if_it_fits_and_the_gate_is_off() -> None:
    dispatch = JOB.dispatch()
    assert dispatch is not None
    labelled = Gates.of({"WorkloadIdentifierAnnotations": False}, check=False)
    assert dispatch.copy(batch_job(), "wl", "o", labelled)["metadata"]["labels"][PREBUILT] == "wl"
    long = "w" * 64
    copy = dispatch.copy(batch_job(), long, "o", labelled)
    assert copy["metadata"]["annotations"][PREBUILT] == long


def test_a_copy_of_a_job_has_no_selector_and_no_labels_of_the_controller() -> None:
    dispatch = JOB.dispatch()
    assert dispatch is not None
    spec = dispatch.copy(batch_job(), "wl", "o", GATES)["spec"]
    assert "selector" not in spec
    kept = {"batch.kubernetes.io/job-name": "j", "app": "a"}
    assert spec["template"]["metadata"]["labels"] == kept


@pytest.mark.parametrize("kind", ["Job", "JobSet", "MPIJob", "PyTorchJob"])
def test_a_copy_does_not_expire_before_its_end_is_recorded(kind: str) -> None:
    found = BY_KIND[kind]
    dispatch, path = found.dispatch(), found.managed_by
    assert dispatch is not None
    assert path
    job = put(EXAMPLES.get(kind) or batch_job(), path, "kueue.x-k8s.io/multikueue")
    expiry = (*path[:-1], "ttlSecondsAfterFinished")
    copy = dispatch.copy(put(job, expiry, 0), "wl", "here", GATES)
    assert at(copy, expiry) is None
    assert copy == dispatch.copy(job, "wl", "here", GATES)


def test_the_status_of_a_running_copy_waits_until_the_local_job_is_resumed() -> None:
    dispatch = JOB.dispatch()
    assert dispatch is not None
    remote = put(batch_job(active=1, startTime=NOW), ("spec", "suspend"), False)
    waiting = dispatch.status(batch_job(), remote, NOW)
    assert waiting.deferred
    assert waiting.status is not None
    assert "startTime" not in waiting.status
    assert waiting.status["conditions"][0]["type"] == "Suspended"
    again = dispatch.status(batch_job(**waiting.status), remote, NOW)
    assert again.status == waiting.status
    resumed = put(batch_job(), ("spec", "suspend"), False)
    assert dispatch.status(resumed, remote, NOW).status == {"active": 1, "startTime": NOW}
    over = put(remote, ("status", "conditions"), [{"type": "Complete", "status": "True"}])
    assert not dispatch.status(batch_job(), over, NOW).deferred


def test_counters_of_a_second_copy_continue_those_of_the_first() -> None:
    dispatch = JOB.dispatch()
    assert dispatch is not None
    local = put(batch_job(succeeded=2, failed=1), ("spec", "suspend"), False)
    found = dispatch.status(local, batch_job(active=1, succeeded=1), NOW).status
    assert found == {"active": 1, "succeeded": 2, "failed": 1}


def test_a_job_whose_copy_is_lost_has_no_pods_and_keeps_its_counters() -> None:
    dispatch = JOB.dispatch()
    assert dispatch is not None
    assert dispatch.idle_status(batch_job(active=2, ready=1, failed=1)) == {"failed": 1}


def test_a_training_job_is_copied_without_the_patch_of_the_admission() -> None:
    dispatch = BY_KIND["TrainJob"].dispatch()
    assert dispatch is not None
    own, other = {"manager": "kueue.x-k8s.io/manager"}, {"manager": "somebody"}
    job = {"metadata": {"name": "j"}, "spec": {"runtimePatches": [other, own]}}
    assert dispatch.copy(job, "wl", "o", GATES)["spec"] == {"runtimePatches": [other]}


@pytest.mark.parametrize("kind", ["StatefulSet", "LeaderWorkerSet"])
def test_a_serving_copy_records_the_uid_of_its_original(kind: str) -> None:
    dispatch = BY_KIND[kind].dispatch()
    assert dispatch is not None
    job = {"metadata": {"name": "s", "namespace": "ml", "uid": "original"}, "spec": {}}
    notes = dispatch.copy(job, "wl", "o", GATES)["metadata"]["annotations"]
    assert notes["kueue.x-k8s.io/multikueue-origin-uid"] == "original"
    assert dispatch.status(job, {"status": {"replicas": 3}}, NOW).status is None


def test_a_gated_pod_keeps_its_condition_until_its_copy_has_a_node() -> None:
    dispatch = BY_KIND["Pod"].dispatch()
    assert dispatch is not None
    own = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    pod = {"metadata": {}, "spec": {"schedulingGates": gates}, "status": {"conditions": [own]}}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    copy: Json = {"status": {"phase": "Pending", "conditions": [refused]}}
    assert dispatch.status(pod, copy, NOW).status == {"phase": "Pending", "conditions": [own]}
    placed = {"type": "PodScheduled", "status": "True"}
    copy = {"status": {"phase": "Running", "conditions": [placed]}}
    assert dispatch.status(pod, copy, NOW).status == copy["status"]
    leaving = pod | {"metadata": {"deletionTimestamp": NOW}}
    assert dispatch.status(leaving, copy, NOW).status is None


def test_elastic_sizes_follow_the_current_slice_and_no_other() -> None:
    gates = Gates.of({"ElasticJobsViaWorkloadSlices": True}, check=False)
    dispatch = JOB.dispatch()
    assert dispatch is not None
    elastic = {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}
    local: Json = {"metadata": elastic, "spec": {"parallelism": 4}}
    remote: Json = {"metadata": {"annotations": {PREBUILT: "old"}}, "spec": {"parallelism": 2}}
    assert dispatch.updated(local, remote, "old", "new", gates) == remote
    grown = dispatch.updated(local, remote, "new", "new", gates)
    assert grown["spec"]["parallelism"] == 4
    assert workload_named(grown) == "new"
    off = Gates.of({"ElasticJobsViaWorkloadSlices": False}, check=False)
    assert dispatch.updated(local, remote, "new", "new", off) == remote


def test_a_ray_cluster_follows_the_sizes_of_its_groups() -> None:
    gates = Gates.of({"ElasticJobsViaWorkloadSlices": True}, check=False)
    dispatch = BY_KIND["RayCluster"].dispatch()
    assert dispatch is not None
    elastic = {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}

    def cluster(replicas: int, **metadata: object) -> Json:
        groups = [{"groupName": "w", "replicas": replicas, "image": "i"}]
        return {"metadata": metadata, "spec": {"workerGroupSpecs": groups}}

    local, remote = cluster(1, **elastic), cluster(3, annotations={PREBUILT: "wl"})
    after = dispatch.updated(local, remote, "wl", "wl", gates)
    assert after == cluster(1, annotations={PREBUILT: "wl"})


def test_what_a_ray_service_serves_is_forwarded() -> None:
    dispatch = BY_KIND["RayService"].dispatch()
    assert dispatch is not None
    local, remote = {"spec": {"serveConfigV2": "b", "x": 1}}, {"spec": {"serveConfigV2": "a"}}
    on = Gates.of({"MultiKueueRemoteSpecSync": True}, check=False)
    off = Gates.of({"MultiKueueRemoteSpecSync": False}, check=False)
    assert dispatch.updated(local, remote, "wl", "wl", on) == {"spec": {"serveConfigV2": "b"}}
    assert dispatch.updated(local, remote, "wl", "wl", off) == remote


def test_objects_of_others_are_recognized() -> None:
    assert not is_owned(None, "here")
    with pytest.raises(OriginMissing):
        is_owned(None, "")
    for labels in ({}, {ORIGIN: "there"}, {ORIGIN: 7}):
        with pytest.raises(ForeignObject, match="ml/j"):
            is_owned({"metadata": {"name": "j", "namespace": "ml", "labels": labels}}, "here")
