# SPDX-License-Identifier: Apache-2.0
"""Explains why a workload is not admitted, by evaluating it again without side effects.

The explanation is what the next cycle would find if the workload were a head now. So it also holds
for workloads that became inadmissible with their scheduling class and were never evaluated
themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kuota.api.base import Key

from .activity import InactiveReason, QueueObstacle
from .advice import protected, suggestions
from .assignment import AssignmentMode, WorkloadAssignment
from .bounds import binding, ceiling, unlent_quota
from .cycle import FaultIsolation
from .decisions import Wait, WaitCause
from .entry import Entry, Head
from .explanation import (
    Advice,
    Explanation,
    Limit,
    SchedulingPhase,
    Shortfall,
    Suggestion,
    TriedFlavor,
    UnlentQuota,
)
from .model import Instant, Workload
from .nominate import nominate
from .reasons import Reason, RejectionCause, WaitReason
from .settle import usage_to_reserve
from .snapshot import Snapshot
from .tree import QuotaNode

if TYPE_CHECKING:
    from .engine import Engine

_QUOTA_CAUSES = (RejectionCause.INSUFFICIENT, RejectionCause.EXCEEDS_MAX)
_MISSING_KINDS = {
    InactiveReason.FLAVOR_NOT_FOUND: "ResourceFlavor",
    InactiveReason.CHECK_NOT_FOUND: "AdmissionCheck",
    InactiveReason.TOPOLOGY_NOT_FOUND: "Topology",
    InactiveReason.QUEUE_MISSING: "ClusterQueue",
}


def explain(engine: Engine, key: Key, now: Instant) -> Explanation | None:
    """Return the phase of the workload, its obstacles and suggestions; None if it is unknown."""
    workload = engine.state.workloads.get(key)
    if workload is None:
        return None
    base = _base(engine, workload)
    match base.phase:
        case SchedulingPhase.RESERVED:
            checks = _open_checks(engine, workload, base.cluster_queue)
            advice = Suggestion(advice=Advice.WAIT_FOR_CHECKS, detail=", ".join(checks))
            return replace(base, checks=checks, suggestions=(advice,))
        case SchedulingPhase.UNQUEUED:
            return _not_queued(engine, workload, base)
        case SchedulingPhase.WAITING:
            return _waiting(engine, workload, base, now)
        case _:
            return base


def _base(engine: Engine, workload: Workload) -> Explanation:
    pending = engine.queues.queue_of(workload.key)
    order = [each.key for each in pending.ordered()] if pending is not None else []
    last = engine.last.get(workload.key)
    return Explanation(
        workload=workload.key,
        phase=_phase(engine, workload),
        local_queue=workload.local_queue,
        cluster_queue=engine.state.queue_of(workload),
        priority=workload.priority,
        position=order.index(workload.key) + 1 if workload.key in order else None,
        waiting=len(order),
        last=type(last).__name__ if last is not None else "",
    )


def _phase(engine: Engine, workload: Workload) -> SchedulingPhase:
    if workload.finished:
        return SchedulingPhase.FINISHED
    if not workload.active:
        return SchedulingPhase.DEACTIVATED
    if engine.state.running(workload.key) is not None or workload.reservation is not None:
        return SchedulingPhase.ADMITTED if workload.admitted else SchedulingPhase.RESERVED
    if engine.queues.queue_of(workload.key) is None:
        return SchedulingPhase.UNQUEUED
    return SchedulingPhase.WAITING


def _open_checks(engine: Engine, workload: Workload, name: str) -> tuple[str, ...]:
    """Return the admission checks that its flavors require and that are not ready."""
    queue = engine.state.queues.get(name)
    reservation = workload.reservation
    if queue is None or reservation is None:
        return ()
    used = frozenset(name for each in reservation.pod_sets for name in each.flavors.values())
    needed = (rule.name for rule in queue.spec.checks if rule.covers(used))
    return tuple(name for name in needed if workload.checks.get(name) != "Ready")


def _not_queued(engine: Engine, workload: Workload, base: Explanation) -> Explanation:
    """Explain a workload that is not queued: unusable queue, admission gate, or parent."""
    found: tuple[QueueObstacle, ...] = ()
    if workload.gated_by:
        reason = WaitReason.ADMISSION_GATED
        advice = [Suggestion(advice=Advice.CORRECT, detail=f"gated by {workload.gated_by}")]
    elif workload.is_parent:
        reason = WaitReason.PENDING_EVALUATION
        known = engine.state.workloads.values()
        variants = tuple(each.key for each in known if each.parent_uid == workload.uid)
        advice = [Suggestion(advice=Advice.WAIT_FOR_OTHERS, workloads=variants)]
    elif workload.local_queue not in engine.state.local_queues:
        reason = WaitReason.MISCONFIGURED
        advice = [_create("LocalQueue", workload.queue, workload.key.namespace)]
    else:
        found = engine.state.local_obstacles(workload.local_queue)
        missing = any(each.reason is InactiveReason.QUEUE_MISSING for each in found)
        reason = WaitReason.MISCONFIGURED if missing else WaitReason.SUSPENDED
        advice = list(_repairs(found, "LocalQueue", workload.queue))
    return replace(base, reason=reason, obstacles=found, suggestions=tuple(advice))


def _create(kind: str, name: str, detail: str = "") -> Suggestion:
    return Suggestion(advice=Advice.CREATE, kind=kind, where=name, detail=detail)


def _repairs(obstacles: Iterable[QueueObstacle], kind: str, name: str) -> Iterator[Suggestion]:
    for each in obstacles:
        if each.reason is InactiveReason.STOPPED:
            yield Suggestion(advice=Advice.RESUME, kind=kind, where=name)
        elif each.reason in _MISSING_KINDS:
            yield from (_create(_MISSING_KINDS[each.reason], missing) for missing in each.names)
        else:
            yield Suggestion(advice=Advice.ACTIVATE, kind=kind, where=name, detail=str(each))


def _waiting(engine: Engine, workload: Workload, base: Explanation, now: Instant) -> Explanation:
    snapshot = engine.snapshot(now)
    head = Head(workload, base.cluster_queue)
    with snapshot.trial():
        isolation = FaultIsolation(snapshot)
        found = isolation.run(nominate, head, head, snapshot, engine.state.namespaces)
        if isinstance(found, Wait):
            return _rejected_before_quota(engine, found, base)
        if found is None:
            return base
        if found.assignment.mode is AssignmentMode.FIT or found.targets:
            return _waiting_for_others(engine, found, base, snapshot)
        return _insufficient_quota(found, base, snapshot)


def _rejected_before_quota(engine: Engine, wait: Wait, base: Explanation) -> Explanation:
    """Explain a workload that is rejected regardless of quota."""
    name = wait.cluster_queue
    obstacles = engine.state.obstacles.get(name, ())
    namespace = wait.workload.key.namespace
    on_queue = partial(Suggestion, kind="ClusterQueue", where=name)
    match wait.why:
        case WaitCause.QUEUE_INACTIVE:
            cycle = on_queue(advice=Advice.ACTIVATE, detail="its cohorts form a cycle")
            advice = list(_repairs(obstacles, "ClusterQueue", name)) or [cycle]
        case WaitCause.QUEUE_MISSING:
            advice = [_create("ClusterQueue", name)]
        case WaitCause.NAMESPACE_MISSING:
            advice = [_create("Namespace", namespace)]
        case WaitCause.NAMESPACE_MISMATCH:
            advice = [on_queue(advice=Advice.ADMIT_NAMESPACE, detail=namespace)]
        case WaitCause.CHECKS_FAILED:
            advice = [Suggestion(advice=Advice.WAIT_FOR_CHECKS)]
        case _:
            advice = [Suggestion(advice=Advice.CORRECT, detail=each) for each in wait.details]
    return replace(
        base,
        why=wait.why,
        reason=wait.reason,
        details=wait.details,
        obstacles=obstacles,
        suggestions=tuple(advice),
    )


def _waiting_for_others(
    engine: Engine, entry: Entry, base: Explanation, snapshot: Snapshot
) -> Explanation:
    """Explain a workload that would fit, alone or after preemption, but waits for others."""
    victims = tuple(target.running.key for target in entry.targets)
    rivals = tuple(_rivals(engine, entry, base, snapshot))
    advice = []
    if victims:
        advice.append(Suggestion(advice=Advice.WAIT_FOR_PREEMPTED, workloads=victims))
    if rivals:
        advice.append(Suggestion(advice=Advice.WAIT_FOR_OTHERS, workloads=rivals))
    last = engine.last.get(entry.workload.key)
    return replace(
        base,
        why=last.why if isinstance(last, Wait) else None,
        reason=last.reason if isinstance(last, Wait) else None,
        tried=_tried(entry.assignment, entry.queue.node),
        rivals=rivals,
        suggestions=tuple(advice),
    )


def _rivals(engine: Engine, entry: Entry, base: Explanation, snapshot: Snapshot) -> Iterator[Key]:
    """Yield blocking heads of StrictFIFO queues: of the own queue, or with reserved quota."""
    for leaf in entry.queue.node.root.leaves():
        if leaf.name not in engine.queues or not engine.queues[leaf.name].strict:
            continue
        first = next(iter(engine.queues[leaf.name].ordered()), None)
        if first is None or first.key == base.workload:
            continue
        if leaf is entry.queue.node:
            yield first.key
            continue
        other = nominate(Head(first, leaf.name), snapshot, engine.state.namespaces)
        if (
            isinstance(other, Entry)
            and not other.targets
            and usage_to_reserve(other, snapshot).quota
        ):
            yield first.key


def _insufficient_quota(entry: Entry, base: Explanation, snapshot: Snapshot) -> Explanation:
    """Explain a workload that does not fit and for which no victims were found."""
    assignment = entry.assignment
    tried = _tried(assignment, entry.queue.node)
    no_fit = assignment.mode is AssignmentMode.NO_FIT
    errors = tuple(each.error for each in assignment.pod_sets if each.error)
    advice = suggestions(entry, tried, snapshot)
    advice += [Suggestion(advice=Advice.CORRECT, detail=each) for each in errors]
    return replace(
        base,
        why=WaitCause.NO_FIT if no_fit else WaitCause.NO_CANDIDATES,
        reason=assignment.no_fit if no_fit else WaitReason.WAITING_FOR_QUOTA,
        details=errors,
        tried=tried,
        protected=protected(entry, tried, snapshot),
        suggestions=tuple(advice),
    )


def _tried(assignment: WorkloadAssignment, node: QuotaNode) -> tuple[TriedFlavor, ...]:
    found = []
    for pod_set in assignment.pod_sets:
        unplaced = tuple(each for each in pod_set.reasons if each.cause is RejectionCause.PLACEMENT)
        for attempt in pod_set.attempts:
            if attempt.rejected and not attempt.reasons:
                # The pods are invalid. `PodSetAssignment.error` has the reason.
                continue
            mode, reasons = attempt.mode, attempt.reasons
            if mode is AssignmentMode.FIT and unplaced:
                # There is enough quota, but the pods can be placed only after preemption.
                mode, reasons = assignment.mode, (*reasons, *unplaced)
            lacks = tuple(_shortfall(reason, node) for reason in reasons)
            tried = TriedFlavor(pod_set=pod_set.name, flavor=attempt.flavor, mode=mode, lacks=lacks)
            found.append(tried)
        undeclared = [each for each in pod_set.reasons if each.cause is RejectionCause.UNDECLARED]
        if undeclared:
            lacks = tuple(Shortfall(reason=each) for each in undeclared)
            found.append(
                TriedFlavor(
                    pod_set=pod_set.name, flavor="", mode=AssignmentMode.NO_FIT, lacks=lacks
                )
            )
    return tuple(found)


def _shortfall(reason: Reason, node: QuotaNode) -> Shortfall:
    if reason.cause not in _QUOTA_CAUSES:
        return Shortfall(reason=reason)
    column = reason.column
    short = reason.cause is RejectionCause.INSUFFICIENT
    bound = (binding if short else ceiling)(node, column)
    root = bound.parent is None
    unlent = unlent_quota(node, column, include_used=not short) if root else []
    return Shortfall(
        reason=reason,
        kind=_kind(bound),
        where=bound.name,
        limit=Limit.NOMINAL if root else Limit.BORROWING,
        unlent=tuple(
            UnlentQuota(kind=_kind(each), name=each.name, amount=left) for each, left in unlent
        ),
    )


def _kind(node: QuotaNode) -> str:
    return "ClusterQueue" if node.is_queue else "Cohort"
