# SPDX-License-Identifier: Apache-2.0
"""Messages for the engine's reasons, used in conditions, events and explanations."""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.quantity import text
from kuota.engine.assignment import AssignmentMode, PodSetAssignment, WorkloadAssignment
from kuota.engine.decisions import Preempt, Victim, Wait, WaitCause
from kuota.engine.model import Workload
from kuota.engine.reasons import PreemptionReason, Reason, RejectionCause

PREEMPTION_CAUSES = {
    PreemptionReason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    PreemptionReason.RECLAMATION: "reclamation within the cohort",
    PreemptionReason.FAIR_SHARING: "fair sharing within the cohort",
    PreemptionReason.RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


def reason_text(reason: Reason) -> str:
    """Return the message for one obstacle."""
    return _REASONS[reason.cause](reason)


def _exceeds(reason: Reason) -> str:
    name = reason.resource
    asked = text(reason.requested, name)
    if reason.assumed:
        asked += f" (and {text(reason.assumed, name)} for earlier pod sets)"
    return (
        f"{name} in flavor {reason.flavor}: {asked} is more than "
        f"the {text(reason.limit, name)} it could ever get"
    )


def _insufficient(reason: Reason) -> str:
    name = reason.resource
    where = f" at {reason.where}" if reason.where else ""
    return f"{name} in flavor {reason.flavor}: {text(reason.missing, name)} more needed{where}"


_REASONS: dict[RejectionCause, Callable[[Reason], str]] = {
    RejectionCause.EXCEEDS_MAX: _exceeds,
    RejectionCause.INSUFFICIENT: _insufficient,
    RejectionCause.UNDECLARED: lambda r: (
        f"resource {r.resource} is not offered by the ClusterQueue"
    ),
    RejectionCause.FLAVOR_NOT_FOUND: lambda r: f"flavor {r.flavor} does not exist",
    RejectionCause.TAINT: lambda r: f"flavor {r.flavor} has the untolerated taint {r.detail}",
    RejectionCause.AFFINITY: lambda r: f"flavor {r.flavor} does not match the node affinity",
    RejectionCause.NO_TOPOLOGY: lambda r: f"flavor {r.flavor} does not support topology",
    RejectionCause.ONLY_TOPOLOGY: lambda r: (
        f"flavor {r.flavor} supports only topology-aware workloads"
    ),
    RejectionCause.TOPOLOGY_NOT_LOADED: lambda r: f"the topology of flavor {r.flavor} is not known",
    RejectionCause.TOPOLOGY_LEVEL: lambda r: f"flavor {r.flavor} has no topology level {r.detail}",
    RejectionCause.PLACEMENT: lambda r: f"flavor {r.flavor}: {r.detail}" if r.flavor else r.detail,
    RejectionCause.PINNED: lambda r: f"flavor {r.flavor} was not the one nominated",
    RejectionCause.RESTRICTED: lambda r: f"flavor {r.flavor} is not among those allowed",
    RejectionCause.SLICE_FLAVOR: lambda r: (
        f"flavor {r.flavor}: the replaced slice uses {r.detail or 'none'}"
    ),
}


def assignment_text(assignment: WorkloadAssignment | None) -> str:
    """Return why the assignment does not fit, one clause per pod set; "" if it fits.

    The only pod set of a workload is not named.
    """
    pod_sets = assignment.pod_sets if assignment is not None else ()
    broken = [each for each in pod_sets if each.error]
    unfit = [each for each in broken or pod_sets if each.mode is not AssignmentMode.FIT]
    if len(pod_sets) == 1:
        return "".join(map(_obstacles, unfit))
    return "; ".join(f"pod set {each.name} got no flavor: {_obstacles(each)}" for each in unfit)


def _obstacles(pod_set: PodSetAssignment) -> str:
    texts = sorted({reason_text(each) for each in pod_set.reasons})
    # A placement is tried with and without the pods of others, and may fail with more detail.
    clear = [text for text in texts if not any(e != text and e.startswith(text) for e in texts)]
    return pod_set.error or ", ".join(clear)


def wait_text(wait: Wait) -> str:
    """Return why the workload is pending."""
    fixed = _WAITS.get(wait.why)
    return fixed(wait) if fixed else assignment_text(wait.assignment)


_WAITS: dict[WaitCause, Callable[[Wait], str]] = {
    WaitCause.LOST_RACE: lambda w: "another workload of this cycle took the quota first",
    WaitCause.OVERLAP: lambda w: (
        "the workloads to preempt are already being preempted for another one"
    ),
    WaitCause.DEFERRED: lambda w: (
        "the workloads to preempt are already being evicted for another one, which will suffice"
    ),
    WaitCause.GATED: lambda w: "preemption is needed, but a preemption gate is closed",
    WaitCause.NOT_READY: lambda w: "waiting for the pods of all admitted workloads to be ready",
    WaitCause.CHECKS_FAILED: lambda w: "some admission checks have failed",
    WaitCause.QUEUE_INACTIVE: lambda w: f"ClusterQueue {w.cluster_queue} is inactive",
    WaitCause.QUEUE_MISSING: lambda w: f"ClusterQueue {w.cluster_queue} does not exist",
    WaitCause.NAMESPACE_MISSING: lambda w: f'namespace "{w.workload.key.namespace}" does not exist',
    WaitCause.NAMESPACE_MISMATCH: lambda w: (
        f'namespace "{w.workload.key.namespace}" does not match the selector of '
        f"ClusterQueue {w.cluster_queue}"
    ),
    WaitCause.INVALID: lambda w: "; ".join(w.details),
    WaitCause.BETTER_SIBLING: lambda w: "a variant with a preferred flavor is already admitted",
    WaitCause.INTERNAL_ERROR: lambda w: f"internal error: {'; '.join(w.details)}",
    WaitCause.CLASS_REJECTED: lambda w: "another workload with the same requests did not fit",
    WaitCause.FLAVOR_TOO_LOW: lambda w: (
        "a variant is admitted, and the queue does not migrate to this flavor"
    ),
}


def preempting_text(decision: Preempt) -> str:
    """Return what the preemptor waits for."""
    count = len(decision.victims)
    leaving = "1 workload is" if count == 1 else f"{count} workloads are"
    return f"{assignment_text(decision.assignment)}. {leaving} being preempted"


def victim_text(decision: Preempt, victim: Victim) -> str:
    """Return why the victim was preempted, and for which workload."""
    who = decision.workload
    return (
        f"preempted to make room for a workload (UID: {who.uid or 'unknown'}, "
        f"job UID: {who.owner_uid or 'unknown'}) due to {PREEMPTION_CAUSES[victim.reason]}; "
        f"preemptor path: {decision.path}; preempted path: {victim.path}"
    )


def priorities_text(preemptor: Workload, victim: Workload) -> str:
    return f"preemptor priority: {_priority(preemptor)}; preempted priority: {_priority(victim)}"


def _priority(workload: Workload) -> str:
    base = workload.priority - workload.boost
    return f"{workload.priority} (base {base}, boost {workload.boost})"
