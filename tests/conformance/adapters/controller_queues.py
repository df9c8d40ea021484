# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's controllers of queues, flavors and priority classes."""

from __future__ import annotations

from typing import Any

import msgspec

from conformance.case import Json, Run, refused, same, seconds
from conformance.effects import Objects
from conformance.recorder import convert, whole
from conformance.registry import Exercise, suite
from conformance.world import cluster_queue, gates_of, go_seconds, local_queue, policy_of
from kuota.api import kueue
from kuota.api.base import Key
from kuota.api.merge_patch import merged
from kuota.api.quantity import canonical, parse
from kuota.api.workload import Workload
from kuota.bridge.changes import (
    finalizer_changes,
    flavors_of,
    only_status_changed,
    priority_value_changed,
    unreferenced,
)
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.inbound_workload import workload as inbound_workload
from kuota.bridge.lifecycle_checks import priority_updates
from kuota.bridge.queue_status import cluster_queue_patch, local_queue_patch
from kuota.engine.consumed_usage import ConsumedUsage, alpha, requested, weighted_usage
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.engine.model import ClusterQueue, LocalQueue
from kuota.engine.policy import AdmissionFairSharing, Policy

FIVE_MINUTES_S = 300.0


@suite("controller/core-TestCohortReconcilerFilters")
def cohort_changed(run: Run) -> None:
    old, new = whole(run.inputs["old"]), whole(run.inputs["new"])
    same(run.expected["want"], not only_status_changed(old, new))


@suite("controller/core-TestWorkloadPriorityClassPredicates")
def class_changed(run: Run) -> None:
    same(run.expected["want"], priority_value_changed(*_change(run, "oldWPC", "newWPC")))


def _change(run: Run, old: str, new: str) -> tuple[Json | None, Json | None]:
    """An object before and after an event.

    A generic event asks for a look at an object that did not change. Kuota has no such events: an
    object is looked at as if it had just been listed.
    """
    before, after = whole(run.inputs.get(old)), whole(run.inputs.get(new))
    kept = {
        "create": (None, after),
        "delete": (before, None),
        "update": (before, after),
        "generic": (None, after),
    }
    return kept[run.inputs["eventType"]]


_NOTIFIED = (
    "which objects Kueue hands to its watchers; an informer of Kuota hands over every change"
)


@suite(
    "controller/core-TestResourceFlavorPredicates",
    ignores={"expected.wantOld": _NOTIFIED, "expected.wantNew": _NOTIFIED},
)
def flavor_changed(run: Run) -> None:
    same(run.expected["wantBool"], finalizer_changes(*_change(run, "oldRF", "newRF")))


@suite("controller/core-TestNotifyClusterQueueUpdate")
def flavors_dropped(run: Run) -> None:
    old, new = (_api(run.inputs.get(name)) for name in ("oldCQ", "newCQ"))
    same(run.expected["expectEvent"], bool(unreferenced(flavors_of(old), flavors_of(new), ())))


@suite("controller/core-TestCqHandlerGeneric")
def flavors_let_go(run: Run) -> None:
    """The queue is gone, or names other flavors by now; `clusterQueues` are those there are."""
    others = [_api(each) for each in run.inputs.get("clusterQueues") or ()]
    used = {name for each in others for name in flavors_of(each)}
    same(run.expected["wantEnqueued"], unreferenced(flavors_of(_api(run.inputs["cq"])), (), used))


def _api(obj: Json | None) -> kueue.ClusterQueue | None:
    return convert(obj, kueue.ClusterQueue) if obj is not None else None


@suite("controller/core-TestWorkloadPriorityClassReconcile", exercises=Exercise.PATH)
def class_followed(run: Run) -> None:
    given = whole(run.inputs.get("workloads")) or []
    refused(run.expected["wantError"], None)
    objects = Objects(given)
    value = convert(run.inputs["wpc"], kueue.WorkloadPriorityClass)
    objects.carry_out(priority_updates(value, [StoredWorkload.of(each) for each in given]))
    left = sorted(objects.all("Workload"), key=lambda each: str(each["metadata"]["name"]))
    same(run.expected["wantWorkloads"], left)


@suite("controller/core-TestUpdateCqStatusIfChanged", exercises=Exercise.PATH)
def cluster_queue_status(run: Run) -> None:
    """The test names the queue and its workloads; whether it is active it says itself."""
    shared, stored = whole(run.inputs["shared"]), whole(run.inputs["cqStatus"])
    cached, managed = run.inputs["insertCqIntoCache"], run.inputs["insertCqIntoManager"]
    name = shared["cqName"]
    queue: Json = {"metadata": {"name": name, "generation": 1}, "spec": {"namespaceSelector": {}}}
    obj = convert(queue | {"status": stored}, kueue.ClusterQueue)
    local = LocalQueue(key=Key("", shared["lqName"]), cluster_queue=name)
    known: list[EngineObject] = [local]
    if cached and managed:
        known.append(cluster_queue(queue))
    known += [_waiting(each) for each in shared["defaultWls"]["items"]]
    added = whole(run.inputs.get("newWl"))
    known += [_waiting(added)] if added else []
    engine = _engine(Policy(gates=gates_of(run)), known, run.now)
    holds = run.inputs["newConditionStatus"] == "True"
    active = holds, run.inputs["newReason"], run.inputs["newMessage"]
    patch = cluster_queue_patch(engine, obj, stored, run.now, active)
    same(_untimed(run.expected["wantCqStatus"]), _untimed(merged(stored, patch)))
    refused(run.expected["wantError"], name not in engine.state.queues)


def _waiting(obj: Json) -> EngineObject:
    return inbound_workload(convert(obj, Workload))


def _engine(policy: Policy, known: list[EngineObject], now: float) -> Engine:
    engine = Engine(policy)
    for each in known:
        engine.apply(ObjectStored(value=each), now)
    return engine


def _untimed(status: Json) -> Json:
    """A status without times and texts, and what is made up of nothing."""
    conditions = [
        {k: v for k, v in each.items() if k not in ("lastTransitionTime", "message")}
        for each in status.get("conditions") or ()
    ]
    shown = status | {"conditions": conditions}
    for flavors in ("flavorsReservation", "flavorsUsage"):
        if not shown.get(flavors):
            shown.pop(flavors, None)
    return shown


@suite(
    "controller/core-TestLocalQueueReconcile",
    exercises=Exercise.PATH,
    ignores={
        "expected.**.admissionFairSharingStatus.lastUpdate": "the test does not compare it",
        "expected.wantConsumedResources.statusAccounted": (
            "whether Kueue's cache has read the status; Kuota always reads it first"
        ),
    },
)
def local_queue_status(run: Run) -> None:
    """One pass: usage decays when it is due, and the status is brought up to date."""
    given = whole(run.inputs["localQueue"])
    stored = given.get("status") or {}
    obj = convert(given, kueue.LocalQueue)
    engine = Engine(_policy(run))
    _recall(run, engine.usage_tracker.consumed_usage, obj.key)
    for each in _known(run):
        engine.apply(ObjectStored(value=each), run.now)
    engine.sample(run.now)
    status = merged(stored, local_queue_patch(engine, obj, stored, run.now))
    wanted = whole(run.expected["wantLocalQueue"])
    wanted["status"] = _unsampled(wanted.get("status") or {})
    same(wanted, given | {"status": _unsampled(status)})
    refused(run.expected.get("wantError"), None)
    _compare(run, engine.usage_tracker.consumed_usage, obj.key)


def _policy(run: Run) -> Policy:
    config = run.inputs.get("afsConfig")
    settings = None
    if config:
        settings = AdmissionFairSharing(
            half_life_s=go_seconds(config.get("usageHalfLifeTime", "0s")),
            sampling_s=go_seconds(config.get("usageSamplingInterval", "5m")),
            resource_weights={
                name: float(weight)
                for name, weight in (config.get("resourceWeights") or {}).items()
            },
        )
    return msgspec.structs.replace(policy_of(run), admission_fair_sharing=settings)


def _recall(run: Run, usage: ConsumedUsage | None, key: Key) -> None:
    """What Kuota knew: restored once, or, where not, only what was settled since."""
    entry = whole(run.inputs.get("initialConsumedResources")) or {}
    pending = whole(run.inputs.get("pendingEntryPenalty"))
    if usage is None:
        return
    since = (
        seconds(entry["lastUpdate"]) if "0001-" not in entry.get("lastUpdate", "0001-") else None
    )
    used = {name: parse(text) for name, text in (entry.get("resources") or {}).items()}
    if since is not None and entry.get("statusAccounted"):
        usage.restore(key, used, since)
        # A step of decay shows that Kuota knew the queue: only unknown ones are due at once.
        usage.decay(key, {}, since)
    elif since is not None:
        usage.push(key, Key("", "settled"), _asking(run, used))
        usage.apply_penalty(key, Key("", "settled"), {}, since)
    if pending:
        penalty = {name: parse(text) for name, text in pending.items()}
        usage.push(key, Key("", "pending"), _asking(run, penalty))


def _asking(run: Run, penalty: dict[str, int]) -> dict[str, int]:
    """The requests that cost that much."""
    settings = _policy(run).admission_fair_sharing or AdmissionFairSharing()
    part = alpha(settings.sampling_s, settings.half_life_s)
    return {
        name: round(nano / part) // 10 ** (6 if name == "cpu" else 9)
        for name, nano in penalty.items()
    }


def _known(run: Run) -> list[EngineObject]:
    """The queues of the test, which says by a condition whether one is active, and workloads."""
    found: list[EngineObject] = []
    obj, deleted = whole(run.inputs.get("clusterQueue")), run.inputs.get("deleteClusterQueue")
    if obj and not deleted:
        said = (obj.get("status") or {}).get("conditions") or ()
        active = any(each["type"] == "Active" and each["status"] == "True" for each in said)
        spec = cluster_queue(obj)
        found.append(spec if active else msgspec.structs.replace(spec, stop_policy="Hold"))
    found.append(local_queue(run.inputs["localQueue"]))
    for each in run.inputs.get("runningWls") or ():
        found.append(inbound_workload(convert(each, Workload)))
    return found


def _unsampled(status: Json) -> Json:
    """Without the time of the last sample, which these tests do not compare."""
    shown = _untimed(status)
    fair = dict(shown.get("fairSharing") or {})
    history = dict(fair.get("admissionFairSharingStatus") or {})
    history.pop("lastUpdate", None)
    return shown | {"fairSharing": fair | {"admissionFairSharingStatus": history}}


def _compare(run: Run, usage: ConsumedUsage | None, key: Key) -> None:
    """Compare what Kuota holds. Null or zero says that the test does not look at it."""
    wanted: Any = run.expected.get("wantConsumedResources")
    again = run.expected.get("wantRequeueAfter")
    if wanted:
        assert usage is not None
        used = {name: canonical(nano) for name, nano in usage.consumed(key).items()}
        same(wanted["resources"], used, ".consumed")
        same(seconds(wanted["lastUpdate"]), usage.updated(key), ".lastUpdate")
    if again:
        assert usage is not None
        same(go_seconds(again), usage.due_in_s(key, run.now), ".requeueAfter")


@suite(
    "controller/core-TestUpdateSettlesAfsEntryPenalty",
    "controller/core-TestUpdateDropsUnsettleableAfsEntryPenalty",
)
def penalty(run: Run) -> None:
    """A workload that owes its entry changes; who still waits for the debt to be settled?"""
    old, new = (
        inbound_workload(convert(run.inputs[name], Workload)) for name in ("oldWl", "newWl")
    )
    settings = AdmissionFairSharing(half_life_s=FIVE_MINUTES_S, sampling_s=FIVE_MINUTES_S)
    policy = msgspec.structs.replace(policy_of(run), admission_fair_sharing=settings)
    queues: list[EngineObject] = [ClusterQueue(name="cq", usage_based=True)]
    queues += [LocalQueue(key=e.local_queue, cluster_queue="cq") for e in (old, new)]
    engine = _engine(policy, [*queues, old], run.now)
    usage = engine.usage_tracker.consumed_usage
    assert usage is not None
    usage.push(old.local_queue, old.key, requested(old))
    engine.apply(ObjectStored(value=new), run.now)
    for name, pending in (run.expected.get("wantPendingOn") or {}).items():
        same(pending, _owes(usage, Key.parse(name)), name)
    if "wantFolded" in run.expected:
        key = Key.parse(run.inputs["shared"]["lqKey"])
        same(run.expected["wantPending"], _owes(usage, key), ".pending")
        same(run.expected["wantFolded"], bool(usage.consumed(key)), ".folded")


def _owes(usage: ConsumedUsage, local_queue: Key) -> bool:
    """Whether the usage includes a penalty that is not settled yet."""
    settled = weighted_usage((usage.consumed(local_queue),), {}, 1.0)
    return usage.usage(local_queue) > settled
