# SPDX-License-Identifier: Apache-2.0
"""Stopping a job: it is suspended, its start time is cleared, and its template is restored."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Effect, Patch, StatusPatch
from kuota.bridge.job_pass.steps import reconcile_job
from kuota.bridge.lifecycle_view import JobPassInput, LifecycleConfig

STOPPING = "kueue.x-k8s.io/stopping"
FINALIZER = "kueue.x-k8s.io/resource-in-use"
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE: Json = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
STARTED = TEMPLATE | {"spec": TEMPLATE["spec"] | {"nodeSelector": {"tier": "gold"}}}


def _job(*, active: int, stopping: bool = False) -> Json:
    """A job that runs, or has been told to stop."""
    return {
        "metadata": {
            "name": "train",
            "namespace": "ml",
            "uid": "u",
            "resourceVersion": "5",
            "labels": {"kueue.x-k8s.io/queue-name": "main"},
            "annotations": {STOPPING: "true"} if stopping else {},
        },
        "spec": {"suspend": stopping, "parallelism": 1, "template": STARTED},
        "status": {"active": active} | ({} if stopping else {"startTime": "2026-01-02T11:00:00Z"}),
    }


def _workload() -> StoredWorkload:
    """Its Workload, which somebody deletes."""
    meta = {
        "name": "w",
        "namespace": "ml",
        "uid": "w",
        "resourceVersion": "7",
        "deletionTimestamp": "2026-01-02T12:00:00Z",
        "finalizers": [FINALIZER],
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
            | {"controller": True}
        ],
    }
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
    reserved["lastTransitionTime"] = "2026-01-02T11:00:00Z"
    pod_set = {"name": "main", "count": 1, "template": TEMPLATE}
    return StoredWorkload.of(
        {
            "metadata": meta,
            "spec": {"podSets": [pod_set], "queueName": "main", "active": True},
            "status": {"conditions": [reserved]},
        }
    )


def _effects(job: Json) -> tuple[Effect, ...]:
    view = JobPassInput(
        key=Key("ml", "train"),
        job=job,
        workloads=(_workload(),),
        prebuilt=None,
        namespace={},
        config=LifecycleConfig(),
    )
    return reconcile_job(view, 0.0).effects


def _patches(effects: tuple[Effect, ...], kind: str) -> list[Json]:
    return [each.body for each in effects if isinstance(each, Patch) and each.kind == kind]


def test_the_template_of_a_job_with_pods_is_restored_if_the_server_allows_it() -> None:
    suspended, cleared, restored, *_ = (e for e in _effects(_job(active=1)) if _written(e))
    assert isinstance(suspended, Patch)
    assert {"suspend": True} == suspended.body["spec"]
    assert isinstance(cleared, StatusPatch)
    assert {"startTime": None} == cleared.status
    assert isinstance(restored, Patch)
    assert {"nodeSelector": None} == restored.body["spec"]["template"]["spec"]
    assert (False, True) == (suspended.may_be_rejected, restored.may_be_rejected)


def _written(effect: Effect) -> bool:
    return isinstance(effect, Patch | StatusPatch)


def test_the_start_time_of_a_suspended_job_is_cleared_before_its_template_is_restored() -> None:
    job = _job(active=0) | {"spec": _job(active=0)["spec"] | {"suspend": True}}
    cleared, restored, *_ = (each for each in _effects(job) if _written(each))
    assert isinstance(cleared, StatusPatch)
    assert {"startTime": None} == cleared.status
    assert isinstance(restored, Patch)
    assert {"nodeSelector": None} == restored.body["spec"]["template"]["spec"]


def test_after_a_refusal_nothing_is_written_while_its_pods_go() -> None:
    assert () == _effects(_job(active=1, stopping=True))


def test_without_pods_it_is_set_back_and_its_workload_released() -> None:
    effects = _effects(_job(active=0, stopping=True))
    (restored,) = _patches(effects, "Job.batch")
    assert {STOPPING: None} == restored["metadata"]["annotations"]
    assert {"nodeSelector": None} == restored["spec"]["template"]["spec"]
    assert [{"metadata": {"finalizers": None}}] == _patches(effects, "Workload")


def test_a_job_that_runs_without_pods_is_stopped_in_one_pass() -> None:
    effects = _effects(_job(active=0))
    assert 2 == len(_patches(effects, "Job.batch"))
    assert 1 == len(_patches(effects, "Workload"))
