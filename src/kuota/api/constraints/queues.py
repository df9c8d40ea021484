# SPDX-License-Identifier: Apache-2.0
"""Defines the constraints of ClusterQueue, Cohort, LocalQueue and the kinds they reference."""

from __future__ import annotations

from .rule import (
    QUALIFIED_NAME,
    Table,
    amended,
    atomic,
    field,
    int32,
    keyed,
    one_of,
    relaxed,
    set_of,
    subdomain,
    text,
    time,
    under,
)
from .shared import (
    ADMISSION_FAIR_SHARING_STATUS,
    FAIR_SHARING,
    FLAVOR_USAGE,
    LABEL_SELECTOR,
    RESOURCE_GROUPS,
    STOP_POLICY,
    TAINTS,
    TOLERATIONS,
    WEIGHTED_SHARE,
    conditions,
)

_CHECKS = "spec.admissionChecksStrategy.admissionChecks"
_MIGRATION = "spec.concurrentAdmissionPolicy.migration"
_FAIR_SHARING_STATUS = "status.fairSharing.admissionFairSharingStatus"

_COUNTS: Table = {
    "pendingWorkloads": int32(),
    "reservingWorkloads": int32(),
    "admittedWorkloads": int32(),
}

CLUSTER_QUEUE: Table = {
    _CHECKS: keyed(required=True, min_items=1, max_items=64),
    f"{_CHECKS}[].name": text(316, required=True, min_length=1),
    f"{_CHECKS}[].onFlavors": set_of(64),
    f"{_CHECKS}[].onFlavors[]": subdomain(),
    "spec.admissionScope.admissionMode": one_of(
        "UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing", required=True
    ),
    "spec.cohortName": subdomain(),
    _MIGRATION: field(required=True),
    f"{_MIGRATION}.constraints.lastAcceptableFlavorName": subdomain(),
    f"{_MIGRATION}.mode": one_of(
        "TryPreferredFlavors", "RetainFirstAdmission", required=True, max_length=253
    ),
    **under("spec", FAIR_SHARING),
    "spec.flavorFungibility": field(default={}),
    "spec.flavorFungibility.preference": one_of(
        "BorrowingOverPreemption", "PreemptionOverBorrowing"
    ),
    "spec.flavorFungibility.whenCanBorrow": one_of(
        "MayStopSearch", "TryNextFlavor", default="MayStopSearch"
    ),
    "spec.flavorFungibility.whenCanPreempt": one_of(
        "MayStopSearch", "TryNextFlavor", default="TryNextFlavor"
    ),
    **under("spec.namespaceSelector", LABEL_SELECTOR),
    "spec.preemption": field(default={}),
    "spec.preemption.borrowWithinCohort": field(default={}),
    "spec.preemption.borrowWithinCohort.maxPriorityThreshold": int32(),
    "spec.preemption.borrowWithinCohort.policy": one_of("Never", "LowerPriority", default="Never"),
    "spec.preemption.reclaimWithinCohort": one_of("Never", "LowerPriority", "Any", default="Never"),
    "spec.preemption.withinClusterQueue": one_of(
        "Never", "LowerPriority", "LowerOrNewerEqualPriority", default="Never"
    ),
    "spec.queueingStrategy": one_of("StrictFIFO", "BestEffortFIFO", default="BestEffortFIFO"),
    **under("spec.resourceGroups", RESOURCE_GROUPS),
    "spec.stopPolicy": STOP_POLICY,
    **conditions(),
    **under("status", WEIGHTED_SHARE),
    **under("status.flavorsReservation", FLAVOR_USAGE),
    **under("status.flavorsUsage", FLAVOR_USAGE),
    **under("status", _COUNTS),
}

COHORT: Table = {
    **under("spec", FAIR_SHARING),
    "spec.parentName": subdomain(),
    **under("spec.resourceGroups", RESOURCE_GROUPS),
    **under("status", WEIGHTED_SHARE),
}

LOCAL_QUEUE: Table = {
    "spec.clusterQueue": subdomain(),
    **under("spec", FAIR_SHARING),
    "spec.stopPolicy": STOP_POLICY,
    **conditions(),
    **under("status", WEIGHTED_SHARE),
    **under(_FAIR_SHARING_STATUS, ADMISSION_FAIR_SHARING_STATUS),
    **under("status.flavorsReservation", FLAVOR_USAGE),
    **under("status.flavorsUsage", FLAVOR_USAGE),
    **under("status", _COUNTS),
}

_PENDING = "status.pendingWorkloadsStatus"
_COVERED = "spec.resourceGroups[].coveredResources"

CLUSTER_QUEUE_V1BETA1: Table = relaxed(
    amended(
        CLUSTER_QUEUE,
        gone=(_CHECKS,),
        changed={
            "spec.cohort": subdomain(),
            "spec.admissionChecks[]": text(316),
            f"{_CHECKS}[].name": text(316, required=True),
            f"{_CHECKS}[].onFlavors[]": subdomain(),
            "spec.admissionScope.admissionMode": field(required=True),
            "spec.flavorFungibility.whenCanBorrow": one_of(
                "MayStopSearch", "TryNextFlavor", "Borrow", default="MayStopSearch"
            ),
            "spec.flavorFungibility.whenCanPreempt": one_of(
                "MayStopSearch", "TryNextFlavor", "Preempt", default="TryNextFlavor"
            ),
            _COVERED: field(required=True, min_items=1, max_items=64),
            **under(_FAIR_SHARING_STATUS, ADMISSION_FAIR_SHARING_STATUS),
            f"{_PENDING}.clusterQueuePendingWorkload": atomic(),
            f"{_PENDING}.clusterQueuePendingWorkload[].name": field(required=True),
            f"{_PENDING}.clusterQueuePendingWorkload[].namespace": field(required=True),
            f"{_PENDING}.lastChangeTime": time(required=True),
        },
    )
)

COHORT_V1BETA1: Table = relaxed(
    amended(
        COHORT,
        changed={
            _COVERED: field(required=True, min_items=1, max_items=64),
            **under(_FAIR_SHARING_STATUS, ADMISSION_FAIR_SHARING_STATUS),
        },
    )
)

LOCAL_QUEUE_V1BETA1: Table = relaxed(
    amended(
        LOCAL_QUEUE,
        changed={
            **under("status.flavorUsage", FLAVOR_USAGE),
            "status.flavors": keyed(max_items=64),
            "status.flavors[].name": subdomain(required=True),
            "status.flavors[].resources": set_of(64),
            "status.flavors[].nodeLabels": field(max_properties=8, map_type="atomic"),
            **under("status.flavors[].nodeTaints", TAINTS),
            "status.flavors[].topology.name": subdomain(required=True),
            "status.flavors[].topology.levels": atomic(16, required=True, min_items=1),
        },
    )
)


RESOURCE_FLAVOR: Table = {
    "spec.nodeLabels": field(max_properties=8, map_type="atomic"),
    **under("spec.nodeTaints", TAINTS),
    **under("spec.tolerations", TOLERATIONS),
    "spec.topologyName": subdomain(),
}

TOPOLOGY: Table = {
    "spec.levels": atomic(16, required=True, min_items=1),
    "spec.levels[].nodeLabel": text(316, required=True, min_length=1, pattern=QUALIFIED_NAME),
}

PRIORITY_CLASS: Table = {
    "description": text(2048),
    "value": int32(required=True),
}

PRIORITY_CLASS_V1BETA1: Table = amended(PRIORITY_CLASS, gone=("description",))
