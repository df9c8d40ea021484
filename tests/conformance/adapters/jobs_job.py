# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integration of batch/v1 Job: its parts, and whole passes over a job."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import msgspec

from conformance.case import Json, Run, refused, same
from conformance.effects import Objects, events_of
from conformance.jobs import (
    EVERYWHERE,
    listed_objects,
    local_queue,
    namespace,
    rules_of,
    stored,
    view_of,
)
from conformance.recorder import convert, whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.api.base import Key
from kuota.api.config.frameworks import BATCH_JOB
from kuota.api.merge_patch import merged
from kuota.api.podset import Injection, MergeConflict
from kuota.bridge.job_pass.match import prebuilt_name
from kuota.bridge.job_pass.steps import reconcile_job
from kuota.bridge.job_pass.workload import sanitized
from kuota.bridge.jobs import job_webhook
from kuota.bridge.jobs.ancestor import JOB, NestingError, owners_of
from kuota.bridge.jobs.batch_job_state import pods_ready, reclaimable, terminal_indexes
from kuota.bridge.jobs.registry import JOB as BATCH_JOB_KIND
from kuota.bridge.lifecycle_view import LifecycleConfig

_MPI_JOB = ("kubeflow.org", "MPIJob")


@suite("jobs/job-TestPodSets")
def sets(run: Run) -> None:
    same(
        run.expected["wantPodSets"],
        BATCH_JOB_KIND.pod_sets(_whole(run.inputs["job"]), gates_of(run)),
    )


def _whole(job: Json) -> Json:
    """Some records have the metadata of a job beside its spec."""
    job = whole(job)
    if "metadata" in job:
        return job
    meta = {name: value for name, value in job.items() if name not in ("spec", "status")}
    return {"metadata": meta, "spec": job["spec"], "status": job["status"]}


@suite("jobs/job-TestPodsReady")
def ready(run: Run) -> None:
    same(run.expected["want"], pods_ready(_whole(run.inputs["job"])))


@suite("jobs/job-TestReclaimablePods")
def spared(run: Run) -> None:
    same(run.expected["want"], msgspec.to_builtins(reclaimable(_whole(run.inputs["job"]))))


@suite("jobs/job-TestTerminalIndexesCount")
def indexes(run: Run) -> None:
    lists = run.inputs.get("completedIndexes") or "", run.inputs.get("failedIndexes") or ""
    same(run.expected["want"], terminal_indexes(*lists, run.inputs["completions"]))


@suite("jobframework/jobframework-TestSanitizePodSets")
def clean(run: Run) -> None:
    same(run.expected["expectedPodSets"], sanitized(whole(run.inputs["podSets"]) or []))


_GONE: Json = {"spec": {"template": {"spec": {"containers": None}}}}
_IGNORED_TOO = "Kueue's test ignores it too"


@suite(
    "jobs/job-TestReconciler",
    exercises=Exercise.PATH,
    ignores={
        **{
            f"expected.{objects}.{field}": _IGNORED_TOO
            for objects in ("wantJob", "wantWorkloads.*")
            for field in ("apiVersion", "kind")
        },
        "expected.wantJob.metadata.ownerReferences": _IGNORED_TOO,
        "expected.wantWorkloads.*.metadata.ownerReferences": (
            f"{_IGNORED_TOO}, unless the workload is prebuilt; then it is compared"
        ),
        "expected.wantWorkloads.*.metadata.name": _IGNORED_TOO,
    },
)
def reconciled(run: Run) -> None:
    """Run one pass, carry its effects out, and compare both objects."""
    job = whole(run.inputs.get("job"))
    named = run.inputs.get("reconcileKey") or (job or {})["metadata"]
    key = Key(named["namespace"], named["name"])
    prebuilt = job is not None and bool(prebuilt_name(job, gates_of(run)))
    workloads = [_adopted(each, job, prebuilt) for each in whole(run.inputs.get("workloads")) or []]
    around = [*workloads, *_around(run)]
    result = reconcile_job(view_of(key, job, around, rules_of(run)), run.now)
    objects = Objects([*([job] if job is not None else []), *workloads])
    objects.carry_out(result.effects)
    refused(run.expected["wantErr"], result.fault)
    # A job that is gone is recorded as one without a name.
    wanted = whole(run.expected["wantJob"])
    left = objects.of("Job", key.name)
    same(_plain(wanted), _plain(left) if left is not None else _GONE)
    listed = run.expected.get("wantWorkloads") or []
    same(_in_order(listed), _in_order(objects.all("Workload")))
    if prebuilt:
        same(_owners(listed), _owners(objects.all("Workload")), ".ownerReferences")
    same(events_of(run.expected.get("wantEvents")), events_of(result.effects))


def _around(run: Run) -> list[Json]:
    """The other objects of the test. The labelled namespace it makes is not in the record."""
    labelled = namespace("labelled-ns", {"managed-by-kueue": "true"})
    return [run.inputs["shared"]["testNamespace"], labelled, *listed_objects(run)]


def _adopted(workload: Json, job: Json | None, prebuilt: bool) -> Json:
    """The test makes the job the owner of workloads that have none, but for prebuilt ones."""
    if workload["metadata"].get("ownerReferences") or job is None or prebuilt:
        return workload
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"]}
    owner |= {"uid": meta.get("uid", ""), "controller": True}
    return merged(workload, {"metadata": {"ownerReferences": [owner]}})


def _owners(workloads: Iterable[Json]) -> list[Any]:
    """Who owns each workload, by the workload's name."""
    by_name = sorted(map(whole, workloads), key=lambda each: str(each["metadata"]["name"]))
    return [each["metadata"].get("ownerReferences") for each in by_name]


def _in_order(workloads: list[Json]) -> list[Json]:
    """By name, which is not compared, since Kueue derives that of a new one from a hash."""
    ordered = sorted(workloads, key=lambda each: str(each["metadata"]["name"]))
    return [_plain(each, "name") for each in ordered]


def _plain(obj: Json | None, *ignored: str) -> Json:
    if obj is None:
        return {}
    found = copy.deepcopy(obj)
    for field in ("ownerReferences", "resourceVersion", *ignored):
        found.get("metadata", {}).pop(field, None)
    labels = found.get("metadata", {}).get("labels") or {}
    if labels.get("kueue.x-k8s.io/job-uid") == "":
        # Jobs of these records that have no uid get one nowhere else.
        del labels["kueue.x-k8s.io/job-uid"]
    found.pop("apiVersion", None)
    found.pop("kind", None)
    status = found.get("status") or {}
    reserved = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    if reserved.get("QuotaReserved") == "False":
        # The client of the recorded test does not take the admission away.
        status.pop("admission", None)
    for each in (*(status.get("conditions") or ()), *(status.get("admissionChecks") or ())):
        each.pop("lastTransitionTime", None)
        each.pop("message", None)
    if status.get("conditions"):
        status["conditions"] = sorted(status["conditions"], key=lambda each: str(each["type"]))
    return found


@suite(
    "jobs/job-TestPodSetsInfo",
    ignores={
        "expected.wantUnsuspended.apiVersion": "the job of these records has none",
        "expected.wantUnsuspended.kind": "the job of these records has none",
    },
)
def injected(run: Run) -> None:
    job, restored = _whole(run.inputs["job"]), whole(run.inputs["restoreInfo"])
    given = [convert(_lower(each), Injection) for each in run.inputs["runInfo"] or ()]
    wanted, error = whole(run.expected["wantUnsuspended"]), None
    try:
        running = BATCH_JOB_KIND.started(job, given, gates_of(run))
    except MergeConflict as conflict:
        running, error = job, conflict
    refused(run.expected["wantRunError"], error)
    # Kueue unsuspends its copy of the job before it fails, and then does not write it.
    same(_plain(wanted), _plain(_unsuspended(job) if error else running))
    if restored and error is None:
        sets = [_pod_set(each) for each in restored]
        back = BATCH_JOB_KIND.restored(BATCH_JOB_KIND.suspend(running), sets)
        same(_plain(job), _plain(back))


def _unsuspended(job: Json) -> Json:
    return job | {"spec": job["spec"] | {"suspend": False}}


def _lower(info: Json) -> Json:
    return {name[:1].lower() + name[1:]: value for name, value in info.items()}


def _pod_set(info: Json) -> Json:
    found = _lower(info)
    meta = {"labels": found.get("labels"), "annotations": found.get("annotations")}
    spec = {"nodeSelector": found.get("nodeSelector"), "tolerations": found.get("tolerations")}
    return {"count": found.get("count"), "template": {"metadata": meta, "spec": spec}}


@suite("jobs/job-TestDefault", exercises=Exercise.PATH)
def defaulted(run: Run) -> None:
    """Every namespace is managed. Jobs and MPIJobs are the kinds that the test knows."""
    given, job = run.inputs, whole(run.inputs["job"])
    around = [namespace("default"), *listed_objects(run), *(given.get("queues") or ())]
    around += given.get("clusterQueues") or ()
    if given.get("admissionCheck") is not None:
        around.append(given["admissionCheck"])
    if given.get("defaultLqExist"):
        around.append(local_queue("default", "default"))
    owners = owners_of([BATCH_JOB, *(given.get("enableIntegrations") or ())])
    config = LifecycleConfig(
        gates=gates_of(run),
        manage_all=bool(given.get("manageJobsWithoutQueueName")),
        namespaces=EVERYWHERE,
        owners=owners.following([JOB, _MPI_JOB]),
    )
    found, error = job, None
    try:
        found = job_webhook.defaulted(BATCH_JOB_KIND, job, stored(around), config)
    except NestingError as nesting:
        error = nesting
    refused(run.expected["wantErr"], error)
    same(run.expected["want"], None if error else found)


@suite(
    "jobframework/jobframework-TestApplyDefaultWorkloadPriorityClass",
    ignores={"inputs.shared": "the scheme of the Go client"},
)
def default_class(run: Run) -> None:
    look_up, config = (
        stored(run.inputs.get("wpcObjects") or ()),
        LifecycleConfig(gates=gates_of(run)),
    )
    labels = job_webhook.with_default_labels(whole(run.inputs["job"]), look_up, config)["metadata"]
    wanted = run.expected["wantPriorityClassLabel"]
    same(wanted, (labels.get("labels") or {}).get("kueue.x-k8s.io/priority-class"))
