# SPDX-License-Identifier: Apache-2.0
"""Workload -> what the engine believes of it: requests, order, reservation, obstacles.

A workload that waits is counted from its pod templates, adjusted as `spec/decisions.md` 1.3 and
1.4 say; one that holds quota is counted from its recorded admission.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime

import msgspec

from kuota.api import workload as api
from kuota.api.adjust import adjusted
from kuota.api.base import Condition, Key, Struct, condition, is_true
from kuota.api.core import Container, LimitRange, PodSpec, ResourceRequirements, RuntimeClass
from kuota.api.gates import Gate, Gates
from kuota.api.limit_range import limit_range_faults, summarize
from kuota.api.priority import effective_priority
from kuota.api.quantity import units
from kuota.api.resources import multiplied, pod_amounts, request_faults, rescaled
from kuota.api.transform import Transformation
from kuota.engine import model
from kuota.engine.amounts import Amounts, FlavorResource, Requests, add_into

PREFIX = "kueue.x-k8s.io/"
ELASTIC = PREFIX + "elastic-job"
REPLACES = PREFIX + "workload-slice-replacement-for"
ALLOWED_FLAVORS = PREFIX + "workload-allowed-resource-flavors"
VARIANT_PARENT = PREFIX + "concurrent-admission-parent"
GATED_BY = PREFIX + "admission-gated-by"
JOB_UID = PREFIX + "job-uid"


class Intake(Struct):
    """What else decides how a workload is counted: gates, configuration, and its namespace."""

    gates: Gates = Gates()
    transformations: Mapping[str, Transformation] = {}
    excluded_prefixes: tuple[str, ...] = ()
    limit_ranges: Mapping[str, list[LimitRange]] = {}
    runtime_classes: Mapping[str, RuntimeClass] = {}


def workload(obj: api.Workload, intake: Intake | None = None) -> model.Workload:
    """What the engine needs to know of one Workload."""
    intake = intake or Intake()
    meta, status = obj.metadata, obj.status
    conditions = status.conditions
    gates = intake.gates
    priority = effective_priority(obj, boosting=gates.on(Gate.PriorityBoost))
    ranges = intake.limit_ranges.get(meta.namespace, [])
    counted = adjusted(obj, ranges, intake.runtime_classes)
    pod_sets = _pod_sets(counted, intake)
    allowed = meta.annotation(ALLOWED_FLAVORS) if gates.on(Gate.ConcurrentAdmission) else ""
    return model.Workload(
        key=obj.key,
        uid=meta.uid,
        generation=meta.generation,
        queue=obj.spec.queue_name,
        priority=priority,
        boost=priority - (obj.spec.priority or 0),
        created=seconds(meta.creation_timestamp),
        pod_sets=pod_sets,
        class_id=_class_id(priority, pod_sets, allowed)
        if gates.on(Gate.SchedulingEquivalenceHashing)
        else "",
        faults=tuple(str(fault) for fault in _faults(counted, ranges)),
        active=obj.spec.active is not False,
        finished=is_true(conditions, "Finished"),
        admitted=is_true(conditions, "Admitted"),
        pods_ready=is_true(conditions, "PodsReady"),
        on_hold=_reason_if(conditions, "QuotaReserved", "False") == "OnHold",
        waiting_for_pods=is_true(conditions, "WaitingForReplacementPods"),
        gated_by=meta.annotation(GATED_BY) if gates.on(Gate.AdmissionGatedBy) else "",
        reservation=_reservation(obj, gates),
        evicted=_eviction(conditions, "Evicted"),
        preempted=_eviction(conditions, "Preempted"),
        requeued=_claim(conditions, "Requeued"),
        requeue_at=_requeue_at(status.requeue_state),
        checks={check.name: check.state for check in status.admission_checks or ()},
        closed_gates=_closed_gates(obj, gates),
        reclaimable=reclaimable(obj, gates),
        unhealthy_nodes=tuple(node.name for node in status.unhealthy_nodes or ()),
        replaces=_replaces(obj, gates),
        allowed_flavors=frozenset(allowed.split(",")) if allowed else None,
        parent_uid=_parent_uid(obj) if allowed else "",
        is_parent=gates.on(Gate.ConcurrentAdmission) and meta.label(VARIANT_PARENT) == "true",
        owned_by_pod=any(owner.kind == "Pod" for owner in meta.owner_references or ()),
        owner_uid=meta.label(JOB_UID),
    )


def seconds(at: datetime | None) -> float:
    """Seconds since the epoch; 0 for no time at all."""
    return at.timestamp() if at is not None else 0.0


def reclaimable(obj: api.Workload, gates: Gates) -> dict[str, int]:
    """Pods, by pod set, whose quota is not needed any more."""
    if not gates.on(Gate.ReclaimablePods):
        return {}
    return {each.name: each.count for each in obj.status.reclaimable_pods or ()}


def _pod_sets(obj: api.Workload, intake: Intake) -> tuple[model.PodSet, ...]:
    gone = reclaimable(obj, intake.gates)
    rules, excluded = intake.transformations, intake.excluded_prefixes
    return tuple(
        _pod_set(each, gone.get(each.name, 0), pod_amounts(each.template.spec, rules, excluded))
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
    """Requests above limits first; the LimitRange is looked at only when there are none."""
    return list(request_faults(obj) or limit_range_faults(obj, summarize(ranges)))


def _reservation(obj: api.Workload, gates: Gates) -> model.Reservation | None:
    reserved = condition(obj.status.conditions, "QuotaReserved")
    admission = obj.status.admission
    if admission is None or reserved is None or reserved.status != "True":
        return None
    gone = reclaimable(obj, gates)
    counts = {each.name: each.count for each in obj.spec.pod_sets or ()}
    assigned = tuple(
        _assigned(each, counts.get(each.name, 0), gone.get(each.name, 0))
        for each in admission.pod_set_assignments or ()
    )
    return model.Reservation(
        cluster_queue=admission.cluster_queue,
        pod_sets=assigned,
        usage=usage_of(assigned),
        since=seconds(reserved.last_transition_time) if reserved.last_transition_time else None,
    )


def _assigned(psa: api.PodSetAssignment, count: int, reclaimed: int) -> model.Assigned:
    recorded = psa.count if psa.count is not None else count
    left = max(0, count - reclaimed)
    requests = {name: units(amount, name) for name, amount in (psa.resource_usage or {}).items()}
    shrunk = left < recorded and psa.topology_assignment is None
    return model.Assigned(
        name=psa.name,
        flavors=psa.flavors or {},
        requests=rescaled(requests, recorded, left) if shrunk else requests,
        count=left if shrunk else recorded,
        topology=psa.topology_assignment,
        topology_pending=psa.delayed_topology_request == "Pending",
    )


def usage_of(assigned: tuple[model.Assigned, ...]) -> Amounts:
    """What the pod sets are charged. Resources without a flavor count nowhere."""
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


def _reason_if(conditions: list[Condition] | None, type_: str, status: str) -> str:
    found = condition(conditions, type_)
    return found.reason if found is not None and found.status == status else ""


def _claim(conditions: list[Condition] | None, type_: str) -> bool | None:
    found = condition(conditions, type_)
    return None if found is None else found.status == "True"


def _eviction(conditions: list[Condition] | None, type_: str) -> model.Eviction | None:
    found = condition(conditions, type_)
    if found is None or found.status != "True":
        return None
    return model.Eviction(reason=found.reason, at=seconds(found.last_transition_time))


def _requeue_at(state: api.RequeueState | None) -> float | None:
    return seconds(state.requeue_at) if state is not None and state.requeue_at else None


def _closed_gates(obj: api.Workload, gates: Gates) -> bool:
    """Whether some preemption gate is closed; one without a recorded position is."""
    gated = gates.on(Gate.ConcurrentAdmission) or gates.on(Gate.MultiKueueOrchestratedPreemption)
    if not gated:
        return False
    positions = {each.name: each.position for each in obj.status.preemption_gates or ()}
    return any(positions.get(g.name) != "Open" for g in obj.spec.preemption_gates or ())


def _replaces(obj: api.Workload, gates: Gates) -> Key | None:
    named = obj.metadata.annotation(REPLACES)
    return Key.parse(named) if named and gates.on(Gate.ElasticJobsViaWorkloadSlices) else None


def _parent_uid(obj: api.Workload) -> str:
    for owner in obj.metadata.owner_references or ():
        if owner.kind == "Workload" and owner.controller:
            return owner.uid
    return ""


class _Shape(Struct):
    """What makes two pod sets fare alike in scheduling (`spec/decisions.md` 3.12)."""

    name: str
    pods: int
    requests: dict[str, int]
    min_count: int | None
    topology: api.TopologyRequest | None
    spec: PodSpec


_encoder = msgspec.json.Encoder(order="deterministic")


def _class_id(priority: int, pod_sets: tuple[model.PodSet, ...], allowed: str) -> str:
    """Equal for workloads that differ in nothing the scheduler looks at."""
    shapes = [
        _Shape(
            name=each.name,
            pods=each.pods,
            requests=each.requests,
            min_count=each.min_count,
            topology=each.topology,
            spec=_scheduling_part(each.template.spec),
        )
        for each in pod_sets
    ]
    return hashlib.sha256(_encoder.encode((priority, shapes, allowed))).hexdigest()[:16]


def _scheduling_part(spec: PodSpec) -> PodSpec:
    resources = spec.resources
    return PodSpec(
        containers=[_bare(each) for each in spec.containers or ()],
        init_containers=[_bare(each) for each in spec.init_containers or ()],
        node_selector=spec.node_selector,
        affinity=spec.affinity,
        tolerations=spec.tolerations,
        runtime_class_name=spec.runtime_class_name,
        priority=spec.priority,
        topology_spread_constraints=spec.topology_spread_constraints,
        overhead=spec.overhead,
        resource_claims=spec.resource_claims,
        resources=ResourceRequirements(requests=resources.requests) if resources else None,
    )


def _bare(container: Container) -> Container:
    return Container(
        resources=ResourceRequirements(requests=container.resources.requests),
        ports=container.ports,
        restart_policy=container.restart_policy,
    )
