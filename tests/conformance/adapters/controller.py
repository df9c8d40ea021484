# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's controllers: passes over a Workload, and the status of queues."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import msgspec

from conformance import world
from conformance.case import Json, Run, check, refused, same, seconds
from conformance.effects import Objects, events_of
from conformance.recorder import convert, whole
from conformance.registry import Exercise, suite
from conformance.world import accounting_of, cluster_queue, gates_of, go_seconds, local_queue
from kuota.api import kueue
from kuota.api.backoff import Backoff
from kuota.api.base import Key
from kuota.api.core import Namespace
from kuota.api.merge_patch import merged
from kuota.api.workload import AdmissionCheckState, Workload
from kuota.bridge import inbound
from kuota.bridge.changes import flavors_of
from kuota.bridge.devices.claims import Devices
from kuota.bridge.devices.mappings import ClassMapping
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.bridge.inbound_workload import workload as inbound_workload
from kuota.bridge.lifecycle import reconcile_workload
from kuota.bridge.lifecycle_checks import listed_checks, synced_checks
from kuota.bridge.lifecycle_reserved import not_ready
from kuota.bridge.lifecycle_view import LifecycleConfig, WorkloadPassInput
from kuota.bridge.queue_status import cluster_queue_patch, wanted_finalizers
from kuota.control.device_selectors import compile_selector
from kuota.engine import model
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.engine.policy import Policy

from .driver import failing_pass


@suite(
    "controller/core-TestReconcile",
    "controller/core-TestReconcileDRA",
    "controller/core-TestReconcileEviction",
    "controller/core-TestReconcileInadmissible",
    "controller/core-TestReconcileRequeue",
    exercises=Exercise.PATH,
    ignores={
        **{
            f"expected.wantWorkload.status.{field}": (
                "kept by the test's client where a server-side apply removes it; compared in the "
                "runs by merge patch"
            )
            for field in ("admission", "unhealthyNodes", "requeueState.count")
        },
        "expected.wantWorkload.status.requeueState.requeueAt": (
            "not what Kueue computes in some records; compared with what follows from the settings"
        ),
        "expected.wantErrorMsg": "the text of a Go error; wantError says whether there is one",
    },
)
def reconciled(run: Run) -> None:
    """Run one pass, carry its effects out, and compare the workload, its queue and its events."""
    if run.inputs.get("patchErr"):
        same(None, run.expected["wantDRAResourceTotal"])
        failing_pass(run)
        return
    workload = whole(run.inputs["workload"])
    view, engine = _view(run, workload)
    result = reconcile_workload(view, run.now)
    objects = Objects([workload])
    objects.carry_out(result.effects)
    left = objects.of("Workload", workload["metadata"]["name"])
    wanted = whole(run.expected.get("wantWorkload"))
    if wanted is not None:
        applied = not run.gates.get("WorkloadRequestUseMergePatch")
        same(_plain(wanted, applied=applied), _plain(left, applied=applied))
        _same_retry(run, workload, wanted, left or {})
    same(events_of(run.expected.get("wantEvents")), events_of(result.effects))
    refused(run.expected["wantError"], None)
    _same_result(run.expected["wantResult"], result)
    if run.expected["wantWorkloadsInQueue"] is not None and left is not None:
        engine.apply(ObjectStored(value=world.workload(left, gates_of(run))), run.now)
        pending = len(engine.queues[run.inputs["cq"]["metadata"]["name"]])
        same(run.expected["wantWorkloadsInQueue"], pending, ".wantWorkloadsInQueue")


def _same_result(wanted: Json, result: PassResult) -> None:
    """Kuota's passes only ask for another look after a time, as Kueue's do."""
    same(wanted["requeue"], False)
    same(go_seconds(wanted["requeueAfter"]), result.requeue_after_s or 0.0)


def _same_retry(run: Run, before: Json, wanted: Json, left: Json) -> None:
    """Compare the end of the backoff.

    Kueue's tests compare whether there is one; the time that some records show is not what Kueue
    computes. Here a new one must follow from the count and the settings, whose jitter is zero.
    """
    times = [
        (each.get("status") or {}).get("requeueState", {}).get("requeueAt")
        for each in (before, wanted, left)
    ]
    same(bool(times[1]), bool(times[2]), ".status.requeueState.requeueAt")
    if times[1] == times[0]:
        same(times[1], times[2], ".status.requeueState.requeueAt")
    given = (run.inputs.get("reconcilerOpts") or {}).get("waitForPodsReady")
    if times[2] is None or times[2] == times[0] or given is None:
        return
    check(float(given["requeuingBackoffJitter"]) == 0, "the wait is not deterministic")
    failures = left["status"]["requeueState"]["count"] - 1
    cap = go_seconds(given["requeuingBackoffMaxDuration"])
    wait = min(given["requeuingBackoffBaseSeconds"] * 2**failures, cap)
    same(run.now + wait, seconds(times[2]), ".status.requeueState.requeueAt")


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
    jitter = float(given.get("requeuingBackoffJitter") or 0)
    check(jitter == 0, "the view of these tests has no jitter")
    cap = go_seconds(given.get("requeuingBackoffMaxDuration") or "0s")
    return msgspec.structs.replace(
        config,
        timeout_s=go_seconds(given.get("timeout") or "0s"),
        recovery_timeout_s=go_seconds(recovery) if recovery else None,
        backoff_limit=given.get("requeuingBackoffLimitCount"),
        backoff=Backoff(base=given.get("requeuingBackoffBaseSeconds") or 0, cap=int(cap)),
    )


def _view(run: Run, workload: Json) -> tuple[WorkloadPassInput, Engine]:
    """What the test's caches would say: the queues it was given, and nothing of flavors."""
    stored, config = StoredWorkload.of(workload), _lifecycle_config(run)
    queue = cluster_queue(run.inputs["cq"]) if run.inputs.get("cq") else None
    local = local_queue(run.inputs["lq"]) if run.inputs.get("lq") else None
    objects = [*(whole(run.inputs["apiObjects"]) or ()), *_additional(run)]
    engine = _engine(run, [each for each in (queue, local) if each is not None], objects)
    accounting = accounting_of(objects, config.gates)
    accounting = msgspec.structs.replace(accounting, devices=_devices(objects))
    counted = inbound_workload(stored.obj, accounting)
    same(run.expected.get("wantDRAResourceTotal") or 0, _charged_devices(counted))
    view = WorkloadPassInput(
        stored=stored,
        config=config,
        local_queue=local,
        local_queue_deleting=bool(run.inputs["shouldDeleteLQ"]),
        cluster_queue=None if run.inputs["shouldDeleteCQ"] else queue,
        cluster_queue_active=_active(whole(run.inputs.get("cq"))),
        namespace_matches=queue is None or engine.state.admits(queue.name, stored.key.namespace),
        faults=counted.faults,
        devices_unknown=counted.devices_unknown,
    )
    return view, engine


def _additional(run: Run) -> list[Json]:
    """Objects that the table adds, unless they are among the recorded objects of the API."""
    known = {(each["kind"], each["metadata"]["name"]) for each in run.inputs["apiObjects"] or ()}
    added = whole(run.inputs.get("additionalObjects")) or []
    return [each for each in added if (each["kind"], each["metadata"]["name"]) not in known]


def _devices(objects: Iterable[Json]) -> Devices:
    """The devices that the objects describe. The recorded test maps one class of them."""
    classes = {each["metadata"]["name"]: each for each in objects if each["kind"] == "DeviceClass"}
    named = {each["spec"].get("extendedResourceName"): each for each in classes.values()}
    return Devices(
        mappings={"gpu.example.com": ClassMapping(resource="gpu")},
        classes=classes,
        extended={name: each for name, each in named.items() if name},
        templates={
            Key(each["metadata"]["namespace"], each["metadata"]["name"]): each
            for each in objects
            if each["kind"] == "ResourceClaimTemplate"
        },
        slices=tuple(each for each in objects if each["kind"] == "ResourceSlice"),
        compile_selector=compile_selector,
    )


def _charged_devices(workload: model.Workload) -> int:
    return sum(each.requests.get("gpu", 0) for each in workload.pod_sets)


def _active(queue: Json | None) -> bool:
    """These tests say by its condition whether a queue is active."""
    found = (queue or {}).get("status", {}).get("conditions") or ()
    return any(each["type"] == "Active" and each["status"] == "True" for each in found)


# A Job is the owner of the Workload, of which Kueue too reads nothing but the reference.
_READ = {
    "Namespace",
    "LimitRange",
    "RuntimeClass",
    "Workload",
    "Job",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
    "DeviceClass",
}


def _engine(run: Run, known: list[EngineObject], objects: list[Json]) -> Engine:
    engine = Engine(Policy(gates=gates_of(run)))
    for each in known:
        engine.apply(ObjectStored(value=each), run.now)
    for obj in objects:
        check(obj["kind"] in _READ, f"an object of kind {obj['kind']} is not fed to Kuota")
        if obj["kind"] == "Namespace":
            space = inbound.namespace(convert(obj, Namespace))
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
        for field in ("lastTransitionTime", "message"):
            each.pop(field, None)
    # Compared by `_same_retry`.
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
    obj = convert(run.inputs["workload"], Workload)
    config = _readiness(run.inputs.get("waitForPodsReady"), LifecycleConfig(gates=gates_of(run)))
    cause, left_s = not_ready(obj, config, run.now)
    same(run.expected["wantUnderlyingCause"], cause)
    same(go_seconds(run.expected["wantRecheckAfter"]), max(0.0, left_s or 0.0))


@suite("controller/core-TestReconcileSyncAdmissionChecks")
def checks(run: Run) -> None:
    obj = convert(run.inputs["wl"], Workload)
    patch = synced_checks(obj, cluster_queue(run.inputs["cq"]), run.now)
    after = merged(run.inputs["wl"].get("status") or {}, patch)
    same(_untimed(run.expected["wantChecks"]), _untimed(after.get("admissionChecks")))


@suite(
    "controller/core-TestSyncCheckStates",
    ignores={
        "inputs.ignoreTransitionTime": "whether the test compares times, which are the clock's"
    },
)
def states(run: Run) -> None:
    listed = convert(run.inputs.get("states") or [], list[AdmissionCheckState])
    found = listed_checks(listed, run.inputs.get("list") or (), run.now)
    same(run.expected["wantChange"], found != listed)
    same(_untimed(run.expected["wantStates"]), _untimed(msgspec.to_builtins(found)))


def _untimed(listed: list[Json] | None) -> list[Json]:
    dropped = ("lastTransitionTime", "message")
    return [{k: v for k, v in each.items() if k not in dropped} for each in listed or ()]


@suite("controller/core-TestResourceFlavorReconcile")
def kept(run: Run) -> None:
    """A flavor that is not stored is not reconciled. The test deletes those that are to be gone."""
    flavor, queues = whole(run.inputs["flavor"]), whole(run.inputs.get("clusterQueues")) or ()
    if run.expected["wantDeleted"]:
        flavor["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    used = {name for each in queues for name in flavors_of(convert(each, kueue.ClusterQueue))}
    in_use = flavor["metadata"]["name"] in used
    stored = None if run.inputs["skipStore"] else _finalized(flavor, in_use)
    meta = stored["metadata"] if stored else {}
    deleted = bool(meta.get("deletionTimestamp")) and not meta.get("finalizers")
    same(run.expected["wantDeleted"], deleted)
    same(run.expected["wantFlavor"], None if deleted else stored)
    refused(run.expected["wantError"], None)


def _finalized(flavor: Json, in_use: bool) -> Json:
    """The flavor with the finalizers that it should have."""
    meta = flavor["metadata"]
    found = wanted_finalizers(
        meta.get("finalizers") or [], deleting=bool(meta.get("deletionTimestamp")), in_use=in_use
    )
    return flavor if found is None else flavor | {"metadata": meta | {"finalizers": found}}


@suite("controller/core-TestClusterQueueReconcile", exercises=Exercise.PATH)
def terminating(run: Run) -> None:
    """A queue that is being deleted, and one workload that holds or held quota in it."""
    name = run.inputs["shared"]["cqName"]
    meta = {"name": name, "deletionTimestamp": "2026-01-02T03:04:05Z"}
    queue = {"metadata": meta, "spec": {"namespaceSelector": {}}}
    workload = inbound_workload(convert(run.inputs["workload"], Workload))
    engine = _engine(run, [cluster_queue(queue), workload], [])
    in_use = bool(engine.state.queues[name].running)
    same(run.expected["wantDeleted"], not in_use)
    check(
        (wanted_finalizers(["kueue.x-k8s.io/resource-in-use"], deleting=True, in_use=in_use) == [])
        != in_use,
        "the finalizer must go exactly when nobody uses the queue",
    )
    status: Json = {}
    if in_use:
        status = cluster_queue_patch(engine, convert(queue, kueue.ClusterQueue), {}, run.now)
    active = (status.get("conditions") or [{}])[0]
    same(run.expected["wantActive"], active.get("status"))
    same(run.expected["wantReason"], active.get("reason"))
    same(run.expected["wantReserving"], status.get("reservingWorkloads"))
