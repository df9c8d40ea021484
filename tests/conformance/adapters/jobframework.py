# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's job framework as far as batch/v1 Job goes through it."""

from __future__ import annotations

import copy

from conformance.case import Json, Run, check, same
from conformance.effects import Objects, events_of
from conformance.jobs import local_queue, namespace, rules_of, selector, stored, view_of
from conformance.registry import suite
from conformance.world import gates_of
from kuota.api.base import Key, LabelSelector, LabelSelectorRequirement
from kuota.api.gates import Gates
from kuota.api.rules.job_common import common_faults, common_update_faults
from kuota.api.rules.metadata import label
from kuota.bridge.draft import PassResult
from kuota.bridge.jobs.ancestor import NestingError, Owners, ancestor, owners_of
from kuota.bridge.jobs.batch_job import variant_name, workload_name
from kuota.bridge.jobs.job_webhook import defaulted, waits_for_quota, with_default_labels
from kuota.bridge.lifecycle_job import reconcile_job
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.engine.activity import MULTIKUEUE

from .webhooks import agree

QUEUE = "kueue.x-k8s.io/queue-name"


@suite("jobframework/jobframework-TestFindAncestorJobManagedByKueue")
def above(run: Run) -> None:
    owners = owners_of(
        run.inputs.get("integrations") or (), run.inputs.get("externalFrameworks") or ()
    )
    wanted, job = run.expected.get("wantErr"), run.inputs["job"]
    look_up = stored([*(run.inputs.get("ancestors") or ()), job])
    manage_all = bool(run.inputs["manageJobsWithoutQueueName"])
    try:
        found = ancestor(job, owners, look_up, manage_all=manage_all)
    except NestingError as error:
        check(bool(wanted), f"want no error, got {error}")
        return
    check(not wanted, f"want error {wanted}, got none")
    same(run.expected["wantManaged"], found)


@suite("jobframework/jobframework-TestWorkloadShouldBeSuspended")
def suspended(run: Run) -> None:
    """Kueue's callers tolerate jobs that are being deleted or not; here one gate decides."""
    shared, job = run.inputs["shared"], run.inputs["obj"]
    tolerant = run.inputs["tolerateDeleting"] and not run.inputs["skipAncestorGateOff"]
    gates = {"SkipAncestorCheckForDeletedWorkloads": bool(tolerant)}
    config = LifecycleConfig(
        gates=Gates.of({**run.gates, **gates}, check=False),
        manage_all=bool(run.inputs["manageJobsWithoutQueueName"]),
        namespaces=_selector(shared),
    )
    wanted = run.expected.get("wantErr")
    try:
        found = waits_for_quota(job, stored([*_recorded(shared), job]), config)
    except NestingError as error:
        check(bool(wanted), f"want no error, got {error}")
        return
    check(not wanted, f"want error {wanted}, got none")
    same(run.expected["wantSuspend"], found)


def _recorded(shared: Json) -> list[Json]:
    return [each for each in shared.values() if isinstance(each, dict) and "kind" in each]


def _selector(shared: Json) -> LabelSelector:
    """The record does not show the selector, which leaves out one of its two namespaces."""
    left_out = LabelSelectorRequirement(
        key="kubernetes.io/metadata.name",
        operator="NotIn",
        values=[shared["unmanagedNamespace"]["metadata"]["name"]],
    )
    return LabelSelector(match_expressions=[left_out])


@suite("jobframework/jobframework-TestApplyDefaultLocalQueue")
def default_queue(run: Run) -> None:
    """Every namespace of the test has a default queue."""
    shared, job = run.inputs["shared"], run.inputs["job"]
    queue = local_queue("default", job["metadata"]["namespace"])
    config = LifecycleConfig(gates=gates_of(run), namespaces=_selector(shared))
    found = with_default_labels(job, stored([*_recorded(shared), queue]), config)
    same(run.expected["wantQueueLabel"], label(found, QUEUE))


@suite("jobframework/jobframework-TestBaseWebhookDefault")
def webhook_defaults(run: Run) -> None:
    """The test adds its queues in Go. One without a manager of integrations has none enabled."""
    given = run.inputs
    around = [namespace("default"), *(given.get("namespaces") or ())]
    if given.get("defaultLqExist"):
        around.append(local_queue("default", "default"))
    if run.named_gates.get("MultiKueue"):
        around += [local_queue("multikueue", "default"), *_multikueue()]
    config = LifecycleConfig(
        gates=gates_of(run),
        manage_all=bool(given["manageJobsWithoutQueueName"]),
        namespaces=selector(given.get("managedJobsNamespaceSelector")),
        owners=Owners(managed=frozenset()) if given.get("withoutIntegrationManager") else Owners(),
    )
    same(run.expected["want"], defaulted(given["job"], stored(around), config))


def _multikueue() -> list[Json]:
    """The ClusterQueue of the test, and its check."""
    version, checks = "kueue.x-k8s.io/v1beta2", [{"name": "admission-check"}]
    queue = {"admissionChecksStrategy": {"admissionChecks": checks}}
    return [
        {
            "apiVersion": version,
            "kind": "ClusterQueue",
            "metadata": {"name": "cluster-queue"},
            "spec": queue,
        },
        {
            "apiVersion": version,
            "kind": "AdmissionCheck",
            "metadata": {"name": "admission-check"},
            "spec": {"controllerName": MULTIKUEUE},
        },
    ]


@suite("jobs/job-Test_applyWorkloadSliceSchedulingGate")
def gated(run: Run) -> None:
    job = run.inputs["args"]["job"]
    whole = job | {"metadata": {"annotations": job.get("annotations")}}
    template = defaulted(whole, stored([]), LifecycleConfig(gates=gates_of(run)))["spec"][
        "template"
    ]
    same(run.expected["want"], template["spec"].get("schedulingGates"))


@suite("jobframework/jobframework-TestExtractPriorityReportsMissingWorkloadPriorityClass")
def missing_class(run: Run) -> None:
    """Told when the Workload is made: the job is as good as queued."""
    job = copy.deepcopy(run.inputs["job"])
    job["metadata"].setdefault("labels", {})[QUEUE] = "queue"
    result = _pass(run, job, run.inputs.get("objects") or [])
    wanted = run.expected.get("wantErr")
    check(bool(wanted) == bool(result.fault), f"want error {wanted}, got {result.fault!r}")
    warnings = [each for each in events_of(result.effects) if each["type"] == "Warning"]
    same(events_of(run.expected.get("wantEvents")), warnings)


@suite("jobframework/jobframework-TestReconcileGenericJob")
def reconciled(run: Run) -> None:
    workloads = copy.deepcopy(run.inputs.get("objs") or [])
    job = _asking(run.inputs["job"], run.inputs["podSets"])
    result = _pass(run, job, workloads)
    objects = Objects([job, *workloads])
    objects.carry_out(result.effects)
    same(_plain(run.expected["wantWorkloads"]), _plain(objects.all("Workload")))
    if run.expected.get("wantEvents"):
        same(events_of(run.expected["wantEvents"]), events_of(result.effects))
    for each in run.expected.get("wantPodSets") or ():
        left = (objects.of("Job", job["metadata"]["name"]) or {})["spec"]["template"]["metadata"]
        same(each.get("labels"), left.get("labels"))
        same(each.get("annotations"), left.get("annotations"))


def _asking(job: Json, pod_sets: list[Json]) -> Json:
    """The job of which the one pod set can be told: these tests give the answer beside the job."""
    (only,) = pod_sets
    spec = job["spec"] | {"parallelism": only["count"], "template": only["template"]}
    return job | {"spec": spec}


def _pass(run: Run, job: Json, objects: list[Json]) -> PassResult:
    meta = job["metadata"]
    named = run.inputs.get("req") or {"namespace": meta["namespace"], "name": meta["name"]}
    key = Key(named["namespace"], named["name"])
    around = [namespace(key.namespace), *objects]
    return reconcile_job(view_of(key, job, around, rules_of(run)), run.now)


def _plain(workloads: list[Json]) -> list[Json]:
    found = copy.deepcopy(workloads)
    for each in found:
        each["metadata"].pop("resourceVersion", None)
        for pod_set in each["spec"]["podSets"]:
            # An index label for placement goes with batch Job, not with the generic job.
            pod_set.pop("topologyRequest", None)
    return found


@suite(
    "jobframework/jobframework-TestGenerateWorkloadNameWithExtra",
    "jobframework/jobframework-TestGenerateWorkloadNameWithGeneration",
)
def names(run: Run) -> None:
    gvk = run.inputs["shared"]["gvk"]
    made = [
        workload_name(
            gvk["Kind"],
            gvk["Group"],
            run.inputs.get(f"ownerName{each}", "job"),
            run.inputs.get(f"uid{each}", "uid"),
            str(run.inputs.get(f"extra{each}", run.inputs.get(f"generation{each}", ""))),
        )
        for each in (1, 2)
    ]
    same(run.expected["wantEqual"], made[0] == made[1])


@suite("jobframework/jobframework-TestGetWorkloadNameForVariant")
def variants(run: Run) -> None:
    """The record lacks the parent's own name and uid: any would do, as long as it is one parent."""
    made = [variant_name("job-j-1a2b3", "uid", run.inputs[f"flavor{each}"]) for each in (1, 2)]
    same(run.expected["wantEqual"], made[0] == made[1])


@suite("jobframework/jobframework-TestValidateOnCreate")
def created(run: Run) -> None:
    faults = list(common_faults(run.inputs["job"], gates_of(run)))
    agree(_common(run.expected["wantError"], run.inputs), faults)


@suite("jobframework/jobframework-TestValidateOnUpdate")
def updated(run: Run) -> None:
    new, old = (run.inputs["args"][name] for name in ("newObj", "oldObj"))
    faults = list(common_update_faults(new, old, gates_of(run), False))
    agree(_common(run.expected["wantError"], run.inputs["args"]), faults)


def _common(wanted: list[Json] | None, given: Json) -> list[Json]:
    """The faults that the framework finds: without those that the test's own job claims."""
    claimed = given.get("customValidationFailure") or ()
    return [each for each in wanted or () if each not in claimed]
