# SPDX-License-Identifier: Apache-2.0
"""Reasons to take quota from a Workload (checks, stopped queues, timeouts), and requeueing.

The cause of a deactivation is written first, so that it survives an interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from kuota.api.backoff import Backoff
from kuota.api.base import Json, condition, is_true, true_condition
from kuota.api.merge_patch import combined
from kuota.api.workload import AdmissionCheckState, RequeueState, Workload
from kuota.engine.reasons import EvictionReason, WaitReason

from .admission import EXECUTION_TIME_EXCEEDED, withdrawn_status
from .conditions import stamp, timestamp
from .draft import Draft
from .eviction import evicted_status, eviction_event
from .lifecycle_reason import Obstacle, cluster_obstacle, local_obstacle
from .lifecycle_view import LifecycleConfig, WorkloadPassInput
from .lifetime import remaining_s


def retry_at(checks: Iterable[AdmissionCheckState] | None) -> datetime | None:
    """Return the latest time requested by a check in Retry; None if there is none."""
    return max(
        (
            each.last_transition_time + timedelta(seconds=each.requeue_after_seconds)
            for each in checks or ()
            if each.state == "Retry" and each.last_transition_time and each.requeue_after_seconds
        ),
        default=None,
    )


def delayed(state: RequeueState | None, until: datetime, *, counted: bool = False) -> RequeueState:
    """Return the state of a workload delayed until then; `counted` increments the count."""
    before = state or RequeueState()
    later = before.requeue_at is None or before.requeue_at < until
    return RequeueState(
        count=(before.count or 0) + 1 if counted else before.count,
        requeue_at=until if later else before.requeue_at,
    )


def backed_off(
    state: RequeueState | None, backoff_s: Backoff, now: float, jitter: float = 0.0
) -> RequeueState:
    """Return the state after another failed start. The delay doubles each time.

    `jitter` is the fraction of the delay that is added to it; the caller draws it.
    """
    tries = ((state.count if state is not None else None) or 0) + 1
    until = stamp(now + backoff_s.wait(tries) * (1 + jitter))
    return delayed(state, until, counted=True)


def requeue_json(state: RequeueState) -> Json:
    at = state.requeue_at
    return {"count": state.count, "requeueAt": at and timestamp(at.timestamp())}


WAIT_FOR_START = "WaitForStart"
WAIT_FOR_RECOVERY = "WaitForRecovery"
_DRAIN = "HoldAndDrain"


def reconcile_reserved(draft: Draft, view: WorkloadPassInput) -> bool:
    """Process a Workload with a reservation, in Kueue's order."""
    if not draft.current.reserved:
        return False
    return any(step(draft, view) for step in _STEPS)


def apply_check_states(draft: Draft, view: WorkloadPassInput) -> bool:
    """Deactivate a Workload with a rejected check; evict one with a check in Retry."""
    if not draft.active or draft.current.true("Evicted"):
        return False
    listed = draft.obj.status.admission_checks or ()
    rejected = [each for each in listed if each.state == "Rejected"]
    retried = [each for each in listed if each.state == "Retry"]
    if rejected:
        names = _named(rejected)
        message = f"rejected admission checks: {names}"
        draft.set_condition("DeactivationTarget", True, "AdmissionCheck", message)
        draft.record_event("AdmissionCheckRejected", f"Rejected by {names}", warning=True)
    elif retried:
        message = f"Admission checks requested a retry: {_named(retried)}"
        evict(draft, EvictionReason.ADMISSION_CHECK, message)
    return bool(rejected or retried)


def evict_from_stopped_local_queue(draft: Draft, view: WorkloadPassInput) -> bool:
    queue = view.local_queue
    drained = queue is not None and queue.stop_policy == _DRAIN
    reason = EvictionReason.LOCAL_QUEUE_STOPPED
    return _evict_from_stopped(draft, view, local_obstacle(view), reason if drained else None)


def evict_from_stopped_cluster_queue(draft: Draft, view: WorkloadPassInput) -> bool:
    queue = view.cluster_queue
    if queue is not None and queue.stop_policy == "None" and not queue.deleting:
        # A ClusterQueue that is inactive because of a missing flavor or check admits nothing new.
        return False
    drained = queue is not None and queue.stop_policy == _DRAIN
    reason = EvictionReason.CLUSTER_QUEUE_STOPPED
    why = cluster_obstacle(view)
    if queue is not None and queue.deleting:
        why = WaitReason.MISCONFIGURED, f"ClusterQueue {queue.name} is being deleted"
    return _evict_from_stopped(draft, view, why, reason if drained else None)


def enforce_pods_ready_timeout(draft: Draft, view: WorkloadPassInput) -> bool:
    """Evict a Workload whose pods are not ready in time; deactivate it after too many attempts.

    One that this pass admits is left to the next pass: its job has to start first.
    """
    cause, left_s = not_ready(draft.current.obj, view.config, draft.now)
    if not cause or left_s is None or view.variant:
        return False
    if left_s > 0:
        draft.requeue_after(left_s)
        return False
    if not view.stored.true("Admitted"):
        return False
    obj, config = draft.obj, view.config
    state = obj.status.requeue_state
    tries = (state.count if state is not None else None) or 0
    if config.backoff_limit is not None and tries + 1 > config.backoff_limit:
        message = "exceeding the maximum number of re-queuing retries"
        draft.set_condition("DeactivationTarget", True, "RequeuingLimitExceeded", message)
        return True
    later = backed_off(state, config.backoff, draft.now, view.jitter)
    message = f"The pods of {obj.key} were not ready in time"
    evict(draft, EvictionReason.PODS_READY_TIMEOUT, message, cause, later)
    return True


def enforce_maximum_execution_time(draft: Draft, view: WorkloadPassInput) -> bool:
    left_s = remaining_s(draft.obj, draft.now)
    if left_s is None or not draft.active or draft.current.true("Evicted") or view.variant:
        return False
    if left_s > 0:
        draft.requeue_after(left_s)
        return False
    message = "exceeding the maximum execution time"
    draft.set_condition("DeactivationTarget", True, EXECUTION_TIME_EXCEEDED, message)
    if draft.obj.status.accumulated_past_execution_time_seconds is not None:
        draft.write({"accumulatedPastExecutionTimeSeconds": None})
    draft.record_event(EXECUTION_TIME_EXCEEDED, f"Deactivated due to {message}", warning=True)
    return True


def not_ready(obj: Workload, config: LifecycleConfig, now: float) -> tuple[str, float | None]:
    """Return why the pods of an admitted Workload are not ready, and the seconds until the timeout.

    "" and None if there is no time limit.
    """
    conditions = obj.status.conditions
    admitted = true_condition(conditions, "Admitted")
    if config.timeout_s is None or obj.spec.active is False or admitted is None:
        return "", None
    if is_true(conditions, "Evicted") or is_true(conditions, "PodsReady"):
        return "", None
    ready = condition(conditions, "PodsReady")
    if ready is not None and ready.reason == WAIT_FOR_RECOVERY:
        if config.recovery_timeout_s is None:
            return "", None
        return WAIT_FOR_RECOVERY, _left(ready.last_transition_time, config.recovery_timeout_s, now)
    return WAIT_FOR_START, _left(admitted.last_transition_time, config.timeout_s, now)


def _left(since: datetime | None, limit_s: float | None, now: float) -> float | None:
    if since is None or limit_s is None:
        return None
    return since.timestamp() + limit_s - now


def evict(
    draft: Draft,
    reason: EvictionReason,
    message: str,
    cause: str = "",
    requeue: RequeueState | None = None,
) -> None:
    """Evict a Workload. It keeps its quota until its pods are gone."""
    obj = draft.obj
    status = evicted_status(obj, draft.conditions(), reason, message, draft.now, cause)
    if requeue is not None and requeue.requeue_at is not None:
        status = combined(status, {"requeueState": requeue_json(requeue)})
    draft.write(status)
    draft.add(*eviction_event(obj, reason, message))


def _evict_from_stopped(
    draft: Draft, view: WorkloadPassInput, obstacle: Obstacle | None, drained: EvictionReason | None
) -> bool:
    """Withdraw the reservation of a Workload that is not admitted; evict an admitted one if the
    queue is drained.
    """
    if obstacle is None:
        return False
    reason, message = obstacle
    if not draft.current.true("Admitted"):
        status = withdrawn_status(draft.obj, reason, message, draft.now, view.config.gates)
        draft.write(status)
        return True
    if drained is None or draft.current.true("Evicted"):
        return False
    evict(draft, drained, message)
    return True


def _named(checks: list[AdmissionCheckState]) -> str:
    return "; ".join(
        f"{each.name} ({each.message})" if each.message else each.name for each in checks
    )


_STEPS: tuple[Callable[[Draft, WorkloadPassInput], bool], ...] = (
    apply_check_states,
    evict_from_stopped_local_queue,
    evict_from_stopped_cluster_queue,
    enforce_pods_ready_timeout,
    enforce_maximum_execution_time,
)
