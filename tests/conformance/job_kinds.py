# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the adapters of job kinds: pod sets, injection, whole passes, and webhooks."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kuota.api.base import LabelSelector
from kuota.api.faults import FieldError
from kuota.api.podset import Injection
from kuota.bridge.effects import Effect
from kuota.bridge.job_pass.steps import reconcile_job
from kuota.bridge.jobs import job_webhook
from kuota.bridge.jobs.ancestor import owners_of
from kuota.bridge.jobs.fields import at
from kuota.bridge.jobs.kind import JobKind, key_of
from kuota.bridge.lifecycle_view import LifecycleConfig

from .adapters.webhooks import agree
from .case import Json, Run, check, refused, same
from .effects import Objects
from .jobs import listed_objects, local_queue, namespace, rules_of, selector, stored, view_of
from .recorder import convert, whole
from .world import gates_of

IGNORED_TOO = "Kueue's test ignores it too"
RECONCILER_IGNORES = {
    **{
        f"expected.{objects}.{field}": IGNORED_TOO
        for objects in ("wantJob", "wantWorkloads.*")
        for field in ("apiVersion", "kind", "metadata")
    },
    "expected.wantWorkloads.*.spec.podSets.*.template": IGNORED_TOO,
    "expected.wantWorkloads.*.spec.priority": IGNORED_TOO,
}


def normal(job: Json) -> Json:
    """The job. Some records have its metadata beside its spec."""
    job = whole(job)
    if "metadata" in job:
        return job
    inside = ("apiVersion", "kind", "spec", "status")
    meta = {name: value for name, value in job.items() if name not in inside}
    return {"metadata": meta} | {name: job[name] for name in inside if name in job}


def lowered(info: Json) -> Json:
    return {name[:1].lower() + name[1:]: value for name, value in info.items()}


def injections(infos: Iterable[Json] | None) -> list[Injection]:
    return [convert(lowered(whole(each)), Injection) for each in infos or ()]


def pod_sets_of(infos: Iterable[Json] | None) -> list[Json]:
    """The pod sets whose templates these infos describe."""
    return [_pod_set(lowered(whole(each))) for each in infos or ()]


def _pod_set(info: Json) -> Json:
    meta = {field: info.get(field) for field in ("labels", "annotations")}
    fields = ("nodeSelector", "tolerations", "schedulingGates")
    spec = {field: info.get(field) for field in fields}
    return {"count": info.get("count"), "template": {"metadata": meta, "spec": spec}}


def carried_out(kind: JobKind, job: Json, effects: Sequence[Effect]) -> Json:
    """The job after these effects."""
    objects = Objects([job | {"kind": kind.gvk.kind}])
    objects.carry_out(effects)
    return objects.of(kind.gvk.kind, key_of(job).name) or {}


def config_of(run: Run, kind: JobKind) -> LifecycleConfig:
    return LifecycleConfig(
        gates=gates_of(run),
        manage_all=any(
            run.inputs.get(each) for each in ("manageJobsWithoutQueueName", "manageAll")
        ),
        namespaces=_managed_namespaces(run),
        owners=owners_of([kind.framework]),
    )


def _managed_namespaces(run: Run) -> LabelSelector:
    """The selector of managed namespaces, under either name. A Go value without text is unknown."""
    names = ("managedJobsNamespaceSelector", "managedJobsNamespacesSelector")
    found = [whole(run.inputs.get(each)) for each in names]
    return selector(next((each for each in found if isinstance(each, str)), None))


def reconciled(run: Run, kind: JobKind, job: Json) -> None:
    """Run one pass, carry its effects out, and compare the job, if recorded, and Workloads."""
    workloads = [_adopted(each, kind, job) for each in whole(run.inputs.get("workloads")) or []]
    shared = run.inputs.get("shared") or {}
    space = shared.get("testNamespace") or namespace(key_of(job).namespace)
    around = [*workloads, space, *listed_objects(run)]
    rules = replace(rules_of(run), owners=owners_of([kind.framework]))
    result = reconcile_job(view_of(key_of(job), job, around, rules, kind), run.now)
    objects = Objects([job | {"kind": kind.gvk.kind}, *workloads])
    objects.carry_out(result.effects)
    refused(run.expected.get("wantErr"), result.fault)
    if "wantJob" in run.expected:
        left = objects.of(kind.gvk.kind, key_of(job).name) or {}
        wanted = whole(run.expected["wantJob"])
        same(wanted["spec"], left.get("spec"), ".spec")
        same(wanted.get("status"), left.get("status"), ".status")
    listed = run.expected.get("wantWorkloads") or []
    same([_plain(whole(each)) for each in listed], list(map(_plain, objects.all("Workload"))))


def _adopted(workload: Json, kind: JobKind, job: Json) -> Json:
    """The workload. The recorded test makes the job its owner."""
    owner = {"apiVersion": kind.api_version, "kind": kind.gvk.kind, "controller": True}
    meta = job["metadata"]
    owner |= {"name": meta["name"], "uid": meta.get("uid", "")}
    workload["metadata"].setdefault("ownerReferences", [owner])
    return workload


def _plain(workload: Json) -> Json:
    """What Kueue's tests of these kinds compare of a Workload."""
    found = copy.deepcopy({field: workload.get(field) for field in ("spec", "status")})
    (found["spec"] or {}).pop("priority", None)
    for each in (found["spec"] or {}).get("podSets") or ():
        each.pop("template", None)
    status = found["status"] or {}
    for each in status.get("conditions") or ():
        each.pop("lastTransitionTime", None)
        each.pop("message", None)
    if status.get("conditions"):
        status["conditions"] = sorted(status["conditions"], key=lambda each: str(each["type"]))
    return found


def defaulted(run: Run, kind: JobKind, job: Json, around: Iterable[Json] = ()) -> Json:
    """The job after the mutating webhook."""
    given = run.inputs
    held = [*(given.get("queues") or ()), *(given.get("clusterQueues") or ()), *around]
    held += listed_objects(run)
    if given.get("admissionCheck") is not None:
        held.append(given["admissionCheck"])
    if given.get("defaultLqExist") or given.get("withDefaultLocalQueue"):
        held.append(local_queue("default", key_of(job).namespace))
    space = namespace(key_of(job).namespace)
    return job_webhook.defaulted(kind, job, stored([space, *held]), config_of(run, kind))


def defaults_agree(run: Run, kind: JobKind, job: Json) -> None:
    """Compare the whole job, if recorded, otherwise by whom it is managed."""
    found = defaulted(run, kind, job)
    wanted = run.expected["want"]
    refused(run.expected["wantErr"], None)
    if wanted is not None:
        same(wanted, found)
    same(run.expected["wantManagedBy"], at(found, kind.managed_by))


def faults(
    run: Run, kind: JobKind, job: Json, old: Json | None = None, around: Iterable[Json] = ()
) -> list[FieldError]:
    """What the validating webhook rejects."""
    held = [*around, *listed_objects(run)]
    if run.inputs.get("defaultLqExist"):
        held.append(local_queue("default", key_of(job).namespace))
    job = job | {"kind": kind.gvk.kind}
    return job_webhook.faults_of(kind, job, old, stored(held), config_of(run, kind))


def judged(run: Run, kind: JobKind, job: Json, old: Json | None = None) -> None:
    """Compare faults: a record has either only them, or an error of another kind, too."""
    found = faults(run, kind, job, old)
    if "wantValidationErrs" not in run.expected:
        agree(run.expected["wantErr"], found)
        return
    # Kueue reports the annotations that prevent it from building pod sets as an error.
    wanted = run.expected["wantValidationErrs"]
    if run.expected["wantErr"]:
        check(bool(found), "want faults, got none")
    else:
        agree(wanted, found)
