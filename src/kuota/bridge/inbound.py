# SPDX-License-Identifier: Apache-2.0
"""API objects -> the engine's model. Workloads have their own module.

Only Kueue's own assumptions about unset fields are applied, so that raw objects mean the same as in
Kueue. The engine never receives an invalid value: an invalid ClusterQueue is described by its
faults, and other kinds raise `ValueError`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api import kueue
from kuota.api.base import Json, Key, is_true
from kuota.api.core import Namespace
from kuota.api.quantity import as_float, parse, quota_amount
from kuota.engine import model
from kuota.engine.amounts import FlavorResource
from kuota.engine.facts import EngineObject, Fact, ObjectDeleted, ObjectStored

from .inbound_faults import cluster_queue_faults, quota_faults, weight_faults

USAGE_BASED = "UsageBasedAdmissionFairSharing"


def unreadable(kind: type[EngineObject], obj: Json, fault: str) -> Fact:
    """Return the fact for an invalid object. A ClusterQueue becomes inactive."""
    meta = obj["metadata"]
    if kind is model.ClusterQueue:
        deleting = bool(meta.get("deletionTimestamp"))
        known = model.ClusterQueue(name=meta["name"], faults=(fault,), deleting=deleting)
        return ObjectStored(value=known)
    return ObjectDeleted(kind=kind, key=Key(meta.get("namespace") or "", meta["name"]))


def cluster_queue(obj: kueue.ClusterQueue) -> model.ClusterQueue:
    spec = obj.spec
    deleting = obj.metadata.deletion_timestamp is not None
    faults = tuple(cluster_queue_faults(spec))
    if faults:
        return model.ClusterQueue(name=obj.metadata.name, faults=faults, deleting=deleting)
    strategy = spec.admission_checks_strategy
    concurrent = spec.concurrent_admission_policy
    return model.ClusterQueue(
        name=obj.metadata.name,
        cohort=spec.cohort_name,
        groups=_groups(spec.resource_groups),
        strategy=spec.queueing_strategy or "BestEffortFIFO",
        stop_policy=spec.stop_policy or "None",
        namespace_selector=spec.namespace_selector,
        fungibility=_fungibility(spec.flavor_fungibility),
        preemption=_preemption(spec.preemption),
        weight=_weight(spec.fair_sharing),
        checks=tuple(
            model.CheckRule(name=rule.name, flavors=frozenset(rule.on_flavors or ()))
            for rule in ((strategy.admission_checks if strategy else None) or ())
        ),
        usage_based=spec.admission_scope is not None
        and spec.admission_scope.admission_mode == USAGE_BASED,
        concurrent_admission=_concurrent(concurrent) if concurrent else None,
        deleting=deleting,
    )


def cohort(obj: kueue.Cohort) -> model.Cohort:
    _reject(quota_faults(obj.spec.resource_groups, obj.spec.fair_sharing))
    return model.Cohort(
        name=obj.metadata.name,
        parent=obj.spec.parent_name,
        groups=_groups(obj.spec.resource_groups),
        weight=_weight(obj.spec.fair_sharing),
    )


def local_queue(obj: kueue.LocalQueue) -> model.LocalQueue:
    _reject(weight_faults(obj.spec.fair_sharing))
    return model.LocalQueue(
        key=obj.key,
        cluster_queue=obj.spec.cluster_queue,
        stop_policy=obj.spec.stop_policy or "None",
        weight=_weight(obj.spec.fair_sharing),
        consumed=_consumed(obj.status.fair_sharing),
    )


def _reject(faults: Iterable[str]) -> None:
    found = "; ".join(faults)
    if found:
        raise ValueError(found)


def _consumed(status: kueue.LocalQueueFairSharingStatus | None) -> dict[str, int] | None:
    known = status.admission_fair_sharing_status if status is not None else None
    if known is None:
        return None
    return {name: parse(amount) for name, amount in (known.consumed_resources or {}).items()}


def flavor(obj: kueue.ResourceFlavor) -> model.ResourceFlavor:
    return model.ResourceFlavor(
        name=obj.metadata.name,
        labels=obj.spec.node_labels or {},
        taints=tuple(obj.spec.node_taints or ()),
        tolerations=tuple(obj.spec.tolerations or ()),
        topology=obj.spec.topology_name or "",
    )


def topology(obj: kueue.Topology) -> model.Topology:
    return model.Topology(
        name=obj.metadata.name,
        levels=tuple(level.node_label for level in obj.spec.levels or ()),
    )


def admission_check(obj: kueue.AdmissionCheck) -> model.AdmissionCheck:
    return model.AdmissionCheck(
        name=obj.metadata.name,
        controller=obj.spec.controller_name,
        active=is_true(obj.status.conditions, "Active"),
    )


def namespace(obj: Namespace) -> model.Namespace:
    return model.Namespace(name=obj.metadata.name, labels=obj.metadata.labels or {})


def _groups(groups: Iterable[kueue.ResourceGroup] | None) -> tuple[model.ResourceGroup, ...]:
    return tuple(_group(each) for each in groups or ())


def _group(group: kueue.ResourceGroup) -> model.ResourceGroup:
    return model.ResourceGroup(
        resources=tuple(group.covered_resources or ()),
        flavors=tuple(each.name for each in group.flavors or ()),
        quotas={
            FlavorResource(each.name, quota.name): _quota(quota)
            for each in group.flavors or ()
            for quota in each.resources or ()
        },
    )


def _quota(quota: kueue.ResourceQuota) -> model.Quota:
    borrowing, lending = quota.borrowing_limit, quota.lending_limit
    return model.Quota(
        quota_amount(quota.nominal_quota, quota.name),
        None if borrowing is None else quota_amount(borrowing, quota.name),
        None if lending is None else quota_amount(lending, quota.name),
    )


def _fungibility(given: kueue.FlavorFungibility | None) -> model.Fungibility:
    if given is None:
        return model.Fungibility()
    return model.Fungibility(
        when_can_borrow=given.when_can_borrow or "MayStopSearch",
        when_can_preempt=given.when_can_preempt or "TryNextFlavor",
        preference=given.preference or "",
    )


def _preemption(given: kueue.ClusterQueuePreemption | None) -> model.Preemption:
    """A missing block means Never; a field missing from the block stays unset."""
    if given is None:
        return model.Preemption()
    borrow = given.borrow_within_cohort
    return model.Preemption(
        within_cluster_queue=given.within_cluster_queue,
        reclaim_within_cohort=given.reclaim_within_cohort,
        borrow_within_cohort=borrow is not None and borrow.policy != "Never",
        borrow_max_priority=borrow.max_priority_threshold if borrow else None,
    )


def _concurrent(given: kueue.ConcurrentAdmissionPolicy) -> model.ConcurrentAdmission:
    constraints = given.migration.constraints
    return model.ConcurrentAdmission(
        mode=given.migration.mode,
        last_acceptable_flavor=(constraints.last_acceptable_flavor_name or "")
        if constraints
        else "",
    )


def _weight(given: kueue.FairSharing | None) -> float:
    return 1.0 if given is None or given.weight is None else as_float(given.weight)
