# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the adapters of job suites: stored objects, configurations, views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kuota.api.base import Key, LabelSelector, LabelSelectorRequirement
from kuota.api.core import PriorityClass
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import ResourceFlavor, WorkloadPriorityClass
from kuota.api.selector import parse_selector
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.job_pass.match import prebuilt_name
from kuota.bridge.job_pass.workload import PriorityClasses
from kuota.bridge.jobs.ancestor import GroupKind, Lookup, NestingError, NestingTooDeep
from kuota.bridge.jobs.kind import JobKey, JobKind
from kuota.bridge.jobs.registry import JOB as BATCH_JOB_KIND
from kuota.bridge.lifecycle_view import JobPassInput, LifecycleConfig, ancestor_of

from .case import Json, Run
from .recorder import convert, whole
from .world import gates_of, go_seconds

EVERYWHERE = LabelSelector()
FLAVORS = {"default": ResourceFlavor()}


def stored(objects: Iterable[Json]) -> Lookup:
    """Finds recorded objects, as a client of an API server would."""
    found = {_place(each): each for each in map(whole, objects)}
    return lambda kind, key: found.get((kind, key))


def _place(obj: Json) -> tuple[GroupKind, Key]:
    group, meta = obj["apiVersion"].rpartition("/")[0], obj["metadata"]
    return (group, obj["kind"]), Key(meta.get("namespace", ""), meta["name"])


_LISTS_OF_OBJECTS = (
    "initObjects",
    "initObjs",
    "objs",
    "objects",
    "namespaces",
    "otherJobs",
    "priorityClasses",
    "workloadPriorityClasses",
    "resourceFlavors",
)


def listed_objects(run: Run) -> list[Json]:
    """The stored objects that a case lists, under whichever of the usual names it does."""
    return [each for name in _LISTS_OF_OBJECTS for each in whole(run.inputs.get(name)) or ()]


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Json:
    """A Namespace as the recorded tests make it: without labels unless they add some."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def local_queue(name: str, space: str, cluster_queue: str = "cluster-queue") -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": space},
        "spec": {"clusterQueue": cluster_queue},
    }


def rules_of(run: Run) -> LifecycleConfig:
    """The options that a recorded test passes to the reconciler of jobs.

    Without options nobody waits for pods, and no namespace is left out.
    """
    given = run.inputs.get("reconcilerOptions") or {}
    retention = given.get("workloadRetentionPolicy") or {}
    finished, deactivated = (
        go_seconds(retention[name]) if retention.get(name) else None
        for name in ("afterFinished", "afterDeactivatedByKueue")
    )
    return LifecycleConfig(
        gates=gates_of(run),
        timeout_s=300.0 if given.get("waitForPodsReady") else None,
        manage_all=bool(given.get("manageJobsWithoutQueueName")),
        namespaces=selector(given.get("managedJobsNamespaceSelector")),
        labels_to_copy=tuple(given.get("labelKeysToCopy") or ()),
        annotations_to_copy=_annotations(given, gates_of(run)),
        retain_finished_s=finished,
        retain_deactivated_s=deactivated,
    )


def _annotations(given: Json, gates: Gates) -> tuple[str, ...]:
    """Annotations are copied for metrics only; a configuration names none without the gate."""
    listed = tuple(given.get("annotationsToCopy") or ())
    return listed if gates.on(Gate.CustomMetricLabels) else ()


def selector(recorded: Any) -> LabelSelector:
    """A recorded selector. One that is absent selects everything."""
    if recorded is None:
        return EVERYWHERE
    listed = [
        LabelSelectorRequirement(key=each.key, operator=each.operator, values=each.values)
        for each in parse_selector(recorded)
    ]
    return LabelSelector(match_expressions=listed)


def classes_of(objects: Iterable[Json]) -> PriorityClasses:
    pods, workloads = {}, {}
    for each in objects:
        name = each["metadata"]["name"]
        if each["kind"] == "PriorityClass":
            pods[name] = convert(each, PriorityClass)
        elif each["kind"] == "WorkloadPriorityClass":
            workloads[name] = convert(each, WorkloadPriorityClass)
    return PriorityClasses(pods=pods, workloads=workloads)


def view_of(
    key: Key,
    job: Json | None,
    objects: Iterable[Json],
    config: LifecycleConfig,
    kind: JobKind = BATCH_JOB_KIND,
) -> JobPassInput:
    """What the reconciler looks at when the API server holds these objects and the job."""
    held = [whole(each) for each in (*objects, *([job] if job is not None else []))]
    look_up = stored(held)
    workloads = [StoredWorkload.of(each) for each in held if each["kind"] == "Workload"]
    space = look_up(("", "Namespace"), Key("", key.namespace))
    prebuilt = prebuilt_name(job, config.gates) if job is not None else ""
    labels = (space["metadata"].get("labels") or {}) if space is not None else None
    above, error = None, None

    def workloads_of(owner: JobKey) -> list[StoredWorkload]:
        return [each for each in workloads if _controller(each) == owner]

    try:
        if job is not None:
            above = ancestor_of(job, look_up, workloads_of, config, labels)
    except NestingError as found:
        error = found
    return JobPassInput(
        key=key,
        kind=kind,
        job=job,
        workloads=tuple(workloads_of(JobKey(kind.group_kind, key))),
        prebuilt=next((e for e in workloads if e.key == Key(key.namespace, prebuilt)), None),
        namespace=labels,
        ancestor=above,
        nested_too_deep=isinstance(error, NestingTooDeep),
        nesting=str(error or ""),
        flavors={**FLAVORS, **_flavors_of(held)},
        classes=classes_of(held),
        config=config,
    )


def _flavors_of(objects: Iterable[Json]) -> dict[str, ResourceFlavor]:
    found = (each for each in objects if each["kind"] == "ResourceFlavor")
    return {each["metadata"]["name"]: convert(each, ResourceFlavor) for each in found}


def _controller(stored: StoredWorkload) -> JobKey | None:
    meta = stored.obj.metadata
    for each in meta.owner_references or ():
        if each.controller:
            kind = each.api_version.rpartition("/")[0], each.kind
            return JobKey(kind, Key(meta.namespace, each.name))
    return None
