# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integration of StatefulSets."""

from __future__ import annotations

from msgspec.structs import replace

from conformance.adapters.serving import carried_out, in_order, plain, validated
from conformance.case import Json, Run, refused, same
from conformance.effects import events_of
from conformance.jobs import EVERYWHERE, classes_of, listed_objects, local_queue, stored
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.api.base import Key
from kuota.api.gates import Gates
from kuota.bridge.draft import Draft, StoredWorkload
from kuota.bridge.jobs.ancestor import owners_of
from kuota.bridge.jobs.job_webhook import defaulted
from kuota.bridge.jobs.pod_parent import ParentView, controller_name
from kuota.bridge.jobs.stateful_set import StatefulSet, hold_status
from kuota.bridge.lifecycle_view import LifecycleConfig

KIND = StatefulSet()


@suite("jobs/statefulset-TestDefault", exercises=Exercise.PATH)
def defaults(run: Run) -> None:
    obj, config = whole(run.inputs["statefulset"]), _config(run, "enableIntegrations")
    around = listed_objects(run)
    if run.inputs["defaultLqExist"]:
        around.append(local_queue("default", obj["metadata"]["namespace"]))
    manage_all = run.inputs["manageJobsWithoutQueueName"]
    config = replace(config, manage_all=manage_all)
    same(run.expected["want"], defaulted(KIND, obj, stored(around), config))


def _config(run: Run, field: str) -> LifecycleConfig:
    named = whole(run.inputs.get(field)) or []
    owners = owners_of(["statefulset", *named])
    return LifecycleConfig(gates=gates_of(run), namespaces=EVERYWHERE, owners=owners)


@suite("jobs/statefulset-TestValidateCreate", exercises=Exercise.PATH)
def create(run: Run) -> None:
    validated(run, KIND, whole(run.inputs["sts"]))


@suite("jobs/statefulset-TestValidateUpdate", exercises=Exercise.PATH)
def update(run: Run) -> None:
    new, old = whole(run.inputs["newObj"]), whole(run.inputs["oldObj"])
    validated(run, KIND, new, old, _config(run, "integrations"))


@suite("jobs/statefulset-TestHandle")
def handled(run: Run) -> None:
    """The test has no integrations, so only those of another framework are left out."""
    obj = whole(run.inputs["obj"])
    same(run.expected["want"], obj["kind"] != "StatefulSet" or not KIND.foreign(obj))


@suite("jobs/statefulset-TestGetWorkloadName")
def named(run: Run) -> None:
    names = {
        KIND.workload_name({"metadata": {"name": run.inputs[f"name{n}"], "uid": uid}}, Gates())
        for n, uid in ((1, run.inputs["uid1"]), (2, run.inputs["uid2"]))
    }
    same(run.expected["wantEqual"], len(names) == 1)


@suite("jobs/statefulset-TestReleaseScaleDownReservation")
def released(run: Run) -> None:
    workload = StoredWorkload.of(whole(run.inputs["workload"]))
    draft = Draft(workload, run.now)
    draft.write(hold_status(workload, 0, run.now, gates_of(run)))
    same(run.expected["wantAdmissionNil"], draft.obj.status.admission is None)
    wanted = whole(run.expected["wantQuotaReserved"])
    conditions = draft.obj.status.conditions or ()
    found = next((each for each in conditions if each.type == "QuotaReserved"), None)
    got = {"status": found.status, "reason": found.reason} if found is not None else None
    same(wanted and {field: wanted[field] for field in ("status", "reason")}, got)


@suite("jobs/statefulset-TestReconciler", exercises=Exercise.PATH)
def reconciled(run: Run) -> None:
    key = Key(run.inputs["stsKey"]["namespace"], run.inputs["stsKey"]["name"])
    obj, pods = whole(run.inputs.get("statefulSet")), whole(run.inputs.get("pods")) or []
    workloads = whole(run.inputs.get("workloads")) or []
    result = KIND.reconcile(_view(run, key, obj, pods, workloads), run.now)
    objects = carried_out([*([obj] if obj else []), *pods, *workloads], result.effects)
    refused(run.expected["wantErr"], result.fault)
    left = objects.of("StatefulSet", key.name)
    same(plain(run.expected["wantStatefulSet"]), plain(left))
    same(in_order(run.expected["wantPods"]), in_order(objects.all("Pod")), ".pods")
    listed = run.expected["wantWorkloads"]
    same(in_order(listed), in_order(objects.all("Workload")), ".workloads")
    same(events_of(run.expected["wantEvents"]), events_of(result.effects))


def _view(
    run: Run, key: Key, obj: Json | None, pods: list[Json], workloads: list[Json]
) -> ParentView:
    return ParentView(
        key=key,
        obj=obj,
        pods=tuple(pods),
        workloads=tuple(map(StoredWorkload.of, workloads)),
        manages_all=bool(run.inputs.get("manageJobsWithoutQueueName")),
        classes=classes_of(listed_objects(run)),
        gates=gates_of(run),
    )


@suite("jobs/statefulset-TestPodReconciler", exercises=Exercise.PATH)
def joined(run: Run) -> None:
    """The pass over the StatefulSet, without its Workload, lets Pods join its group."""
    obj, pod = whole(run.inputs.get("sts")), whole(run.inputs["pod"])
    refused(run.expected["wantErr"], None)
    pods = [pod]
    if obj is not None and controller_name(pod, KIND.group_kind) == obj["metadata"]["name"]:
        key = Key(obj["metadata"]["namespace"], obj["metadata"]["name"])
        view = _view(run, key, obj, pods, whole(run.inputs.get("workloads")) or [])
        pods = [KIND.joined(pod, obj, KIND.group_name(view), view)]
    same(in_order(run.expected["wantPods"]), in_order(pods))
