# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's job framework as far as batch/v1 Job goes through it."""

from __future__ import annotations

import copy

from conformance.case import Json, Run, refused, same
from conformance.effects import Objects, events_of
from conformance.jobs import local_queue, namespace, rules_of, selector, stored, view_of
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.api.base import Key, LabelSelector, LabelSelectorRequirement
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import MULTIKUEUE
from kuota.api.rules.job_common import common_faults, common_update_faults
from kuota.api.rules.metadata import label
from kuota.bridge.draft import PassResult
from kuota.bridge.job_pass.names import variant_name, workload_name
from kuota.bridge.job_pass.steps import reconcile_job
from kuota.bridge.jobs.ancestor import NestingError, Owners, ancestor, owners_of
from kuota.bridge.jobs.job_webhook import defaulted, waits_for_quota, with_default_labels
from kuota.bridge.jobs.registry import JOB as JOB_KIND
from kuota.bridge.jobs.topology_request import TopologyRequestError, topology_request
from kuota.bridge.lifecycle_view import LifecycleConfig

from .webhooks import agree

QUEUE = "kueue.x-k8s.io/queue-name"


@suite(
    "jobframework/jobframework-TestFindAncestorJobManagedByKueue",
    ignores={
        "expected.wantEvents": "null, or the event that TestReconciler of batch Job compares too"
    },
)
def above(run: Run) -> None:
    owners = owners_of(
        run.inputs.get("integrations") or (), run.inputs.get("externalFrameworks") or ()
    )
    job = whole(run.inputs["job"])
    look_up = stored([*(run.inputs.get("ancestors") or ()), job])
    manage_all = bool(run.inputs["manageJobsWithoutQueueName"])
    found, error = None, None
    try:
        above = ancestor(job, owners, look_up, manage_all=manage_all)
        found = above[1] if above is not None else None
    except NestingError as nesting:
        error = nesting
    refused(run.expected["wantErr"], error)
    same(run.expected["wantManaged"], found)


@suite("jobframework/jobframework-TestWorkloadShouldBeSuspended")
def suspended(run: Run) -> None:
    """Kueue's callers tolerate jobs that are being deleted or not; here one gate decides."""
    shared, job = whole(run.inputs["shared"]), whole(run.inputs["obj"])
    gate_off, tolerate = run.inputs["skipAncestorGateOff"], run.inputs["tolerateDeleting"]
    tolerant = tolerate and not gate_off
    gates = {"SkipAncestorCheckForDeletedWorkloads": bool(tolerant)}
    config = LifecycleConfig(
        gates=Gates.of({**run.gates, **gates}, check=False),
        manage_all=bool(run.inputs["manageJobsWithoutQueueName"]),
        namespaces=_selector(shared),
    )
    found, error = False, None
    try:
        found = waits_for_quota(JOB_KIND, job, stored([*_recorded(shared), job]), config)
    except NestingError as nesting:
        error = nesting
    refused(run.expected["wantErr"], error)
    same(run.expected["wantSuspend"], found)


def _recorded(shared: Json) -> list[Json]:
    return [each for each in shared.values() if isinstance(each, dict) and "kind" in each]


def _selector(shared: Json) -> LabelSelector:
    """The record does not show the selector, which leaves out one of its two namespaces."""
    return _without([shared["unmanagedNamespace"]["metadata"]["name"]])


def _without(namespaces: list[str]) -> LabelSelector:
    left_out = LabelSelectorRequirement(
        key="kubernetes.io/metadata.name", operator="NotIn", values=namespaces
    )
    return LabelSelector(match_expressions=[left_out])


@suite("jobframework/jobframework-TestApplyDefaultLocalQueue")
def default_queue(run: Run) -> None:
    """Every namespace of the test has a default queue."""
    shared, job = whole(run.inputs["shared"]), whole(run.inputs["job"])
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
        namespaces=_webhook_selector(run),
        owners=Owners(managed=frozenset()) if given.get("withoutIntegrationManager") else Owners(),
    )
    same(run.expected["want"], defaulted(JOB_KIND, whole(given["job"]), stored(around), config))


def _webhook_selector(run: Run) -> LabelSelector:
    """The selector of managed namespaces. A Go value without text leaves out those of the case."""
    recorded = whole(run.inputs.get("managedJobsNamespaceSelector"))
    if recorded is None or isinstance(recorded, str):
        return selector(recorded)
    names = [each["metadata"]["name"] for each in whole(run.inputs.get("namespaces")) or ()]
    return _without(names)


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
    job = whole(run.inputs["args"]["job"])
    named = job | {"metadata": {"annotations": job.get("annotations")}}
    template = defaulted(JOB_KIND, named, stored([]), LifecycleConfig(gates=gates_of(run)))["spec"][
        "template"
    ]
    same(run.expected["want"], template["spec"].get("schedulingGates"))


@suite("jobframework/jobframework-TestExtractPriorityReportsMissingWorkloadPriorityClass")
def missing_class(run: Run) -> None:
    """Reported when the Workload is created, so the job gets a queue here."""
    same(run.inputs["interceptors"], {})
    job = copy.deepcopy(run.inputs["job"])
    job["metadata"].setdefault("labels", {})[QUEUE] = "queue"
    if run.inputs.get("podSets"):
        job = _asking(job, run.inputs["podSets"])
    result = _pass(run, job, run.inputs.get("objects") or [])
    refused(run.expected["wantErr"], result.fault, reason="NotFound" if result.fault else "")
    warnings = [each for each in events_of(result.effects) if each["type"] == "Warning"]
    same(events_of(run.expected.get("wantEvents")), warnings)


@suite(
    "jobframework/jobframework-TestReconcileGenericJob",
    exercises=Exercise.PATH,
    ignores={"inputs.podSets.*.name": "a batch Job has one pod set, and Kueue too names it main"},
)
def reconciled(run: Run) -> None:
    kind = whole(run.inputs["shared"]["testGVK"])
    same((kind["Group"], kind["Version"], kind["Kind"]), ("batch", "v1", "Job"), ".testGVK")
    workloads = whole(run.inputs.get("objs")) or []
    job = _asking(whole(run.inputs["job"]), run.inputs["podSets"])
    result = _pass(run, job, workloads)
    objects = Objects([job, *workloads])
    objects.carry_out(result.effects)
    same(_plain(run.expected["wantWorkloads"]), _plain(objects.all("Workload")))
    if run.expected["wantEvents"]:
        same(events_of(run.expected["wantEvents"]), events_of(result.effects))
    started = objects.of("Job", job["metadata"]["name"]) or {}
    for each in run.expected["wantPodSets"] or ():
        _same_injection(_lower(each), started["spec"])


def _same_injection(wanted: Json, spec: Json) -> None:
    """Compare what the pod template of a started job was given; the templates here have no more."""
    meta, pod = spec["template"].get("metadata") or {}, spec["template"].get("spec") or {}
    name, count = wanted.pop("name"), wanted.pop("count")
    same(name, "main", ".podSets.name")
    same(count, spec["parallelism"], ".podSets.count")
    given = {
        "labels": meta.get("labels"),
        "annotations": meta.get("annotations"),
        "nodeSelector": pod.get("nodeSelector"),
        "tolerations": pod.get("tolerations"),
        "schedulingGates": pod.get("schedulingGates"),
    }
    same(wanted, given, ".podSets")


def _lower(info: Json) -> Json:
    """A recorded Go struct without tags, its names as in JSON."""
    return {name[:1].lower() + name[1:]: value for name, value in whole(info).items()}


def _asking(job: Json, pod_sets: list[Json]) -> Json:
    """The job of which the one pod set can be told: these tests give the answer beside the job."""
    (only,) = pod_sets
    spec = job["spec"] | {"parallelism": only["count"], "template": whole(only["template"])}
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
    gvk = whole(run.inputs["shared"]["gvk"])
    made = [
        workload_name(
            gvk["Kind"],
            gvk["Group"],
            run.inputs.get(f"ownerName{each}", "job"),
            run.inputs.get(f"uid{each}", "uid"),
            str(run.inputs.get(f"extra{each}", run.inputs.get(f"generation{each}", ""))),
            short=gates_of(run).on(Gate.ShortWorkloadNames),
        )
        for each in (1, 2)
    ]
    same(run.expected["wantEqual"], made[0] == made[1])


@suite(
    "jobframework/jobframework-TestGetWorkloadNameForVariant",
    ignores={"inputs.shared": "the kind of the parent's job is part of the parent's name"},
)
def variants(run: Run) -> None:
    """The record lacks the parent's own name and uid: any would do, as long as it is one parent."""
    short = gates_of(run).on(Gate.ShortWorkloadNames)
    flavors = [run.inputs[f"flavor{each}"] for each in (1, 2)]
    made = [variant_name("job-j-1a2b3", "uid", each, short=short) for each in flavors]
    same(run.expected["wantEqual"], made[0] == made[1])


@suite("jobframework/jobframework-TestValidateOnCreate")
def created(run: Run) -> None:
    faults = list(common_faults(whole(run.inputs["job"]), gates_of(run), JOB_KIND.supported))
    same(run.expected["wantWarning"], None)
    agree(_common(run.expected["wantError"], run.inputs), faults)


@suite("jobframework/jobframework-TestValidateOnUpdate")
def updated(run: Run) -> None:
    new, old = (whole(run.inputs["args"][name]) for name in ("newObj", "oldObj"))
    same(run.expected["wantWarning"], None)
    faults = list(common_update_faults(new, old, gates_of(run), JOB_KIND.supported, False))
    agree(_common(run.expected["wantError"], run.inputs["args"]), faults)


def _common(wanted: list[Json] | None, given: Json) -> list[Json]:
    """The faults that the framework finds: without those that the test's own job claims."""
    claimed = whole(given.get("customValidationFailure")) or ()
    return [each for each in whole(wanted) or () if each not in claimed]


@suite("jobframework/jobframework-TestPodSetTopologyRequestBuilder")
def topology(run: Run) -> None:
    named = ("podIndexLabel", "subGroupIndexLabel", "subGroupCount")
    ranks = {name: run.inputs[name] for name in named if run.inputs.get(name) is not None}
    found, error = None, None
    try:
        found = topology_request({"metadata": whole(run.inputs["meta"])}, gates_of(run), ranks)
    except TopologyRequestError as invalid:
        error = invalid
    refused(run.expected["wantErr"], error)
    same(run.expected["wantReq"], found)
