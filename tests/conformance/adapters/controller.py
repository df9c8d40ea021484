# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's own controllers: whole passes over a workload, and the status of queues."""

from __future__ import annotations

import copy

import msgspec

from conformance.case import Json, Run, check, same
from conformance.effects import Objects, events_of
from conformance.registry import suite
from conformance.world import cluster_queue, gates_of, go_seconds, local_queue
from kuota.api import kueue
from kuota.api.backoff import Backoff
from kuota.api.core import Namespace
from kuota.api.merge_patch import merged
from kuota.api.workload import AdmissionCheckState, Workload
from kuota.bridge import inbound
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.inbound_workload import AccountingContext
from kuota.bridge.inbound_workload import workload as inbound_workload
from kuota.bridge.lifecycle import reconcile_workload
from kuota.bridge.lifecycle_checks import listed_checks, synced_checks
from kuota.bridge.lifecycle_reserved import not_ready
from kuota.bridge.lifecycle_view import LifecycleConfig, WorkloadView
from kuota.bridge.queue_status import cluster_queue_patch, wanted_finalizers
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.engine.policy import Policy


@suite(
    "controller/core-TestReconcile",
    "controller/core-TestReconcileEviction",
    "controller/core-TestReconcileInadmissible",
    "controller/core-TestReconcileRequeue",
)
def reconciled(run: Run) -> None:
    """One pass, its effects carried out, and the workload and its events looked at."""
    workload = run.inputs["workload"]
    result = reconcile_workload(_view(run, workload), run.now)
    objects = Objects([workload])
    objects.carry_out(result.effects)
    left = objects.of("Workload", workload["metadata"]["name"])
    wanted = run.expected.get("wantWorkload")
    if wanted is not None:
        applied = not run.gates.get("WorkloadRequestUseMergePatch")
        same(_plain(wanted, applied=applied), _plain(left, applied=applied))
    same(events_of(run.expected.get("wantEvents")), events_of(result.effects))
    after_s = go_seconds((run.expected.get("wantResult") or {}).get("requeueAfter") or "0s")
    same(after_s, result.requeue_after_s or 0.0)


def _lifecycle_config(run: Run) -> LifecycleConfig:
    given = run.inputs.get("reconcilerOpts") or {}
    retention = (given.get("workloadRetention") or {}).get("afterFinished")
    return _readiness(
        given.get("waitForPodsReady"),
        LifecycleConfig(
            gates=gates_of(run),
            retain_finished_s=go_seconds(retention) if retention else None,
        ),
    )


def _readiness(given: Json | None, config: LifecycleConfig) -> LifecycleConfig:
    if not given:
        return msgspec.structs.replace(config, timeout_s=None, recovery_timeout_s=None)
    recovery = given.get("recoveryTimeout")
    cap = go_seconds(given.get("requeuingBackoffMaxDuration") or "0s")
    return msgspec.structs.replace(
        config,
        timeout_s=go_seconds(given["timeout"]),
        recovery_timeout_s=go_seconds(recovery) if recovery else None,
        backoff_limit=given.get("requeuingBackoffLimitCount"),
        backoff=Backoff(base=given.get("requeuingBackoffBaseSeconds") or 0, cap=int(cap)),
    )


def _view(run: Run, workload: Json) -> WorkloadView:
    """What the test's caches would say: the queues it was given, and nothing of flavors."""
    stored, config = StoredWorkload.of(workload), _lifecycle_config(run)
    queue = cluster_queue(run.inputs["cq"]) if run.inputs.get("cq") else None
    local = local_queue(run.inputs["lq"]) if run.inputs.get("lq") else None
    engine = _engine(
        run, [each for each in (queue, local) if each is not None], run.inputs.get("apiObjects")
    )
    counted = inbound_workload(stored.obj, AccountingContext(gates=config.gates))
    return WorkloadView(
        stored=stored,
        config=config,
        local_queue=local,
        local_queue_deleting=bool(run.inputs.get("shouldDeleteLQ")),
        cluster_queue=None if run.inputs.get("shouldDeleteCQ") else queue,
        cluster_queue_active=_active(run.inputs.get("cq")),
        namespace_matches=queue is None or engine.state.admits(queue.name, stored.key.namespace),
        faults=counted.faults,
    )


def _active(queue: Json | None) -> bool:
    """These tests say by its condition whether a queue is active."""
    found = (queue or {}).get("status", {}).get("conditions") or ()
    return any(each["type"] == "Active" and each["status"] == "True" for each in found)


def _engine(run: Run, known: list[EngineObject], objects: list[Json] | None) -> Engine:
    engine = Engine(Policy(gates=gates_of(run)))
    for each in known:
        engine.apply(ObjectStored(value=each), run.now)
    for obj in objects or ():
        if obj["kind"] == "Namespace":
            space = inbound.namespace(msgspec.convert(obj, Namespace))
            engine.apply(ObjectStored(value=space), run.now)
    return engine


def _plain(obj: Json | None, *, applied: bool) -> Json:
    """What is compared. Status that was `applied` keeps, in the test's client, what real servers
    drop; these runs are compared without that, and those by merge patch with it.
    """
    if obj is None:
        return {}
    found = copy.deepcopy(obj)
    if applied:
        _drop_leftovers(found.get("status") or {})
    found.get("metadata", {}).pop("resourceVersion", None)
    status = found.get("status") or {}
    for each in (
        *(status.get("conditions") or ()),
        *(status.get("admissionChecks") or ()),
        *(status.get("preemptionGates") or ()),
    ):
        for field in ("lastTransitionTime", "message", "observedGeneration"):
            each.pop(field, None)
    # The wait is a matter of a suite of its own; the records of some cases here do not have it.
    (status.get("requeueState") or {}).pop("requeueAt", None)
    if status.get("conditions"):
        status["conditions"] = sorted(status["conditions"], key=lambda each: str(each["type"]))
    return found


def _drop_leftovers(status: Json) -> None:
    conditions = status.get("conditions") or []
    claims = {each["type"]: each["status"] for each in conditions}
    if claims.get("QuotaReserved") == "False":
        status.pop("admission", None)
    if claims.get("Evicted") == "True":
        status.pop("unhealthyNodes", None)
        if any(each["reason"].startswith("Deactivated") for each in conditions):
            status.pop("requeueState", None)
        status["conditions"] = [each for each in conditions if each["type"] != "DeactivationTarget"]


@suite("controller/core-TestAdmittedNotReadyWorkload")
def late(run: Run) -> None:
    obj = msgspec.convert(run.inputs["workload"], Workload)
    config = _readiness(run.inputs.get("waitForPodsReady"), LifecycleConfig(gates=gates_of(run)))
    cause, left_s = not_ready(obj, config, run.now)
    same(run.expected["wantUnderlyingCause"], cause)
    same(go_seconds(run.expected["wantRecheckAfter"]), max(0.0, left_s or 0.0))


@suite("controller/core-TestReconcileSyncAdmissionChecks")
def checks(run: Run) -> None:
    obj = msgspec.convert(run.inputs["wl"], Workload)
    patch = synced_checks(obj, cluster_queue(run.inputs["cq"]), run.now)
    after = merged(run.inputs["wl"].get("status") or {}, patch)
    same(_untimed(run.expected["wantChecks"]), _untimed(after.get("admissionChecks")))


@suite("controller/core-TestSyncCheckStates")
def states(run: Run) -> None:
    listed = msgspec.convert(run.inputs.get("states") or [], list[AdmissionCheckState])
    found = listed_checks(listed, run.inputs.get("list") or (), run.now)
    same(run.expected["wantChange"], found != listed)
    same(_untimed(run.expected["wantStates"]), _untimed(msgspec.to_builtins(found)))


def _untimed(listed: list[Json] | None) -> list[Json]:
    dropped = ("lastTransitionTime", "message")
    return [{k: v for k, v in each.items() if k not in dropped} for each in listed or ()]


@suite("controller/core-TestResourceFlavorReconcile")
def kept(run: Run) -> None:
    if run.inputs["skipStore"]:
        return
    flavor = run.inputs["flavor"]
    meta = flavor["metadata"]
    found = wanted_finalizers(
        meta.get("finalizers") or [], deleting=bool(meta.get("deletionTimestamp")), in_use=False
    )
    if found is not None:
        flavor = flavor | {"metadata": meta | {"finalizers": found}}
    deleted = bool(meta.get("deletionTimestamp")) and not flavor["metadata"].get("finalizers")
    same(run.expected["wantDeleted"], deleted)
    if run.expected.get("wantFlavor"):
        same(run.expected["wantFlavor"], flavor)


@suite("controller/core-TestClusterQueueReconcile")
def terminating(run: Run) -> None:
    """A queue on its way out, and one workload that holds quota in it, or did."""
    name = run.inputs["shared"]["cqName"]
    meta = {"name": name, "deletionTimestamp": "2026-01-02T03:04:05Z"}
    queue = {"metadata": meta, "spec": {"namespaceSelector": {}}}
    workload = inbound_workload(msgspec.convert(run.inputs["workload"], Workload))
    engine = _engine(run, [cluster_queue(queue), workload], None)
    in_use = bool(engine.state.queues[name].running)
    same(run.expected["wantDeleted"], not in_use)
    check(
        (wanted_finalizers(["kueue.x-k8s.io/resource-in-use"], deleting=True, in_use=in_use) == [])
        != in_use,
        "the finalizer must go exactly when nobody uses the queue",
    )
    if not in_use:
        return
    status = cluster_queue_patch(engine, msgspec.convert(queue, kueue.ClusterQueue), {}, run.now)
    active = status["conditions"][0]
    same(run.expected["wantActive"], active["status"])
    same(run.expected["wantReason"], active["reason"])
    same(run.expected["wantReserving"], status["reservingWorkloads"])
