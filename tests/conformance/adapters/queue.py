# SPDX-License-Identifier: Apache-2.0
"""Suites of group `queue`: order, inadmissible workloads, requeueing, heads, second pass."""

from __future__ import annotations

from typing import Any

from conformance import world
from conformance.case import Json, Run, check, refused, same
from conformance.jobs import selector
from conformance.registry import suite
from kuota.api.base import Key
from kuota.api.match import matches
from kuota.api.quantity import parse
from kuota.engine.assignment import ScanProgress
from kuota.engine.consumed_usage import ConsumedUsage
from kuota.engine.model import Workload
from kuota.engine.pending import PendingQueue, PendingState
from kuota.engine.policy import AdmissionFairSharing
from kuota.engine.queues import Queues
from kuota.engine.ranking import backoff_over
from kuota.engine.reasons import RequeueReason, WaitReason

WAITING = (PendingState.HEAP, PendingState.IN_FLIGHT)


def _workload(run: Run, obj: Json) -> Workload:
    """A workload, given as an object or together with the hash that Kueue gave it."""
    inner = obj["workload"] if "metadata" not in obj else obj
    return world.workload(inner, world.gates_of(run))


def _plain(name: str, scheduling_hash: str = "", **fields: Any) -> Workload:
    return Workload(key=Key("default", name), scheduling_hash=scheduling_hash, **fields)


def _queue(run: Run, **options: Any) -> PendingQueue:
    for obj in world.each(run, "clusterQueues"):
        spec = world.cluster_queue(obj)
        return PendingQueue(spec.name, world.policy_of(run), strict=spec.strict, **options)
    return PendingQueue("cq", world.policy_of(run), **options)


def _queues(run: Run) -> Queues:
    """All queues of a case; those without a ClusterQueue object are as empty as they come."""
    queues = Queues(world.policy_of(run))
    for obj in world.each(run, "clusterQueues"):
        queues.put_cluster_queue(world.cluster_queue(obj), run.now)
    for obj in world.each(run, "localQueues"):
        queues.put_local_queue(world.local_queue(obj), run.now)
    return queues


def _keys(queue: PendingQueue, *places: PendingState) -> list[str]:
    return sorted(str(w.key) for w in queue.ordered() if queue.state(w.key) in places)


def _assigned(queues: Queues, workloads: list[Workload]) -> dict[str, str]:
    known = [queues.workload(each.key) for each in workloads]
    return {
        str(each.key): str(each.local_queue)
        for each in known
        if each is not None and queues.pending_local(each.local_queue)
    }


@suite("queue/TestAddWorkload")
def add_workload(run: Run) -> None:
    queues, workload = _queues(run), _workload(run, run.inputs["workload"])
    queued = queues.put_workload(workload, run.now)
    refused(run.expected["wantErr"], not queued)
    same(run.expected.get("wantAssigned"), _assigned(queues, [workload]), ".wantAssigned")


@suite("queue/TestUpdateWorkload")
def update_workload(run: Run) -> None:
    queues = _queues(run)
    workloads = [_workload(run, obj) for obj in world.each(run, "workloads")]
    for each in workloads:
        queues.put_workload(each, run.now)
    same(run.inputs["assigned"], _assigned(queues, workloads), ".assigned")
    updated = queues.put_workload(_workload(run, run.inputs["updatedWorkload"]), run.now)
    want = run.expected
    same(want.get("wantUpdated"), updated, ".wantUpdated")
    refused(want["wantErr"], not updated)
    same(want.get("wantAssigned"), _assigned(queues, workloads), ".wantAssigned")
    members = {
        str(spec.key): spec.key for spec in map(world.local_queue, run.inputs["localQueues"])
    }
    found = {name: sorted(str(w.key) for w in queues.members(key)) for name, key in members.items()}
    same(want.get("wantQueueMembers"), found, ".wantQueueMembers")
    names = [world.cluster_queue(obj).name for obj in run.inputs["clusterQueues"]]
    order = {name: [str(w.key) for w in queues[name].ordered()] for name in names}
    same(want.get("wantQueueOrder"), order, ".wantQueueOrder")


@suite("queue/TestHeads")
def heads(run: Run) -> None:
    """The test serves the status of ClusterQueues by name: `active-` ones are active."""
    queues = _queues(run)
    workloads = [_workload(run, obj) for obj in world.each(run, "workloads")]
    for each in workloads:
        queues.put_workload(each, run.now)
    found = queues.heads(run.now, lambda name: name.startswith("active-"))
    same(run.expected.get("wantWorkloads"), sorted(head.key.name for head in found), ".heads")
    same(run.expected.get("wantAssigned"), _assigned(queues, workloads), ".wantAssigned")


@suite("queue/TestStatus")
def status(run: Run) -> None:
    queues = _queues(run)
    for obj in world.each(run, "workloads"):
        queues.put_workload(_workload(run, obj), run.now)
    pending = queues.pending_local(world.local_queue(run.inputs["queue"]).key)
    refused(run.expected["wantErr"], pending is None)
    same(run.expected.get("wantStatus"), pending, ".wantStatus")


@suite("queue/TestRequeueWorkloadStrictFIFO")
def requeue_workload(run: Run) -> None:
    """In the client but not in the queue: it was popped, and comes back."""
    queues, workload = _queues(run), _workload(run, run.inputs["workload"])
    in_client, in_queue = run.inputs["inClient"], run.inputs["inQueue"]
    if in_client:
        queues.put_workload(workload, run.now)
        if not in_queue:
            queues.heads(run.now, lambda name: True)
    same(run.expected["wantRequeued"], queues.requeue(workload.key, RequeueReason.GENERIC, run.now))


_HASH = "the value of Kueue's own hash function; which workloads share one is compared elsewhere"


@suite("queue/TestBackoffWaitingTimeExpired", ignores={"inputs.workloadInfo.schedulingHash": _HASH})
def backoff(run: Run) -> None:
    workload = _workload(run, run.inputs["workloadInfo"])
    same(run.expected["want"], backoff_over(workload, run.now))


def _progress(given: Json | None) -> ScanProgress | None:
    if given is None:
        return None
    tried = tuple(
        {name: None if index == -1 else index for name, index in each.items()}
        for each in given.get("lastTriedFlavorIdx") or ()
    )
    return ScanProgress(
        tried=tried,
        generation=given["clusterQueueGeneration"],
        cycle=given["schedulingCycle"],
        scheduling_hash=given["schedulingHash"],
    )


@suite("queue/TestBestEffortFIFORequeueIfNotPresent", "queue/TestStrictFIFORequeueIfNotPresent")
def requeue_if_not_present(run: Run) -> None:
    queue, reason = _queue(run), RequeueReason(run.inputs["reason"])
    mark = _progress(run.inputs.get("lastAssignment"))
    workloads = [_workload(run, obj) for obj in run.inputs["workloads"]]
    queue.requeue(workloads[0], reason, run.now, mark)
    inadmissible = queue.state(workloads[0].key) is PendingState.INADMISSIBLE
    same(run.expected["wantInadmissible"], inadmissible, ".wantInadmissible")
    if "wantSticky" in run.expected:
        same(run.expected["wantSticky"], queue.is_sticky(workloads[0].key), ".wantSticky")
    same(False, queue.requeue(workloads[0], reason, run.now, mark), ".again")


@suite("queue/TestStrictFIFO")
def strict_fifo(run: Run) -> None:
    queue = _queue(run)
    for name in ("w1", "w2"):
        queue.put(_workload(run, run.inputs[name]), run.now)
    head = queue.pop()
    same(run.expected["expected"], head.key.name if head else None)


@suite("queue/TestClusterQueueImpl", ignores={"inputs.*.*.schedulingHash": _HASH})
def cluster_queue(run: Run) -> None:
    queue = _queue(run)
    for obj in world.each(run, "workloadsToAdd"):
        queue.put(_workload(run, obj), run.now)
    for obj in world.each(run, "inadmissibleWorkloadsToRequeue"):
        queue.requeue(_workload(run, obj), RequeueReason.GENERIC, run.now)
    for obj in world.each(run, "admissibleWorkloadsToRequeue"):
        queue.requeue(_workload(run, obj), RequeueReason.FAILED_AFTER_NOMINATION, run.now)
    for obj in world.each(run, "workloadsToUpdate"):
        queue.put(_workload(run, obj), run.now)
    for obj in world.each(run, "workloadsToDelete"):
        queue.drop(_workload(run, obj).key)
    moved = 0
    selected = selector(run.inputs["namespaceSelector"])
    labels = {ns.name: ns.labels for ns in map(world.namespace, run.inputs["namespaces"])}
    if run.inputs["queueInadmissibleWorkloads"]:
        moved = queue.flush(run.now, lambda ns: matches(selected, labels.get(ns, {})))
    want = run.expected
    same(want.get("wantActiveWorkloads"), _keys(queue, *WAITING), ".wantActiveWorkloads")
    same(want.get("wantInadmissibleWorkloadsRequeued"), moved, ".wantInadmissibleWorkloadsRequeued")
    same(want.get("wantPending"), len(queue), ".wantPending")


_NOT_KEPT = "the engine's workloads keep nothing of it"


@suite(
    "queue/Test_PushOrUpdate",
    ignores={
        "expected.**.schedulingHash": _HASH,
        "expected.**.apiVersion": _NOT_KEPT,
        "expected.**.kind": _NOT_KEPT,
        "expected.**.conditions.*.reason": _NOT_KEPT,
        "expected.**.conditions.*.status": "anything but True is alike to the engine",
    },
)
def push_or_update(run: Run) -> None:
    queue, workload = _queue(run), _workload(run, run.inputs["workload"])
    queue.put(workload, run.now)
    queue.put(workload, run.now)
    head = queue.pop()
    popped = run.expected.get("wantWorkload")
    want = _workload(run, popped) if popped else None
    got = head.workload if head is not None else None
    check(want == got, f".wantWorkload: want {want}, got {got}")
    inadmissible = run.expected.get("wantInAdmissibleWorkloads") or {}
    for name, each in inadmissible.items():
        check(_workload(run, each) == workload, f".wantInAdmissibleWorkloads.{name}: another one")
    listed = sorted(inadmissible)
    same(listed, _keys(queue, PendingState.INADMISSIBLE), ".wantInAdmissibleWorkloads")


@suite("queue/TestPushOrUpdateGenerationChanged")
def generation_changed(run: Run) -> None:
    queue, updated = _queue(run), _workload(run, run.inputs["updatedWorkload"])
    queue.put(Workload(key=updated.key, generation=1, created=updated.created), run.now)
    queue.pop()
    queue.requeue(updated, RequeueReason.GENERIC, run.now)
    queue.put(updated, run.now)
    active, inadmissible = _counts(queue)
    same(run.expected["wantActiveWorkloads"], active, ".wantActiveWorkloads")
    same(run.expected["wantInadmissibleWorkloads"], inadmissible, ".wantInadmissible")


def _counts(queue: PendingQueue) -> tuple[int, int]:
    """How many workloads are active, and how many inadmissible."""
    return len(_keys(queue, *WAITING)), len(_keys(queue, PendingState.INADMISSIBLE))


@suite("queue/TestPushOrUpdateRespectsInadmissibleHashes")
def failed_classes(run: Run) -> None:
    queue = _queue(run)
    for scheduling_hash in run.inputs["inadmissibleHashes"]:
        queue.requeue(_plain("failed", scheduling_hash), RequeueReason.NO_FIT, run.now)
        queue.drop(Key("default", "failed"))
    queue.put(_plain("new", run.inputs["pushHash"]), run.now)
    active, inadmissible = _counts(queue)
    same(run.expected["wantActive"], active, ".wantActive")
    same(run.expected["wantInadmissible"], inadmissible, ".wantInadmissible")


@suite("queue/TestRequeueHashTriggerByReason")
def class_remembered(run: Run) -> None:
    queue = _queue(run)
    queue.requeue(_plain("w", "c"), RequeueReason(run.inputs["reason"]), run.now)
    same(run.expected["wantHash"], queue.class_reason("c") is not None)


@suite("queue/TestGetNoFitReason")
def no_fit_reason(run: Run) -> None:
    queue, workload = _queue(run), _plain("w", "c")
    given = run.inputs["conditionReason"]
    reason = WaitReason(given) if given else None
    queue.requeue(workload, RequeueReason(run.inputs["requeueReason"]), run.now, wait_reason=reason)
    if run.inputs["deleteFromInadmissible"]:
        queue.drop(workload.key)
    found = queue.inadmissible_reason(workload.key)
    same(run.expected["wantOk"], found is not None, ".wantOk")
    same(run.expected["wantReason"], found, ".wantReason")


@suite(
    "queue/TestQueueInadmissibleWorkloads",
    ignores={
        "expected.wantMoveWorkloadsLogCount": "how many lines Kueue logs; the moves are compared"
    },
)
def queue_inadmissible(run: Run) -> None:
    """All workloads are inadmissible; then the trees of the named queues are flushed once."""
    queues = _queues(run)
    for obj in world.each(run, "workloads"):
        queues.put_workload(_workload(run, obj), run.now)
    while found := queues.heads(run.now, lambda name: True):
        for head in found:
            queues.requeue(head.key, RequeueReason.GENERIC, run.now)
    tree = world.snapshot(run, running="").tree
    nodes = [tree.queues[name] for name in run.inputs["cqNames"]]
    names = {leaf.name for node in nodes if not node.cyclic for leaf in node.root.leaves()}
    want = run.expected
    same(want.get("wantMovedCount"), queues.flush(sorted(names), run.now), ".wantMovedCount")
    names = {world.cluster_queue(obj).name for obj in run.inputs["clusterQueues"]}
    same(want.get("wantActive"), _by_queue(queues, names, *WAITING), ".wantActive")
    inadmissible = _by_queue(queues, names, PendingState.INADMISSIBLE)
    same(want.get("wantInadmissible"), inadmissible, ".wantInadmissible")


def _by_queue(queues: Queues, names: set[str], *places: PendingState) -> dict[str, list[str]]:
    found = {name: _keys(queues[name], *places) for name in names}
    return {name: keys for name, keys in found.items() if keys}


@suite("queue/TestQueueSecondPassIfNeeded")
def second_pass(run: Run) -> None:
    queues = _queues(run)
    for obj in world.each(run, "workloads"):
        queues.queue_second_pass(_workload(run, obj), run.now)
    updated = run.inputs.get("updateWorkload")
    queued = None
    if updated:
        queues.put_workload(_workload(run, updated), run.now)
        queued = queues.queue_second_pass(_workload(run, updated), run.now)
    same(run.expected["wantUpdateQueued"], queued, ".wantUpdateQueued")
    later = run.now + world.go_seconds(run.inputs["passTime"])
    found = sorted(str(head.key) for head in queues.heads(later, lambda name: True))
    same(run.expected.get("wantReady"), found, ".wantReady")


@suite(
    "queue/TestFsAdmission",
    ignores={"expected.wantWl.apiVersion": _NOT_KEPT, "expected.wantWl.kind": _NOT_KEPT},
)
def usage_based(run: Run) -> None:
    policy = world.policy_of(run).admission_fair_sharing
    usage = ConsumedUsage(policy or AdmissionFairSharing())
    for spec in map(world.local_queue, run.inputs["localQueues"]):
        usage.set_weight(spec.key, spec.weight)
    for name, consumed in (run.inputs.get("initConsumedResources") or {}).items():
        nanos = {resource: parse(text) for resource, text in consumed.items()}
        usage.restore(Key.parse(name), nanos, run.now)
    by_usage = world.cluster_queue(run.inputs["clusterQueues"][0]).usage_based and policy
    queue = _queue(run, local_queue_usage=usage.usage if by_usage else None)
    for obj in run.inputs["workloads"]:
        queue.put(_workload(run, obj), run.now)
    head = queue.pop()
    want = _workload(run, run.expected["wantWl"])
    check(head is not None and head.workload == want, f"want {want}, got {head}")
