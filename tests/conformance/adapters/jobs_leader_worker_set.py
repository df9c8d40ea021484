# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integration of LeaderWorkerSets."""

from __future__ import annotations

from conformance.adapters.serving import carried_out, config_of, in_order, validated
from conformance.case import Run, refused, same
from conformance.effects import events_of
from conformance.jobs import classes_of, listed_objects, local_queue, namespace, stored
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.api.base import Key
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.jobs.dispatch_kinds import workload_index
from kuota.bridge.jobs.job_webhook import defaulted
from kuota.bridge.jobs.leader_worker_set import LeaderWorkerSet
from kuota.bridge.jobs.pod_parent import ParentView

KIND = LeaderWorkerSet()
_NAME, _NAMESPACE = "test-lws", "test-ns"


@suite("jobs/leaderworkerset-TestDefault", exercises=Exercise.PATH)
def defaults(run: Run) -> None:
    obj = whole(run.inputs["lws"])
    space = obj["metadata"].get("namespace", "")
    around = [namespace(space), *listed_objects(run)]
    if run.inputs["defaultLqExist"]:
        around.append(local_queue("default", space))
    config = config_of(run, manage_all=run.inputs["manageJobsWithoutQueueName"])
    refused(run.expected["wantErr"], None)
    same(run.expected["want"], defaulted(KIND, obj, stored(around), config))


@suite("jobs/leaderworkerset-TestValidateCreate", exercises=Exercise.PATH)
def create(run: Run) -> None:
    validated(run, KIND, whole(run.inputs["lws"]))


@suite("jobs/leaderworkerset-TestValidateUpdate", exercises=Exercise.PATH)
def update(run: Run) -> None:
    validated(run, KIND, whole(run.inputs["newObj"]), whole(run.inputs["oldObj"]))


@suite("jobs/leaderworkerset-TestGetWorkloadIndex")
def index(run: Run) -> None:
    found = workload_index(whole(run.inputs.get("workload")) or {})
    same(run.expected["wantIndex"], -1 if found is None else found)


@suite("jobs/leaderworkerset-TestReconciler", exercises=Exercise.PATH)
def reconciled(run: Run) -> None:
    obj = whole(run.inputs.get("leaderWorkerSet"))
    pods, sets, workloads = (
        whole(run.inputs.get(field)) or [] for field in ("pods", "statefulSets", "workloads")
    )
    meta = (obj or {}).get("metadata") or {}
    owned = [each for each in workloads if obj is not None and _owner(each) == meta["uid"]]
    view = ParentView(
        key=Key(meta.get("namespace", _NAMESPACE), meta.get("name", _NAME)),
        obj=obj,
        pods=tuple(pods),
        related=tuple(sets),
        workloads=tuple(map(StoredWorkload.of, owned)),
        classes=classes_of(listed_objects(run)),
        gates=gates_of(run),
    )
    result = KIND.reconcile(view, run.now)
    given = [*([obj] if obj is not None else []), *pods, *sets, *workloads]
    objects = carried_out(given, result.effects)
    refused(run.expected["wantErr"], result.fault)
    left = objects.all("LeaderWorkerSet")
    same(in_order(run.expected["wantLeaderWorkerSets"]), in_order(left))
    same(in_order(run.expected["wantPods"]), in_order(objects.all("Pod")), ".pods")
    listed = run.expected["wantWorkloads"]
    same(in_order(listed), in_order(objects.all("Workload")), ".workloads")
    same(_sorted(events_of(run.expected["wantEvents"])), _sorted(events_of(result.effects)))


def _owner(workload: dict[str, object]) -> object:
    meta = workload["metadata"]
    assert isinstance(meta, dict)
    return next((each["uid"] for each in meta.get("ownerReferences") or ()), None)


def _sorted(events: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(events, key=lambda each: str((each["name"], each["reason"])))
