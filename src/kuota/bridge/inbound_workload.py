# SPDX-License-Identifier: Apache-2.0
"""Workload -> the engine's model: requests, order, reservation, faults.

The requests of a pending workload come from its pod templates, after RuntimeClass overhead,
LimitRange defaults and limits as missing requests are applied, and resources are excluded and
transformed as configured. The usage of a workload with quota comes from its recorded admission.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from kuota.api import workload as api
from kuota.api.adjust import adjusted, limit_range_faults, summarize
from kuota.api.base import Condition, Key, Struct, by_type, true_condition
from kuota.api.core import LimitRange, RuntimeClass
from kuota.api.gates import Gate, Gates
from kuota.api.priority import effective_priority
from kuota.api.quantity import QuantityError, units
from kuota.api.resources import Transformation, multiplied, pod_amounts, request_faults, rescaled
from kuota.api.rules.metadata import ADMISSION_GATED_BY, ELASTIC_JOB
from kuota.api.workload import Workload
from kuota.engine import model
from kuota.engine.amounts import Amounts, FlavorResource, Requests, add_into

from .admission import on_hold, owned_by_pod
from .devices.claims import (
    DeviceRequests,
    Devices,
    device_requests,
    needs_devices,
    with_devices,
)
from .inbound_faults import pod_set_faults
from .job_pass.reclaimable import counts
from .job_pass.workload import JOB_UID
from .scheduling_hash import scheduling_hash
from .variants import ALLOWED_FLAVORS, is_parent, parent_of

REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
REPLACED = "WorkloadSliceReplaced"


def replaces(obj: Workload) -> Key | None:
    """Return the slice that this workload replaces. A bare name refers to its own namespace."""
    named = obj.metadata.annotation(REPLACES)
    if not named:
        return None
    key = Key.parse(named)
    return key if key.namespace else Key(obj.metadata.namespace, key.name)


_encode = msgspec.msgpack.Encoder().encode


MOST_COUNTED = 4096
"""The maximum number of cached pod set lists."""


class CountedPodSets(NamedTuple):
    """Pod sets as the engine sees them, why they can never be admitted, and cached hashes."""

    pod_sets: tuple[model.PodSet, ...]
    faults: tuple[str, ...]
    devices_unknown: bool
    scheduling_hashes: dict[tuple[int, str], str]


class AccountingContext(Struct):
    """What else determines the requests of a workload: gates, configuration, and its namespace.

    `counted` caches the results. Most changes of a Workload leave its pod sets unchanged, and many
    Workloads share a template.
    """

    gates: Gates = Gates()
    transformations: Mapping[str, Transformation] = {}
    excluded_prefixes: tuple[str, ...] = ()
    limit_ranges: Mapping[str, list[LimitRange]] = {}
    runtime_classes: Mapping[str, RuntimeClass] = {}
    devices: Devices = Devices()
    counted: dict[tuple[str, bytes], CountedPodSets] = msgspec.field(default_factory=dict)


_PLAIN = AccountingContext()


def workload(obj: api.Workload, accounting: AccountingContext = _PLAIN) -> model.Workload:
    """Convert one Workload to the engine's model."""
    meta, conditions, gates = obj.metadata, by_type(obj.status.conditions), accounting.gates
    true = {type_ for type_, each in conditions.items() if each.status == "True"}
    priority = effective_priority(obj, boosting=gates.on(Gate.PriorityBoost))
    counted = _counted(obj, accounting)
    return model.Workload(
        key=obj.key,
        uid=meta.uid,
        generation=meta.generation,
        queue=obj.spec.queue_name,
        priority=priority,
        boost=priority - (obj.spec.priority or 0),
        created=seconds(meta.creation_timestamp),
        pod_sets=counted.pod_sets,
        scheduling_hash=_scheduling_hash(obj, priority, counted, gates),
        faults=counted.faults,
        devices_unknown=counted.devices_unknown,
        active=obj.spec.active is not False,
        finished="Finished" in true,
        admitted="Admitted" in true,
        pods_ready="PodsReady" in true,
        on_hold=on_hold(obj),
        waiting_for_pods="WaitingForReplacementPods" in true,
        gated_by=meta.annotation(ADMISSION_GATED_BY) if gates.on(Gate.AdmissionGatedBy) else "",
        reservation=_reservation(obj, gates),
        evicted=_eviction(conditions["Evicted"]) if "Evicted" in true else None,
        preempted=_eviction(conditions["Preempted"]) if "Preempted" in true else None,
        requeued=_claim(conditions.get("Requeued")),
        requeue_at=_requeue_at(obj.status.requeue_state),
        checks={check.name: check.state for check in obj.status.admission_checks or ()},
        pod_set_updates=_pod_set_updates(obj),
        closed_gates=_closed_gates(obj, gates),
        reclaimable=reclaimable(obj, gates),
        unhealthy_nodes=tuple(node.name for node in obj.status.unhealthy_nodes or ()),
        **_slice(obj, gates),
        **_variant(obj, gates),
        owned_by_pod=owned_by_pod(obj),
        owner_uid=meta.label(JOB_UID),
    )


def _slice(obj: api.Workload, gates: Gates) -> dict[str, Any]:
    """Return the fields of a slice of an elastic job."""
    return {"replaces": _replaces(obj, gates), "elastic": _elastic(obj, gates)}


def _variant(obj: api.Workload, gates: Gates) -> dict[str, Any]:
    """Return the fields of a parent, or of a variant of one."""
    allowed = _allowed_flavors(obj, gates)
    return {
        "allowed_flavors": frozenset(map(str.strip, allowed.split(","))) - {""} or None,
        "parent_uid": _parent_uid(obj) if allowed else "",
        "is_parent": gates.on(Gate.ConcurrentAdmission) and is_parent(obj.metadata),
    }


def seconds(at: datetime | None) -> float:
    """Return seconds since the epoch; 0 for None."""
    return at.timestamp() if at is not None else 0.0


def reclaimable(obj: api.Workload, gates: Gates) -> dict[str, int]:
    """Return the reclaimable pods by pod set."""
    if not gates.on(Gate.ReclaimablePods):
        return {}
    return counts(obj.status.reclaimable_pods)


def _counted(obj: api.Workload, accounting: AccountingContext) -> CountedPodSets:
    """Return the accounted pod sets of a Workload, cached for all Workloads with equal ones."""
    local = accounting.limit_ranges or accounting.devices.templates
    namespace = obj.metadata.namespace if local else ""
    at = namespace, _encode((obj.spec.pod_sets, obj.status.reclaimable_pods))
    found = accounting.counted.get(at)
    if found is None:
        if len(accounting.counted) >= MOST_COUNTED:
            accounting.counted.clear()
        found = accounting.counted[at] = _account(obj, accounting)
    return found


def _account(obj: api.Workload, accounting: AccountingContext) -> CountedPodSets:
    """Return the pod sets and why they can never be admitted; none if they are invalid."""
    faults = tuple(pod_set_faults(obj.spec.pod_sets))
    if faults:
        return CountedPodSets((), faults, False, {})
    ranges = accounting.limit_ranges.get(obj.metadata.namespace, [])
    try:
        filled = adjusted(obj, ranges, accounting.runtime_classes)
        claimed = _devices(filled, accounting)
        missing = tuple(fault for each in claimed.values() for fault in each.faults)
        if missing:
            return CountedPodSets((), missing, True, {})
        pod_sets = _pod_sets(filled, accounting, claimed)
        faults = tuple(str(fault) for fault in _faults(filled, ranges))
        return CountedPodSets(pod_sets, faults, False, {})
    except QuantityError as error:
        return CountedPodSets((), (str(error),), False, {})


def _devices(obj: api.Workload, accounting: AccountingContext) -> Mapping[str, DeviceRequests]:
    if not needs_devices(obj, accounting.devices.extended, accounting.gates):
        return {}
    return device_requests(obj, accounting.devices, accounting.gates)


def _pod_sets(
    obj: api.Workload, accounting: AccountingContext, claimed: Mapping[str, DeviceRequests]
) -> tuple[model.PodSet, ...]:
    gone = reclaimable(obj, accounting.gates)
    rules, excluded = accounting.transformations, accounting.excluded_prefixes
    return tuple(
        _pod_set(
            each,
            gone.get(each.name, 0),
            with_devices(pod_amounts(each.template.spec, rules, excluded), claimed.get(each.name)),
        )
        for each in obj.spec.pod_sets or ()
    )


def _pod_set(pod_set: api.PodSet, reclaimed: int, per_pod: Requests) -> model.PodSet:
    pods = max(0, pod_set.count - reclaimed)
    asked = pod_set.topology_request
    return model.PodSet(
        name=pod_set.name,
        count=pod_set.count,
        pods=pods,
        requests=multiplied(per_pod, pods),
        min_count=pod_set.min_count,
        group=(asked.pod_set_group_name or "") if asked else "",
        topology=asked,
        template=pod_set.template,
    )


def _faults(obj: api.Workload, ranges: list[LimitRange]) -> list[object]:
    """Return requests above limits or, without any, violations of LimitRanges."""
    return list(request_faults(obj) or limit_range_faults(obj, summarize(ranges)))


def _reservation(obj: api.Workload, gates: Gates) -> model.Reservation | None:
    reserved = true_condition(obj.status.conditions, "QuotaReserved")
    admission = obj.status.admission
    if admission is None or reserved is None:
        return None
    assigned = assigned_pod_sets(obj, gates)
    return model.Reservation(
        cluster_queue=admission.cluster_queue,
        pod_sets=assigned,
        usage=usage_of(assigned),
        since=seconds(reserved.last_transition_time) if reserved.last_transition_time else None,
    )


def assigned_pod_sets(obj: api.Workload, gates: Gates) -> tuple[model.PodSetReservation, ...]:
    """Return what the admission assigns to each pod set, without reclaimable pods."""
    gone = reclaimable(obj, gates)
    sizes = {each.name: each.count for each in obj.spec.pod_sets or ()}
    return tuple(
        _assigned(each, sizes.get(each.name, 0), gone.get(each.name, 0)) for each in obj.assignments
    )


def _assigned(psa: api.PodSetAssignment, count: int, reclaimed: int) -> model.PodSetReservation:
    recorded = psa.count if psa.count is not None else count
    left = max(0, count - reclaimed)
    used = psa.resource_usage or {}
    requests = {name: max(0, units(amount, name)) for name, amount in used.items()}
    shrunk = left < recorded
    return model.PodSetReservation(
        name=psa.name,
        flavors=psa.flavors or {},
        requests=rescaled(requests, recorded, left) if shrunk else requests,
        count=left if shrunk else recorded,
        topology=psa.topology_assignment,
        delayed_topology=psa.delayed_topology_request or "",
    )


def usage_of(assigned: tuple[model.PodSetReservation, ...]) -> Amounts:
    """Return the usage of the pod sets. Resources without a flavor are not charged."""
    total: Amounts = {}
    for each in assigned:
        add_into(
            total,
            {
                FlavorResource(each.flavors[resource], resource): amount
                for resource, amount in each.requests.items()
                if resource in each.flavors
            },
        )
    return total


def _claim(found: Condition | None) -> bool | None:
    return None if found is None else found.status == "True"


def _eviction(found: Condition) -> model.Eviction:
    return model.Eviction(reason=found.reason, at=seconds(found.last_transition_time))


def _requeue_at(state: api.RequeueState | None) -> float | None:
    return seconds(state.requeue_at) if state is not None and state.requeue_at else None


def _closed_gates(obj: api.Workload, gates: Gates) -> bool:
    """Whether some preemption gate is closed. A gate without a recorded position is closed."""
    gated = gates.on(Gate.ConcurrentAdmission) or gates.on(Gate.MultiKueueOrchestratedPreemption)
    if not gated:
        return False
    positions = {each.name: each.position for each in obj.status.preemption_gates or ()}
    return any(positions.get(g.name) != "Open" for g in obj.spec.preemption_gates or ())


def _replaces(obj: api.Workload, gates: Gates) -> Key | None:
    """Return the replaced slice. A slice in another namespace is ignored."""
    if not gates.on(Gate.ElasticJobsViaWorkloadSlices):
        return None
    claimed = replaces(obj)
    return claimed if claimed is not None and claimed.namespace == obj.key.namespace else None


def _elastic(obj: api.Workload, gates: Gates) -> bool:
    """Whether the workload is a slice of a job that may grow and shrink."""
    enabled = gates.on(Gate.ElasticJobsViaWorkloadSlices)
    return enabled and obj.metadata.annotation(ELASTIC_JOB) == "true"


def _pod_set_updates(obj: api.Workload) -> dict[str, tuple[api.PodSetUpdate, ...]]:
    """Return what Ready admission checks add to the pods, by pod set."""
    found: dict[str, tuple[api.PodSetUpdate, ...]] = {}
    for check in obj.status.admission_checks or ():
        for update in (check.pod_set_updates or ()) if check.state == "Ready" else ():
            found[update.name] = (*found.get(update.name, ()), update)
    return found


def _allowed_flavors(obj: api.Workload, gates: Gates) -> str:
    """Return the allowed flavors of a variant, comma-separated; "" means no restriction."""
    concurrent = gates.on(Gate.ConcurrentAdmission)
    return obj.metadata.annotation(ALLOWED_FLAVORS) if concurrent else ""


def _scheduling_hash(
    obj: api.Workload, priority: int, counted: CountedPodSets, gates: Gates
) -> str:
    # A replacement is charged only what it adds, so it does not wait for what others need.
    if not gates.on(Gate.SchedulingEquivalenceHashing) or _replaces(obj, gates) is not None:
        return ""
    at = priority, _allowed_flavors(obj, gates)
    found = counted.scheduling_hashes.get(at)
    if found is None:
        found = counted.scheduling_hashes[at] = scheduling_hash(priority, counted.pod_sets, at[1])
    return found


def _parent_uid(obj: api.Workload) -> str:
    parent = parent_of(obj.metadata)
    return parent.uid if parent is not None else ""
