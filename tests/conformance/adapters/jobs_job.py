# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integration of batch/v1 Job: its parts, and whole passes over a job."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from conformance.case import Json, Run, check, same
from conformance.effects import Objects, events_of
from conformance.registry import suite
from conformance.world import gates_of, go_seconds
from kuota.api.base import Key, LabelSelector, LabelSelectorRequirement
from kuota.api.core import PriorityClass
from kuota.api.kueue import ResourceFlavor, WorkloadPriorityClass
from kuota.api.merge_patch import merged
from kuota.api.podset import Injection, MergeConflict
from kuota.api.selector import parse_selector
from kuota.bridge.draft import Seen
from kuota.bridge.jobs.batch_job import Classes, pod_sets
from kuota.bridge.jobs.job_arrival import Arrival, arrived
from kuota.bridge.jobs.job_start import as_before, started, stopping
from kuota.bridge.jobs.job_state import pods_ready, reclaimable, terminal_indexes
from kuota.bridge.jobs.sanitize import sanitized
from kuota.bridge.lifecycle_job import job_pass
from kuota.bridge.lifecycle_match import prebuilt_name
from kuota.bridge.lifecycle_view import Ancestor, JobView, Rules
from kuota.engine.activity import MULTIKUEUE


@suite("jobs/job-TestPodSets")
def sets(run: Run) -> None:
    same(run.expected["wantPodSets"], pod_sets(_whole(run.inputs["job"]), gates_of(run)))


def _whole(job: Json) -> Json:
    """Some records have the metadata of a job beside its spec."""
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
    same(run.expected["expectedPodSets"], sanitized(run.inputs["podSets"] or []))


@suite("jobs/job-TestReconciler")
def reconciled(run: Run) -> None:
    """One pass, its effects carried out, and both objects looked at."""
    job = run.inputs.get("job")
    named = job["metadata"] if job is not None else run.inputs["reconcileKey"]
    key = Key(named["namespace"], named["name"])
    workloads = [_adopted(each, job) for each in copy.deepcopy(run.inputs.get("workloads") or [])]
    result = job_pass(_view(run, key, job, workloads), run.now)
    objects = Objects([*([job] if job is not None else []), *workloads])
    objects.carry_out(result.effects)
    wanted = run.expected.get("wantErr")
    check(bool(wanted) == bool(result.fault), f"want error {wanted}, got {result.fault!r}")
    # A job that is gone is recorded as one without a name.
    left = run.expected["wantJob"] if run.expected["wantJob"]["metadata"].get("name") else None
    same(_plain(left), _plain(objects.of("Job", key.name)))
    same(_in_order(run.expected.get("wantWorkloads") or []), _in_order(objects.all("Workload")))
    same(events_of(run.expected.get("wantEvents")), events_of(result.effects))


def _view(run: Run, key: Key, job: Json | None, workloads: list[Json]) -> JobView:
    rules = _rules(run)
    seen = [Seen.of(each) for each in workloads]
    own = [each for each in seen if job is None or _owner(each) in (None, key.name)]
    prebuilt = prebuilt_name(job, rules.gates) if job is not None else ""
    above = _ancestor(run, job, seen)
    return JobView(
        key=key,
        job=job,
        workloads=() if prebuilt or above is not None else tuple(own),
        prebuilt=next((each for each in seen if each.key.name == prebuilt), None),
        namespace=_namespace(run, key.namespace),
        ancestor=above,
        flavors=_Any(),
        classes=_classes(run),
        rules=rules,
    )


def _namespace(run: Run, name: str) -> Json:
    """The labels of a namespace. The records leave out those of all but one."""
    shared = run.inputs["shared"]["testNamespace"]["metadata"]
    if shared["name"] == name:
        return shared.get("labels") or {}
    return {"kubernetes.io/metadata.name": name}


class _Any(dict[str, ResourceFlavor]):
    """The flavors of these records are not written down, and have no labels."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> ResourceFlavor:
        return ResourceFlavor()


def _rules(run: Run) -> Rules:
    given = run.inputs.get("reconcilerOptions") or {}
    retention = (given.get("workloadRetentionPolicy") or {}).get("afterDeactivatedByKueue")
    selector = given.get("managedJobsNamespaceSelector")
    found: dict[str, Any] = {} if selector is None else {"namespaces": _selector(selector)}
    return Rules(
        gates=gates_of(run),
        timeout_s=300.0 if given.get("waitForPodsReady") else None,
        manage_all=bool(given.get("manageJobsWithoutQueueName")),
        labels_to_copy=tuple(given.get("labelKeysToCopy") or ()),
        retain_deactivated_s=go_seconds(retention) if retention else None,
        **found,
    )


def _selector(text: str) -> LabelSelector:
    listed = [
        LabelSelectorRequirement(key=each.key, operator=each.operator, values=each.values)
        for each in parse_selector(text)
    ]
    return LabelSelector(match_expressions=listed)


def _classes(run: Run) -> Classes:
    pods, workloads = {}, {}
    for each in run.inputs.get("priorityClasses") or ():
        name = each["metadata"]["name"]
        if each["kind"] == "PriorityClass":
            pods[name] = msgspec.convert(each, PriorityClass)
        else:
            workloads[name] = msgspec.convert(each, WorkloadPriorityClass)
    return Classes(pods=pods, workloads=workloads)


def _owner(seen: Seen) -> str | None:
    owners = seen.obj.metadata.owner_references or ()
    return next((each.name for each in owners if each.controller), None)


def _adopted(workload: Json, job: Json | None) -> Json:
    """The test makes the job the owner of workloads that have none, but for prebuilt ones."""
    if workload["metadata"].get("ownerReferences") or job is None:
        return workload
    meta = job["metadata"]
    if workload["metadata"]["name"] == (meta.get("labels") or {}).get(
        "kueue.x-k8s.io/prebuilt-workload-name"
    ):
        return workload
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"]}
    owner |= {"uid": meta.get("uid", ""), "controller": True}
    return merged(workload, {"metadata": {"ownerReferences": [owner]}})


def _ancestor(run: Run, job: Json | None, seen: list[Seen]) -> Ancestor | None:
    owners = ((job or {}).get("metadata") or {}).get("ownerReferences") or ()
    for owner in owners:
        parents = run.inputs.get("otherJobs") or ()
        if owner.get("controller") and any(
            each["metadata"]["name"] == owner["name"] for each in parents
        ):
            newest = [each for each in seen if _owner(each) == owner["name"]]
            name = Key("", owner["name"])
            return Ancestor(key=name, newest=newest[-1] if newest else None)
    return None


def _in_order(workloads: list[Json]) -> list[Json]:
    """By name. What was made is compared without its name, which the records do not compare."""
    return [
        _plain(each) for each in sorted(workloads, key=lambda each: str(each["metadata"]["name"]))
    ]


def _plain(obj: Json | None) -> Json:
    if obj is None:
        return {}
    found = copy.deepcopy(obj)
    for field in ("ownerReferences", "resourceVersion", "creationTimestamp", "uid", "name"):
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


@suite("jobs/job-TestPodSetsInfo")
def injected(run: Run) -> None:
    job = _whole(run.inputs["job"])
    given = [msgspec.convert(_lower(each), Injection) for each in run.inputs["runInfo"] or ()]
    wanted = run.expected["wantRunError"]
    try:
        running = started(job, given)
    except MergeConflict:
        check(bool(wanted), "want no conflict, got one")
        return
    check(not wanted, f"want {wanted}, got none")
    same(_plain(run.expected["wantUnsuspended"]), _plain(running))
    restored = run.inputs["restoreInfo"]
    if restored:
        back = as_before(stopping(running), [_pod_set(each) for each in restored])
        same(_plain(job), _plain(back))


def _lower(info: Json) -> Json:
    return {name[:1].lower() + name[1:]: value for name, value in info.items()}


def _pod_set(info: Json) -> Json:
    found = _lower(info)
    meta = {"labels": found.get("labels"), "annotations": found.get("annotations")}
    spec = {"nodeSelector": found.get("nodeSelector"), "tolerations": found.get("tolerations")}
    return {"count": found.get("count"), "template": {"metadata": meta, "spec": spec}}


@suite("jobs/job-TestDefault")
def defaulted(run: Run) -> None:
    """The webhook's defaults. The queue that the test adds is managed by no namespace selector."""
    queues = run.inputs.get("clusterQueues") or ()
    strategies = [each["spec"].get("admissionChecksStrategy") or {} for each in queues]
    used = {c["name"] for s in strategies for c in s.get("admissionChecks") or ()}
    named = run.inputs.get("admissionCheck")
    check_name = named["metadata"]["name"] if named is not None else ""
    away = named is not None and named["spec"]["controllerName"] == MULTIKUEUE
    found = Arrival(
        namespace={},
        default_queue=bool(run.inputs.get("defaultLqExist")),
        owned=_owned(run),
        nested=any(_parent(run.inputs["job"], each) for each in run.inputs.get("objs") or ()),
        sent_away=away and check_name in used,
        rules=Rules(
            gates=gates_of(run),
            manage_all=bool(run.inputs.get("manageJobsWithoutQueueName")),
            namespaces=LabelSelector(),
        ),
    )
    same(run.expected["want"], arrived(run.inputs["job"], found))


@suite("jobframework/jobframework-TestApplyDefaultWorkloadPriorityClass")
def default_class(run: Run) -> None:
    names = {each["metadata"]["name"] for each in run.inputs.get("wpcObjects") or ()}
    found = Arrival(
        default_class="default" in names,
        owned=_owned(run),
        rules=Rules(gates=gates_of(run)),
    )
    labels = arrived(run.inputs["job"], found)["metadata"].get("labels") or {}
    same(run.expected["wantPriorityClassLabel"], labels.get("kueue.x-k8s.io/priority-class"))


def _owned(run: Run) -> bool:
    """Whether a kind of an enabled integration controls the job."""
    enabled = {"job", *(each.split("/")[-1] for each in run.inputs.get("enableIntegrations") or ())}
    owners = run.inputs["job"]["metadata"].get("ownerReferences") or ()
    return any(each.get("controller") and each["kind"].lower() in enabled for each in owners)


def _parent(job: Json, other: Json) -> bool:
    owners = job["metadata"].get("ownerReferences") or ()
    queued = "kueue.x-k8s.io/queue-name" in (other["metadata"].get("labels") or {})
    return queued and any(each["name"] == other["metadata"]["name"] for each in owners)
