# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's controllers of queues, flavors and priority classes."""

from __future__ import annotations

from typing import Any

import msgspec

from conformance.case import Json, Run, check, same, seconds
from conformance.effects import Objects
from conformance.registry import suite
from conformance.world import cluster_queue, gates_of, go_seconds, local_queue, policy_of
from kuota.api import kueue
from kuota.api.base import Key
from kuota.api.merge_patch import merged
from kuota.api.quantity import canonical, parse
from kuota.api.workload import Workload
from kuota.bridge.changes import flavors_of, let_go, revalued, settled, to_hold
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.inbound_workload import workload as inbound_workload
from kuota.bridge.lifecycle_checks import followers
from kuota.bridge.queue_status import cluster_queue_patch, local_queue_patch
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.engine.ledger import Ledger, alpha, requested
from kuota.engine.model import ClusterQueue, LocalQueue
from kuota.engine.policy import AdmissionFairSharing, Policy

FIVE_MINUTES_S = 300.0


@suite("controller/core-TestCohortReconcilerFilters")
def cohort_changed(run: Run) -> None:
    same(run.expected["want"], not settled(run.inputs["old"], run.inputs["new"]))


@suite("controller/core-TestWorkloadPriorityClassPredicates")
def class_changed(run: Run) -> None:
    same(run.expected["want"], revalued(run.inputs.get("oldWPC"), run.inputs.get("newWPC")))


@suite("controller/core-TestResourceFlavorPredicates")
def flavor_changed(run: Run) -> None:
    """Of whom the informer tells every change there is nothing to compare."""
    old, new = run.inputs.get("oldRF"), run.inputs.get("newRF")
    same(run.expected["wantBool"], to_hold(old, new))


@suite("controller/core-TestNotifyClusterQueueUpdate")
def flavors_dropped(run: Run) -> None:
    old, new = (_api(run.inputs.get(name)) for name in ("oldCQ", "newCQ"))
    same(run.expected["expectEvent"], bool(let_go(flavors_of(old), flavors_of(new), ())))


@suite("controller/core-TestCqHandlerGeneric")
def flavors_let_go(run: Run) -> None:
    """The queue is gone, or names other flavors by now; `clusterQueues` are those there are."""
    others = [_api(each) for each in run.inputs.get("clusterQueues") or ()]
    used = {name for each in others for name in flavors_of(each)}
    same(run.expected["wantEnqueued"], let_go(flavors_of(_api(run.inputs["cq"])), (), used))


def _api(obj: Json | None) -> kueue.ClusterQueue | None:
    return msgspec.convert(obj, kueue.ClusterQueue) if obj is not None else None


@suite("controller/core-TestWorkloadPriorityClassReconcile")
def class_followed(run: Run) -> None:
    given = run.inputs.get("workloads") or []
    objects = Objects(given)
    value = msgspec.convert(run.inputs["wpc"], kueue.WorkloadPriorityClass)
    objects.carry_out(followers(value, [StoredWorkload.of(each) for each in given]))
    same(run.expected["wantWorkloads"], objects.all("Workload"))


@suite("controller/core-TestUpdateCqStatusIfChanged")
def cluster_queue_status(run: Run) -> None:
    """The test names the queue and its workloads; whether it is active it says itself."""
    shared, stored = run.inputs["shared"], run.inputs["cqStatus"]
    name = shared["cqName"]
    queue: Json = {"metadata": {"name": name, "generation": 1}, "spec": {"namespaceSelector": {}}}
    obj = msgspec.convert(queue | {"status": stored}, kueue.ClusterQueue)
    local = LocalQueue(key=Key("", shared["lqName"]), cluster_queue=name)
    known: list[EngineObject] = [local]
    if run.inputs["insertCqIntoCache"] and run.inputs["insertCqIntoManager"]:
        known.append(cluster_queue(queue))
    known += [_waiting(each) for each in shared["defaultWls"]["items"]]
    added = run.inputs.get("newWl")
    known += [_waiting(added)] if added else []
    engine = _engine(Policy(gates=gates_of(run)), known, run.now)
    told = run.inputs["newConditionStatus"] == "True"
    active = told, run.inputs["newReason"], run.inputs["newMessage"]
    patch = cluster_queue_patch(engine, obj, stored, run.now, active)
    same(_untimed(run.expected["wantCqStatus"]), _untimed(merged(stored, patch)))
    wanted = run.expected.get("wantError")
    check(bool(wanted) == (name not in engine.state.queues), f"want error {wanted}")


def _waiting(obj: Json) -> EngineObject:
    return inbound_workload(msgspec.convert(obj, Workload))


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


@suite("controller/core-TestLocalQueueReconcile")
def local_queue_status(run: Run) -> None:
    """One look: usage decays where it is time, and the status says what there is to say."""
    stored = run.inputs["localQueue"].get("status") or {}
    obj = msgspec.convert(run.inputs["localQueue"], kueue.LocalQueue)
    engine = Engine(_policy(run))
    if engine.history.ledger is not None:
        _recall(run, engine.history.ledger, obj.key)
    for each in _known(run):
        engine.apply(ObjectStored(value=each), run.now)
    engine.sample(run.now)
    status = merged(stored, local_queue_patch(engine, obj, stored, run.now))
    wanted = run.expected["wantLocalQueue"].get("status") or {}
    same(_unsampled(wanted), _unsampled(status))
    check(not run.expected.get("wantError"), "nothing that is told here fails")
    if engine.history.ledger is not None:
        _compare(run, engine.history.ledger, obj.key)


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


def _recall(run: Run, ledger: Ledger, key: Key) -> None:
    """What the ledger knew: restored once, or, where not, only what was settled since."""
    entry = run.inputs.get("initialConsumedResources") or {}
    since = (
        seconds(entry["lastUpdate"]) if "0001-" not in entry.get("lastUpdate", "0001-") else None
    )
    used = {name: parse(text) for name, text in (entry.get("resources") or {}).items()}
    if since is not None and entry.get("statusAccounted"):
        ledger.restore(key, used, since)
    elif since is not None:
        ledger.push(key, Key("", "settled"), _asking(run, used))
        ledger.settle(key, Key("", "settled"), {}, since)
    pending = run.inputs.get("pendingEntryPenalty")
    if pending:
        penalty = {name: parse(text) for name, text in pending.items()}
        ledger.push(key, Key("", "pending"), _asking(run, penalty))


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
    obj = run.inputs.get("clusterQueue")
    if obj and not run.inputs.get("deleteClusterQueue"):
        said = (obj.get("status") or {}).get("conditions") or ()
        active = any(each["type"] == "Active" and each["status"] == "True" for each in said)
        spec = cluster_queue(obj)
        found.append(spec if active else msgspec.structs.replace(spec, stop_policy="Hold"))
    found.append(local_queue(run.inputs["localQueue"]))
    for each in run.inputs.get("runningWls") or ():
        found.append(inbound_workload(msgspec.convert(each, Workload)))
    return found


def _unsampled(status: Json) -> Json:
    """Without the time of the last sample, which these tests do not compare."""
    shown = _untimed(status)
    fair = dict(shown.get("fairSharing") or {})
    history = dict(fair.get("admissionFairSharingStatus") or {})
    history.pop("lastUpdate", None)
    return shown | {"fairSharing": fair | {"admissionFairSharingStatus": history}}


def _compare(run: Run, ledger: Ledger, key: Key) -> None:
    wanted: Any = run.expected.get("wantConsumedResources")
    if wanted:
        used = {name: canonical(nano) for name, nano in ledger.consumed(key).items()}
        same(wanted["resources"], used, ".consumed")
        same(seconds(wanted["lastUpdate"]), ledger.updated(key), ".lastUpdate")
    again = run.expected.get("wantRequeueAfter")
    if again:
        same(go_seconds(again), ledger.due_in_s(key, run.now), ".requeueAfter")


@suite(
    "controller/core-TestUpdateSettlesAfsEntryPenalty",
    "controller/core-TestUpdateDropsUnsettleableAfsEntryPenalty",
)
def penalty(run: Run) -> None:
    """A workload that owes its entry changes; who still waits for the debt to be settled?"""
    old, new = (
        inbound_workload(msgspec.convert(run.inputs[name], Workload)) for name in ("oldWl", "newWl")
    )
    settings = AdmissionFairSharing(half_life_s=FIVE_MINUTES_S, sampling_s=FIVE_MINUTES_S)
    policy = msgspec.structs.replace(policy_of(run), admission_fair_sharing=settings)
    queues: list[EngineObject] = [ClusterQueue(name="cq", usage_based=True)]
    queues += [LocalQueue(key=e.local_queue, cluster_queue="cq") for e in (old, new)]
    engine = _engine(policy, [*queues, old], run.now)
    ledger = engine.history.ledger
    assert ledger is not None
    ledger.push(old.local_queue, old.key, requested(old))
    engine.apply(ObjectStored(value=new), run.now)
    for name, pending in (run.expected.get("wantPendingOn") or {}).items():
        same(pending, ledger.has_penalty([Key.parse(name)]), name)
    if "wantFolded" in run.expected:
        key = Key.parse(run.inputs["shared"]["lqKey"])
        same(run.expected["wantPending"], ledger.has_penalty([key]), ".pending")
        same(run.expected["wantFolded"], bool(ledger.consumed(key)), ".folded")
