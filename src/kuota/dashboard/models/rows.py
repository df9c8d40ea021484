# SPDX-License-Identifier: Apache-2.0
"""One row per workload. Pure, and cheap enough to run once per change of a Workload."""

from __future__ import annotations

from collections.abc import Mapping

from kuota.api.base import Json, Key
from kuota.api.core import AUTHOR
from kuota.api.device_resources import is_device
from kuota.api.quantity import QuantityError, as_float
from kuota.view.conditions import condition, holds
from kuota.view.live import asks, gets
from kuota.view.observed import ObservedState
from kuota.view.workload_state import (
    LiveState,
    Pods,
    owner,
    preemptor_uid,
    state,
    way_out,
    why,
)

from ..shapes import Ref, WorkloadRow
from .amounts import number

_SINCE = {
    LiveState.QUOTARESERVED: ("QuotaReserved",),
    LiveState.ADMITTED: ("Admitted",),
    LiveState.PREEMPTED: ("Evicted",),
    LiveState.SUCCEEDED: ("Finished",),
    LiveState.FAILED: ("Finished",),
    LiveState.TIMEOUT: ("Finished", "Evicted"),
    LiveState.DEACTIVATED: ("Evicted",),
    LiveState.PENDING: ("Evicted",),
}
"""The conditions whose last transition began a state. Without any of them, it began on creation."""
_REASONS = {
    LiveState.PENDING: "QuotaReserved",
    LiveState.PREEMPTED: "Preempted",
    LiveState.SUCCEEDED: "Finished",
    LiveState.FAILED: "Finished",
    LiveState.TIMEOUT: "Evicted",
    LiveState.DEACTIVATED: "Evicted",
}
"""The condition whose reason explains a state."""


def workload_row(workload: Json, observed: ObservedState, *, pods: bool = True) -> WorkloadRow:
    """Return the row of a Workload that `observed` has.

    `pods` is whether the viewer may read the pods of its job, which may tell why the job failed.
    """
    metadata, spec = workload["metadata"], workload.get("spec") or {}
    key = Key(str(metadata.get("namespace") or ""), str(metadata["name"]))
    failed = _failed(workload, observed) if pods else {}
    now = state(workload, failed)
    kind, job = owner(workload)
    return WorkloadRow(
        key=str(key),
        namespace=key.namespace,
        name=key.name,
        state=now,
        kind=kind or "Workload",
        job=job or key.name,
        queue=str(spec.get("queueName") or ""),
        cluster_queue=observed.cluster_queue_of(workload),
        user=str((metadata.get("annotations") or {}).get(AUTHOR) or ""),
        reason=_reason(workload, now),
        why=why(workload, (), failed),
        way_out=way_out(workload),
        preempted_by=_preemptor(workload, observed) if now is LiveState.PREEMPTED else None,
        priority=number(spec.get("priority")),
        priority_class=str((spec.get("priorityClassRef") or {}).get("name") or ""),
        pods=sum(number(each.get("count")) for each in spec.get("podSets") or ()),
        requests=asks(workload),
        gets=gets(workload),
        flavors=_flavors(workload),
        devices=_devices(workload),
        created=str(metadata.get("creationTimestamp") or ""),
        since=_since(workload, now),
        admitted=_time(workload, "Admitted"),
        finished=_time(workload, "Finished"),
        evictions=_evictions(workload),
        held=spec.get("active") is False and not holds(workload, "Finished"),
        order=observed.order(key),
    )


def workload_ref(workload: Json) -> Ref:
    """Return a reference to the workload."""
    metadata = workload["metadata"]
    return Ref(
        kind="Workload",
        name=str(metadata["name"]),
        namespace=str(metadata.get("namespace") or ""),
    )


def job_name(workload: Json) -> str:
    """Return the kind and name of the workload's job, such as "Job/train"; "" if it has none."""
    kind, name = owner(workload)
    return f"{kind}/{name}" if name else ""


def _failed(workload: Json, observed: ObservedState) -> Pods:
    """Return the failed pods of a job that failed, which may tell why."""
    if (condition(workload, "Finished") or {}).get("reason") != "Failed":
        return {}
    pods = observed.failed_pods(workload)
    references = workload["metadata"].get("ownerReferences") or ()
    return {str(each.get("uid")): pods for each in references[:1]}


def _preemptor(workload: Json, observed: ObservedState) -> Ref | None:
    found = observed.workload_by_uid(preemptor_uid(workload))
    return workload_ref(found) if found is not None else None


def _reason(workload: Json, now: LiveState) -> str:
    kind = _REASONS.get(now)
    found = condition(workload, kind) if kind is not None else None
    return str((found or {}).get("reason") or "")


def _since(workload: Json, now: LiveState) -> str:
    times = [_time(workload, each) for each in _SINCE[now]]
    return next(filter(None, times), str(workload["metadata"].get("creationTimestamp") or ""))


def _time(workload: Json, kind: str) -> str:
    """Return when the condition became true; "" if it is not."""
    found = condition(workload, kind)
    if found is None or found.get("status") != "True":
        return ""
    return str(found.get("lastTransitionTime") or "")


def _flavors(workload: Json) -> list[str]:
    admission = (workload.get("status") or {}).get("admission") or {}
    assigned = admission.get("podSetAssignments") or ()
    return sorted({str(each) for pods in assigned for each in (pods.get("flavors") or {}).values()})


def _devices(workload: Json) -> float:
    """Return how many accelerators the workload has, or requests."""
    status = workload.get("status") or {}
    if holds(workload, "QuotaReserved"):
        assigned = (status.get("admission") or {}).get("podSetAssignments") or ()
        amounts = [each.get("resourceUsage") or {} for each in assigned]
    else:
        amounts = [each.get("resources") or {} for each in status.get("resourceRequests") or ()]
    return sum(_amount(each) for each in amounts)


def _amount(resources: Mapping[str, object]) -> float:
    total = 0.0
    for name, quantity in resources.items():
        if not is_device(name):
            continue
        try:
            total += as_float(str(quantity))
        except QuantityError:
            continue
    return total


def _evictions(workload: Json) -> int:
    stats = (workload.get("status") or {}).get("schedulingStats") or {}
    return sum(number(each.get("count")) for each in stats.get("evictions") or ())
