# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's job framework as far as batch/v1 Job goes through it."""

from __future__ import annotations

import copy

from conformance.case import Json, Run, check, same
from conformance.effects import Objects, events_of
from conformance.registry import suite
from conformance.world import gates_of
from kuota.api.base import Key, LabelSelector
from kuota.api.gates import Gates
from kuota.api.kueue import WorkloadPriorityClass
from kuota.api.rules.job_common import common_faults, common_update_faults
from kuota.api.rules.metadata import label
from kuota.bridge.draft import Pass, Seen
from kuota.bridge.jobs.ancestor import Nesting, Owners, ancestor, owners_of
from kuota.bridge.jobs.batch_job import Classes
from kuota.bridge.jobs.job_arrival import Arrival, arrived, held_back, nested
from kuota.bridge.jobs.names import variant_name, workload_name
from kuota.bridge.lifecycle_job import job_pass
from kuota.bridge.lifecycle_view import JobView, Rules

from .webhooks import agree

QUEUE = "kueue.x-k8s.io/queue-name"


@suite("jobframework/jobframework-TestFindAncestorJobManagedByKueue")
def above(run: Run) -> None:
    owners = owners_of(
        run.inputs.get("integrations") or (), run.inputs.get("externalFrameworks") or ()
    )
    wanted = run.expected.get("wantErr")
    look_up = _Objects(run.inputs.get("ancestors") or ())
    manage_all = bool(run.inputs["manageJobsWithoutQueueName"])
    try:
        found = ancestor(run.inputs["job"], owners, look_up, manage_all=manage_all)
    except Nesting as error:
        check(bool(wanted), f"want no error, got {error}")
        return
    check(not wanted, f"want error {wanted}, got none")
    same(run.expected["wantManaged"], found)


class _Objects:
    """Recorded objects, found by kind and name."""

    def __init__(self, objects: list[Json] | tuple[Json, ...]) -> None:
        self._all = {(each["kind"], each["metadata"]["name"]): each for each in objects}

    def __call__(self, kind: tuple[str, str], name: str) -> Json | None:
        return self._all.get((kind[1], name))


@suite("jobframework/jobframework-TestWorkloadShouldBeSuspended")
def suspended(run: Run) -> None:
    shared, job = run.inputs["shared"], run.inputs["obj"]
    gates = {"SkipAncestorCheckForDeletedWorkloads": not run.inputs["skipAncestorGateOff"]}
    rules = Rules(
        gates=Gates.of({**run.gates, **gates}, check=False),
        manage_all=bool(run.inputs["manageJobsWithoutQueueName"]),
        namespaces=_selector(shared),
        owners=Owners(),
    )
    wanted = run.expected.get("wantErr")
    try:
        child = nested(
            job, rules, _Objects([shared["parent"]]), lenient=bool(run.inputs["tolerateDeleting"])
        )
    except Nesting as error:
        check(bool(wanted), f"want no error, got {error}")
        return
    check(not wanted, f"want error {wanted}, got none")
    found = Arrival(namespace=_labels(shared, job), nested=child, rules=rules)
    same(run.expected["wantSuspend"], held_back(job, found))


def _labels(shared: Json, job: Json) -> dict[str, str] | None:
    spaces = [each for each in shared.values() if isinstance(each, dict)]
    for each in spaces:
        if each["kind"] == "Namespace" and each["metadata"]["name"] == job["metadata"]["namespace"]:
            labels: dict[str, str] = each["metadata"].get("labels") or {}
            return labels
    return None


def _selector(shared: Json) -> LabelSelector:
    """The record does not show the selector, but names the one namespace that it is to match."""
    name = shared["managedNamespace"]["metadata"]["name"]
    return LabelSelector(match_labels={"kubernetes.io/metadata.name": name})


@suite("jobframework/jobframework-TestApplyDefaultLocalQueue")
def default_queue(run: Run) -> None:
    """Every namespace of the test has a default queue."""
    shared, job = run.inputs["shared"], run.inputs["job"]
    found = Arrival(
        namespace=_labels(shared, job),
        default_queue=True,
        owned=_owned(job),
        rules=Rules(gates=gates_of(run), namespaces=_selector(shared)),
    )
    same(run.expected["wantQueueLabel"], label(arrived(job, found), QUEUE))


def _owned(job: Json) -> bool:
    owners = job["metadata"].get("ownerReferences") or ()
    return any(each.get("controller") and each["kind"] == "Job" for each in owners)


@suite("jobframework/jobframework-TestBaseWebhookDefault")
def defaulted(run: Run) -> None:
    """The queue that the test calls multikueue is one that sends its jobs to other clusters."""
    job = run.inputs["job"]
    found = Arrival(
        namespace={},
        default_queue=bool(run.inputs.get("defaultLqExist")),
        owned=_owned(job),
        sent_away=label(job, QUEUE) == "multikueue",
        rules=Rules(
            gates=gates_of(run),
            manage_all=bool(run.inputs["manageJobsWithoutQueueName"]),
            namespaces=LabelSelector(),
        ),
    )
    same(run.expected["want"], arrived(job, found))


@suite("jobs/job-Test_applyWorkloadSliceSchedulingGate")
def gated(run: Run) -> None:
    job = run.inputs["args"]["job"]
    whole = job | {"metadata": {"annotations": job.get("annotations")}}
    template = arrived(whole, Arrival(rules=Rules(gates=gates_of(run))))["spec"]["template"]
    same(run.expected["want"], template["spec"].get("schedulingGates"))


@suite("jobframework/jobframework-TestExtractPriorityReportsMissingWorkloadPriorityClass")
def missing_class(run: Run) -> None:
    """Told when the Workload is made: the job is as good as queued."""
    job = copy.deepcopy(run.inputs["job"])
    job["metadata"].setdefault("labels", {})[QUEUE] = "queue"
    result = _pass(run, job, [])
    wanted = run.expected.get("wantErr")
    check(bool(wanted) == bool(result.fault), f"want error {wanted}, got {result.fault!r}")
    warnings = [each for each in events_of(result.effects) if each["type"] == "Warning"]
    same(events_of(run.expected.get("wantEvents")), warnings)


@suite("jobframework/jobframework-TestReconcileGenericJob")
def reconciled(run: Run) -> None:
    job = run.inputs["job"]
    workloads = copy.deepcopy(run.inputs.get("objs") or [])
    result = _pass(run, _asking(job, run.inputs["podSets"]), workloads)
    objects = Objects(workloads)
    objects.carry_out(result.effects)
    same(_plain(run.expected["wantWorkloads"]), _plain(objects.all("Workload")))
    if run.expected.get("wantEvents"):
        same(events_of(run.expected["wantEvents"]), events_of(result.effects))


def _asking(job: Json, pod_sets: list[Json]) -> Json:
    """The job of which the one pod set can be told: these tests give the answer beside the job."""
    (only,) = pod_sets
    spec = job["spec"] | {"parallelism": only["count"], "template": only["template"]}
    return job | {"spec": spec}


def _pass(run: Run, job: Json, workloads: list[Json]) -> Pass:
    classes = {
        each["metadata"]["name"]: WorkloadPriorityClass(value=each["value"])
        for each in run.inputs.get("objects") or ()
        if each["kind"] == "WorkloadPriorityClass"
    }
    meta = job["metadata"]
    view = JobView(
        key=Key(meta["namespace"], meta["name"]),
        job=job,
        workloads=tuple(Seen.of(each) for each in workloads),
        namespace={"kubernetes.io/metadata.name": meta["namespace"]},
        classes=Classes(workloads=classes),
        rules=Rules(gates=gates_of(run), timeout_s=None, recovery_timeout_s=None),
    )
    return job_pass(view, run.now)


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
